"""What the operator would do about one object if nothing but time passed: its own plans, asked at the moments that limits name.

No second set of rules: what is told here is what a pass would decide. For `kuberay why` and `kuberay diff`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import orjson

from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import JOB, RAYJOB, RAYSERVICE, Kind
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time, parse_time
from kuberay.hooks.calls import Hooks, NoHooks
from kuberay.operator.controller import PlanFunction
from kuberay.operator.outside import Outside
from kuberay.operator.service_words import service_moves, told_metadata
from kuberay.operator.world import World
from kuberay.plan.config import PlanConfig
from kuberay.plan.edit.changes import field_changes
from kuberay.plan.model import Delete, JobLogsProbe, Plan, Probe, ProbeResult, StopJobCall, SubmitJobCall, Write
from kuberay.plan.observed import Observed

_PASSES = 12
"""Passes at one moment; a plan that still changes something after so many waits for somebody else."""
_PASSES_OF_SERVICES = 40
"""From nothing to two RayClusters that have changed places."""
_MOMENTS = 12
_LONGEST_VALUE = 60
_STEADY = timedelta(seconds=10)
"""Plans that look again sooner than this wait for something outside, not for a moment."""
_A_MOMENT = timedelta(seconds=1)
"""But those of RayServices name moments, however near: requests may move every few seconds."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that comes about, and when."""

    at: datetime
    what: str
    """A sentence without its full stop."""


@dataclass(slots=True)
class Foresight:
    """A world with one object in it that is looked at, and the rules of the operator."""

    plan: PlanFunction
    kind: Kind
    namespace: str
    name: str
    world: World
    config: PlanConfig = field(default_factory=PlanConfig)
    gates: Mapping[str, bool] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=NoHooks)
    requests: list[str] = field(default_factory=list)
    """Jobs that were handed to a dashboard, as JSON."""
    wanted: list[Probe] = field(default_factory=list)
    """What the last plan wanted to know."""
    waiting: str = ""
    """What the last plan waits for, in one sentence."""
    outside: Outside | None = None
    """Who answers what plans want to know; None: nobody but `answer`."""
    around: Callable[[], bool] | None = None
    """What the rest of the world does when the plan has nothing more to do; whether that changed anything."""
    _probes: dict[Probe, ProbeResult] = field(default_factory=dict)
    _happenings: list[Happening] = field(default_factory=list)

    @property
    def body(self) -> dict[str, Any] | None:
        """The object as it is by now."""
        return self.world.bodies.get((self.kind, self.namespace, self.name))

    def __post_init__(self) -> None:
        if self.outside is not None:
            self._probes = self.outside.results

    def look_ahead(self, now: datetime, moments: int = _MOMENTS) -> list[Happening]:
        """What happens from *now* on, until the object has come to rest, is gone, or begins a new attempt."""
        moment: datetime | None = now
        for _ in range(moments):
            if moment is None:
                break
            requeue = self._settle(moment)
            if self.body is None or self._begins_anew():
                break
            moment = min((at for at in self._moments(moment, requeue) if at > moment), default=None)
        return self._happenings

    def answer(self, probe: Probe, result: ProbeResult) -> None:
        """Have the next plans see this answer."""
        self._probes[probe] = result

    def settle(self, now: datetime) -> list[Happening]:
        """What happens at once."""
        self._settle(now)
        return self._happenings

    def _settle(self, now: datetime) -> timedelta | None:
        requeue = None
        for _ in range(_PASSES_OF_SERVICES if self.kind == RAYSERVICE else _PASSES):
            body = self.body
            obj = self.world.get(self.kind, self.namespace, self.name)
            if body is None or not isinstance(obj, RayObject):
                break
            plan = self.plan(
                Observed(
                    obj=obj,
                    now=now,
                    view=self.world,
                    probes=self._probes,
                    config=self.config,
                    gates=self.gates,
                    hooks=self.hooks,
                )
            )
            requeue, self.waiting = plan.requeue_after, plan.waiting
            if self._play(plan, now):
                if self._begins_anew():
                    break
            elif self.around is None or not self.around():
                break
        return requeue

    def _play(self, plan: Plan, now: datetime) -> bool:
        changed = False
        for event in plan.events:
            if event.type == "Warning":
                self._tell(now, f"a warning is given: {event.note}")
        for stage in plan.stages:
            for write in stage:
                changed |= self._write(write, now)
        body = self.body
        if plan.status is not None and body is not None and body.get("status") != plan.status:
            before = body.get("status") or {}
            body["status"] = copy.deepcopy(plan.status)
            self.world.put(self.kind, self.namespace, body)
            for sentence in _moves(self.kind, body, before, plan.status):
                self._tell(now, sentence)
            changed = True
        self.wanted = list(plan.probes)
        for probe in plan.probes:
            if self.outside is not None:
                changed |= self.outside.answer(probe, now)
            if isinstance(probe, SubmitJobCall) and probe.request not in self.requests:
                self.requests.append(probe.request)
            if isinstance(probe, JobLogsProbe) and probe not in self._probes:
                self._probes[probe] = ProbeResult("absent", now)
                changed = True
            if isinstance(probe, StopJobCall) and probe not in self._probes:
                self._probes[probe] = ProbeResult("found", now, value={"stopped": True})
                self._tell(now, f"Ray is asked to stop job {probe.job_id}")
                self._end_submitter(now)
                changed = True
        return changed

    def _write(self, write: Write, now: datetime) -> bool:
        key = (write.kind, write.namespace, write.name)
        before = copy.deepcopy(self.world.bodies.get(key))
        if not self.world.perform(write):
            return False
        after = self.world.bodies.get(key)
        what = f"{write.kind.kind} {write.name}"
        if isinstance(write, Delete):
            self._tell(now, f"{what} is deleted")
        elif before is None:
            self._tell(now, f"{what} is made")
        elif after is not None:
            for change in field_changes(before.get("spec"), after.get("spec"), ("spec",)):
                self._tell(now, f"{what}: {change.path} {_short(change.before)} -> {_short(change.after)}")
            for sentence in told_metadata(write.kind, write.name, before, after) if self.kind == RAYSERVICE else ():
                self._tell(now, sentence)
        return True

    def _end_submitter(self, now: datetime) -> None:
        """A submitter that follows a job ends when the job is stopped."""
        over = {"type": "Failed", "status": "True", "lastTransitionTime": format_time(now)}
        for kind, namespace, name in [key for key in self.world.bodies if key[0] == JOB]:
            self.world.bodies[kind, namespace, name]["status"] = {"conditions": [over]}
            self.world.put(kind, namespace, self.world.bodies[kind, namespace, name])

    def _tell(self, at: datetime, what: str) -> None:
        if all(told.what != what for told in self._happenings):
            self._happenings.append(Happening(at, what))

    def _begins_anew(self) -> bool:
        """Whether the next pass would begin another attempt, which goes its own way."""
        body = self.body
        if self.kind != RAYJOB or body is None or not self._happenings:
            return False
        state = (body.get("status") or {}).get("jobDeploymentStatus", "")
        return state == JobDeploymentStatus.NEW and any("tried again" in told.what for told in self._happenings)

    def _moments(self, now: datetime, requeue: timedelta | None) -> Iterator[datetime]:
        """When it is worth looking: at every limit that the object names, and when the plan itself asks to."""
        if requeue is not None and requeue >= (_A_MOMENT if self.kind == RAYSERVICE else _STEADY):
            yield now + requeue
        body = self.body
        if self.kind == RAYJOB and body is not None:
            yield from limits(body, self.config)


