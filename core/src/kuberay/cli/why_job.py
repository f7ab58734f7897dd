"""What is to be said about a RayJob: where it stands, what it waits for, what helps, and what comes next. Pure.

The chain is RayJob, RayCluster, submitter, Ray. What comes next is asked of the operator's own plan (`foresight`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kuberay.api.condition_reference import RAYJOB
from kuberay.api.conditions import FALSE, JobCondition, find_condition
from kuberay.api.job import JobDeploymentStatus, JobFailedReason, JobSubmissionMode
from kuberay.api.names import MANAGED_BY
from kuberay.api.objects import RayObject
from kuberay.cli.why_ahead import look_ahead
from kuberay.cli.why_cluster import explain_cluster, warnings_of
from kuberay.cli.why_conditions import conditions_that_hold, last_lines
from kuberay.cli.why_job_state import SeenJob, where_it_stands
from kuberay.cli.why_reading import conditions_of, time_in
from kuberay.cli.why_report import Finding, Report, Step
from kuberay.cli.why_submitter import job_findings, job_step, pod_lines, sidecar_step

State = JobDeploymentStatus
_TOLD_APART = frozenset(
    {
        JobCondition.ACCEPTED,
        JobCondition.CLUSTER_READY,
        JobCondition.SUBMITTED,
        JobCondition.RUNNING,
        JobCondition.FINISHED,
    }
)
_OVER = {
    JobFailedReason.APP_FAILED: "Read the job's log: the last lines of its message are above.",
    JobFailedReason.SUBMISSION_FAILED: (
        "The job never reached Ray. Look at the submitter's log; a wrong runtimeEnvYAML, entrypointResources or "
        "submitterPodTemplate is the usual cause."
    ),
    JobFailedReason.DEADLINE_EXCEEDED: "Raise spec.activeDeadlineSeconds, or find out what made the job slow.",
    JobFailedReason.PRE_RUNNING_DEADLINE_EXCEEDED: (
        "The job did not get to run in time: kuberay why raycluster/NAME tells what kept its cluster. "
        "Raise spec.preRunningDeadlineSeconds if that is normal."
    ),
    JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED: (
        "The dashboard did not answer for too long: look at the head pod and at network policies between the operator "
        "and port 8265."
    ),
    JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED: (
        "Submitter and Ray did not agree on an end in time: look at the submitter's log and the head's dashboard."
    ),
}
"""What helps after a failure, by ``status.reason``."""


def explain_job(seen: SeenJob, now: datetime) -> Report:
    """The whole answer."""
    obj, status = seen.obj, seen.obj.status
    report = Report(RAYJOB, obj.namespace, obj.name, "", "", notes=list(dict.fromkeys(seen.notes)))
    report.events = warnings_of(seen.events or ())
    manager = obj.spec.get("managedBy")
    if manager not in (None, "", MANAGED_BY):
        report.state = "managed elsewhere"
        report.summary = f"spec.managedBy is {manager!r}: this operator leaves the RayJob to it, and writes no status."
        return report
    if obj.deleting:
        _explain_deletion(obj, report)
        _add_chain(seen, report)
        return report
    state = status.get("jobDeploymentStatus") or ""
    refusal = find_condition(conditions_of(obj), JobCondition.ACCEPTED)
    if refusal is not None and refusal.get("status") == FALSE:
        report.findings += _refusals(refusal, stops=state in ("", State.VALIDATION_FAILED))
    elif state == State.VALIDATION_FAILED:
        report.findings.append(Finding(str(status.get("message")), "Invalid", None, "terminal", "Correct the field."))
    report.findings += conditions_that_hold(RAYJOB, obj, _TOLD_APART)
    if not status:
        report.findings.append(_not_looked_at(obj))
    report.state, report.summary = where_it_stands(seen, state)
    _add_findings(seen, report, state, now)
    _add_chain(seen, report)
    lines, troubles = pod_lines(seen.submitter_pods, now)
    report.pods += lines
    report.findings += troubles
    report.logs = seen.logs
    # An operator names the RayCluster before it goes on; a status without it was made up by somebody.
    odd = state == State.INITIALIZING and not status.get("rayClusterName")
    report.ahead = [] if seen.partial or odd or not status else look_ahead(seen, now)
    return report


def _add_findings(seen: SeenJob, report: Report, state: str, now: datetime) -> None:
    obj, status = seen.obj, seen.obj.status
    mode = obj.spec.get("submissionMode") or JobSubmissionMode.K8S_JOB
    if state == State.WAITING:
        report.findings.append(_how_to_tell_the_id(obj))
    if state == State.FAILED:
        message = last_lines(str(status.get("message") or "no message was left"))
        advice = (
            _OVER.get(JobFailedReason(status["reason"]), "") if status.get("reason") in set(JobFailedReason) else ""
        )
        since = time_in(status.get("endTime"))
        report.findings.append(Finding(message, str(status.get("reason") or ""), since, "terminal", advice))
    elif state in (State.RUNNING, State.RETRYING) and status.get("message"):
        report.chain.append(Step("Ray's last words", last_lines(str(status["message"]))))
    failing = time_in(status.get("jobStatusCheckFailureStartTime"))
    if failing is not None and state in (State.INITIALIZING, State.RUNNING):
        who = (
            "the job cannot be handed in or asked about"
            if mode == JobSubmissionMode.HTTP
            else "nobody can ask about the job"
        )
        what = f"The dashboard {status.get('dashboardURL') or ''} gives the operator no good answer: {who}."
        advice = (
            f"Look at the head pod, and whether the operator reaches it: kubectl port-forward -n {obj.namespace} "
            f"svc/{obj.name}-head-svc 8265, then curl localhost:8265/api/jobs/."
        )
        report.findings.append(Finding(what, "DashboardUnreachable", failing, "transient", advice))
    going = state in (State.SUSPENDING, State.RETRYING) and seen.cluster is not None
    if going or state in (State.INITIALIZING, State.WAITING, State.RUNNING):
        report.findings += _about_the_cluster(seen, report, now)
    if mode == JobSubmissionMode.K8S_JOB and state in (State.INITIALIZING, State.RUNNING, State.FAILED):
        own = f"Its log: kubectl logs -n {obj.namespace} job/{obj.name}."
        found = job_findings(seen.job, seen.submitter_pods, obj.uid, own)
        report.findings += [finding for finding in found if finding.reason != status.get("reason")]
        if seen.job is None and state == State.RUNNING and not status.get("jobStatus"):
            what = "The submitter Job is gone, and Ray does not know the job."
            report.findings.append(Finding(what, "NoSubmitter", None, "transient", "The operator makes it anew."))
    report.findings += _kueue(seen)


def _how_to_tell_the_id(obj: RayObject) -> Finding:
    where = f"rayjob {obj.name} -n {obj.namespace}"
    address = obj.status.get("dashboardURL") or "its dashboard"
    advice = (
        f"Submit the job to http://{address} (kubectl port-forward -n {obj.namespace} svc/"
        f"{str(address).split('.')[0]} 8265, then ray job submit --address http://localhost:8265 …), and tell its id: "
        f'kubectl patch {where} --type merge -p \'{{"spec":{{"jobId":"ID"}}}}\''
    )
    since = time_in(obj.status.get("startTime"))
    return Finding(
        "spec.jobId is empty: nobody has told which job it is.", "WaitingForJobID", since, "transient", advice
    )


def _about_the_cluster(seen: SeenJob, report: Report, now: datetime) -> list[Finding]:
    """The RayCluster's own explanation, when it is what the job waits for or what may break it."""
    obj = seen.obj
    name = obj.status.get("rayClusterName")
    if seen.cluster is None:
        if not name or any("RayCluster" in note for note in report.notes):
            return []
        known = {finding.reason for finding in report.findings}
        if obj.spec.get("clusterSelector"):
            what, advice = f"RayCluster {name} named by spec.clusterSelector is not there.", "Make it, or name another."
            reason = "RayClusterNotFound"
        else:
            what, advice, reason = f"RayCluster {name} is not there.", "Look at the events below.", "NoRayCluster"
        return [] if reason in known else [Finding(what, reason, None, "transient", advice)]
    told = explain_cluster(seen.cluster, now)
    report.pods += told.pods
    report.events = sorted([*report.events, *told.events], key=lambda line: line.time, reverse=True)
    for finding in told.findings:
        finding.what = f"RayCluster {name}: {finding.what}"
    if told.state in ("suspended", "suspending", "managed elsewhere", "being deleted") and not told.findings:
        told.findings.append(Finding(f"RayCluster {name}: {told.summary}", told.state, None, "transient"))
    return told.findings


