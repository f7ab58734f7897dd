"""When a RayJob has run, waited or gone unanswered for too long, and with which words it fails then.

Source: spec rayjob.md 4.6. A limit has passed when now is not before its start plus its seconds.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kuberay.api.job import JobDeploymentStatus, JobFailedReason
from kuberay.plan.job.draft import Draft

SUBMITTER_GRACE = timedelta(seconds=30)
"""How long after the submitter's end Ray may take to report the end of the job."""

TRANSITION_MESSAGE = (
    "JobDeploymentStatus does not transition to Complete or Failed within the grace period after JobStatus reaches a "
    "terminal state."
)


def active_deadline(draft: Draft) -> tuple[JobFailedReason, str] | None:
    """Reason and message when ``activeDeadlineSeconds`` has passed; else the pass wakes up in time."""
    return _since_start(
        draft, draft.spec.active_deadline_seconds, JobFailedReason.DEADLINE_EXCEEDED, "activeDeadlineSeconds"
    )


def pre_running_deadline(draft: Draft) -> tuple[JobFailedReason, str] | None:
    """Reason and message when ``preRunningDeadlineSeconds`` has passed; else the pass wakes up in time."""
    return _since_start(
        draft,
        draft.spec.pre_running_deadline_seconds,
        JobFailedReason.PRE_RUNNING_DEADLINE_EXCEEDED,
        "preRunningDeadlineSeconds",
    )


def _since_start(
    draft: Draft, seconds: int | None, reason: JobFailedReason, field: str
) -> tuple[JobFailedReason, str] | None:
    start = draft.time("startTime")
    if seconds is None or seconds <= 0 or start is None:
        # A limit of zero or less is refused by validation; on a job that runs already it counts as none (RJ-09).
        return None
    if not passed(draft, start + timedelta(seconds=seconds)):
        return None
    title = field[0].upper() + field[1:]
    return (
        reason,
        f"The RayJob has passed the {field}. StartTime: {start:%Y-%m-%d %H:%M:%S} +0000 UTC. {title}: {seconds}",
    )


def until_next(draft: Draft) -> timedelta | None:
    """How long it is until a limit of the present state passes; None when there is none to come."""
    limits = {
        JobDeploymentStatus.INITIALIZING: (draft.spec.active_deadline_seconds, draft.spec.pre_running_deadline_seconds),
        JobDeploymentStatus.WAITING: (draft.spec.active_deadline_seconds, draft.spec.pre_running_deadline_seconds),
        JobDeploymentStatus.RUNNING: (draft.spec.active_deadline_seconds,),
    }
    start = draft.time("startTime")
    seconds = limits.get(draft.state, ()) if draft.state is not None else ()
    if start is None:
        return None
    left = (start + timedelta(seconds=limit) - draft.now for limit in seconds if limit)
    return min((time for time in left if time > timedelta(0)), default=None)


def passed(draft: Draft, deadline: datetime) -> bool:
    """Whether *deadline* has come; if not, the pass is repeated when it does."""
    if draft.now >= deadline:
        return True
    draft.wake_at(deadline)
    return False


def check_timeout_message(since: datetime, timeout: timedelta) -> str:
    return (
        f"Job status checks have been failing since {since:%Y-%m-%d %H:%M:%S}; "
        f"exceeded timeout of {int(timeout.total_seconds())}s"
    )


def submitter_grace_message(finished_at: datetime) -> str:
    return (
        f"The RayJob submitter finished at {finished_at:%Y-%m-%d %H:%M:%S} but the ray job did not reach terminal state "
        f"within {int(SUBMITTER_GRACE.total_seconds())}s"
    )
