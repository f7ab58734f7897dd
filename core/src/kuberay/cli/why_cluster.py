"""What is to be said about a RayCluster: what it waits for, since when, and what helps. Pure: from what was read.

What the operator wrote into the status comes first; what pods say for themselves is added, so that the answer is right
also while no operator runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from kuberay.api.condition_reference import RAYCLUSTER, find_entry
from kuberay.api.conditions import TRUE, ClusterCondition, TroubleReason, find_condition, is_true
from kuberay.api.names import MANAGED_BY
from kuberay.api.objects import Object, Pod, RayObject
from kuberay.cli.why_reading import conditions_of, time_in
from kuberay.cli.why_report import EventLine, Finding, PodLine, Report
from kuberay.plan.cluster.form import cluster_form
from kuberay.plan.cluster.not_ready import aggregate, group_of
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.cluster.pod_trouble import find_trouble
from kuberay.plan.cluster.sidecar_head import as_counted

_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
_SUSPENSION_RUNS = "It was suspended; that runs to its end before it resumes"
_MOST_PODS = 20
_MOST_EVENTS = 10
_TOLD_APART = frozenset(
    {
        ClusterCondition.PROVISIONED,
        ClusterCondition.HEAD_POD_READY,
        ClusterCondition.SPEC_VALID,
        ClusterCondition.SUSPENDED,
        ClusterCondition.SUSPENDING,
        ClusterCondition.PODS_NOT_READY,
        ClusterCondition.REPLICA_FAILURE,
    }
)
"""Conditions that have words of their own here, or say nothing about waiting."""
_REFUSED = frozenset(
    {
        TroubleReason.QUOTA_EXCEEDED,
        TroubleReason.ADMISSION_REFUSED,
        TroubleReason.NOT_PERMITTED,
        TroubleReason.POD_INVALID,
        TroubleReason.CREATE_FAILED,
    }
)
_LINE = re.compile(r".+?: (?P<reason>[A-Z]\w+): ")


@dataclass(slots=True)
class Seen:
    """What could be read. None: it could not, and *notes* says so."""

    obj: RayObject
    body: Mapping[str, Any]
    """The whole object."""
    pods: Sequence[Pod] | None = ()
    services: Sequence[Object] | None = ()
    events: Sequence[Mapping[str, Any]] | None = ()
    notes: list[str] = field(default_factory=list)

    @property
    def counted(self) -> Sequence[Pod] | None:
        """The pods as the operator counts them: a head that submits a RayJob without its ended submitter."""
        return None if self.pods is None else as_counted(self.pods, self.obj.metadata.labels)


def explain_cluster(seen: Seen, now: datetime) -> Report:
    """The whole answer."""
    obj = seen.obj
    report = Report(RAYCLUSTER, obj.namespace, obj.name, "", "", notes=list(seen.notes))
    report.events = warnings_of(seen.events or ())
    manager = obj.spec.get("managedBy")
    if manager not in (None, MANAGED_BY):
        report.state = "managed elsewhere"
        report.summary = f"spec.managedBy is {manager!r}: this operator leaves the cluster to it."
        return report
    if obj.deleting:
        _explain_deletion(seen, report)
        return report
    unseen = _not_looked_at(obj)
    if unseen is not None:
        report.findings.append(unseen)
    refused = find_condition(conditions_of(obj), ClusterCondition.SPEC_VALID)
    if refused is not None and refused.get("observedGeneration") == obj.metadata.generation:
        report.findings += _refusals(refused)
        report.state = "refused"
        report.summary = "The spec is refused. Nothing was made of it, and whatever ran before is left as it is."
        return report
    report.findings += _waits(obj)
    _add_pods(seen, report, now)
    _summarise(seen, report, now, unseen is not None)
    return report


def _not_looked_at(obj: RayObject) -> Finding | None:
    generation, seen = obj.metadata.generation, obj.status.get("observedGeneration") or 0
    if seen >= generation:
        return None
    if not obj.status:
        what, since = "No operator has looked at this object yet.", obj.metadata.creation_timestamp
    else:
        what = f"No operator has looked at the latest version of the spec yet: it is {generation}, the one known is {seen}."
        since = None
    advice = (
        "If this lasts longer than some seconds, check that the operator runs and watches this namespace: "
        "kubectl get lease ray-operator-leader -A; kubectl logs deployment/kuberay-operator -n NAMESPACE."
    )
    return Finding(what, "NotObserved", since, "transient", advice)


def _refusals(condition: Mapping[str, Any]) -> list[Finding]:
    message = str(condition.get("message", ""))
    since = time_in(condition.get("lastTransitionTime"))
    return [
        Finding(problem, str(condition.get("reason", "")), since, "terminal", "Correct the field.")
        for problem in re.split(r"; (?=(?:spec|metadata|status)\b)", message)
    ]


def _waits(obj: RayObject) -> list[Finding]:
    """What the status says."""
    findings = []
    conditions = conditions_of(obj)
    trouble = find_condition(conditions, ClusterCondition.PODS_NOT_READY)
    for condition in conditions:
        type_, told = str(condition.get("type")), condition.get("status") == TRUE
        if told and type_ not in _TOLD_APART:
            finding = _finding(condition, type_, str(condition.get("message", "")))
            findings += [finding] if finding.lasting != "normal" else []
    if trouble is not None:
        for line in str(trouble.get("message", "")).split("\n"):
            match = _LINE.match(line)
            reason = match["reason"] if match else TroubleReason.PLUGIN_DIAGNOSIS
            findings.append(_finding({**trouble, "reason": str(reason)}, ClusterCondition.PODS_NOT_READY, line))
    failure = find_condition(conditions, ClusterCondition.REPLICA_FAILURE)
    if failure is not None and not any(finding.reason in _REFUSED for finding in findings):
        message = " ".join(str(failure.get("message", "")).split())
        findings.append(_finding(failure, ClusterCondition.REPLICA_FAILURE, message))
    return findings


def _finding(condition: Mapping[str, Any], type_: str, what: str) -> Finding:
    reason = str(condition.get("reason", ""))
    entry = find_entry(RAYCLUSTER, type_, str(condition.get("status")), reason)
    since = time_in(condition.get("lastTransitionTime"))
    if entry is None:
        return Finding(what or type_, reason, since)
    return Finding(what or entry.meaning, reason, since, entry.lasting, entry.advice)


def _add_pods(seen: Seen, report: Report, now: datetime) -> None:
    """Pods that are not ready, and what of it the status does not say yet."""
    troubled = []
    for pod in seen.counted or ():
        if is_ready(pod) and not pod.deleting:
            continue
        trouble = find_trouble(pod, now)
        told = ""
        if trouble is not None and trouble.due <= now:
            troubled.append((pod, trouble))
            told = f"{trouble.text}: {trouble.detail}" if trouble.detail else trouble.text
        report.pods.append(PodLine(pod.name, group_of(pod), _state(pod), pod.metadata.creation_timestamp, told))
    if len(report.pods) > _MOST_PODS:
        report.notes.append(f"{len(report.pods) - _MOST_PODS} more pods are not ready")
        del report.pods[_MOST_PODS:]
    known = {finding.reason for finding in report.findings}
    for reason, line in aggregate(troubled, list(dict.fromkeys(group_of(pod) for pod, _ in troubled))):
        if reason not in known:
            entry = find_entry(RAYCLUSTER, ClusterCondition.PODS_NOT_READY, TRUE, reason)
            assert entry is not None
            since = min((p.metadata.creation_timestamp or now for p, t in troubled if t.reason == reason), default=None)
            report.findings.append(Finding(line, reason, since, entry.lasting, entry.advice))


def _state(pod: Pod) -> str:
    if pod.deleting:
        return "Terminating"
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.state.waiting is not None and status.state.waiting.reason:
            return status.state.waiting.reason
    return pod.status.phase or "Pending"


def _summarise(seen: Seen, report: Report, now: datetime, unseen: bool) -> None:
    obj = seen.obj
    try:
        wanted: int | None = cluster_form(obj).desired_workers + 1
    except ValidationError:
        wanted = None
    ready = sum(is_ready(pod) for pod in seen.counted) if seen.counted is not None else None
    counts = f"{ready} of {wanted} pods are ready" if None not in (ready, wanted) else "its pods are not known"
    conditions = conditions_of(obj)
    if obj.spec.get("suspend") or any(
        is_true(conditions, type_) for type_ in (ClusterCondition.SUSPENDING, ClusterCondition.SUSPENDED)
    ):
        left = len(seen.pods or ())
        report.state = "suspending" if left else "suspended"
        report.summary = f"{_suspender(seen)}; {f'{left} pods are still going' if left else _no_pod(seen)}."
    elif unseen:
        report.state = "not seen yet" if not obj.status else "waiting for the operator"
        report.summary = f"{_capital(counts)}."
    elif report.findings:
        report.state = "not ready" if ready != wanted else "ready, with problems"
        report.summary = f"{_capital(counts)}."
    elif ready == wanted and ready is not None:
        report.state = "ready"
        report.summary = f"Nothing is wrong: all {ready} pods are ready, and the operator has seen the latest spec."
    elif ready is None and obj.status.get("state") == "ready":
        report.state = "ready"
        report.summary = "Nothing is wrong as far as the status tells."
    else:
        report.state = "starting"
        report.summary = f"{_capital(counts)}; nothing is wrong so far."
    if seen.services is not None and not seen.services and obj.status and not report.findings:
        advice = "Look at the operator's log."
        report.findings.append(Finding("There is no head service.", "NoHeadService", None, "transient", advice))


def _no_pod(seen: Seen) -> str:
    return "no pod is left" if seen.pods is not None else "its pods are not known"


def _suspender(seen: Seen) -> str:
    """Who suspended the cluster, as far as the object tells."""
    if not seen.obj.spec.get("suspend"):
        ended = is_true(conditions_of(seen.obj), ClusterCondition.LIFECYCLE_ENDED)
        return "Its lifecycle has ended" if ended else _SUSPENSION_RUNS
    return suspender(seen.obj, seen.body, "cluster")


def suspender(obj: RayObject, body: Mapping[str, Any], called: str) -> str:
    """Who suspended an object, as far as it tells; *called* is its kind in the sentence."""
    if not obj.spec.get("suspend"):
        return _SUSPENSION_RUNS
    owner = obj.metadata.controller
    queue = obj.metadata.labels.get(_QUEUE_LABEL)
    if owner is not None:
        return f"spec.suspend is true; the {called} belongs to {owner.kind} {owner.name}, which decides about it"
    if queue:
        return f"spec.suspend is true; Kueue resumes the {called} when queue {queue} admits it"
    for entry in (body.get("metadata") or {}).get("managedFields") or ():
        fields = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:suspend" in fields:
            return f"spec.suspend is true, set by {entry.get('manager')} at {entry.get('time')}"
    return "spec.suspend is true"


def _explain_deletion(seen: Seen, report: Report) -> None:
    obj = seen.obj
    report.state = "being deleted"
    report.summary = f"It was deleted; {f'{len(seen.pods)} pods are left' if seen.pods else _no_pod(seen)}."
    if obj.metadata.finalizers:
        what = f"Finalizers hold it: {', '.join(obj.metadata.finalizers)}."
        advice = "Wait for whoever set them (ray.io/ ones: the operator); remove one only if its owner is gone."
        report.findings.append(Finding(what, "Finalizers", obj.metadata.deletion_timestamp, "transient", advice))
    report.findings += _waits(obj)


def warnings_of(events: Iterable[Mapping[str, Any]]) -> list[EventLine]:
    """The latest Warning events, newest first."""
    lines = []
    for event in events:
        if event.get("type") != "Warning":
            continue
        series, about = event.get("series") or {}, event.get("regarding") or {}
        time = series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("eventTime")
        time = str(time or (event.get("metadata") or {}).get("creationTimestamp") or "").partition(".")[0].rstrip("Z")
        count = series.get("count") or event.get("deprecatedCount") or 1
        where = f"{about.get('kind', '')} {about.get('name', '')}"
        note = " ".join(str(event.get("note", "")).split())
        lines.append(EventLine(f"{time}Z" if time else "", where, str(event.get("reason", "")), note, count))
    return sorted(lines, key=lambda line: line.time, reverse=True)[:_MOST_EVENTS]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
