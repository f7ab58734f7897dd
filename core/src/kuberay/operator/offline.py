"""What an object would turn into, without a cluster: the same plans, played on a world in memory where all goes well.

Pods become ready at once and looked-up objects exist, so every child that a healthy cluster would get is reached.
"""

from __future__ import annotations

import copy
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER, RAYJOB, Kind
from kuberay.api.objects import Object, RayObject, from_dict
from kuberay.hooks.calls import Hooks
from kuberay.operator.controller import PlanFunction
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Apply, Create, Delete, Event, ObjectProbe, Patch, Plan, Probe, ProbeResult, Write
from kuberay.plan.observed import Observed

_START = datetime(2026, 1, 1, tzinfo=UTC)
_ROUNDS = 50


@dataclass(slots=True)
class Rendered:
    """What came out of one manifest."""

    children: list[dict[str, Any]] = field(default_factory=list)
    """In the order of creation, as they would be sent to the API server."""
    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why something was not created: Warning events and what a plan says it waits for."""
    plugin_changes: dict[str, list[str]] = field(default_factory=dict)


class _World:
    """A `View` that plans' writes change."""

    def __init__(self) -> None:
        self.bodies: dict[tuple[Kind, str, str], dict[str, Any]] = {}
        self.created: list[dict[str, Any]] = []
        self._version = 0

    def put(self, kind: Kind, namespace: str, body: dict[str, Any]) -> None:
        self._version += 1
        metadata = body["metadata"]
        metadata.update(namespace=namespace, resourceVersion=str(self._version))
        metadata.setdefault("generation", 1)
        metadata.setdefault("uid", str(uuid.uuid5(uuid.NAMESPACE_URL, f"{kind}/{namespace}/{metadata['name']}")))
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self.bodies[kind, namespace, metadata["name"]] = body

    def owned(self, uid: str, kind: Kind) -> Sequence[Object]:
        found = [from_dict(k, body) for (k, _, _), body in self.bodies.items() if k == kind]
        return sorted(
            (o for o in found if o.metadata.controller is not None and o.metadata.controller.uid == uid),
            key=lambda o: o.name,
        )

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        body = self.bodies.get((kind, namespace, name))
        return from_dict(kind, body) if body is not None else None

    def was_pod(self, namespace: str, name: str) -> bool:
        return False

    def perform(self, write: Write) -> bool:
        """Returns whether anything changed."""
        key = (write.kind, write.namespace, write.name)
        match write:
            case Create():
                if key in self.bodies:
                    return False
                self._create(write, write.body() if callable(write.body) else write.body)
            case Apply():
                if key in self.bodies:
                    return False
                self._create(write, write.body)
            case Delete():
                return self.bodies.pop(key, None) is not None
            case Patch():
                metadata = write.body.get("metadata", {})
                self.bodies[key]["metadata"].update({k: v for k, v in metadata.items() if v is not None})
                self.put(write.kind, write.namespace, self.bodies[key])
            case _:
                raise AssertionError(type(write).__name__)
        return True

    def _create(self, write: Write, body: Mapping[str, Any]) -> None:
        manifest = {"apiVersion": write.kind.api_version, "kind": write.kind.kind, **_without_nulls(dict(body))}
        self.created.append(copy.deepcopy(manifest))
        if write.kind == POD:
            manifest["status"] = _running(manifest, len(self.bodies))
        self.put(write.kind, write.namespace, manifest)


def _without_nulls(value: Any) -> Any:
    """A copy as the API server would keep it: null means absent."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _running(pod: Mapping[str, Any], number: int) -> dict[str, Any]:
    names = [container["name"] for container in pod["spec"]["containers"]]
    return {
        "phase": "Running",
        "podIP": f"10.0.{number // 250}.{number % 250 + 1}",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [{"name": name, "ready": True, "state": {"running": {}}} for name in names],
    }


def render(
    manifest: Mapping[str, Any],
    *,
    plans: Mapping[Kind, PlanFunction],
    hooks: Hooks,
    gates: Mapping[str, bool],
    config: PlanConfig,
    now: datetime = _START,
) -> Rendered:
    """All children of one RayCluster or RayJob. Raises ValueError for another kind or a manifest without a name."""
    kinds = {kind.kind: kind for kind in plans}
    kind = kinds.get(str(manifest.get("kind")))
    if kind is None:
        raise ValueError(f"kind {manifest.get('kind')!r} cannot be rendered; it must be one of {', '.join(kinds)}")
    name = (manifest.get("metadata") or {}).get("name")
    if not name:
        raise ValueError("metadata.name is missing")
    world, result = _World(), Rendered()
    body = copy.deepcopy(dict(manifest))
    body.pop("status", None)
    body["metadata"] = _without_nulls(body["metadata"])
    namespace = body["metadata"].get("namespace") or "default"
    world.put(kind, namespace, body)
    told: dict[tuple[str, str], Event] = {}
    probes: dict[Probe, ProbeResult] = {}
    waiting: dict[tuple[Kind, str, str], str] = {}
    for _ in range(_ROUNDS):
        changed = False
        for ray_kind in (RAYJOB, RAYCLUSTER):
            for key in [k for k in world.bodies if k[0] == ray_kind and ray_kind in plans]:
                obj = world.get(*key)
                if not isinstance(obj, RayObject):
                    continue
                observed = Observed(
                    obj=obj, now=now, view=world, probes=probes, config=config, gates=gates, hooks=hooks
                )
                plan = plans[ray_kind](observed)
                changed |= _play(world, key, plan, probes, now)
                for event in plan.events:
                    told.setdefault((event.reason, event.note), event)
                result.plugin_changes.update(plan.plugin_changes)
                waiting[key] = plan.waiting
        if not changed:
            break
    result.children = [child for child in world.created if _alive(world, child)]
    result.events = list(told.values())
    held = [sentence for key, sentence in waiting.items() if sentence and key[0] == RAYCLUSTER]
    result.problems = [event.note for event in told.values() if event.type == "Warning"] + held
    return result


def _play(
    world: _World, key: tuple[Kind, str, str], plan: Plan, probes: dict[Probe, ProbeResult], now: datetime
) -> bool:
    changed = False
    for stage in plan.stages:
        for write in stage:
            changed |= world.perform(write)
    if plan.status is not None and key in world.bodies and world.bodies[key].get("status") != plan.status:
        world.bodies[key]["status"] = plan.status
        world.put(key[0], key[1], world.bodies[key])
        changed = True
    for probe in plan.probes:
        if isinstance(probe, ObjectProbe) and probe not in probes:
            probes[probe] = ProbeResult("found", now)
            changed = True
    return changed


def _alive(world: _World, child: Mapping[str, Any]) -> bool:
    return any(kind.kind == child["kind"] and name == child["metadata"].get("name") for kind, _, name in world.bodies)
