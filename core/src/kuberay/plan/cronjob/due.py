"""Which start is due now: the latest one that was not made, and how many older ones are given up for it.

Source: cases.md CJ-02; batch/v1 CronJob for ``startingDeadlineSeconds``. KubeRay makes up for each of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kuberay.api.times import format_time
from kuberay.plan.cronjob.ticks import Ticks

_MOST = 100
"""As far as missed starts are counted."""


@dataclass(frozen=True, slots=True)
class Due:
    """A start whose time has come."""

    tick: datetime
    skipped: str
    """One sentence about older starts that are given up; empty when there are none."""
    late: bool
    """The starting deadline has passed: nothing is started."""
    deadline: datetime | None
    """When it will be too late."""


def due_start(ticks: Ticks, base: datetime, now: datetime, deadline_seconds: int | None) -> Due | None:
    """The latest start after *base*, the newest one that is done with, and up to *now*. A clock that was set back has none:
    *base* lies ahead."""
    tick = ticks.latest(base, now)
    if tick is None:
        return None
    deadline = None if deadline_seconds is None else tick + timedelta(seconds=min(deadline_seconds, 10**9))
    return Due(tick, skipped(ticks, base, tick), deadline is not None and now > deadline, deadline)


def too_late(due: Due) -> str:
    """One sentence about a start that comes too late to be made."""
    return f"the start of {format_time(due.tick)} was missed by more than startingDeadlineSeconds and is given up"


def skipped(ticks: Ticks, base: datetime, tick: datetime) -> str:
    """One sentence about starts between *base* and *tick*; empty when there are none."""
    missed = ticks.count(base, tick, _MOST)
    if not missed:
        return ""
    first, latest = format_time(ticks.after(base)), f"the latest one, {format_time(tick)}"
    if missed == 1:
        return f"the start of {first} was missed and is given up for {latest}"
    many = f"more than {_MOST - 1}" if missed == _MOST else str(missed)
    return f"{many} starts from {first} on were missed and are given up for {latest}"
