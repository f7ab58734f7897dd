"""What a RayCronJob's status says, and whether that is worth a write: once per start, once per end of a RayJob.

Source: spec rayjob.md 1.6; all but ``lastScheduleTime`` is this operator's own. Nothing in it changes between starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kuberay.api.conditions import CronCondition, remove_condition, set_condition
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time, parse_time
from kuberay.plan.cronjob.children import Children, last_success, starts_made


@dataclass(frozen=True, slots=True)
class Says:
    """One condition that is to be there."""

    type: CronCondition
    status: str
    reason: str
    message: str


def status_to_write(
    obj: RayObject,
    children: Children,
    *,
    handled: datetime | None,
    upcoming: datetime | None,
    conditions: list[Says],
    now: datetime,
) -> dict[str, Any] | None:
    """The whole status, or None when the stored one says it already."""
    stored = obj.status
    made = starts_made(obj.name, children)
    last = max((moment for moment in (handled, handled_until(obj), *made) if moment is not None), default=None)
    success = latest_of(stored.get("lastSuccessfulTime"), last_success(children))
    wanted = {
        **stored,
        "lastScheduleTime": format_time(last) if last is not None else None,
        "nextScheduleTime": format_time(upcoming) if upcoming is not None else None,
        "lastSuccessfulTime": format_time(success) if success is not None else None,
        "active": [job.name for job in children.active],
        "conditions": _conditions(obj, conditions, now),
        "observedGeneration": obj.metadata.generation,
    }
    status = {key: value for key, value in wanted.items() if value not in (None, "", [])}
    return status if status != stored else None


def _conditions(obj: RayObject, wanted: list[Says], now: datetime) -> list[dict[str, Any]]:
    found = list(obj.status.get("conditions") or [])
    for gone in set(CronCondition) - {says.type for says in wanted}:
        found = remove_condition(found, gone)
    for says in wanted:
        found = set_condition(
            found, says.type.value, says.status, says.reason, says.message, now, obj.metadata.generation or None
        )
    return found


def handled_until(obj: RayObject) -> datetime | None:
    """The newest start that is on record as made or given up."""
    return latest_of(obj.status.get("lastScheduleTime"), None)


def latest_of(text: object, other: datetime | None) -> datetime | None:
    """The later of a time in a status and another one."""
    try:
        stored = parse_time(text) if isinstance(text, str) else None
    except ValueError:
        stored = None
    return max((moment for moment in (stored, other) if moment is not None), default=None)
