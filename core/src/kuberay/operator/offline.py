"""What an object would turn into, without a cluster: the same plans, played on a world in memory where all goes well.

Pods become ready at once, looked-up objects exist, dashboards take jobs and Serve runs what it is given, so every child that
a healthy cluster would get is reached. For a RayCronJob the clock is set to its next start.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kuberay.api.conditions import ServiceCondition, is_true
from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time
from kuberay.hooks.calls import Hooks
from kuberay.operator.controller import PlanFunction
from kuberay.operator.outside import Outside
from kuberay.operator.world import World, without_nulls
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Event, Plan, Probe, ServeConfigCall, SubmitJobCall
from kuberay.plan.observed import Observed

_START = datetime(2026, 1, 1, tzinfo=UTC)
_ROUNDS = 50
_IN_ORDER = (RAYCRONJOB, RAYSERVICE, RAYJOB, RAYCLUSTER)


@dataclass(slots=True)
class Rendered:
    """What came out of one manifest."""

    children: list[dict[str, Any]] = field(default_factory=list)
    """In the order of creation, as they would be sent to the API server."""
    events: list[Event] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """Why something was not created: Warning events and what a plan says it waits for."""
    plugin_changes: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """What follows that is no object: what dashboards are given, or what a RayJob waits for."""


def render(
    manifest: Mapping[str, Any],
    *,
    plans: Mapping[Kind, PlanFunction],
    hooks: Hooks,
    gates: Mapping[str, bool],
    config: PlanConfig,
    now: datetime = _START,
) -> Rendered:
    """All children of one Ray object. Raises ValueError for another kind or a manifest without a name."""
    kinds = {kind.kind: kind for kind in plans}
    kind = kinds.get(str(manifest.get("kind")))
    if kind is None:
        raise ValueError(f"kind {manifest.get('kind')!r} cannot be rendered; it must be one of {', '.join(kinds)}")
    name = (manifest.get("metadata") or {}).get("name")
    if not name:
        raise ValueError("metadata.name is missing")
    world, result = World(format_time(now)), Rendered()
    body = copy.deepcopy(dict(manifest))
    body.pop("status", None)
    body["metadata"] = without_nulls(body["metadata"])
    namespace = body["metadata"].get("namespace") or "default"
    world.put(kind, namespace, body)
    told: dict[tuple[str, str], Event] = {}
    outside = Outside()
    waiting: dict[tuple[Kind, str, str], str] = {}
    for _ in range(_ROUNDS):
        changed, next_start = False, None
        for ray_kind in _IN_ORDER:
            for key in [k for k in world.bodies if k[0] == ray_kind and ray_kind in plans]:
                obj = world.get(*key)
                if not isinstance(obj, RayObject):
                    continue
                observed = Observed(
                    obj=obj, now=now, view=world, probes=outside.results, config=config, gates=gates, hooks=hooks
                )
                plan = plans[ray_kind](observed)
                changed |= _play(world, key, plan)
                for probe in plan.probes:
                    changed |= outside.answer(probe, now)
                for event in plan.events:
                    told.setdefault((event.reason, event.note), event)
                result.plugin_changes.update(plan.plugin_changes)
                waiting[key] = plan.waiting
                if ray_kind == RAYCRONJOB:
                    next_start = plan.requeue_after
        if changed:
            continue
        if next_start is None or world.created:
            break
        now += max(next_start, timedelta(seconds=1))
        world.born = format_time(now)
    result.children = [child for child in world.created if _alive(world, child)]
    result.events = list(told.values())
    held = [
        sentence for key, sentence in waiting.items() if sentence and (key[0] == RAYCLUSTER or _is_held(world, key))
    ]
    result.problems = [event.note for event in told.values() if event.type == "Warning"] + held
    result.notes = [*filter(None, map(_told_to_a_dashboard, outside.results))]
    result.notes += [
        f"{key[0].kind} {key[2]}: {sentence}"
        for key, sentence in waiting.items()
        if sentence
        and key[0] in (RAYJOB, RAYSERVICE, RAYCRONJOB)
        and not (_as_far_as_it_goes(world, key) or _is_held(world, key))
    ]
    return result


def _play(world: World, key: tuple[Kind, str, str], plan: Plan) -> bool:
    changed = False
    for stage in plan.stages:
        for write in stage:
            changed |= world.perform(write)
    if plan.status is not None and key in world.bodies and world.bodies[key].get("status") != plan.status:
        world.bodies[key]["status"] = plan.status
        world.put(key[0], key[1], world.bodies[key])
        changed = True
    return changed


def _told_to_a_dashboard(probe: Probe) -> str:
    match probe:
        case SubmitJobCall():
            return f"POST http://{probe.address}/api/jobs/ {probe.request}"
        case ServeConfigCall():
            return f"PUT http://{probe.address}/api/serve/applications/ {probe.config}"
        case _:
            return ""


def _as_far_as_it_goes(world: World, key: tuple[Kind, str, str]) -> bool:
    """Whether a RayJob has come as far as it can without a Ray that runs jobs, a RayService without requests."""
    status = (world.bodies.get(key) or {}).get("status") or {}
    serving = (status.get("activeServiceStatus") or {}).get("rayClusterName")
    return status.get("jobDeploymentStatus") == JobDeploymentStatus.RUNNING or bool(serving)


def _is_held(world: World, key: tuple[Kind, str, str]) -> bool:
    """Whether something keeps a RayService from going on."""
    status = (world.bodies.get(key) or {}).get("status") or {}
    return key[0] == RAYSERVICE and is_true(status.get("conditions") or (), ServiceCondition.WAITING)


def _alive(world: World, child: Mapping[str, Any]) -> bool:
    return any(kind.kind == child["kind"] and name == child["metadata"].get("name") for kind, _, name in world.bodies)
