"""A small world for RayService plans: API objects, a clock, and answers of Serve and of proxies.

`World.plan` decides once; `World.settle` repeats passes as the controller does: plan, write, store the status, until
nothing changes. Time moves only by `World.advance`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kuberay.api import names
from kuberay.api.conditions import find_condition, set_condition
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import ENDPOINT_SLICE, GATEWAY, HTTP_ROUTE, POD, RAYCLUSTER, RAYSERVICE, SECRET, SERVICE, Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.times import format_time
from kuberay.hooks.calls import NoHooks
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import (
    Apply,
    Create,
    Delete,
    Event,
    InFlightProbe,
    ObjectProbe,
    Patch,
    Plan,
    Probe,
    ProbeResult,
    ProxyHealthProbe,
    ServeConfigCall,
    ServeProbe,
    Write,
    WriteFailure,
)
from kuberay.plan.observed import FixedView, Observed
from kuberay.plan.service import plan_service
from kuberay_testkit.builders import build_cluster_spec
from kuberay_testkit.sim.merge import json_patch, merge_patch

Body = dict[str, Any]
START = datetime(2024, 1, 1, tzinfo=UTC)
NS = "default"
VERSION = "1.0.0"
CONFIG = "applications:\n- name: app\n  import_path: mod.app\n"
KINDS = {
    kind.kind: kind for kind in (RAYSERVICE, RAYCLUSTER, POD, SERVICE, ENDPOINT_SLICE, SECRET, GATEWAY, HTTP_ROUTE)
}


def ray_service(
    name: str = "s",
    *,
    status: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    groups: Mapping[str, int] | Iterable[Body] | int = 1,
    cluster: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Body:
    """A RayService as the API server has it; *cluster* adds to ``rayClusterConfig``."""
    metadata: Body = {
        "name": name,
        "namespace": NS,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": metadata,
        "spec": {"serveConfigV2": CONFIG, "rayClusterConfig": build_cluster_spec(groups, **(cluster or {})), **spec},
        **({"status": copy.deepcopy(dict(status))} if status is not None else {}),
    }


def running(word: str = "RUNNING", message: str = "", app: str = "app") -> Body:
    """What Serve says when its one application is *word*."""
    deployments = {"D": {"status": "HEALTHY" if word == "RUNNING" else "UPDATING", "message": ""}}
    return {app: {"status": word, "message": message, "deployments": deployments}}


@dataclass
class World:
    """One RayService and what is around it. Every call of `create` gives a new object its UID and version."""

    service_name: str = "s"
    now: datetime = START
    config: PlanConfig = field(default_factory=lambda: PlanConfig(operator_version=VERSION))
    gates: Mapping[str, bool] = field(default_factory=lambda: dict(DEFAULT_GATES))
    hooks: Any = field(default_factory=NoHooks)
    objects: dict[tuple[Kind, str], Body] = field(default_factory=dict)
    applications: dict[str, Body] = field(default_factory=dict)
    """By RayCluster, what its Serve says (`running`); a RayCluster that is absent here does not answer."""
    after_put: Body = field(default_factory=running)
    """What Serve says once it was given a configuration."""
    refuse_puts: str = ""
    """Error text of every configuration that is sent."""
    silent: set[str] = field(default_factory=set)
    """RayClusters whose dashboard gives no answer."""
    unhealthy: set[str] = field(default_factory=set)
    """Pods whose proxy is not healthy."""
    requests: dict[str, tuple[int, int] | None] = field(default_factory=dict)
    """By pod, how many requests are under way there, and how many it has seen; None: its metrics are not served. A pod that is
    absent here says nothing of Serve."""
    refuse_writes: dict[tuple[str, str], str] = field(default_factory=dict)
    """(class of write, kind) to error text."""
    puts: list[tuple[str, str]] = field(default_factory=list)
    """RayCluster and body of each configuration that was accepted."""
    events: list[Event] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    status_writes: int = 0
    results: dict[Probe, ProbeResult] = field(default_factory=dict)
    last: Plan = field(default_factory=Plan)
    _version: int = 0

    # What is there

    def create(self, body: Body, **metadata: Any) -> Body:
        """Put an object there as if it had been created now."""
        body = copy.deepcopy(body)
        meta = body["metadata"]
        self._version += 1
        meta.setdefault("namespace", NS)
        meta.setdefault("uid", f"uid-{meta['name']}-{self._version}")
        meta.setdefault("creationTimestamp", format_time(self.now))
        if body["kind"] in ("RayService", "RayCluster"):
            meta.setdefault("generation", 1)
        meta.update(metadata)
        kind = KINDS[body["kind"]]
        assert (kind, meta["name"]) not in self.objects, f"{kind} {meta['name']} is there already"
        self._put(kind, body)
        return body

    def _put(self, kind: Kind, body: Body) -> None:
        self._version += 1
        body["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind, body["metadata"]["name"]] = body

    @property
    def service(self) -> Body:
        return self.objects[RAYSERVICE, self.service_name]

    @property
    def status(self) -> Body:
        found: Body = self.service.get("status") or {}
        return found

    def edit(self, **spec: Any) -> None:
        """Change fields of the RayService's spec; None removes."""
        for key, value in spec.items():
            if value is None:
                self.service["spec"].pop(key, None)
            else:
                self.service["spec"][key] = value
        self.edited()

    def edited(self) -> None:
        """Count an edit of the RayService's spec that a test made in place."""
        self.service["metadata"]["generation"] += 1
        self._put(RAYSERVICE, self.service)

    def annotate(self, **annotations: str | None) -> None:
        """Set annotations ``ray.io/<key>``, underscores for dashes; None removes."""
        for key, value in annotations.items():
            name = f"ray.io/{key.replace('_', '-')}"
            if value is None:
                self.service["metadata"]["annotations"].pop(name, None)
            else:
                self.service["metadata"]["annotations"][name] = value
        self._put(RAYSERVICE, self.service)

    def clusters(self) -> list[str]:
        """Names of the RayClusters that are there and not being deleted."""
        return sorted(
            name
            for (kind, name), body in self.objects.items()
            if kind == RAYCLUSTER and "deletionTimestamp" not in body["metadata"]
        )

    def cluster(self, name: str) -> Body:
        return self.objects[RAYCLUSTER, name]

    @property
    def active(self) -> str:
        return str((self.status.get("activeServiceStatus") or {}).get("rayClusterName") or "")

    @property
    def pending(self) -> str:
        return str((self.status.get("pendingServiceStatus") or {}).get("rayClusterName") or "")

    def condition(self, type_: str) -> tuple[str, str] | None:
        """Status and reason; None when absent."""
        found = find_condition(self.status.get("conditions") or (), type_)
        return (found["status"], found["reason"]) if found is not None else None

    def message(self, type_: str) -> str:
        found = find_condition(self.status.get("conditions") or (), type_)
        return str(found["message"]) if found is not None else ""

    def notes(self, reason: str) -> list[str]:
        return [event.note for event in self.events if event.reason == reason]

    # What others do

    def add_pods(self, cluster: str, *, workers: int = 1, ready: bool = True, head_serves: bool = False) -> None:
        """Play the RayCluster's controller: head service, head and worker pods, condition HeadPodReady."""
        owner = _owner(self.cluster(cluster))
        labels = {names.LABEL_CLUSTER: cluster}
        if (SERVICE, f"{cluster}-head-svc") not in self.objects:
            ports = [{"name": "dashboard", "port": 8265}, {"name": "serve", "port": 8000}]
            metadata = {"name": f"{cluster}-head-svc", "labels": dict(labels), "ownerReferences": [owner]}
            self.create({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}})
        roles = [("head", "head", head_serves), *((f"worker-{n}", "worker", True) for n in range(workers))]
        for suffix, role, serves in roles:
            name = f"{cluster}-{suffix}"
            if (POD, name) in self.objects:
                continue
            meta = {
                "name": name,
                "labels": {**labels, names.LABEL_NODE_TYPE: role, names.LABEL_SERVE: str(serves).lower()},
                "ownerReferences": [owner],
            }
            ip = f"10.0.0.{len(self.objects)}"
            spec = {"containers": [{"name": f"ray-{role}", "image": "ray:1"}]}
            self.create({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": {"podIP": ip}})
        self.set_ready(cluster, ready)

    def set_ready(self, cluster: str, ready: bool, *, role: str = "") -> None:
        """Make the pods of *cluster* (of one *role*) ready or not, and the condition follow its head."""
        for (kind, _), body in list(self.objects.items()):
            labels = body["metadata"].get("labels") or {}
            if kind != POD or labels.get(names.LABEL_CLUSTER) != cluster:
                continue
            if role and labels[names.LABEL_NODE_TYPE] != role:
                continue
            state = {"name": body["spec"]["containers"][0]["name"], "ready": ready, "state": {"running": {}}}
            body["status"] |= {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": str(ready)}],
                "containerStatuses": [state],
            }
            self._put(POD, body)
        if role in ("", "head"):
            reason = "HeadPodRunningAndReady" if ready else "ContainersNotReady"
            self.set_cluster_condition(cluster, "HeadPodReady", str(ready), reason)

    def set_cluster_condition(self, cluster: str, type_: str, status: str, reason: str, message: str = "") -> None:
        body = self.cluster(cluster)
        stored = body.setdefault("status", {"head": {"serviceName": f"{cluster}-head-svc"}})
        stored["conditions"] = set_condition(stored.get("conditions") or [], type_, status, reason, message, self.now)
        self._put(RAYCLUSTER, body)

    def set_endpoints(self, service: str, ready: Iterable[str], origin: str = "") -> None:
        """Play the EndpointSlice controller: pods of these names are ready behind *service*."""
        endpoints = [
            {"conditions": {"ready": True}, "targetRef": {"uid": self.objects[POD, pod]["metadata"]["uid"]}}
            for pod in ready
        ]
        name = f"{service}-x"
        self.objects.pop((ENDPOINT_SLICE, name), None)
        labels = {
            "kubernetes.io/service-name": service,
            names.LABEL_ORIGIN_CRD: RAYSERVICE.kind,
            names.LABEL_ORIGIN_NAME: origin or self.service_name,
        }
        metadata = {"name": name, "labels": labels, "ownerReferences": [_owner(self.objects[SERVICE, service])]}
        self.create({"kind": "EndpointSlice", "metadata": metadata, "endpoints": endpoints})

    def follow_selector(self, service: str = "s-serve-svc") -> None:
        """Play Kubernetes: whatever *service* selects and is ready becomes an endpoint of it."""
        selector = self.objects[SERVICE, service]["spec"]["selector"]
        ready = [
            name
            for (kind, name), body in self.objects.items()
            if kind == POD
            and all(body["metadata"]["labels"].get(key) == value for key, value in selector.items())
            and any(c["type"] == "Ready" and c["status"] == "True" for c in body["status"].get("conditions", ()))
        ]
        self.set_endpoints(service, ready)

    def delete(self, kind: Kind, name: str) -> None:
        """Delete an object; one with finalizers stays and is being deleted."""
        body = self.objects[kind, name]
        if body["metadata"].get("finalizers"):
            body["metadata"].setdefault("deletionTimestamp", format_time(self.now))
            self._put(kind, body)
            return
        del self.objects[kind, name]
        self._version += 1
        for (other, other_name), child in list(self.objects.items()):
            owners = child["metadata"].get("ownerReferences") or []
            if any(owner["uid"] == body["metadata"]["uid"] for owner in owners) and (other, other_name) in self.objects:
                self.delete(other, other_name)

    def advance(self, seconds: float) -> World:
        self.now += timedelta(seconds=seconds)
        return self

    # The operator

    def observe(self, failure: WriteFailure | None = None) -> Observed:
        view = FixedView((kind, from_dict(kind, copy.deepcopy(body))) for (kind, _), body in self.objects.items())
        obj = view.get(RAYSERVICE, NS, self.service_name)
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

    def plan(self) -> Plan:
        """What is decided now; nothing is done about it."""
        self.last = plan_service(self.observe())
        return self.last

    def settle(self, passes: int = 20) -> World:
        """Passes until nothing changes any more: writes, status, and answers of probes."""
        for _ in range(passes):
            if not self.one_pass() or (RAYSERVICE, self.service_name) not in self.objects:
                return self
        raise AssertionError("the plans never settle")

    def one_pass(self) -> bool:
        """One pass with its writes, its status and the answers to what it asked; whether anything changed."""
        plan = self.plan()
        before = self._version
        failure = self._perform(plan)
        if (RAYSERVICE, self.service_name) not in self.objects:
            return True
        if failure is not None:
            plan = self.last = plan_service(self.observe(failure))
        if plan.status is not None and plan.status != self.status:
            self.service["status"] = copy.deepcopy(plan.status)
            self.status_writes += 1
            self._put(RAYSERVICE, self.service)
        self.events += plan.events
        return self._answer(plan) or self._version != before

    def _perform(self, plan: Plan) -> WriteFailure | None:
        for stage in plan.stages:
            failure = None
            for write in stage:
                text = self.refuse_writes.get((type(write).__name__, write.kind.kind))
                if text is None:
                    self._write(write)
                    continue
                if write.failed is not None:
                    self.events.append(write.failed(text))
                if not write.optional and failure is None:
                    failure = WriteFailure(write.kind.kind, write.name, write.marker, text, "Forbidden")
            if failure is not None:
                return failure
        return None

    def _write(self, write: Write) -> None:
        self.writes.append(write)
        live = self.objects.get((write.kind, write.name))
        event = write.done
        match write:
            case Create():
                if live is None:
                    self.create(write.body() if callable(write.body) else write.body)
                else:
                    event = None
            case Apply():
                event = self._apply(write, live)
            case Delete():
                if live is not None and live["metadata"]["uid"] == write.uid:
                    self.delete(write.kind, write.name)
            case Patch():
                assert live is not None, f"{write.kind} {write.name} is not there"
                version = live["metadata"]["resourceVersion"]
                assert write.resource_version in ("", version), "a patch of an outdated object"
                before = copy.deepcopy(live)
                patched = json_patch(before, write.operations) if write.operations else merge_patch(before, write.body)
                if patched == live:
                    return
                if patched.get("spec") != live.get("spec"):
                    patched["metadata"]["generation"] = live["metadata"].get("generation", 1) + 1
                self._put(write.kind, patched)
                if patched["metadata"].get("deletionTimestamp") and not patched["metadata"].get("finalizers"):
                    self.delete(write.kind, write.name)
        if event is not None:
            self.events.append(event)

    def _apply(self, write: Apply, live: Body | None) -> Event | None:
        if live is None:
            self.create(write.body)
            return write.done
        merged = merge_patch(copy.deepcopy(live), write.body)
        if write.create_only or merged == live:
            return None
        self._put(write.kind, merged)
        return write.updated

    def _answer(self, plan: Plan) -> bool:
        """Answer what is asked; whether any answer is news. Answers to what is no longer asked are forgotten."""
        before = {probe: (result.outcome, result.value) for probe, result in self.results.items()}
        self.results = {probe: self._result(probe) for probe in plan.probes}
        return any(before.get(probe) != (each.outcome, each.value) for probe, each in self.results.items())

    def _result(self, probe: Probe) -> ProbeResult:
        known = self.results.get(probe)
        if isinstance(probe, ServeConfigCall) and known is not None and known.outcome == "found":
            return known
        found = self._ask(probe)
        same = known is not None and (known.outcome, known.value) == (found.outcome, found.value)
        since = known.since if same and known is not None else self.now
        failing = (known.failing_since if known is not None else None) or self.now
        return ProbeResult(
            found.outcome, self.now, found.value, found.error, failing if found.outcome == "error" else None, since
        )

    def _ask(self, probe: Probe) -> ProbeResult:
        if isinstance(probe, ProxyHealthProbe):
            return ProbeResult("found", self.now, {"healthy": probe.pod not in self.unhealthy})
        if isinstance(probe, InFlightProbe):
            if (numbers := self.requests.get(probe.pod, ())) is None:
                return ProbeResult("error", self.now, error="connection refused")
            if not numbers:
                return ProbeResult("absent", self.now)
            return ProbeResult("found", self.now, {"inFlight": numbers[0], "seen": numbers[1]})
        if isinstance(probe, ObjectProbe):
            there = (probe.kind, probe.name) in self.objects
            return ProbeResult("found" if there else "absent", self.now)
        assert isinstance(probe, ServeProbe | ServeConfigCall), probe
        cluster = probe.service.removesuffix("-head-svc")
        if cluster in self.silent:
            return ProbeResult("error", self.now, error="no answer")
        if isinstance(probe, ServeProbe):
            return ProbeResult("found", self.now, {"applications": copy.deepcopy(self.applications.get(cluster, {}))})
        if self.refuse_puts:
            return ProbeResult("error", self.now, error=self.refuse_puts)
        self.puts.append((cluster, probe.config))
        self.applications[cluster] = copy.deepcopy(self.after_put)
        return ProbeResult("found", self.now)


def _owner(body: Body) -> Body:
    return {
        "apiVersion": body["apiVersion"],
        "kind": body["kind"],
        "name": body["metadata"]["name"],
        "uid": body["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def new_world(*, world: Body | None = None, **service: Any) -> World:
    """A world with one RayService that no pass has seen; *world* names attributes of the `World`."""
    made = World(**(world or {}))
    made.create(ray_service(**service))
    return made


def serving(*, world: Body | None = None, workers: int = 1, **service: Any) -> World:
    """A world whose RayService has been started and serves from its active RayCluster."""
    made = new_world(world=world, **service).settle()
    made.add_pods(made.pending, workers=workers)
    made.settle()
    assert made.active, f"not promoted: {made.last.waiting}"
    made.follow_selector(made.service["spec"].get("serveService", {}).get("metadata", {}).get("name") or "s-serve-svc")
    made.settle()
    assert made.condition("Ready") == ("True", "NonZeroServeEndpoints")
    return made
