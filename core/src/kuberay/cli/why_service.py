"""What is to be said about a RayService: which RayCluster serves, which is prepared, what they wait for, what comes next. Pure.

The chain is RayService, its RayClusters, their Serve applications, the service that clients use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from kuberay.api.condition_reference import RAYSERVICE, find_entry
from kuberay.api.conditions import FALSE, TRUE, ServiceCondition, ServiceReason, find_condition
from kuberay.api.names import (
    ANNOTATION_DELETE_AFTER,
    ANNOTATION_UPGRADE_ABORTED,
    ANNOTATION_UPGRADE_PAUSED,
    MANAGED_BY,
    RAYSERVICE_FINALIZER,
)
from kuberay.api.objects import RayObject
from kuberay.api.service import ServeApplicationStatus, ServeDeploymentStatus
from kuberay.cli.service_world import SIDES
from kuberay.cli.why_cluster import Seen, explain_cluster, warnings_of
from kuberay.cli.why_conditions import conditions_that_hold, last_lines
from kuberay.cli.why_reading import conditions_of, time_in
from kuberay.cli.why_report import Finding, Report, Step
from kuberay.cli.why_service_ahead import look_ahead
from kuberay.cli.why_service_state import SeenService, behind, where_it_stands

_TOLD_APART = frozenset(
    {
        ServiceCondition.READY,
        ServiceCondition.UPGRADE_IN_PROGRESS,
        ServiceCondition.ROLLBACK_IN_PROGRESS,
        ServiceCondition.SUSPENDING,
        ServiceCondition.SUSPENDED,
    }
)
_OF_ITS_CLUSTERS = frozenset({"HeadNotReady", "RayClusterSuspended", "RayClusterRefused"})
"""Reasons of which the RayCluster's own words say more."""
_ANNOTATIONS = {
    ANNOTATION_UPGRADE_PAUSED: "no upgrade moves or ends",
    ANNOTATION_UPGRADE_ABORTED: "an upgrade goes back, and no other RayCluster is prepared",
}


def explain_service(seen: SeenService, now: datetime) -> Report:
    """The whole answer."""
    obj = seen.obj
    report = Report(RAYSERVICE, obj.namespace, obj.name, "", "", notes=list(dict.fromkeys(seen.notes)))
    report.events = warnings_of(seen.events or ())
    manager = obj.spec.get("managedBy")
    if manager not in (None, MANAGED_BY):
        report.state = "managed elsewhere"
        report.summary = f"spec.managedBy is {manager!r}: this operator leaves the RayService to it."
        return report
    if obj.deleting:
        _explain_deletion(seen, report)
        return report
    report.state, report.summary = where_it_stands(seen)
    waiting = ""
    if obj.status and not seen.partial and seen.rules is not None:
        report.ahead, report.then, waiting = look_ahead(seen, seen.rules)
    of_clusters = _about_the_clusters(seen, report, now)
    known = {finding.reason for finding in of_clusters} | (_OF_ITS_CLUSTERS if of_clusters else set())
    told = [finding for finding in conditions_that_hold(RAYSERVICE, obj, _TOLD_APART) if finding.reason not in known]
    report.findings += [*_not_looked_at(obj), *_refusals(obj), *told, *_applications(seen, told), *of_clusters]
    if waiting and report.state not in _AT_REST and not _is_told(waiting, report.findings):
        report.findings.append(Finding(f"{waiting[:1].upper()}{waiting[1:]}.", "Waiting", None, "transient"))
    report.findings += _annotations(obj, report)
    if report.state == "ready" and report.findings:
        report.state = "ready, with problems"
    report.chain = list(_chain(seen))
    return report


def _is_told(waiting: str, findings: list[Finding]) -> bool:
    """Whether what the next pass waits for was told already, if in other words."""
    told = [" ".join(finding.what.split()) for finding in findings]
    start = re.match(r"application \S+ of RayCluster ", waiting)
    about = start[0] if start is not None else " ".join(waiting.split())
    return any(about in each for each in told)


