"""What ``kuberay why`` has seen of a RayJob, and where that stands in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kuberay.api.job import JobDeploymentStatus, JobFailedReason, JobStatus
from kuberay.api.objects import Job, Pod, RayObject
from kuberay.cli.why_cluster import Seen, suspender
from kuberay.cli.why_report import LogLines

State = JobDeploymentStatus


@dataclass(slots=True)
class SeenJob:
    """What could be read. None: it is not there, or could not be read and *notes* says so."""

    obj: RayObject
    body: Mapping[str, Any]
    cluster: Seen | None = None
    job: Job | None = None
    job_body: Mapping[str, Any] | None = None
    submitter_pods: Sequence[Pod] | None = ()
    events: Sequence[Mapping[str, Any]] | None = ()
    logs: list[LogLines] = field(default_factory=list)
    workloads: Sequence[Mapping[str, Any]] = ()
    """Kueue's Workloads that belong to the RayJob."""
    partial: bool = False
    """Whether the RayCluster, its pods or the submitter Job may not be read, so that nothing can be foretold."""
    notes: list[str] = field(default_factory=list)


def attempt(obj: RayObject) -> str:
    """``Attempt n of m``: the one that runs, or the one that was the last."""
    failed, tries = int(obj.status.get("failed") or 0), int(obj.spec.get("backoffLimit") or 0) + 1
    over = obj.status.get("jobDeploymentStatus") in (State.FAILED, State.RETRYING)
    number = max(failed, 1) if over else failed + 1
    return f"Attempt {number} of {max(tries, number)}"


def where_it_stands(seen: SeenJob, state: str) -> tuple[str, str]:
    obj, status = seen.obj, seen.obj.status
    which, job_id = attempt(obj), status.get("jobId")
    since = f" since {status['startTime']}" if status.get("startTime") else ""
    if state == State.NEW:
        return ("not seen yet", "The RayJob has not started.") if not status else ("starting", f"{which} is next.")
    if state == State.INITIALIZING:
        name = status.get("rayClusterName")
        return "starting", f"{which} has been starting{since}; it waits for RayCluster {name} to become ready."
    if state == State.WAITING:
        return "waiting for a job id", f"The RayCluster is ready and waits{since} for somebody to submit a job to it."
    if state == State.RUNNING:
        return "running", _running(seen, which, since)
    if state == State.COMPLETE:
        word = "was stopped" if status.get("jobStatus") == JobStatus.STOPPED else "succeeded"
        return "complete", f"{which} {word}: Ray job {job_id} ended, and the RayJob at {status.get('endTime')}."
    if state == State.FAILED:
        why_no_more = _why_not_again(obj)
        return "failed", f"{which} failed at {status.get('endTime')}: {status.get('reason')}. {why_no_more}"
    if state == State.RETRYING:
        return (
            "retrying",
            f"{which} failed ({status.get('reason')}); its RayCluster is removed, then the next one starts.",
        )
    if state in (State.SUSPENDING, State.SUSPENDED):
        return state.lower(), f"{suspender(obj, seen.body, 'RayJob')}; {_given_back(seen)}."
    if state == State.VALIDATION_FAILED:
        return "refused", "The spec is refused, and nothing was made of it."
    return "unknown", f"status.jobDeploymentStatus is {state!r}, which no operator of this version writes."


def _running(seen: SeenJob, which: str, since: str) -> str:
    status = seen.obj.status
    job_id, told = status.get("jobId"), status.get("jobStatus")
    if told == JobStatus.RUNNING:
        begun = (status.get("rayJobInfo") or {}).get("startTime")
        return f"{which} runs: Ray has been running job {job_id} since {begun or 'an unknown time'}."
    if told in (JobStatus.SUCCEEDED, JobStatus.FAILED, JobStatus.STOPPED):
        return f"{which} is about to end: Ray says {told} about job {job_id}, and its submitter has not ended yet."
    if told == JobStatus.PENDING:
        return f"{which}: Ray has job {job_id} and has not started it yet (PENDING), {since.strip() or 'for a while'}."
    return f"{which}: its RayCluster is ready, and Ray does not know job {job_id} yet; the attempt runs{since}."


def _why_not_again(obj: RayObject) -> str:
    reason = obj.status.get("reason")
    if reason in (JobFailedReason.DEADLINE_EXCEEDED, JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED):
        return "That is not tried again."
    left = int(obj.spec.get("backoffLimit") or 0) + 1 - int(obj.status.get("failed") or 0)
    return "No retry is left." if left <= 0 else "It is not tried again."


def _given_back(seen: SeenJob) -> str:
    left = [f"RayCluster {seen.cluster.obj.name}"] if seen.cluster is not None else []
    if seen.job is not None and seen.obj.status.get("jobDeploymentStatus") == State.SUSPENDING:
        left.append(f"Job {seen.job.name}")
    return (
        f"{' and '.join(left)} {'is' if len(left) == 1 else 'are'} still going" if left else "everything was given back"
    )
