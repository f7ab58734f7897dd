"""A small world for RayJob plans: API objects, a played RayCluster controller and Job controller, dashboards, a clock.

It follows the controller's loop: a pass is repeated while its writes change something, then the last status is written;
a pass happens only when an object changed, a probe's answer changed, or the plan's own time has come.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE, Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.times import format_time
from kuberay.hooks.calls import NoHooks
from kuberay.plan.config import PlanConfig
from kuberay.plan.job import plan_job
from kuberay.plan.model import (
    Apply,
    Create,
    Delete,
    Event,
    JobInfoProbe,
    JobLogsProbe,
    Patch,
    Plan,
    Probe,
    ProbeResult,
    StopJobCall,
    SubmitJobCall,
    Write,
    WriteFailure,
)
from kuberay.plan.observed import FixedView, Observed
from kuberay_testkit.sim.merge import json_patch, merge_patch

START = datetime(2024, 1, 1, tzinfo=UTC)
GOLDEN = Path(__file__).parents[2] / "data" / "golden"
NS = "default"
KINDS = {"Pod": POD, "RayJob": RAYJOB, "RayCluster": RAYCLUSTER, "Job": JOB, "Service": SERVICE}
USUAL = ("Accepted", "ClusterReady", "Submitted", "Running", "Finished")
TERMINAL = ("SUCCEEDED", "FAILED", "STOPPED")
Body = dict[str, Any]


@dataclass
class Dashboard:
    """One cluster's dashboard."""

    jobs: dict[str, Body] = field(default_factory=dict)
    posts: list[str] = field(default_factory=list)
    logs: dict[str, str] = field(default_factory=dict)
    requests: list[Body] = field(default_factory=list)
    """Bodies of accepted submissions."""