def _kueue(seen: SeenJob) -> list[Finding]:
    findings = []
    for workload in seen.workloads:
        name = (workload.get("metadata") or {}).get("name")
        for condition in (workload.get("status") or {}).get("conditions") or ():
            if condition.get("type") in ("QuotaReserved", "Admitted") and condition.get("status") == FALSE:
                what = f"Kueue has not admitted Workload {name}: {condition.get('message')}"
                since = time_in(condition.get("lastTransitionTime"))
                advice = f"kubectl describe workload {name} -n {seen.obj.namespace}."
                findings.append(Finding(what, str(condition.get("reason") or ""), since, "transient", advice))
                break
    return findings


def _add_chain(seen: SeenJob, report: Report) -> None:
    obj, status, chain = seen.obj, seen.obj.status, report.chain
    words, report.chain = list(chain), []
    name = status.get("rayClusterName")
    if name:
        found = seen.cluster.obj if seen.cluster is not None else None
        if found is None:
            unknown = any("RayCluster" in note for note in report.notes)
            state = "is not known" if unknown else "is not there"
        elif found.deleting:
            state = "is being deleted"
        else:
            state = str(found.status.get("state") or "not ready yet")
        shared = " (chosen by spec.clusterSelector)" if obj.spec.get("clusterSelector") else ""
        report.chain.append(Step(f"RayCluster {name}{shared}", state))
    submitter = job_step(seen.job, seen.job_body, obj.uid)
    sidecar = sidecar_step(seen.cluster.pods if seen.cluster is not None else None)
    report.chain += [step for step in (submitter, sidecar) if step is not None]
    if status.get("jobId"):
        told = status.get("jobStatus") or "not known to Ray yet"
        report.chain.append(Step(f"Ray job {status['jobId']}", str(told)))
    report.chain += words


