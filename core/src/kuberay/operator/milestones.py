"""What a new status tells of the past: how long a start took, phase by phase, and why an attempt of a RayJob ended.

Only a change counts, so each is told once, by the replica that wrote it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kuberay.api.conditions import (
    ClusterCondition,
    JobCondition,
    ServiceCondition,
    ServiceReason,
    find_condition,
    is_true,
)
from kuberay.api.job import JobDeploymentStatus, JobFailedReason
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, RAYSERVICE
from kuberay.api.objects import RayObject
from kuberay.api.times import parse_time
from kuberay.operator import metric_table as table
from kuberay.operator.metric_families import Tally, of_counts, of_tallies

State = JobDeploymentStatus
RETRYING = State.RETRYING.value
ENDS = (State.COMPLETE.value, State.FAILED.value, RETRYING, State.VALIDATION_FAILED.value)
"""``jobDeploymentStatus`` of an attempt that has ended."""

PHASES: Mapping[str, Sequence[str]] = {
    RAYCLUSTER.kind: ("admission", "head", "workers", "all"),
    RAYJOB.kind: ("admission", "cluster", "submission", "all"),
    RAYSERVICE.kind: ("all", "upgrade"),
}

_FAILURES = [
    reason.value
    for reason in JobFailedReason
    if reason not in (JobFailedReason.NONE, JobFailedReason.VALIDATION_FAILED)
]


class Milestones(Collector):
    """Counts them. The seconds of retried attempts are kept by UID, because no status keeps them."""

    def __init__(self) -> None:
        self._ready = {
            (kind, phase): Tally(table.TIME_TO_READY.buckets) for kind, phases in PHASES.items() for phase in phases
        }
        self._ends: Counter[tuple[str, str]] = Counter()
        for reason in _FAILURES:
            self._ends[State.FAILED.value, reason] = self._ends[RETRYING, reason] = 0
        self._ends[State.COMPLETE.value, ""] = 0
        self._ends[State.VALIDATION_FAILED.value, JobFailedReason.VALIDATION_FAILED.value] = 0
        self._retried: dict[str, dict[str, float]] = {}

    def status_written(self, kind: str, before: RayObject, status: Mapping[str, Any], now: datetime) -> None:
        """*before* has *status* since *now*."""
        match kind:
            case RAYCLUSTER.kind:
                phases = _cluster_phases(before, status)
            case RAYJOB.kind:
                self._job_ended(before, status, now)
                phases = _job_phases(before, status)
            case RAYSERVICE.kind:
                phases = _service_phases(before, status, now)
            case _:
                return
        for phase, seconds in phases:
            self._ready[kind, phase].add(max(seconds, 0.0))

    def _job_ended(self, before: RayObject, status: Mapping[str, Any], now: datetime) -> None:
        state = str(status.get("jobDeploymentStatus") or "")
        if state not in ENDS or before.status.get("jobDeploymentStatus") == state:
            return
        self._ends[state, str(status.get("reason") or "")] += 1
        begun = time_of(status.get("startTime"))
        if state == RETRYING and begun is not None:
            count = str(before.status.get("failed") or 0)
            self._retried.setdefault(before.uid, {})[count] = (now - begun).total_seconds()

    def retried(self, existing: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        """Seconds of former attempts by UID and retry count; those of jobs that are not *existing* are dropped."""
        for uid in self._retried.keys() - existing:
            del self._retried[uid]
        return self._retried

    def collect(self) -> Iterable[Metric]:
        return [of_counts(table.JOB_ENDS, self._ends.items()), of_tallies(table.TIME_TO_READY, self._ready.items())]


Phases = Iterator[tuple[str, float]]
"""Phases that ended with a change of a status, with their seconds."""


def _cluster_phases(before: RayObject, status: Mapping[str, Any]) -> Phases:
    """Provisioned is told once in the life of a RayCluster."""
    conditions = status.get("conditions") or ()
    ready = _since(conditions, ClusterCondition.PROVISIONED)
    created = before.metadata.creation_timestamp
    was = before.status.get("conditions") or ()
    if ready is None or created is None or is_true(was, ClusterCondition.PROVISIONED):
        return
    yield "all", (ready - created).total_seconds()
    begun = _since(conditions, ClusterCondition.SUSPENDED, "False")
    head = _since(conditions, ClusterCondition.HEAD_POD_READY)
    if begun is not None and head is not None:
        yield "admission", (begun - created).total_seconds()
        yield "head", (head - begun).total_seconds()
        yield "workers", (ready - head).total_seconds()


def _job_phases(before: RayObject, status: Mapping[str, Any]) -> Phases:
    conditions = status.get("conditions") or ()
    submitted, begun = _since(conditions, JobCondition.SUBMITTED), time_of(status.get("startTime"))
    if submitted is None or begun is None or is_true(before.status.get("conditions") or (), JobCondition.SUBMITTED):
        return
    yield "all", (submitted - begun).total_seconds()
    if not status.get("failed") and before.metadata.creation_timestamp is not None:
        yield "admission", (begun - before.metadata.creation_timestamp).total_seconds()
    cluster = _since(conditions, JobCondition.CLUSTER_READY)
    if cluster is not None:
        yield "cluster", (cluster - begun).total_seconds()
        yield "submission", (submitted - cluster).total_seconds()


def _service_phases(before: RayObject, status: Mapping[str, Any], now: datetime) -> Phases:
    conditions, was = status.get("conditions") or (), before.status.get("conditions") or ()
    ready, former = _since(conditions, ServiceCondition.READY), find_condition(was, ServiceCondition.READY) or {}
    begun = _since(conditions, ServiceCondition.SUSPENDED, "False") or before.metadata.creation_timestamp
    starts = former.get("reason", ServiceReason.INITIALIZING) == ServiceReason.INITIALIZING
    if ready is not None and begun is not None and starts and former.get("status") != "True":
        yield "all", (ready - begun).total_seconds()
    upgrade = _since(was, ServiceCondition.UPGRADE_IN_PROGRESS)
    if upgrade is not None and not is_true(conditions, ServiceCondition.UPGRADE_IN_PROGRESS):
        yield "upgrade", (now - upgrade).total_seconds()


def _since(conditions: Sequence[Mapping[str, Any]], type_: str, status: str = "True") -> datetime | None:
    """Since when the condition has that status; None when it has another one."""
    found = find_condition(conditions, type_)
    return time_of(found.get("lastTransitionTime")) if found is not None and found.get("status") == status else None


def time_of(text: object) -> datetime | None:
    """A time of a status; None when it says nothing that makes sense."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None