@dataclass
class World:
    """See the module's docstring. ``refuse_writes`` maps (verb, kind) to an error text."""

    job_name: str = "j"
    config: PlanConfig = field(default_factory=PlanConfig)
    hooks: Any = field(default_factory=NoHooks)
    gates: Mapping[str, bool] = field(default_factory=lambda: dict(DEFAULT_GATES))
    now: datetime = START
    settings: Body = field(default_factory=lambda: {"head": "ready", "worker": "ready"})
    objects: dict[tuple[Kind, str], Body] = field(default_factory=dict)
    pods: dict[str, dict[str, str]] = field(default_factory=dict)
    dashboards: dict[str, Dashboard] = field(default_factory=dict)
    refuse: bool = False
    fail_get: int = 0
    slow: float = 0
    fail_post: int = 0
    sidecars: dict[str, Body] = field(default_factory=dict)
    """By cluster, the state of the submitter container in its head pod once that has ended."""
    sidecar_restarts: int = 0
    sidecar_before: Body = field(default_factory=dict)
    """How often submitter containers were restarted, and their state before that."""
    head_phase: str = "Running"
    head_since: dict[str, datetime] = field(default_factory=dict)
    """By cluster, when its present head pod was made, if it is not the first one."""
    refuse_writes: dict[tuple[str, str], str] = field(default_factory=dict)
    transitions: list[Body] = field(default_factory=list)
    lifecycle: dict[str, list[str]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    status_writes: int = 0
    passes: int = 0
    calls: int = 0
    plan: Plan = field(default_factory=Plan)
    results: dict[Probe, ProbeResult] = field(default_factory=dict)
    _asked: dict[Probe, datetime] = field(default_factory=dict)
    _dirty: bool = True
    _wake: datetime | None = None
    _version: int = 0

    # Objects

    def create(self, body: Body) -> Body:
        body = copy.deepcopy(body)
        metadata = body["metadata"]
        metadata.setdefault("namespace", NS)
        self._version += 1
        metadata["uid"] = f"uid-{self._version}"
        metadata["creationTimestamp"] = format_time(self.now)
        kind = KINDS[body["kind"]]
        assert (kind, metadata["name"]) not in self.objects
        if kind == RAYJOB:
            body["spec"].setdefault("submissionMode", "K8sJobMode")
        else:
            self.lifecycle.setdefault(body["kind"], []).append(f"created {metadata['name']}")
        self._put(kind, body)
        return body

    def _put(self, kind: Kind, body: Body) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind, body["metadata"]["name"]] = body
        if self._concerns(kind, body):
            self._dirty = True

    def _concerns(self, kind: Kind, body: Body) -> bool:
        if kind == RAYJOB:
            return True
        owners = body["metadata"].get("ownerReferences") or []
        job = self.objects.get((RAYJOB, self.job_name))
        selected = (job or {}).get("spec", {}).get("clusterSelector", {}).get("ray.io/cluster")
        return any(owner["kind"] == "RayJob" for owner in owners) or body["metadata"]["name"] == selected

    def get(self, kind: Kind, name: str) -> Body | None:
        return self.objects.get((kind, name))

    def delete(self, kind: Kind, name: str) -> None:
        body = self.objects[kind, name]
        if body["metadata"].get("finalizers"):
            body["metadata"].setdefault("deletionTimestamp", format_time(self.now))
            self._put(kind, body)
        else:
            self._remove(kind, name)

    def _remove(self, kind: Kind, name: str) -> None:
        body = self.objects.pop((kind, name))
        self._version += 1
        if self._concerns(kind, body):
            self._dirty = True
        if kind != SERVICE:
            self.lifecycle.setdefault(body["kind"], []).append(f"gone {name}")
        if kind == RAYCLUSTER:
            self.pods.pop(name, None)
        uid = body["metadata"]["uid"]
        for (other, other_name), child in list(self.objects.items()):
            owners = child["metadata"].get("ownerReferences") or []
            if any(owner["uid"] == uid for owner in owners) and (other, other_name) in self.objects:
                self.delete(other, other_name)

    @property
    def job(self) -> Body:
        return self.objects[RAYJOB, self.job_name]

    @property
    def status(self) -> Body:
        status: Body = self.job.get("status", {})
        return status

    @property
    def cluster(self) -> Body:
        return self.objects[RAYCLUSTER, self.status["rayClusterName"]]

    def edit(self, changes: Mapping[str, Any]) -> None:
        for path, value in changes.items():
            *parents, last = path.split(".")
            place = self.job
            for parent in parents:
                place = place.setdefault(parent, {})
            if value is None:
                place.pop(last, None)
            else:
                place[last] = value
        self._put(RAYJOB, self.job)

    def set_status(self, **members: Any) -> None:
        """Put the RayJob into a state, as if it had got there."""
        self.job["status"] = {**self.status, **{key: value for key, value in members.items() if value is not None}}
        self._put(RAYJOB, self.job)

    # The operator

    def observe(self, failure: WriteFailure | None = None) -> Observed:
        objects = [*((kind, body) for (kind, _), body in self.objects.items()), *self._head_pods()]
        view = FixedView((kind, from_dict(kind, copy.deepcopy(body))) for kind, body in objects)
        obj = view.get(RAYJOB, NS, self.job_name)
        assert isinstance(obj, RayObject)
        return Observed(
            obj=obj,
            now=self.now,
            view=view,
            probes=dict(self.results),
            config=self.config,
            gates=self.gates,
            hooks=self.hooks,
            failure=failure,
        )

    def _head_pods(self) -> Iterator[tuple[Kind, Body]]:
        """The head pods of the RayClusters."""
        for cluster, pods in self.pods.items():
            state = pods.get("head-0")
            if state not in ("ready", "running") or (RAYCLUSTER, cluster) not in self.objects:
                continue
            uid = self.objects[RAYCLUSTER, cluster]["metadata"]["uid"]
            owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster, "uid": uid, "controller": True}
            ended = self.sidecars.get(cluster)
            since = format_time(self.head_since.get(cluster, START))
            containers = [
                {"name": "ray-head", "ready": state == "ready", "state": {"running": {"startedAt": since}}},
                {
                    "name": "ray-job-submitter",
                    "ready": not ended,
                    "state": ended or {"running": {}},
                    "restartCount": self.sidecar_restarts,
                    "lastState": self.sidecar_before,
                },
            ]
            yield (
                POD,
                {
                    "metadata": {
                        "name": f"{cluster}-head",
                        "namespace": NS,
                        "uid": f"{uid}-head",
                        "creationTimestamp": since,
                        "labels": {"ray.io/node-type": "head", "ray.io/cluster": cluster},
                        "ownerReferences": [owner],
                    },
                    "spec": {"containers": [{"name": "ray-head"}, {"name": "ray-job-submitter"}]},
                    "status": {"phase": self.head_phase, "podIP": "10.0.0.1", "containerStatuses": containers},
                },
            )

    def end_sidecar(self, exit_code: int, reason: str = "") -> None:
        """The submitter container of the head pod ends."""
        self.sidecars[self.status["rayClusterName"]] = {
            "terminated": {
                "exitCode": exit_code,
                "reason": reason or ("Error" if exit_code else "Completed"),
                "finishedAt": format_time(self.now),
            }
        }
        self._dirty = True

    def lose_head(self, *, new: bool) -> None:
        """The head pod goes, and with it what its dashboard knew; with *new* another one takes its place."""
        cluster = self.status["rayClusterName"]
        self.pods[cluster].pop("head-0", None)
        self.dashboards[cluster] = Dashboard(posts=self.dashboard().posts)
        self.settings.pop("job", None)
        self.settings["head"] = "ready" if new else "lost"
        self.head_since[cluster] = self.now
        self._dirty = True

    def restart(self) -> None:
        """A new operator process: probes know nothing, and everything is looked at."""
        self.results.clear()
        self._asked.clear()
        self._dirty = True

    def decide(self) -> Plan:
        """What the plan would be now; nothing is performed."""
        return plan_job(self.observe())

    def reconcile(self) -> None:
        """One turn of the controller."""
        self._dirty = False
        self.passes += 1
        told: list[Event] = []
        failure: WriteFailure | None = None
        for _ in range(8):
            self.plan = plan_job(self.observe())
            self._keep_probes(self.plan.probes)
            changed, events, failure = self._perform(self.plan)
            told += [event for event in (*events, *self.plan.events) if event not in told]
            if (RAYJOB, self.job_name) not in self.objects:
                self.events += told
                return
            if failure is not None:
                self.plan = plan_job(self.observe(failure))
                break
            if not changed:
                break
        if self.plan.status is not None:
            self._write_status(self.plan.status)
        self.events += told
        self._wake = None if self.plan.requeue_after is None else self.now + self.plan.requeue_after
        if failure is not None:
            self._wake = self.now + timedelta(seconds=5)

    def _perform(self, plan: Plan) -> tuple[bool, list[Event], WriteFailure | None]:
        changed, events = False, []
        for stage in plan.stages:
            for write in stage:
                error = self.refuse_writes.get((type(write).__name__, write.kind.kind))
                if error is not None:
                    if write.failed is not None:
                        events.append(write.failed(error))
                    if not write.optional:
                        return (
                            changed,
                            events,
                            WriteFailure(write.kind.kind, write.name, write.marker, error, "Refused"),
                        )
                    continue
                did, event = self._do(write)
                changed |= did
                if event is not None:
                    events.append(event)
        return changed, events, None

    def _do(self, write: Write) -> tuple[bool, Event | None]:
        self.calls += 1
        existing = self.objects.get((write.kind, write.name))
        match write:
            case Create():
                assert existing is None
                self.create(write.body() if callable(write.body) else write.body)
                return True, write.done
            case Apply():
                if existing is None:
                    self.create(write.body)
                    return True, write.done
                wanted = {**existing, "spec": write.body["spec"]}
                if wanted == existing:
                    self.calls -= 1
                    return False, None
                self._put(write.kind, wanted)
                return True, write.updated
            case Delete():
                if existing is None or existing["metadata"]["uid"] != write.uid:
                    return False, None
                self.delete(write.kind, write.name)
                return True, write.done
            case Patch():
                assert existing is not None
                if write.operations:
                    self._put(write.kind, json_patch(existing, list(write.operations)))
                    return True, write.done
                assert write.resource_version in ("", existing["metadata"]["resourceVersion"])
                patched = merge_patch(existing, copy.deepcopy(write.body))
                assert patched["metadata"]["uid"] == existing["metadata"]["uid"]
                self._put(write.kind, patched)
                if "deletionTimestamp" in patched["metadata"] and not patched["metadata"]["finalizers"]:
                    self._remove(write.kind, write.name)
                return True, write.done
        raise AssertionError(write)

    def _write_status(self, status: Body) -> None:
        json.dumps(status)
        self.calls += 1
        self.status_writes += 1
        job = self.job
        assert status != job.get("status"), "a status write that changes nothing"
        job["status"] = copy.deepcopy(status)
        self._put(RAYJOB, job)
        state = {
            "jobDeploymentStatus": status.get("jobDeploymentStatus", ""),
            "jobStatus": status.get("jobStatus", ""),
            "reason": status.get("reason", ""),
            "failed": status["failed"],
            "succeeded": status["succeeded"],
            "cluster": status.get("rayClusterName", ""),
            "jobId": status.get("jobId", ""),
            "statusCheckFailing": "jobStatusCheckFailureStartTime" in status,
        }
        if not self.transitions or self.transitions[-1] != state:
            self.transitions.append(state)

    def _keep_probes(self, probes: list[Probe]) -> None:
        for probe in list(self.results):
            if probe not in probes:
                del self.results[probe]
        self._asked = {probe: when for probe, when in self._asked.items() if probe in probes}
        for probe in probes:
            self._asked.setdefault(probe, self.now - timedelta(hours=1))

    # The rest of the world

    def tick(self) -> None:
        """Let everybody act until all is quiet, then let a second pass."""
        for _ in range(50):
            before = self._version, self.passes
            self._play_clusters()
            self._poll()
            if (RAYJOB, self.job_name) in self.objects and (
                self._dirty or (self._wake is not None and self.now >= self._wake)
            ):
                self.reconcile()
            if before == (self._version, self.passes):
                break
        else:
            raise AssertionError("the world never comes to rest")
        self.now += timedelta(seconds=1)

    def run(self, seconds: float) -> None:
        for _ in range(int(seconds)):
            self.tick()

    def until(self, condition: Callable[[], bool], timeout: float = 60) -> None:
        for _ in range(int(timeout)):
            self.tick()
            if condition():
                return
        raise AssertionError(f"not reached within {timeout} s; {self.status}; waiting: {self.plan.waiting}")

    def _play_clusters(self) -> None:
        for (kind, name), body in list(self.objects.items()):
            if kind != RAYCLUSTER or "deletionTimestamp" in body["metadata"]:
                continue
            self._play_service(name, body)
            groups = body["spec"].get("workerGroupSpecs") or []
            suspended = body["spec"].get("suspend")
            workers = sum(group.get("replicas", 0) for group in groups if not group.get("suspend"))
            roles = {} if suspended else {"head": 1, "worker": workers}
            pods = self.pods.setdefault(name, {})
            if groups and all(group.get("suspend") for group in groups):
                for pod in [pod for pod in pods if pod.startswith("worker")]:
                    del pods[pod]
            for role, count in roles.items():
                for index in range(count):
                    pod = f"{role}-{index}"
                    if role == "head" and self.settings["head"] == "lost":
                        continue
                    if pods.get(pod, "pending") != "ready":
                        pods[pod] = {"ready": "ready", "unready": "running", "none": "pending"}[self.settings[role]]
            status: Body = {"head": {"serviceName": f"{name}-head-svc"}}
            if suspended:
                status["state"] = "suspended"
            elif pods.get("head-0") and all(state == "ready" for state in pods.values()):
                status["state"] = "ready"
                status["conditions"] = [{"type": "RayClusterProvisioned", "status": "True"}]
            if (body.get("status") or {}).get("conditions"):
                status["conditions"] = body["status"]["conditions"]
            if body.get("status") != status:
                body["status"] = status
                self._put(kind, body)

    def _play_service(self, cluster: str, body: Body) -> None:
        custom = (body["spec"]["headGroupSpec"].get("headService") or {}).get("metadata", {}).get("name")
        name = custom or f"{cluster}-head-svc"
        if (SERVICE, name) not in self.objects:
            owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": cluster, "uid": body["metadata"]["uid"]}
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": name, "ownerReferences": [{**owner, "controller": True}]},
                "spec": {"ports": [{"name": "gcs-server", "port": 6379}, {"name": "dashboard", "port": 8265}]},
            }
            self.create(service)

    def end_submitter(self, result: str) -> None:
        """The newest submitter pod succeeds or fails; the Job controller does the rest."""
        body = self.objects[JOB, self.job_name]
        status = body.setdefault("status", {})
        condition = None
        if result == "succeeded":
            status["succeeded"] = 1
            condition = {"type": "Complete", "status": "True"}
        else:
            status["failed"] = status.get("failed", 0) + 1
            if status["failed"] > body["spec"]["backoffLimit"]:
                condition = {
                    "type": "Failed",
                    "status": "True",
                    "reason": "BackoffLimitExceeded",
                    "message": "Job has reached the specified backoff limit",
                }
        if condition is not None:
            condition["lastTransitionTime"] = format_time(self.now)
            status["conditions"] = [condition]
        self._put(JOB, body)

    def dashboard(self) -> Dashboard:
        return self.dashboards.setdefault(self.status["rayClusterName"], Dashboard())

    def set_job(self, status: str, message: str = "", job_id: str = "") -> None:
        """What the dashboard of the present cluster says about the job."""
        milliseconds = int(self.now.timestamp() * 1000)
        jobs = self.dashboard().jobs
        name = job_id or self.status["jobId"]
        info = jobs.get(name, {"start_time": milliseconds})
        info = {**info, "status": status, "message": message, "submission_id": name}
        if status in TERMINAL:
            info["end_time"] = milliseconds
        jobs[name] = info

    def _poll(self) -> None:
        for probe, asked in list(self._asked.items()):
            if not isinstance(probe, JobInfoProbe | JobLogsProbe | StopJobCall | SubmitJobCall):
                raise AssertionError(probe)
            known = self.results.get(probe)
            once = isinstance(probe, StopJobCall | JobLogsProbe)
            accepted = isinstance(probe, SubmitJobCall) and known is not None and known.outcome == "found"
            if (once and known is not None) or accepted:
                continue
            if not isinstance(probe, StopJobCall | JobLogsProbe) and self.now - asked < probe.interval:
                continue
            self._asked[probe] = self.now
            before, result = self.results.get(probe), self._answer(probe)
            if result.outcome == "error":
                since = before.failing_since if before is not None and before.failing_since else self.now
                result = replace(result, failing_since=since)
            self.results[probe] = result
            if before is None or (before.outcome, before.value) != (result.outcome, result.value):
                self._dirty = True

    def _answer(self, probe: JobInfoProbe | JobLogsProbe | StopJobCall | SubmitJobCall) -> ProbeResult:
        if self.refuse or self.fail_get or self.slow > 2:
            return ProbeResult("error", self.now, error="no answer")
        cluster = probe.service.removesuffix("-head-svc")
        if (RAYCLUSTER, cluster) not in self.objects or self.settings["head"] == "lost":
            return ProbeResult("error", self.now, error="no such host")
        dashboard = self.dashboards.setdefault(cluster, Dashboard())
        if self.settings.get("job") and probe.job_id not in dashboard.jobs:
            milliseconds = int(self.now.timestamp() * 1000)
            dashboard.jobs[probe.job_id] = {"status": self.settings["job"], "start_time": milliseconds}
        info = dashboard.jobs.get(probe.job_id)
        if isinstance(probe, JobLogsProbe):
            lines = dashboard.logs.get(probe.job_id)
            return ProbeResult("found", self.now, {"lines": lines}) if lines else ProbeResult("absent", self.now)
        if isinstance(probe, StopJobCall):
            dashboard.posts.append(f"POST /api/jobs/{probe.job_id}/stop")
            if info is not None and info["status"] not in TERMINAL:
                info["status"] = "STOPPED"
            return ProbeResult("found", self.now, {"stopped": info is not None})
        if isinstance(probe, SubmitJobCall):
            if probe in self.results and info is not None:
                return ProbeResult("found", self.now)  # after a failure the id is asked for first
            dashboard.posts.append("POST /api/jobs/")
            if self.fail_post:
                return ProbeResult("error", self.now, error=f"SubmitJob fail: HTTP {self.fail_post}")
            dashboard.requests.append(json.loads(probe.request))
            dashboard.jobs.setdefault(
                probe.job_id, {"status": "RUNNING", "start_time": int(self.now.timestamp() * 1000)}
            )
            return ProbeResult("found", self.now)
        if info is None:
            return ProbeResult("absent", self.now)
        return ProbeResult("found", self.now, copy.deepcopy(info))

    # What is compared

    def condition(self, type_: str) -> tuple[str, str]:
        """Status and reason of a condition."""
        (found,) = [c for c in self.status.get("conditions", []) if c["type"] == type_]
        return found["status"], found["reason"]

    def notes(self, reason: str) -> list[str]:
        return [event.note for event in self.events if event.reason == reason]

    def reasons(self) -> list[str]:
        return [event.reason for event in self.events]

    @property
    def told(self) -> list[Body]:
        """The conditions that tell of something out of the usual course."""
        conditions = self.status.get("conditions", [])
        return [c for c in conditions if c["type"] not in USUAL or (c["type"], c["status"]) == ("Accepted", "False")]

    def live(self) -> Body:
        """Live objects by kind, with pods by cluster and role, as golden checkpoints list them."""
        found: Body = {}
        for (kind, name), body in sorted(self.objects.items(), key=lambda item: item[0][1]):
            if "deletionTimestamp" not in body["metadata"]:
                found.setdefault(kind.kind, []).append(name)
        for cluster, pods in self.pods.items():
            for pod in pods:
                role = f"{cluster} {pod.split('-')[0]}"
                counts = found.setdefault("Pod", {}).setdefault(role, {"count": 0})
                counts["count"] += 1
        return found


