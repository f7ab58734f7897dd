"""What one pass over a RayCronJob does: which start is due, whether it is made, and when to look again.

Source: spec rayjob.md 5.2. All is recomputed from the time of the pass: no timer is trusted, and a clock that was set back
or forward makes no start twice.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from kuberay.api.conditions import FALSE, TRUE, CronCondition, find_condition
from kuberay.api.cron import parse_schedule
from kuberay.api.cronjob import RayCronJobSpec
from kuberay.api.kinds import RAYJOB
from kuberay.api.objects import RayObject
from kuberay.api.problems import Problem
from kuberay.api.times import format_time
from kuberay.api.validation.cronjob import read_zone
from kuberay.plan.cronjob import acceptance, concurrency, history
from kuberay.plan.cronjob.child import build_child, child_name
from kuberay.plan.cronjob.children import Children, children_of, starts_made
from kuberay.plan.cronjob.due import Due, due_start, skipped, too_late
from kuberay.plan.cronjob.status import Says, handled_until, status_to_write
from kuberay.plan.cronjob.ticks import Ticks
from kuberay.plan.model import Create, Event, Plan, Write, WriteFailure
from kuberay.plan.observed import Observed

_VALID = Says(CronCondition.ACCEPTED, TRUE, "Valid", "the schedule and the template are fine")

_AHEAD = timedelta(days=36525)
"""Nobody's clock is further off; later times would leave the calendar."""


@dataclass(frozen=True, slots=True)
class _Start:
    """What came of the question whether something is to be started."""

    handled: datetime | None = None
    """The newest start that is made or given up once this plan has been performed."""
    writes: tuple[list[Write], ...] = ()
    events: tuple[Event, ...] = ()
    delay: Says | None = None
    look_at: datetime | None = None


def plan_cronjob(observed: Observed) -> Plan:
    """The plan of one pass over a RayCronJob. Never raises for anything the object says."""
    obj = observed.obj
    if obj.deleting:
        # Its RayJobs follow by their owner references.
        return Plan()
    spec = acceptance.read_spec(obj)
    problems = spec if not isinstance(spec, RayCronJobSpec) else acceptance.problems_of(observed, spec)
    children = children_of(observed)
    if problems or not isinstance(spec, RayCronJobSpec):
        return _refused(observed, children, problems)
    if spec.suspend:
        return _suspended(observed, spec, children)
    recorded = min(handled_until(obj) or obj.metadata.creation_timestamp or observed.now, observed.now + _AHEAD)
    made = starts_made(obj.name, children)
    base = max([recorded, *made])
    ticks = ticks_of(observed, spec, base)
    upcoming = ticks.after(max(base, observed.now))
    due = due_start(ticks, base, observed.now, spec.starting_deadline_seconds)
    if observed.failure is not None:
        return _failed(observed, children, upcoming, observed.failure, pending=due is not None)
    start = _Start() if due is None else _start(observed, spec, children, ticks, due)
    plan = Plan(stages=list(start.writes), events=[*_catch_up(observed, spec, recorded, made), *start.events])
    tidying = history.surplus(spec, children, handled_until(obj))
    if tidying:
        plan.stages.append(tidying)
    conditions = [_VALID, start.delay] if start.delay is not None else [_VALID]
    plan.status = status_to_write(
        obj, children, handled=start.handled, upcoming=upcoming, conditions=conditions, now=observed.now
    )
    plan.waiting = start.delay.message if start.delay else f"the next RayJob starts at {format_time(upcoming)}"
    wake = min(upcoming, start.look_at) if start.look_at is not None else upcoming
    plan.requeue_after = wake - observed.now
    return plan


def _catch_up(observed: Observed, spec: RayCronJobSpec, recorded: datetime, made: list[datetime]) -> list[Event]:
    """What is to be told with a status that does not know of the newest RayJob yet (CJ-01): a lost write, or the end of
    this very pass."""
    if not made or made[-1] <= recorded:
        return []
    before = max([recorded, *made[:-1]])
    sentence = skipped(ticks_of(observed, spec, before), before, made[-1])
    return [Event("MissedSchedule", sentence, "Warning", "Schedule")] if sentence else []


def ticks_of(observed: Observed, spec: RayCronJobSpec, base: datetime) -> Ticks:
    """The starts of an accepted spec. Without ``timeZone`` the operator's own zone holds, as in KubeRay."""
    zone = read_zone(spec.time_zone) if spec.time_zone else None
    return Ticks(parse_schedule(spec.schedule), zone or observed.config.local_zone, base)


