"""A tiny Kubernetes for plan tests: applies the writes of a plan at once and makes every pod Running and Ready."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE, Kind
from kuberay.api.objects import from_dict
from kuberay.hooks.calls import Hooks, NoHooks
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import (
    Apply,
    Create,
    Delete,
    DrainProbe,
    Event,
    ObjectProbe,
    Patch,
    Plan,
    ProbeResult,
    Write,
    WriteFailure,
)
from kuberay.plan.observed import FixedView, Observed

Manifest = dict[str, Any]
Refuse = Callable[[Write], str]
"""Gives the API server's error text for a write, or nothing to let it through."""


class TinyKubernetes:
    """One namespace, one RayCluster. The controller's loop: plan, write, plan again, one status."""

    def __init__(
        self,
        cluster: Manifest,
        *,
        namespace: str = "default",
        gates: Mapping[str, bool] | None = None,
        hooks: Hooks | None = None,
        config: PlanConfig | None = None,
    ) -> None:
        self.namespace = namespace
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.gates = dict(DEFAULT_GATES if gates is None else gates)
        self.hooks = hooks or NoHooks()
        self.config = config or PlanConfig(operator_version="1.2.3")
        self.objects: dict[tuple[Kind, str], Manifest] = {}
        self.events: list[Event] = []
        self.generate_names: set[str] = set()
        self.pod_names: set[str] = set()
        """Of all pods there ever were."""
        self.writes: list[Write] = []
        self.statuses: list[Manifest] = []
        self.run_pods = True
        self.keep_terminating = False
        self.refuse: Refuse = lambda write: ""
        self.drain: Callable[[str], str] | None = lambda name: "drained"
        """What Ray says of a worker that is to be drained, by pod name; nothing at all when None."""
        self.drain_answer: ProbeResult | None = None
        """Instead of that: a whole answer."""
        self.others: set[tuple[Kind, str]] = set()
        """Objects of other people, which only look-ups see."""
        self._serial = 0
        self.cluster: Manifest = {}
        self.apply(cluster)

    def apply(self, cluster: Manifest) -> None:
        """Create the RayCluster, or replace its spec as a user does."""
        body = copy.deepcopy(cluster)
        old = self.cluster
        changed = old.get("spec") != body["spec"]
        body["metadata"] |= {
            "namespace": self.namespace,
            "uid": "0a1b2c3d-0000-4000-8000-000000000001",
            "generation": old["metadata"]["generation"] + changed if old else 1,
        }
        if "finalizers" in old.get("metadata", {}):
            body["metadata"].setdefault("finalizers", old["metadata"]["finalizers"])
        body["status"] = old.get("status", {})
        self.cluster = body

    def delete(self) -> None:
        """Delete the RayCluster as a user does, while a finalizer keeps it."""
        self.cluster["metadata"]["deletionTimestamp"] = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.cluster["metadata"]["generation"] += 1

    def edit(self, change: Callable[[Manifest], object]) -> None:
        """Change the spec in place."""
        body = copy.deepcopy(self.cluster)
        change(body["spec"])
        self.apply(body)

    def add(self, kind: Kind, body: Manifest) -> Manifest:
        """Store an object as an API server does."""
        self._serial += 1
        body = copy.deepcopy(body)
        body["metadata"].setdefault("namespace", self.namespace)
        body["metadata"]["uid"] = f"00000000-0000-4000-8000-{self._serial:012d}"
        body["metadata"].setdefault("creationTimestamp", self.now.strftime("%Y-%m-%dT%H:%M:%SZ"))
        body["metadata"]["resourceVersion"] = str(self._serial)
        if kind == SERVICE:
            self._default_service(body)
        if kind == POD:
            self.pod_names.add(body["metadata"]["name"])
        if kind == POD and body["spec"].get("hostNetwork"):
            for port in (port for container in body["spec"]["containers"] for port in container.get("ports") or []):
                port.setdefault("hostPort", port["containerPort"])
        self.objects[kind, body["metadata"]["name"]] = body
        return body

    def _default_service(self, body: Manifest) -> None:
        spec = body["spec"]
        for port in spec.get("ports") or []:
            port.setdefault("targetPort", port["port"])
            if spec.get("type") in ("NodePort", "LoadBalancer"):
                self._serial += 1
                port["nodePort"] = 30000 + self._serial
        spec.setdefault("clusterIP", f"10.0.0.{self._serial}")

    @property
    def pods(self) -> dict[str, Manifest]:
        return {name: body for (kind, name), body in self.objects.items() if kind == POD}

    @property
    def workers(self) -> dict[str, Manifest]:
        return {n: b for n, b in self.pods.items() if b["metadata"]["labels"]["ray.io/node-type"] == "worker"}

    @property
    def head(self) -> Manifest:
        (head,) = [b for b in self.pods.values() if b["metadata"]["labels"]["ray.io/node-type"] == "head"]
        return head

    @property
    def status(self) -> Manifest:
        status: Manifest = self.cluster.get("status", {})
        return status

    def condition(self, type_: str) -> Manifest | None:
        found: list[Manifest] = [c for c in self.status.get("conditions", []) if c["type"] == type_]
        return found[0] if found else None

    def observe(self, failure: WriteFailure | None = None) -> Observed:
        probes = {}
        for kind, name in [*self.objects, *self.others]:
            probes[ObjectProbe(kind, self.namespace, name)] = ProbeResult("found", self.now)
        answer = self._drain_answer()
        if answer is not None:
            probes[DrainProbe("", 0, ())] = answer
        return Observed(
            obj=from_dict(RAYCLUSTER, copy.deepcopy(self.cluster)),
            now=self.now,
            view=FixedView(
                ((kind, copy.deepcopy(body)) for (kind, _), body in self.objects.items()),
                former_pods=self.pod_names - self.pods.keys(),
            ),
            probes=_AbsentElsewhere(probes, self.now),
            config=self.config,
            gates=self.gates,
            hooks=self.hooks,
            failure=failure,
        )

    def _drain_answer(self) -> ProbeResult | None:
        metadata = [body["metadata"] for body in self.pods.values()]
        asked = [m for m in metadata if "ray.io/draining-since" in m.get("annotations", {})]
        if self.drain_answer is not None or not asked or self.drain is None:
            return self.drain_answer
        return ProbeResult("found", self.now, {m["uid"]: self.drain(m["name"]) for m in asked})

    def plan(self) -> Plan:
        return plan_cluster(self.observe())

    def reconcile(self) -> Plan:
        """One pass of the controller. The first status is not waited for, so that tests see what one pass says."""
        told: dict[tuple[str, str], Event] = {}
        plan = Plan()
        for _ in range(4):
            plan = self.plan()
            events, changed, failure = self._perform(plan)
            for event in [*events, *plan.events]:
                told.setdefault((event.reason, event.note), event)
            if failure is not None:
                plan = plan_cluster(self.observe(failure))
                break
            if not changed:
                break
        if plan.status is not None and not (plan.status_delay and self.status):
            self.cluster["status"] = copy.deepcopy(plan.status)
            self.statuses.append(plan.status)
        self.events += told.values()
        return plan

    def _perform(self, plan: Plan) -> tuple[list[Event], bool, WriteFailure | None]:
        events: list[Event] = []
        changed = False
        for stage in plan.stages:
            failure = None
            for write in stage:
                error = self.refuse(write)
                if error:
                    if write.failed is not None:
                        events.append(write.failed(error))
                    if not write.optional:
                        failure = failure or WriteFailure(write.kind.kind, write.name, write.marker, error, "Forbidden")
                    continue
                event, did = self._write(write)
                changed |= did
                if event is not None:
                    events.append(event)
            if failure is not None:
                return events, changed, failure
        return events, changed, None

    def _write(self, write: Write) -> tuple[Event | None, bool]:
        key = (write.kind, write.name)
        live = self.objects.get(key)
        if isinstance(write, Create):
            assert live is None, f"{key} exists already"
            body = write.body() if callable(write.body) else write.body
            if write.random_data:
                body = {**body, "data": dict.fromkeys(write.random_data, "bm90IHJhbmRvbQ==")}
            self.add(write.kind, body)
            if body["metadata"].get("generateName"):
                self.generate_names.add(body["metadata"]["generateName"])
        elif isinstance(write, Apply):
            if live is not None:
                if write.create_only or _says_all(write.body, live):
                    return None, False
                _merge(live, copy.deepcopy(write.body))
                self.writes.append(write)
                return write.updated, True
            self.add(write.kind, write.body)
        elif isinstance(write, Delete):
            assert live is not None, f"{key} is not there to delete"
            assert live["metadata"]["uid"] == write.uid
            if self.keep_terminating and write.kind == POD:
                assert "deletionTimestamp" not in live["metadata"], f"{key} is terminating already"
                live["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            else:
                del self.objects[key]
        elif isinstance(write, Patch):
            live = self.cluster if write.kind == RAYCLUSTER else live
            assert live is not None
            assert not (write.body and write.operations)
            _merge(live, copy.deepcopy(write.body))
            for operation in write.operations:
                _operate(live, operation)
        self.writes.append(write)
        return write.done, True

    def start_pods(self) -> bool:
        """Let pods run and be ready that have no status yet. Whether there were any."""
        new = [name for name, body in self.pods.items() if not body.get("status")]
        for name in new:
            self.set_pod(name, phase="Running", ready=True)
        return bool(new)

    def set_pod(self, name: str, *, phase: str, ready: bool | None = None, terminated: bool = False) -> None:
        body = self.pods[name]
        status: Manifest = {"phase": phase, "podIP": f"10.1.0.{body['metadata']['resourceVersion']}"}
        if ready is not None:
            changed = self.now.strftime("%Y-%m-%dT%H:%M:%SZ")
            status["conditions"] = [
                {"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": changed}
            ]
        if terminated:
            container = body["spec"]["containers"][0]["name"]
            state = {"terminated": {"exitCode": 1, "reason": "Error"}}
            status["containerStatuses"] = [{"name": container, "state": state}]
        body["status"] = status

    def settle(self, passes: int = 12) -> None:
        """Reconcile, with pods starting in between, until a pass finds nothing to do."""
        for _ in range(passes):
            before = (len(self.writes), len(self.statuses))
            plan = self.reconcile()
            started = self.run_pods and self.start_pods()
            self.now += max(plan.status_delay, timedelta(seconds=1))
            unchanged = (len(self.writes), len(self.statuses)) == before and plan.status is None
            if unchanged and not started and plan.requeue_after != timedelta(0):
                return
        raise AssertionError(f"not settled after {passes} passes")


class _AbsentElsewhere(dict[Any, ProbeResult]):
    """Probe results of an API server that answers at once."""

    def __init__(self, found: Mapping[Any, ProbeResult], now: datetime) -> None:
        super().__init__(found)
        self._now = now

    def get(self, key: Any, default: Any = None) -> Any:
        if isinstance(key, ObjectProbe):
            key = ObjectProbe(key.kind, key.namespace, key.name)
        return super().get(key) or ProbeResult("absent", self._now)


def _says_all(wanted: Any, live: Any) -> bool:
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(
            key in live and _says_all(value, live[key]) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        return isinstance(live, list) and len(live) == len(wanted) and all(map(_says_all, wanted, live))
    return bool(wanted == live)


def _operate(live: Any, operation: Mapping[str, Any]) -> None:
    """One operation of a JSON Patch: ``test`` or ``replace``."""
    *way, last = operation["path"].strip("/").split("/")
    for part in way:
        live = live[int(part) if isinstance(live, list) else part]
    if operation["op"] == "test":
        assert live[last] == operation["value"]
    else:
        assert operation["op"] == "replace"
        assert last in live
        live[last] = operation["value"]


def _merge(live: Manifest, wanted: Manifest) -> None:
    for key, value in wanted.items():
        if isinstance(value, dict) and isinstance(live.get(key), dict):
            _merge(live[key], value)
        else:
            live[key] = value


def ray_cluster(name: str = "pair", *, groups: list[Manifest] | None = None, **spec: Any) -> Manifest:
    """A RayCluster with a head and the given worker groups (`worker_group`); *spec* adds to its spec."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "rayVersion": "2.54.0",
            "headGroupSpec": {"template": template("engine")},
            "workerGroupSpecs": [worker_group()] if groups is None else groups,
            **spec,
        },
    }


def worker_group(name: str = "crew", replicas: int | None = 3, **fields: Any) -> Manifest:
    group = {"groupName": name, "minReplicas": 0, "maxReplicas": 10, "template": template("helper"), **fields}
    if replicas is not None:
        group["replicas"] = replicas
    return group


def template(name: str, cpu: str = "1", memory: str = "2Gi") -> Manifest:
    limits = {"cpu": cpu, "memory": memory}
    return {
        "spec": {"containers": [{"name": name, "image": "example.test/ray:2.54.0", "resources": {"limits": limits}}]}
    }


@pytest.fixture
def kubernetes() -> type[TinyKubernetes]:
    return TinyKubernetes


@pytest.fixture
def cluster() -> Callable[..., Manifest]:
    """`ray_cluster`."""
    return ray_cluster


@pytest.fixture
def group() -> Callable[..., Manifest]:
    """`worker_group`."""
    return worker_group