def _refusals(condition: Mapping[str, Any], *, stops: bool) -> list[Finding]:
    message, since = str(condition.get("message", "")), time_in(condition.get("lastTransitionTime"))
    advice = "Correct the field." if stops else "Correct the field; what runs goes on as it was."
    return [
        Finding(problem, str(condition.get("reason", "")), since, "terminal", advice)
        for problem in re.split(r"; (?=(?:spec|metadata|status)\b)", message)
    ]


def _not_looked_at(obj: RayObject) -> Finding:
    advice = (
        "If this lasts longer than some seconds, check that the operator runs and watches this namespace: "
        "kubectl get lease ray-operator-leader -A; kubectl logs deployment/kuberay-operator -n NAMESPACE."
    )
    what = "No operator has looked at this object yet."
    return Finding(what, "NotObserved", obj.metadata.creation_timestamp, "transient", advice)


def _explain_deletion(obj: RayObject, report: Report) -> None:
    report.state = "being deleted"
    report.summary = "It was deleted; its RayCluster and submitter go with it."
    if obj.metadata.finalizers:
        what = f"Finalizers hold it: {', '.join(obj.metadata.finalizers)}."
        advice = (
            "The operator stops the Ray job first and then takes its own (ray.io/rayjob-finalizer) away, whatever comes of "
            "it; check that the operator runs. Others: whoever set them."
        )
        report.findings.append(Finding(what, "Finalizers", obj.metadata.deletion_timestamp, "transient", advice))
