"""How an attempt ends: Complete, Failed, or Failed and to be tried again; and what the counters become.

Source: spec rayjob.md 2.6. A failure that is retried is stored as Retrying at once; Failed never shows for it.
"""

from __future__ import annotations

from kuberay.api.job import JobDeploymentStatus, JobFailedReason, JobStatus
from kuberay.plan.job.draft import Draft

_FINAL_REASONS = frozenset({JobFailedReason.DEADLINE_EXCEEDED, JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED})


def fail(draft: Draft, reason: JobFailedReason, message: str | None = None) -> None:
    """End the attempt as failed; *message* None keeps the one that is there."""
    status = draft.status
    status["reason"] = reason.value
    if message is not None:
        status["message"] = message
    status["failed"] += 1
    retries = draft.spec.backoff_limit
    again = (
        draft.uses_own_cluster and retries is not None and status["failed"] <= retries and reason not in _FINAL_REASONS
    )
    status["jobDeploymentStatus"] = (JobDeploymentStatus.RETRYING if again else JobDeploymentStatus.FAILED).value


def complete(draft: Draft, reason: JobFailedReason = JobFailedReason.NONE, message: str | None = None) -> None:
    """End the attempt as complete; only a job that SUCCEEDED is counted."""
    status = draft.status
    status["reason"] = reason.value
    if message is not None:
        status["message"] = message
    if draft.job_status == JobStatus.SUCCEEDED:
        status["succeeded"] += 1
    status["jobDeploymentStatus"] = JobDeploymentStatus.COMPLETE.value


def end_with_ray_job(draft: Draft, reason: JobFailedReason | None = None, message: str | None = None) -> None:
    """End the attempt as Ray ended the job: FAILED fails it (``AppFailed`` if no *reason* is given)."""
    if draft.job_status == JobStatus.FAILED:
        fail(draft, reason or JobFailedReason.APP_FAILED, message)
    else:
        complete(draft, reason or JobFailedReason.NONE, message)
