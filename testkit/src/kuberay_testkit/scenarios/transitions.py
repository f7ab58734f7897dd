"""Whether the states a main object went through are the recorded ones, but for those that are over at once.

How long recorded states lasted is not known; which of them another operator need not show is told by what they say.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kuberay.api.kinds import RAYSERVICE

from kuberay_testkit.scenarios.record import Played

State = Mapping[str, Any]
REQUEUE = 2.0
"""Seconds after which KubeRay looks at a RayService again."""
_FLEETING_JOB = ("", "Retrying", "Suspending")
"""Values of ``jobDeploymentStatus`` of states that an operator may leave within one pass; Running without a job status is
another one."""


def goes_as_recorded(kind: str, wanted: Sequence[State], played: Played, requeue: float) -> bool:
    """Whether *played* went through the states *wanted*. States of a RayService that lasted less than *requeue* seconds are
    not asked for."""
    found = states(played.transitions, failing_counts=any("statusCheckFailing" in state for state in wanted))
    if kind != RAYSERVICE.kind:
        return _same_way(wanted, found, _fleeting_job, [False] * len(found))
    lasted = played.lasted or [requeue] * len(found)
    return _same_way(wanted, found, _fleeting_service, [seconds < requeue for seconds in lasted])


def states(found: Sequence[State], *, failing_counts: bool) -> list[State]:
    """What counts of a RayJob's states."""
    kept: list[State] = []
    for state in found:
        counts = {key: value for key, value in state.items() if key != "statusCheckFailing"}
        if failing_counts and state.get("statusCheckFailing"):
            counts["statusCheckFailing"] = True
        if not kept or kept[-1] != counts:
            kept.append(counts)
    return kept


def _fleeting_job(state: State) -> bool:
    name = state.get("jobDeploymentStatus")
    return name in _FLEETING_JOB or (name == "Running" and not state["jobStatus"])


def _fleeting_service(state: State) -> bool:
    """What KubeRay shows for one pass: deletions under way; the first cluster that just became active, before its endpoints
    are counted or its route is made; and a second one before the route has a backend for it."""
    active, pending = state["active"] or {}, state["pending"] or {}
    if "SuspendInProgress" in state["conditions"].get("Suspending", ""):
        return True
    if active and not pending:
        uncounted = state["conditions"].get("Ready") == "False/Initializing" and state["endpoints"] == "0"
        return uncounted or ("targetCapacity" in active and "trafficRoutedPercent" not in active)
    return bool(active) and "targetCapacity" in pending and "trafficRoutedPercent" not in pending


def _same_way(
    wanted: Sequence[State], found: Sequence[State], fleeting: Callable[[State], bool], short: Sequence[bool]
) -> bool:
    """Whether *found* becomes *wanted* when some of what is *short* is left out of it, and some of what is *fleeting* of
    *wanted*."""

    def without_fleeting(places: set[int]) -> set[int]:
        reached = set(places)
        for place in range(min(places, default=len(wanted)), len(wanted)):
            if place in reached and fleeting(wanted[place]):
                reached.add(place + 1)
        return reached

    places = without_fleeting({0})  # how many of the wanted ones may be behind us
    for state, passing in zip(found, short, strict=True):
        behind = {place + 1 for place in places if place < len(wanted) and wanted[place] == state}
        # Seen again once what came between was left out.
        behind |= {place for place in places if passing or (place and wanted[place - 1] == state)}
        places = without_fleeting(behind)
    return len(wanted) in places
