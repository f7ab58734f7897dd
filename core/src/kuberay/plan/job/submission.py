"""Whether the attempt's job is known to be with Ray, and how the operator hands it in itself in HTTPMode.

Source: spec rayjob.md 3.6; cases.md RJ-01 and RJ-07. A job that Ray has known once is never handed in again within one
attempt, in no mode: not known any more means lost.
"""

from __future__ import annotations

from datetime import datetime

from kuberay.api.conditions import TRUE, JobCondition, find_condition, is_true
from kuberay.api.job import JobFailedReason, JobStatus
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time, parse_time
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.job_probe import TIMER, asked_since, submit_job_call
from kuberay.plan.job.outcome import fail
from kuberay.plan.job.submit_command import SubmitCommandError
from kuberay.plan.model import ProbeResult


def submitted(draft: Draft) -> bool:
    """Whether Ray has the job, or had it: the dashboard has told of it, or has accepted it."""
    return seen(draft) or is_true(draft.status.get("conditions") or (), JobCondition.SUBMITTED)


def seen(draft: Draft) -> bool:
    """Whether the dashboard has told of the job."""
    return draft.job_status not in (JobStatus.NEW, None)


def lost(draft: Draft, result: ProbeResult | None) -> bool:
    """Whether Ray had the job once and says that it does not know it."""
    if result is None or result.outcome != "absent" or not submitted(draft):
        return False
    accepted = submitted_at(draft)
    # An answer to a question from before the job was accepted says nothing.
    return seen(draft) or accepted is None or asked_since(result, accepted)


def submitted_at(draft: Draft) -> datetime | None:
    """Since when Ray is known to have, or have had, the job."""
    condition = find_condition(draft.status.get("conditions") or (), JobCondition.SUBMITTED) or {}
    if condition.get("status") != TRUE:
        return None
    try:
        return parse_time(str(condition.get("lastTransitionTime")))
    except ValueError:
        return None


def submit(draft: Draft, cluster: RayObject | None, result: ProbeResult | None) -> ProbeResult | None:
    """HTTPMode: hand the job in once the dashboard says that it does not know it. Returns how that went last.

    The wish is kept until it is stored that the job was accepted, so that no failing status write hides it.
    """
    if not draft.mode.posts or submitted(draft):
        return None
    try:
        call = submit_job_call(draft, cluster)
    except SubmitCommandError as error:
        fail(draft, JobFailedReason.SUBMISSION_FAILED, str(error))
        return None
    if call is None:
        return None
    answer = draft.observed.probes.get(call)
    if answer is None and (result is None or result.outcome != "absent"):
        return None
    draft.want(call)
    if answer is None:
        return None
    if answer.outcome == "error":
        if not draft.status.get(TIMER):
            draft.status[TIMER] = format_time(answer.failing_since or answer.at)
        draft.hold("SubmissionFailing", f"the dashboard does not take the job: {answer.error}")
        return answer
    draft.status.pop(TIMER, None)
    draft.condition(JobCondition.SUBMITTED, TRUE, "JobSubmitted", f"job {call.job_id} was accepted by the dashboard")
    return answer