_AT_REST = ("suspended", "gave up", "refused")
"""What these wait for is their summary already."""


def _not_looked_at(obj: RayObject) -> Iterator[Finding]:
    generation, known = obj.metadata.generation, obj.status.get("observedGeneration") or 0
    if known >= generation:
        return
    what, since = "No operator has looked at this object yet.", obj.metadata.creation_timestamp
    if obj.status:
        ready = find_condition(conditions_of(obj), ServiceCondition.READY) or {}
        if ready.get("reason") == ServiceReason.VALIDATION_FAILED:
            return
        what = f"No operator has looked at the latest version of the spec yet: it is {generation}, the one known is {known}."
        since = None
    advice = (
        "If this lasts longer than some seconds, check that the operator runs and watches this namespace: "
        "kubectl get lease ray-operator-leader -A; kubectl logs deployment/kuberay-operator -n NAMESPACE."
    )
    yield Finding(what, "NotObserved", since, "transient", advice)


def _refusals(obj: RayObject) -> Iterator[Finding]:
    """Conditions that say so by being False: a refusal, a timeout, and a service that has served and does not."""
    ready = find_condition(conditions_of(obj), ServiceCondition.READY)
    if ready is None or ready.get("status") != FALSE:
        return
    reason = str(ready.get("reason") or "")
    if reason == ServiceReason.INITIALIZING:
        return
    entry = find_entry(RAYSERVICE, ServiceCondition.READY, FALSE, reason)
    if entry is None or reason in (ServiceReason.SUSPEND_COMPLETE, ServiceReason.SUSPEND_IN_PROGRESS):
        return
    since = time_in(ready.get("lastTransitionTime"))
    yield Finding(str(ready.get("message") or entry.meaning), reason, since, entry.lasting, entry.advice)


def _applications(seen: SeenService, known: list[Finding]) -> list[Finding]:
    """Those that do not run, with Serve's own words, unless a condition has told of them."""
    findings = []
    for cluster, name, app in _all_applications(seen):
        state = str(app.get("status") or "unknown")
        if state == ServeApplicationStatus.RUNNING or any(f"application {name} " in each.what for each in known):
            continue
        words = last_lines(str(app.get("message") or ""))
        what = f"application {name} of RayCluster {cluster} is {state}{f': {words}' if words else ''}"
        of_deployments = _deployments(app)
        if of_deployments:
            what = f"{what}; {of_deployments}"
        failed = state in (ServeApplicationStatus.DEPLOY_FAILED, ServeApplicationStatus.UNHEALTHY)
        reason = {"DEPLOY_FAILED": "ApplicationDeployFailed", "UNHEALTHY": "ApplicationUnhealthy"}.get(state, state)
        entry = find_entry(RAYSERVICE, ServiceCondition.WAITING, TRUE, reason) if failed else None
        advice = entry.advice if entry is not None else "Look at the Serve page of the dashboard if this lasts."
        lasting = entry.lasting if entry is not None else "transient"
        findings.append(Finding(what, reason, None, lasting, advice))
    return findings


def _deployments(app: Mapping[str, Any]) -> str:
    told = []
    for name, each in (app.get("serveDeploymentStatuses") or {}).items():
        if each.get("status") != ServeDeploymentStatus.HEALTHY:
            words = " ".join(str(each.get("message") or "").split())
            told.append(f"deployment {name} is {each.get('status')}{f': {words}' if words else ''}")
    return "; ".join(told)


def _all_applications(seen: SeenService) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """RayCluster, name and what Serve says."""
    for key in SIDES:
        side = seen.obj.status.get(key) or {}
        for name, app in (side.get("applicationStatuses") or {}).items():
            yield str(side.get("rayClusterName") or ""), name, app