def limits(job: Mapping[str, Any], config: PlanConfig) -> Iterator[datetime]:
    """The moments that a RayJob's spec and status name, past ones too."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    strategy = spec.get("deletionStrategy") or {}
    started, ended = _time(status.get("startTime")), _time(status.get("endTime"))
    ray_ended = _time((status.get("rayJobInfo") or {}).get("endTime"))
    failing = _time(status.get("jobStatusCheckFailureStartTime"))
    for field_name in ("activeDeadlineSeconds", "preRunningDeadlineSeconds"):
        yield from _after(started, spec.get(field_name))
    yield from _after(ended, spec.get("ttlSecondsAfterFinished") or 0)
    for rule in strategy.get("deletionRules") or ():
        yield from _after(ended, (rule.get("condition") or {}).get("ttlSeconds") or 0)
    yield from _after(ray_ended, config.job_transition_grace.total_seconds())
    yield from _after(failing, config.job_status_check_timeout.total_seconds())


def _after(start: datetime | None, seconds: Any) -> Iterator[datetime]:
    if start is not None and isinstance(seconds, int | float) and 0 <= seconds < 10**9:
        yield start + timedelta(seconds=seconds)


def _time(value: Any) -> datetime | None:
    try:
        return parse_time(str(value)) if value else None
    except ValueError:
        return None


def _short(value: Any) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) and value else orjson.dumps(value, default=str).decode()
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 1]}…"


_STATES = {
    "Initializing": "an attempt starts",
    "Running": "the RayJob counts as running",
    "Waiting": "it waits for a job id",
    "Complete": "the RayJob ends as Complete",
    "Suspending": "the RayJob is suspended: what its attempt made is taken down",
    "Suspended": "everything is given back; it stays suspended until spec.suspend is false",
    "ValidationFailed": "the RayJob is refused: ValidationFailed",
}


def _moves(kind: Kind, body: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What a status write says has come about, in words."""
    if kind == RAYSERVICE:
        yield from service_moves(before, after)
    if kind != RAYJOB:
        return
    old, new = before.get("jobDeploymentStatus", ""), after.get("jobDeploymentStatus", "")
    if old == new:
        return
    reason, failed = after.get("reason") or "failure", after.get("failed") or 0
    tries = ((body.get("spec") or {}).get("backoffLimit") or 0) + 1
    if new == JobDeploymentStatus.FAILED:
        yield f"the RayJob fails: {reason}"
    elif new == JobDeploymentStatus.RETRYING:
        yield f"the attempt fails ({reason}) and is tried again, as attempt {failed + 1} of {tries}"
    elif new in _STATES:
        yield _STATES[new]


def at_once(happening: Happening, now: datetime) -> bool:
    """Whether it comes in the first pass."""
    return format_time(happening.at) <= format_time(now)
