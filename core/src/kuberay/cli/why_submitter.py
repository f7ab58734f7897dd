"""What ``kuberay why`` says about what hands a RayJob in: the submitter Job and its pods, or the head's sidecar. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kuberay.api.condition_reference import RAYCLUSTER, find_entry
from kuberay.api.conditions import TRUE, ClusterCondition
from kuberay.api.names import HEAD, LABEL_NODE_TYPE, SUBMITTER_CONTAINER
from kuberay.api.objects import ContainerStatus, Job, Pod
from kuberay.cli.why_report import Finding, PodLine, Step
from kuberay.plan.cluster.pod_health import describe, is_over, is_ready
from kuberay.plan.cluster.pod_trouble import find_trouble

GROUP = "submitter"


def ended_badly(submitter_pods: Sequence[Pod] | None, cluster_pods: Sequence[Pod] | None) -> list[tuple[str, str]]:
    """Pod and container of submitters that failed, the latest first: whose log tells why."""
    found: list[tuple[datetime | None, str, str]] = []
    for pod in submitter_pods or ():
        for status in pod.status.container_statuses[:1]:
            ended = status.state.terminated or status.last_state.terminated
            if ended is not None and ended.exit_code:
                found.append((ended.finished_at, pod.name, status.name))
    for pod in cluster_pods or ():
        sidecar = sidecar_of(pod)
        ended = None if sidecar is None else sidecar.state.terminated or sidecar.last_state.terminated
        if ended is not None and ended.exit_code:
            found.append((ended.finished_at, pod.name, SUBMITTER_CONTAINER))
    found.sort(key=lambda item: item[0].timestamp() if item[0] is not None else 0.0, reverse=True)
    return [(pod, container) for _, pod, container in found]


def sidecar_of(pod: Pod) -> ContainerStatus | None:
    """The submitter container of a head pod."""
    if pod.metadata.labels.get(LABEL_NODE_TYPE) != HEAD:
        return None
    return next((status for status in pod.status.container_statuses if status.name == SUBMITTER_CONTAINER), None)


def job_step(job: Job | None, body: Mapping[str, Any] | None, uid: str) -> Step | None:
    """The submitter Job in the chain."""
    if job is None:
        return None
    what = f"submitter Job {job.name}"
    owner = job.metadata.controller
    if owner is None or owner.uid != uid:
        return Step(what, "belongs to somebody else")
    if job.deleting:
        return Step(what, "is being deleted")
    spec = (body or {}).get("spec") or {}
    for condition in job.status.conditions:
        if condition.status != TRUE or condition.type not in ("Complete", "Failed"):
            continue
        told = f" ({condition.reason}: {condition.message})" if condition.type == "Failed" else ""
        return Step(what, f"has {'failed' if condition.type == 'Failed' else 'ended well'}{told}")
    if spec.get("suspend"):
        return Step(what, "is held suspended, so that nothing is handed in twice")
    tries = f", {job.status.failed} of {spec.get('backoffLimit', 6) + 1} pods failed" if job.status.failed else ""
    return Step(what, f"is at work{tries}" if job.status.active else f"has no running pod{tries}")


def job_findings(job: Job | None, pods: Sequence[Pod] | None, uid: str, advice_own: str) -> list[Finding]:
    """What is wrong with the Job itself."""
    if job is None:
        return []
    owner = job.metadata.controller
    if owner is None or owner.uid != uid:
        what = f"Job {job.name} exists and does not belong to this RayJob, so nothing can be handed in."
        advice = f"Delete or rename it: kubectl delete job {job.name} -n {job.namespace}."
        return [Finding(what, "SubmitterNotOwned", job.metadata.creation_timestamp, "transient", advice)]
    for condition in job.status.conditions:
        if condition.type == "Failed" and condition.status == TRUE:
            what = f"The submitter Job has failed. {condition.reason}: {condition.message}"
            return [Finding(what, "SubmissionFailed", condition.last_transition_time, "terminal", advice_own)]
    if pods is not None and not pods and not job.status.active and not job.status.succeeded and not job.status.failed:
        what = "The submitter Job has no pod: see its events below (a quota, an admission webhook, a wrong template)."
        advice = f"kubectl describe job {job.name} -n {job.namespace}."
        return [Finding(what, "NoSubmitterPod", job.metadata.creation_timestamp, "transient", advice)]
    return []


def pod_lines(pods: Sequence[Pod] | None, now: datetime) -> tuple[list[PodLine], list[Finding]]:
    """Submitter pods that are not at work, and what keeps them."""
    lines: list[PodLine] = []
    findings: list[Finding] = []
    for pod in pods or ():
        if is_ready(pod) or pod.status.phase == "Succeeded":
            continue
        told = _how_it_ended(pod)
        trouble = None if is_over(pod) else find_trouble(pod, now)
        if trouble is not None and trouble.due <= now:
            told = f"{trouble.text}: {trouble.detail}" if trouble.detail else trouble.text
            entry = find_entry(RAYCLUSTER, ClusterCondition.PODS_NOT_READY, TRUE, trouble.reason)
            lasting, advice = (entry.lasting, entry.advice) if entry is not None else ("", "")
            what = f"submitter pod {pod.name}: {trouble.reason}: {told}"
            findings.append(Finding(what, trouble.reason, pod.metadata.creation_timestamp, lasting, advice))
        lines.append(PodLine(pod.name, GROUP, _state(pod), pod.metadata.creation_timestamp, told))
    return lines, findings


def sidecar_step(pods: Sequence[Pod] | None) -> Step | None:
    """The submitter container of the head, in SidecarMode."""
    for pod in pods or ():
        sidecar = sidecar_of(pod)
        if sidecar is None:
            continue
        what = f"submitter container {SUBMITTER_CONTAINER} of {pod.name}"
        if sidecar.state.terminated is not None:
            return Step(what, f"has ended with {describe(sidecar.state.terminated)}")
        again = f", started {sidecar.restart_count + 1} times" if sidecar.restart_count else ""
        if sidecar.state.running is not None:
            return Step(what, f"is at work{again}")
        waiting = sidecar.state.waiting
        return Step(what, f"waits ({waiting.reason})" if waiting is not None and waiting.reason else "has not started")
    return None


def _how_it_ended(pod: Pod) -> str:
    for status in pod.status.container_statuses:
        ended = status.state.terminated
        if ended is not None and ended.exit_code:
            return f"container {status.name} ended with {describe(ended)}"
    return " ".join(f"{pod.status.reason} {pod.status.message}".split()) if is_over(pod) else ""


def _state(pod: Pod) -> str:
    for status in pod.status.container_statuses:
        if status.state.waiting is not None and status.state.waiting.reason:
            return status.state.waiting.reason
    return "Terminating" if pod.deleting else pod.status.phase or "Pending"