def _about_the_clusters(seen: SeenService, report: Report, now: datetime) -> list[Finding]:
    """The RayClusters' own explanations: what keeps the one that is prepared, or ails the one that serves."""
    findings: list[Finding] = []
    for name in (seen.active, seen.pending):
        cluster = seen.cluster(name)
        if cluster is None:
            continue
        told = explain_cluster(cluster, now)
        report.pods += told.pods
        report.events = sorted([*report.events, *told.events], key=lambda line: line.time, reverse=True)
        for finding in told.findings:
            finding.what = f"RayCluster {name}: {finding.what}"
        if told.state in ("suspended", "suspending", "managed elsewhere", "being deleted") and not told.findings:
            told.findings.append(Finding(f"RayCluster {name}: {told.summary}", told.state, None, "transient"))
        findings += told.findings
    return findings


def _annotations(obj: RayObject, report: Report) -> Iterator[Finding]:
    """Annotations that hold upgrades, unless a condition has told of one that is held."""
    for name, effect in _ANNOTATIONS.items():
        if obj.metadata.annotations.get(name, "").strip().lower() != "true":
            continue
        remove = f"kubectl annotate rayservice {obj.name} -n {obj.namespace} {name}-"
        told = [finding for finding in report.findings if name in finding.what]
        for finding in told:
            finding.advice = f"{finding.advice} {remove}".strip()
        if not told:
            yield Finding(f"Annotation {name} is set: {effect}.", "Annotation", None, "terminal", f"{remove}")


def _chain(seen: SeenService) -> Iterator[Step]:
    status = seen.obj.status
    for key, word in zip(SIDES, ("active", "pending"), strict=True):
        side = status.get(key) or {}
        name = str(side.get("rayClusterName") or "")
        if not name:
            continue
        yield Step(f"RayCluster {name} ({word})", _cluster_state(seen, seen.cluster(name)) + _share(side))
        for app, told in (side.get("applicationStatuses") or {}).items():
            yield Step(f"application {app} on RayCluster {name}", str(told.get("status") or "unknown"))
    for cluster in seen.clusters:
        if cluster.obj.name not in (seen.active, seen.pending):
            due = cluster.obj.metadata.annotations.get(ANNOTATION_DELETE_AFTER)
            state = (
                "is being deleted" if cluster.obj.deleting else f"is deleted at {due}" if due else "is to be deleted"
            )
            yield Step(f"RayCluster {cluster.obj.name} (no longer used)", state)
    if status and seen.active:
        yield Step("requests", behind(seen))


def _cluster_state(seen: SeenService, cluster: Seen | None) -> str:
    if cluster is None:
        return "is not known" if any("RayCluster" in note for note in seen.notes) else "is not there"
    if cluster.obj.deleting:
        return "is being deleted"
    return str(cluster.obj.status.get("state") or "not ready yet")


def _share(side: Mapping[str, Any]) -> str:
    capacity, traffic = side.get("targetCapacity"), side.get("trafficRoutedPercent")
    told = "" if capacity is None else f", {capacity} % of its capacity"
    return told if traffic is None else f"{told}, {traffic} % of the requests"


def _explain_deletion(seen: SeenService, report: Report) -> None:
    obj = seen.obj
    left = [cluster.obj.name for cluster in seen.clusters]
    report.state = "being deleted"
    rest = f"RayClusters still going: {', '.join(left)}" if left else "nothing is left of it"
    report.summary = f"It was deleted; {rest}."
    if obj.metadata.finalizers:
        what = f"Finalizers hold it: {', '.join(obj.metadata.finalizers)}."
        advice = (
            f"The operator waits for its RayClusters, five minutes at most, and then takes its own ({RAYSERVICE_FINALIZER}) "
            "away; check that the operator runs. Others: whoever set them."
        )
        report.findings.append(Finding(what, "Finalizers", obj.metadata.deletion_timestamp, "transient", advice))
    report.chain = [Step(f"RayCluster {cluster.obj.name}", _cluster_state(seen, cluster)) for cluster in seen.clusters]