def _start(observed: Observed, spec: RayCronJobSpec, children: Children, ticks: Ticks, due: Due) -> _Start:
    obj = observed.obj
    name = child_name(obj.name, due.tick, dense=ticks.dense)
    where = f"{obj.namespace}/{name}"
    missed = (Event("MissedSchedule", due.skipped, "Warning", "Schedule"),) if due.skipped else ()
    live = observed.view.get(RAYJOB, obj.namespace, name)
    if live is not None and live.metadata.controller is not None and live.metadata.controller.uid == obj.uid:
        # Ours without its annotation.
        return _Start(handled=due.tick, events=missed)
    if due.late:
        return _Start(handled=due.tick, events=(*missed, Event("MissedSchedule", too_late(due), "Warning", "Schedule")))
    if live is not None:
        return _wait(obj, due, "NameTaken", _taken(where), warning=True)
    reason = concurrency.held_by(spec.policy, children.active, due.tick)
    if reason:
        return _wait(obj, due, "JobAlreadyActive", reason)
    create = Create(
        kind=RAYJOB,
        namespace=obj.namespace,
        name=name,
        body=lambda: build_child(obj, spec, name, due.tick),
        done=Event("CreatedRayJob", f"Created RayJob {where}", action="Create"),
        failed=lambda error: Event(
            "FailedToCreateRayJob", f"Failed to create RayJob {where}: {error}", "Warning", "Create"
        ),
    )
    replaced = concurrency.replaced(spec.policy, children.active)
    writes: tuple[list[Write], ...] = (replaced, [create]) if replaced else ([create],)
    return _Start(handled=due.tick, writes=writes, events=missed)


def _wait(obj: RayObject, due: Due, reason: str, message: str, *, warning: bool = False) -> _Start:
    """The start stays due; that is told once."""
    stored = find_condition(obj.status.get("conditions") or [], CronCondition.START_DELAYED)
    news = stored is None or stored.get("message") != message
    events = (Event(reason, message, "Warning" if warning else "Normal", "Schedule"),) if news else ()
    look_at = due.deadline + timedelta(seconds=1) if due.deadline is not None else None
    return _Start(delay=Says(CronCondition.START_DELAYED, TRUE, reason, message), events=events, look_at=look_at)


def _taken(where: str) -> str:
    return f"RayJob {where} already exists and is not owned by this RayCronJob; rename one of them"


def _refused(observed: Observed, children: Children, problems: list[Problem]) -> Plan:
    obj, sentence = observed.obj, acceptance.sentence(problems)
    says = Says(CronCondition.ACCEPTED, FALSE, "Invalid", sentence)
    return Plan(
        events=acceptance.refusal(obj, problems),
        status=status_to_write(obj, children, handled=None, upcoming=None, conditions=[says], now=observed.now),
        waiting=f"the RayCronJob is refused: {sentence}",
    )


def _suspended(observed: Observed, spec: RayCronJobSpec, children: Children) -> Plan:
    obj = observed.obj
    says = Says(CronCondition.SUSPENDED, TRUE, "Suspended", "spec.suspend is true; no RayJob is started")
    plan = Plan(waiting=says.message)
    if find_condition(obj.status.get("conditions") or [], CronCondition.SUSPENDED) is None:
        note = "RayCronJob suspended, no new RayJobs will be created"
        plan.events.append(Event("SuspendedRayCronJob", note, action="Suspend"))
    tidying = history.surplus(spec, children, handled_until(obj))
    if tidying and observed.failure is None:
        plan.stages.append(tidying)
    plan.status = status_to_write(
        obj, children, handled=None, upcoming=None, conditions=[_VALID, says], now=observed.now
    )
    return plan


def _failed(
    observed: Observed, children: Children, upcoming: datetime, failure: WriteFailure, *, pending: bool
) -> Plan:
    """A write of this pass failed: the start stays due until it succeeds or the next one comes."""
    sentence = f"{failure.kind} {failure.name}: {failure.message}"
    conditions = [_VALID]
    if pending:
        reason = "NameTaken" if failure.reason == "NotOwnedError" else failure.reason or "WriteFailed"
        message = _taken(f"{observed.obj.namespace}/{failure.name}") if reason == "NameTaken" else sentence
        conditions.append(Says(CronCondition.START_DELAYED, TRUE, reason, message))
    status = status_to_write(
        observed.obj, children, handled=None, upcoming=upcoming, conditions=conditions, now=observed.now
    )
    return Plan(status=status, waiting=sentence, look_by=upcoming - observed.now)
