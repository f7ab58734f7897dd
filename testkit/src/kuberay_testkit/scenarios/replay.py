"""Plays a scenario's steps, one after the other, in a world that is open."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

from kuberay_testkit.scenarios.pause import pause
from kuberay_testkit.scenarios.record import Played
from kuberay_testkit.scenarios.script import Step, UnsupportedStepError
from kuberay_testkit.scenarios.world import ScenarioWorld

QUIET = 1.5
"""Seconds without a change after which a checkpoint is taken."""
MOST = 40.0
"""Seconds after which it is taken anyway."""
TIMEOUT = 60.0
REACTION = 0.3
"""Seconds between what was waited for and what is done then: nobody outside reacts within a millisecond."""


async def replay(world: ScenarioWorld, *, patience: float = 1.0) -> Played:
    """Create the scenario's objects, play all steps, and tell what was seen. *patience* stretches all time limits."""
    await _wait_for_start(world)
    await world.open()
    try:
        for number, step in enumerate(world.scenario.steps):
            try:
                await _play(world, step, patience)
            except AssertionError as error:
                raise AssertionError(f"step {number + 1} of {world.scenario.name} ({step}): {error}") from error
        await world.quiet(QUIET, MOST * patience)
        world.verify()
        return world.played()
    finally:
        await world.close()


async def _wait_for_start(world: ScenarioWorld) -> None:
    if world.scenario.start is None:
        return
    first, last = world.scenario.start
    now = world.clock.now()
    second = now.second + now.microsecond / 1e6
    if not first <= second <= last:
        await asyncio.sleep((first - second) % 60)


async def _play(world: ScenarioWorld, step: Step, patience: float) -> None:
    value = step.value
    match step.verb:
        case "wait":
            seconds = float(value.get("timeout", TIMEOUT)) * patience
            await world.until(lambda: _reached(world, value), seconds, str(value))
            await pause(REACTION)
        case "sleep":
            await pause(float(value))
            world.verify()
        case "check":
            await world.quiet(QUIET, MOST * patience)
            world.take_checkpoint(value)
        case "world":
            world.set_world(value)
        case "job" if value == "unknown":
            world.dashboards.forget()
        case "job":
            job = value if isinstance(value, Mapping) else {"status": value}
            world.set_job(job["status"], job.get("message", ""), job.get("id", ""))
        case "apps":
            apps = value if isinstance(value, Mapping) else {"status": value}
            world.set_apps(apps["status"], apps.get("cluster", "active"))
        case "dashboard":
            conduct = {key: item for key, item in value.items() if key != "cluster"}
            world.set_dashboard(conduct, value.get("cluster", "active"))
        case "pods":
            _only(step, {"which", "to", "container", "cluster"})
            await world.move_pods(
                value["which"], value["to"], value.get("container", ""), value.get("cluster", "active")
            )
        case "submitter":
            await world.end_submitter(value, TIMEOUT * patience)
        case "edit":
            await world.edit(value["set"])
        case "delete":
            scenario = world.scenario
            await world.delete(value.get("kind", scenario.main_kind), value.get("name", scenario.main_name))
        case "create":
            await world.create(value)
        case "lastScheduleTime":
            await world.set_last_schedule(float(value))
        case _:
            raise UnsupportedStepError(f"the step {step} cannot be played yet")


def _only(step: Step, known: set[str]) -> None:
    if unknown := set(step.value) - known:
        raise UnsupportedStepError(f"the step {step} cannot be played yet: {', '.join(sorted(unknown))}")


def _reached(world: ScenarioWorld, wanted: Mapping[str, Any]) -> bool:
    return all(_holds(world, what, value) for what, value in wanted.items())


def _holds(world: ScenarioWorld, what: str, value: Any) -> bool:
    match what:
        case "timeout":
            return True
        case "status":
            return all(matches(value_at(world.status, path), item) for path, item in value.items())
        case "condition":
            return all(_condition(world.status, type_, item) for type_, item in value.items())
        case "pods":
            return all(len(world.pods(role)) == count for role, count in value.items())
        case "objects":
            return all(_live(world, kind) == count for kind, count in value.items())
        case "request":
            pattern, count = (value, 1) if isinstance(value, str) else (value["is"], value.get("count", 1))
            calls = [r["call"] for board in world.dashboards.by_cluster.values() for r in board.requests]
            return sum(request_matches(call, pattern) for call in calls) >= count
        case "event":
            return any(event["reason"] == value for event in world.events())
        case "cluster":
            cluster = world.objects.get((world.kind("RayCluster"), world.cluster)) or {}
            return matches(value_at(cluster, "status.state"), value)
        case "labels":
            return all(_labelled(world, role, labels) for role, labels in value.items())
        case "gone":
            return (world.main is None) == bool(value)
    raise UnsupportedStepError(f"one cannot wait for {what!r} yet")


def _live(world: ScenarioWorld, kind: str) -> int:
    return sum("deletionTimestamp" not in obj["metadata"] for obj in world.all_of(world.kind(kind)))


def _labelled(world: ScenarioWorld, role: str, wanted: Mapping[str, Any]) -> bool:
    pods = world.pods(role, world.cluster)
    found = [pod["metadata"].get("labels") or {} for pod in pods]
    return bool(found) and all(matches(labels.get(key), item) for labels in found for key, item in wanted.items())


def _condition(status: Mapping[str, Any], type_: str, wanted: str) -> bool:
    value, _, reason = wanted.partition("/")
    for condition in status.get("conditions") or ():
        if condition["type"] == type_:
            return condition["status"] == value and (not reason or condition.get("reason") == reason)
    return False


def matches(found: Any, wanted: Any) -> bool:
    """Whether a value is what a step waits for: ``'*'`` anything but empty, None empty."""
    if wanted is None:
        return not found
    return bool(found) if wanted == "*" else found == wanted


def value_at(obj: Any, path: str) -> Any:
    """A member by its dotted path; None where there is none."""
    for part in path.split("."):
        if not isinstance(obj, Mapping):
            return None
        obj = obj.get(part)
    return obj


def request_matches(request: str, wanted: str) -> bool:
    """Whether ``METHOD path`` is what ``METHOD pattern`` asks for."""
    method, _, path = request.partition(" ")
    wanted_method, _, pattern = wanted.partition(" ")
    return method == wanted_method and re.search(pattern, path) is not None