CLUSTER_SPEC: Body = {
    "rayVersion": "2.52.0",
    "headGroupSpec": {"template": {"spec": {"containers": [{"name": "ray-head", "image": "rayproject/ray:2.52.0"}]}}},
    "workerGroupSpecs": [
        {
            "groupName": "g",
            "replicas": 1,
            "minReplicas": 0,
            "maxReplicas": 9,
            "template": {"spec": {"containers": [{"name": "ray-worker", "image": "rayproject/ray:2.52.0"}]}},
        }
    ],
}


def ray_job(**spec: Any) -> Body:
    """A RayJob ``j`` with one head and one worker."""
    base: Body = {"entrypoint": "python a.py", "rayClusterSpec": copy.deepcopy(CLUSTER_SPEC)}
    merged = {key: value for key, value in {**base, **spec}.items() if value is not None}
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": {"name": "j"}, "spec": merged}


@pytest.fixture
def new_world() -> Callable[..., World]:
    """Makes a world with one RayJob of the given spec; ``world`` names its attributes."""

    def make(*, world: Body | None = None, **spec: Any) -> World:
        made = World(**(world or {}))
        made.create(ray_job(**spec))
        return made

    return make


@pytest.fixture
def running(new_world: Callable[..., World]) -> Callable[..., World]:
    """Makes a world whose RayJob runs and whose Ray job is RUNNING."""

    def make(*, world: Body | None = None, **spec: Any) -> World:
        made = new_world(world=world, **spec)
        made.settings["job"] = "RUNNING"
        made.until(lambda: made.status.get("jobStatus") == "RUNNING")
        return made

    return make


@pytest.fixture
def empty_world() -> type[World]:
    return World


def load(path: Path) -> Any:
    return yaml.safe_load(path.read_text())
