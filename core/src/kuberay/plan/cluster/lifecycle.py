"""When a RayCluster is ended because nobody uses it or because it is old enough, and when that is called off.

Beyond KubeRay: ``spec.lifecycle`` and the annotation ``ray.io/extend-until`` (docs/lifecycle.md). The user's spec is never
written; the end is a stored condition, which holds the cluster as ``spec.suspend`` would, or has it deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kuberay.api.conditions import FALSE, TRUE, ClusterCondition, find_condition
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.lifecycle import Lifecycle
from kuberay.api.names import ANNOTATION_EXTEND_UNTIL
from kuberay.api.times import format_time, parse_time
from kuberay.plan.cluster.activity import Idleness, idle_since, observe_idleness, time_of
from kuberay.plan.cluster.conditions import Conditions
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.status import SUSPENDED
from kuberay.plan.model import Delete, Event

IDLE, MAX_AGE = "Idle", "MaxAge"
"""Why a cluster is ended: reasons of the conditions."""
_SCHEDULED = "Scheduled"
_INVALID_EXTENSION = "InvalidExtension"
_RELEASED = "Released"

_ENDING, _ENDED = ClusterCondition.LIFECYCLE_ENDING, ClusterCondition.LIFECYCLE_ENDED
_CONDITIONS = frozenset((ClusterCondition.IDLE, _ENDING, _ENDED))


@dataclass(slots=True)
class LifecycleDecision:
    """What the lifecycle means for this pass. The conditions say it already."""

    holds: bool = False
    """No pod may be there, as if the spec said ``suspend``."""
    delete: Delete | None = None
    """Ends the cluster for good; nothing else is to be written."""
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _End:
    """When and why the cluster is to be ended, as far as is known."""

    at: datetime
    reason: str
    warning: timedelta
    because: str
    """``idle since …``, ``running since …``."""


def decide_lifecycle(cluster: ClusterPass, conditions: Conditions) -> LifecycleDecision:
    """One look. Ends nothing in the pass that decides it: the decision is stored first, so that no crash undoes half."""
    lifecycle = cluster.form.spec.lifecycle
    if lifecycle is None:
        if any(condition["type"] in _CONDITIONS for condition in conditions.items):
            for kind in _CONDITIONS:
                conditions.remove(kind)
        return LifecycleDecision()
    return _Look(cluster, conditions, lifecycle).decide()


class _Look:
    def __init__(self, cluster: ClusterPass, conditions: Conditions, lifecycle: Lifecycle) -> None:
        self.cluster, self.conditions, self.lifecycle = cluster, conditions, lifecycle
        self.obj = cluster.observed.obj
        # Conditions have whole seconds: what is decided now must be what a later look reads from them.
        self.now = cluster.observed.now.replace(microsecond=0)
        self.decision = LifecycleDecision()
        self.deletes = lifecycle.deletes and self.obj.metadata.controller is None
        self.extended: datetime | None = None
        self.unreadable = ""
        text = self.obj.metadata.annotations.get(ANNOTATION_EXTEND_UNTIL)
        if text:
            try:
                self.extended = parse_time(text).replace(microsecond=0)
            except ValueError as error:
                self.unreadable = str(error)

    def decide(self) -> LifecycleDecision:
        conditions = self.conditions
        ended = find_condition(conditions.items, _ENDED)
        if ended is not None and ended.get("status") == TRUE:
            self._hold(ended)
        elif self.cluster.form.spec.suspend or any(
            conditions.true(kind) for kind in (ClusterCondition.SUSPENDING, ClusterCondition.SUSPENDED)
        ):
            # Suspended by its user, or not resumed yet: there is nothing to end.
            conditions.remove(ClusterCondition.IDLE)
            conditions.remove(_ENDING)
        else:
            self._watch()
        return self.decision

    # -- a cluster that runs

    def _watch(self) -> None:
        timeout = self.lifecycle.idle_timeout_seconds
        known = idle_since(self.conditions, self.now)
        end = self._end(known)
        idle = Idleness()
        if timeout is not None:
            due = end is not None and end.reason == IDLE and end.at <= self.now
            question = format_time(end.at) if end is not None and due else ""
            idle = observe_idleness(self.cluster, self.conditions, timeout, self.now, question)
            end = self._end(idle.since)
        else:
            self.conditions.remove(ClusterCondition.IDLE)
        if self.unreadable:
            self._complain()
        elif end is None:
            self.conditions.remove(_ENDING)
        elif self.now < end.at - end.warning:
            self.conditions.set(_ENDING, FALSE, _SCHEDULED, self._announcement(end))
            self._wake(end.at - end.warning)
        elif self.now < end.at:
            self._warn(end)
            self._wake(end.at)
        elif end.reason == MAX_AGE or idle.confirmed:
            self._store_end(end)

    def _end(self, since: datetime | None) -> _End | None:
        """The nearer one of both limits, moved by the annotation, and never without the announced warning."""
        ends = []
        if since is not None and self.lifecycle.idle_timeout_seconds is not None:
            ends.append(self._limit(IDLE, since, self.lifecycle.idle_timeout_seconds, "idle"))
        if self.lifecycle.max_age_seconds is not None:
            start = _running_since(self.obj.metadata.creation_timestamp, self.obj.status, self.conditions, self.now)
            ends.append(self._limit(MAX_AGE, start, self.lifecycle.max_age_seconds, "running"))
        if not ends:
            return None
        end = min(ends, key=lambda end: end.at)
        at = max(end.at, self.extended) if self.extended is not None else end.at
        if self.now >= at - end.warning:
            warned = self._warned(end.reason) or self.now
            at = max(at, warned + end.warning)
        return _End(at, end.reason, end.warning, end.because)

    def _limit(self, reason: str, since: datetime, seconds: int, what: str) -> _End:
        because = f"{what} since {format_time(since)}"
        warning = timedelta(seconds=self.lifecycle.warning(seconds))
        return _End(since + timedelta(seconds=seconds), reason, warning, because)

    def _warned(self, reason: str) -> datetime | None:
        condition = find_condition(self.conditions.items, _ENDING)
        if condition is None or condition.get("reason") != reason:
            return None
        return time_of(self.conditions, _ENDING, TRUE, self.now)

    def _announcement(self, end: _End) -> str:
        unless = "used again or " if end.reason == IDLE else ""
        return (
            f"{end.because}; will be {self._done} at {format_time(end.at)} unless {unless}extended by the annotation "
            f"{ANNOTATION_EXTEND_UNTIL}"
        )

    def _warn(self, end: _End) -> None:
        message = self._announcement(end)
        if self._warned(end.reason) is None:
            # The time of the warning counts, so one for another reason has a time of its own.
            self.conditions.remove(_ENDING)
        if self.conditions.set_present(_ENDING, (end.reason, message)):
            self._tell("LifecycleEnding", f"is {message}", "Warning")

    def _complain(self) -> None:
        message = f"metadata.annotations[{ANNOTATION_EXTEND_UNTIL}]: {self.unreadable}; nothing is ended until it is"
        old = find_condition(self.conditions.items, _ENDING)
        self.conditions.set(_ENDING, FALSE, _INVALID_EXTENSION, message)
        if old is None or old.get("message") != message:
            note = f"Invalid annotation of RayCluster {self.cluster.place}: {message}"
            self.decision.events.append(Event(_INVALID_EXTENSION, note, "Warning", "Lifecycle"))

    def _store_end(self, end: _End) -> None:
        self.conditions.remove(ClusterCondition.IDLE)
        self.conditions.remove(_ENDING)
        message = f"{end.because}, {self._done} at {format_time(self.now)}"
        if not self.deletes:
            message += f"; resumes when the spec is edited or the annotation {ANNOTATION_EXTEND_UNTIL} is set to a time to come"
        self.conditions.set(_ENDED, TRUE, end.reason, message, self.obj.metadata.generation)
        self._tell("LifecycleEnded", f"is ended by its lifecycle: {message}", "Normal")

    # -- a cluster that was ended

    def _hold(self, ended: Mapping[str, Any]) -> None:
        self.conditions.remove(ClusterCondition.IDLE)
        if not self.unreadable:
            self.conditions.remove(_ENDING)
        why = ""
        if ended.get("observedGeneration") != self.obj.metadata.generation:
            going = self.cluster.children.pods and not self.conditions.true(ClusterCondition.SUSPENDED)
            if self.cluster.form.spec.autoscaling and going and not self.deletes:
                # The autoscaler may have had the last word before its pod went; that is no wish to resume.
                told = str(ended.get("reason")), str(ended.get("message"))
                self.conditions.set(_ENDED, TRUE, *told, self.obj.metadata.generation)
            else:
                why = "the spec was edited"
        if self.extended is not None and self.extended > self.now:
            why = f"the annotation {ANNOTATION_EXTEND_UNTIL} extends it until {format_time(self.extended)}"
        if why:
            self.conditions.set(_ENDED, FALSE, _RELEASED, f"called off: {why}")
            self._tell("LifecycleReleased", f"is no longer ended by its lifecycle: {why}", "Normal")
        elif self.unreadable:
            self._complain()
        if why:
            return
        if not self.deletes:
            self.decision.holds = True
        elif not self.unreadable:
            self.decision.delete = Delete(
                kind=RAYCLUSTER,
                namespace=self.cluster.namespace,
                name=self.cluster.name,
                uid=self.obj.uid,
                failed=lambda error: Event(
                    "FailedToDeleteRayCluster",
                    f"Failed deleting RayCluster {self.cluster.place}, {error}",
                    type="Warning",
                    action="Delete",
                ),
            )

    @property
    def _done(self) -> str:
        return "deleted" if self.deletes else "suspended"

    def _wake(self, moment: datetime) -> None:
        self.cluster.due.append(moment - self.cluster.observed.now)

    def _tell(self, reason: str, what: str, type_: str) -> None:
        note = f"RayCluster {self.cluster.place} {what}"
        self.decision.events.append(Event(reason, note, "Warning" if type_ == "Warning" else "Normal", "Lifecycle"))


def _running_since(
    created: datetime | None, status: Mapping[str, Any], conditions: Conditions, now: datetime
) -> datetime:
    """The creation; for a cluster that was suspended or ended and went on, when it did."""
    times = [created or now]
    if SUSPENDED in (status.get("stateTransitionTimes") or {}):
        times.append(time_of(conditions, ClusterCondition.SUSPENDED, FALSE, now) or times[0])
    times.append(time_of(conditions, _ENDED, FALSE, now) or times[0])
    return max(times)
