"""What is to be said about a RayCronJob: when it starts next, what it started last, and why it starts nothing. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from kuberay.api.condition_reference import find_entry
from kuberay.api.condition_reference.entry import RAYCRONJOB
from kuberay.api.conditions import FALSE, TRUE, CronCondition, find_condition
from kuberay.api.cronjob import ConcurrencyPolicy, RayCronJobSpec
from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.api.kinds import RAYJOB
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time
from kuberay.api.validation.cronjob import read_zone
from kuberay.cli.why_cluster import suspender, warnings_of
from kuberay.cli.why_reading import conditions_of, time_in
from kuberay.cli.why_report import Ahead, Finding, Report, Step
from kuberay.plan.cronjob.acceptance import problems_of, read_spec
from kuberay.plan.cronjob.child import child_name
from kuberay.plan.cronjob.children import Children, children_of, scheduled_for
from kuberay.plan.cronjob.due import due_start
from kuberay.plan.cronjob.reconcile import ticks_of
from kuberay.plan.cronjob.status import handled_until
from kuberay.plan.cronjob.ticks import Ticks
from kuberay.plan.observed import FixedView, Observed

_DAWN = datetime.min.replace(tzinfo=UTC)
_STARTS = 3
_MOST_CHILDREN = 5
_PATIENCE = timedelta(seconds=30)
"""A start may come so late before it is said that no operator looks."""


@dataclass(slots=True)
class SeenCronJob:
    """What could be read. None: it could not, and *notes* says so."""

    obj: RayObject
    body: Mapping[str, Any]
    jobs: Sequence[RayObject] | None = ()
    events: Sequence[Mapping[str, Any]] | None = ()
    notes: list[str] = field(default_factory=list)


def explain_cronjob(seen: SeenCronJob, now: datetime) -> Report:
    """The whole answer."""
    obj = seen.obj
    report = Report(RAYCRONJOB, obj.namespace, obj.name, "", "", notes=list(dict.fromkeys(seen.notes)))
    report.events = warnings_of(seen.events or ())
    observed = Observed(obj=obj, now=now, view=FixedView((RAYJOB, job) for job in seen.jobs or ()), gates=DEFAULT_GATES)
    children = children_of(observed)
    report.chain = _chain(children)
    if obj.deleting:
        report.state, report.summary = "being deleted", "It was deleted; its RayJobs go with it."
        return report
    spec = read_spec(obj)
    problems = spec if isinstance(spec, list) else problems_of(observed, spec)
    if problems or isinstance(spec, list):
        report.state = "refused"
        report.summary = "The spec is refused: no RayJob is started. RayJobs that exist go on."
        told = find_condition(conditions_of(obj), CronCondition.ACCEPTED) or {}
        since = time_in(told.get("lastTransitionTime"))
        report.findings = [
            Finding(str(problem), "Invalid", since, "terminal", "Correct the field.") for problem in problems
        ]
        return report
    refusal = find_condition(conditions_of(obj), CronCondition.ACCEPTED)
    if (
        refusal is not None
        and refusal.get("status") == FALSE
        and refusal.get("observedGeneration") == obj.metadata.generation
    ):
        # By rules that this version of the command does not have, or gates that are on.
        report.findings += _refusals(refusal)
    if spec.suspend:
        report.state = "suspended"
        report.summary = f"{suspender(obj, seen.body, 'RayCronJob')}; nothing is started until it is false."
        if children.active:
            report.summary += f" RayJobs that run go on: {_names(children)}."
        return report
    _explain_starts(report, observed, spec, children)
    return report


def _explain_starts(report: Report, observed: Observed, spec: RayCronJobSpec, children: Children) -> None:
    obj, now = observed.obj, observed.now
    base = handled_until(obj) or obj.metadata.creation_timestamp or now
    ticks = ticks_of(observed, spec, base)
    due = due_start(ticks, base, now, spec.starting_deadline_seconds)
    delayed = find_condition(conditions_of(obj), CronCondition.START_DELAYED)
    if delayed is not None and delayed.get("status") == TRUE:
        report.findings.append(_delay(delayed))
    elif due is not None:
        report.findings += _overdue(obj, spec, children, due.tick, late=due.late, now=now)
    elif not obj.status:
        report.findings.append(_not_looked_at(obj))
    if spec.time_zone is None and not obj.status.get("nextScheduleTime"):
        report.notes.append("spec.timeZone is not set: the operator's own zone decides, taken to be UTC here")
    report.ahead = [Ahead(start, _start(obj, spec, ticks, start)) for start in _upcoming(ticks, max(base, now))]
    if spec.policy == ConcurrencyPolicy.FORBID and children.active and not report.findings:
        report.notes.append(f"concurrencyPolicy is Forbid: the next start waits while {_names(children)} has not ended")
    last = obj.status.get("lastScheduleTime")
    report.state = "start delayed" if report.findings else "running" if children.active else "waiting for its time"
    upcoming = report.ahead[0] if report.ahead else None
    told = f"The next start is {_local(upcoming.at, spec)}" if upcoming is not None else "No start is ahead"
    report.summary = f"{told}; {f'the last one was {_last(last, spec)}' if last else 'nothing has been started yet'}."


def _last(last: Any, spec: RayCronJobSpec) -> str:
    moment = time_in(last)
    return _local(moment, spec) if moment is not None else str(last)


def _delay(condition: Mapping[str, Any]) -> Finding:
    reason = str(condition.get("reason", ""))
    entry = find_entry(RAYCRONJOB, CronCondition.START_DELAYED, TRUE, reason)
    lasting, advice = (entry.lasting, entry.advice) if entry is not None else ("", "")
    since = time_in(condition.get("lastTransitionTime"))
    return Finding(str(condition.get("message")), reason, since, lasting, advice)


def _overdue(
    obj: RayObject, spec: RayCronJobSpec, children: Children, tick: datetime, *, late: bool, now: datetime
) -> list[Finding]:
    """A start has come and is not on record."""
    if any(scheduled_for(job) == tick for job in (*children.active, *children.complete, *children.failed)):
        return []
    if late:
        what = f"The start of {format_time(tick)} was missed by more than startingDeadlineSeconds; it is given up."
        advice = "Raise spec.startingDeadlineSeconds, or find out why no operator looked at that time."
        return [Finding(what, "DeadlineMissed", tick, "transient", advice)]
    if spec.policy == ConcurrencyPolicy.FORBID and children.active:
        what = (
            f"The start of {format_time(tick)} waits: concurrencyPolicy is Forbid and {_names(children)} has not ended."
        )
        entry = find_entry(RAYCRONJOB, CronCondition.START_DELAYED, TRUE, "JobAlreadyActive")
        return [Finding(what, "JobAlreadyActive", tick, "transient", entry.advice if entry is not None else "")]
    if now - tick < _PATIENCE:
        return []
    finding = _not_looked_at(obj)
    finding.what = f"The start of {format_time(tick)} has come, and no operator has made its RayJob."
    finding.since = tick
    return [finding]


def _not_looked_at(obj: RayObject) -> Finding:
    gate = (
        ""
        if DEFAULT_GATES.get(CRON_JOB)
        else f"RayCronJobs are served only with the feature gate {CRON_JOB}: kuberay run --feature-gates={CRON_JOB}=true. "
    )
    advice = (
        f"{gate}Check that the operator runs and watches this namespace: kubectl get lease ray-operator-leader -A; "
        "kubectl logs deployment/kuberay-operator -n NAMESPACE."
    )
    what = "No operator has looked at this object yet."
    return Finding(what, "NotObserved", obj.metadata.creation_timestamp, "transient", advice)


def _refusals(condition: Mapping[str, Any]) -> list[Finding]:
    since = time_in(condition.get("lastTransitionTime"))
    return [
        Finding(problem, str(condition.get("reason", "")), since, "terminal", "Correct the field.")
        for problem in re.split(r"; (?=(?:spec|metadata)\b)", str(condition.get("message", "")))
    ]


def _chain(children: Children) -> list[Step]:
    """The latest RayJobs, newest first."""
    jobs = sorted(
        [*children.active, *children.complete, *children.failed],
        key=lambda job: (scheduled_for(job) or job.metadata.creation_timestamp or _DAWN, job.name),
        reverse=True,
    )
    steps = []
    for job in jobs[:_MOST_CHILDREN]:
        start = scheduled_for(job)
        when = f" (start of {format_time(start)})" if start is not None else ""
        steps.append(Step(f"RayJob {job.name}{when}", _result(job)))
    if len(jobs) > _MOST_CHILDREN:
        steps.append(Step("earlier RayJobs", str(len(jobs) - _MOST_CHILDREN)))
    return steps


def _result(job: RayObject) -> str:
    status = job.status
    state = status.get("jobDeploymentStatus") or "has not started"
    if job.deleting:
        return f"{state}, is being deleted"
    if state == "Failed":
        last = str(status.get("message") or "").strip().splitlines()
        return f"Failed: {status.get('reason')}{f': {last[-1]}' if last else ''} (kuberay why rayjob/{job.name})"
    told = status.get("jobStatus")
    ended = f" at {status['endTime']}" if status.get("endTime") else ""
    return f"{state}{f', {told}' if told else ''}{ended}"


def _upcoming(ticks: Ticks, moment: datetime) -> list[datetime]:
    found: list[datetime] = []
    for _ in range(_STARTS):
        moment = ticks.after(moment)
        found.append(moment)
    return found


def _start(obj: RayObject, spec: RayCronJobSpec, ticks: Ticks, start: datetime) -> str:
    zone = read_zone(spec.time_zone) if spec.time_zone else None
    where = f" ({start.astimezone(zone):%a %H:%M} {zone})" if zone is not None else ""
    return f"start of RayJob {child_name(obj.name, start, dense=ticks.dense)}{where}"


def _local(moment: datetime, spec: RayCronJobSpec) -> str:
    zone = read_zone(spec.time_zone) if spec.time_zone else None
    return (
        f"{format_time(moment)}{f' ({moment.astimezone(zone):%a %Y-%m-%d %H:%M} {zone})' if zone is not None else ''}"
    )


def _names(children: Children) -> str:
    names = [job.name for job in children.active]
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
