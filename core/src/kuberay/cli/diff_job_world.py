"""The worlds in which ``kuberay diff`` asks what an edit of a RayJob does: as it is, or as a file lets one assume."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kuberay.api import names
from kuberay.api.job import JobDeploymentStatus, JobStatus, JobSubmissionMode
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE, Kind
from kuberay.api.names import COMPONENT, SUBMITTER_CONTAINER
from kuberay.api.times import format_time
from kuberay.hooks.calls import Hooks
from kuberay.operator.foresight import Foresight, Happening
from kuberay.operator.world import World
from kuberay.plan.config import PlanConfig
from kuberay.plan.job import plan_job
from kuberay.plan.model import JobInfoProbe, ProbeResult

Manifest = dict[str, Any]
Other = tuple[Kind, Manifest]

_SETTLING = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The operator's settings that count."""

    config: PlanConfig
    gates: Mapping[str, bool]
    hooks: Hooks
    now: datetime


@dataclass(slots=True)
class Situation:
    """A RayJob and what stands around it."""

    job: Manifest
    others: list[Other] = field(default_factory=list)

    def edited(self, job: Manifest) -> Situation:
        """The same with another version of the RayJob."""
        return Situation(job, self.others)

    def foresight(self, rules: Rules) -> Foresight:
        """A world of it, ready to be looked at."""
        metadata = self.job["metadata"]
        world = World(format_time(rules.now))
        for kind, body in [(RAYJOB, self.job), *self.others]:
            world.put(kind, metadata["namespace"], copy.deepcopy(body))
        return Foresight(
            plan_job,
            RAYJOB,
            metadata["namespace"],
            metadata["name"],
            world,
            rules.config,
            rules.gates,
            rules.hooks,
        )

    def future(self, rules: Rules) -> list[Happening]:
        """What happens if nothing else does."""
        return self.foresight(rules).look_ahead(rules.now)

    def ended(self, outcome: JobStatus, now: datetime) -> Situation:
        """The same, with Ray and the submitter having just come to an end."""
        job = copy.deepcopy(self.job)
        moment = format_time(now)
        job["status"] = {
            **(job.get("status") or {}),
            "jobDeploymentStatus": JobDeploymentStatus.RUNNING.value,
            "jobStatus": outcome.value,
            "rayJobInfo": {"startTime": moment, "endTime": moment},
            "startTime": moment,
        }
        return Situation(job, [(kind, _over(kind, body, moment)) for kind, body in self.others])


def _over(kind: Kind, body: Manifest, moment: str) -> Manifest:
    """The submitter, ended well, whatever it was doing."""
    body = copy.deepcopy(body)
    if kind == JOB:
        body["status"] = {"conditions": [{"type": "Complete", "status": "True", "lastTransitionTime": moment}]}
    for status in (body.get("status") or {}).get("containerStatuses") or () if kind == POD else ():
        if status["name"] == SUBMITTER_CONTAINER:
            status["state"] = {"terminated": {"exitCode": 0, "finishedAt": moment}}
    return body


def running(job: Manifest, rules: Rules) -> Situation:
    """A file without a status says nothing of where the job stands: its first attempt is taken to run."""
    situation = Situation({key: value for key, value in copy.deepcopy(job).items() if key != "status"})
    foresight = start(situation, rules)
    body = foresight.body
    assert body is not None
    moment = format_time(rules.now)
    if (body.get("status") or {}).get("jobDeploymentStatus") == JobDeploymentStatus.RUNNING:
        body["status"] |= {"jobStatus": JobStatus.RUNNING.value, "rayJobInfo": {"startTime": moment}}
        body["status"].pop("jobStatusCheckFailureStartTime", None)
    others = [(kind, other) for (kind, _, _), other in foresight.world.bodies.items() if kind != RAYJOB]
    return Situation(body, others)


def start(situation: Situation, rules: Rules) -> Foresight:
    """A world in which the situation's next attempt has got as far as it can without a Ray that runs jobs."""
    foresight = situation.foresight(rules)
    for _ in range(_SETTLING):
        foresight.settle(rules.now)
        _get_ready(foresight, rules)
    return foresight


def next_attempt(job: Manifest, rules: Rules) -> tuple[list[Manifest], list[str]]:
    """What the next attempt would be made of: the RayCluster, the submitter Job, the request to the dashboard."""
    fresh = copy.deepcopy(job)
    fresh.pop("status", None)
    # Names follow from the version of the spec, and are no difference.
    fresh["metadata"]["generation"] = 1
    fresh["spec"].pop("suspend", None)
    if fresh["spec"].get("clusterSelector"):
        name = fresh["spec"]["clusterSelector"].get(names.LABEL_CLUSTER) or "chosen"
        others: list[Other] = [(RAYCLUSTER, {"metadata": {"name": name}, "spec": {}, "status": {"state": "ready"}})]
    else:
        others = []
    foresight = start(Situation(fresh, others), rules)
    made = [body for body in foresight.world.created if body["kind"] in ("RayCluster", "Job")]
    return made, foresight.requests


def _get_ready(foresight: Foresight, rules: Rules) -> None:
    """The RayClusters become ready, and their dashboards know no job."""
    world = foresight.world
    for (kind, namespace, name), body in list(world.bodies.items()):
        if kind != RAYCLUSTER:
            continue
        owned: Manifest = {f"f:{key}": {} for key in body["spec"]}
        body["metadata"]["managedFields"] = [
            {"manager": COMPONENT, "operation": "Update", "time": format_time(rules.now), "fieldsV1": {"f:spec": owned}}
        ]
        body["status"] = {"state": "ready", "head": {"serviceName": names.head_service_name(name, "")}}
        service = names.head_service_name(name, _custom_service(body))
        if (SERVICE, namespace, service) not in world.bodies:
            ports = [{"name": "dashboard", "port": 8265}]
            world.put(SERVICE, namespace, {"metadata": {"name": service}, "spec": {"ports": ports}})
        if (POD, namespace, f"{name}-head") not in world.bodies:
            world.put(POD, namespace, _head(body, foresight))
    answer = ProbeResult("absent", rules.now)
    for probe in list(foresight.wanted):
        if isinstance(probe, JobInfoProbe):
            foresight.answer(probe, answer)


def _custom_service(cluster: Manifest) -> str:
    service = (cluster["spec"].get("headGroupSpec") or {}).get("headService") or {}
    return str((service.get("metadata") or {}).get("name") or "")


def _head(cluster: Manifest, foresight: Foresight) -> Manifest:
    """The head's pod: where a sidecar submits, it is at work."""
    name = cluster["metadata"]["name"]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": name, "uid": cluster["metadata"]["uid"]}
    job = foresight.body or {}
    sidecar = (job.get("spec") or {}).get("submissionMode") == JobSubmissionMode.SIDECAR
    containers: Sequence[str] = ("ray-head", SUBMITTER_CONTAINER) if sidecar else ("ray-head",)
    return {
        "metadata": {
            "name": f"{name}-head",
            "labels": {names.LABEL_CLUSTER: name, names.LABEL_NODE_TYPE: names.HEAD},
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {"containers": [{"name": container} for container in containers]},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {"name": container, "ready": True, "state": {"running": {}}} for container in containers
            ],
        },
    }
