"""What happens while a job runs: limits, the submitter, and what the dashboard says; in that order an end is decided.

Source: spec rayjob.md 2.4. Where KubeRay forces an end before asking the dashboard, the dashboard's answer comes first.
"""

from __future__ import annotations

from kuberay.api.job import JobDeploymentStatus, JobFailedReason, JobStatus
from kuberay.api.objects import RayObject
from kuberay.plan.job import deadlines, hook_calls
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.head_service import job_head_service
from kuberay.plan.job.job_probe import ask, asked_since, checks_timed_out, failing_for
from kuberay.plan.job.modes import mode_of
from kuberay.plan.job.outcome import end_with_ray_job, fail
from kuberay.plan.job.ray_cluster import alive, copy_cluster_status, find_cluster
from kuberay.plan.job.starting import ensure_submitter
from kuberay.plan.job.submitter_watch import Submitter, look_at_submitter
from kuberay.plan.job.waiting import look_again_soon
from kuberay.plan.model import ProbeResult

_FORGOTTEN = "The RayCluster does not know the Ray job any more, and its submitter is gone."
_LOST_JOB = "Submitter completed but Ray job not found in RayCluster."


def run(draft: Draft) -> None:
    """Running: one look at everything, which may end the attempt."""
    if draft.suspend_wanted:
        draft.status["jobDeploymentStatus"] = JobDeploymentStatus.SUSPENDING.value
        return
    cluster = find_cluster(draft)
    result = ask(draft, cluster)
    late = None if draft.ray_job_ended else deadlines.active_deadline(draft)
    if late is not None:
        fail(draft, *late)
        return
    mode = mode_of(draft.spec)
    submitter = look_at_submitter(draft) if mode is not None and mode.submitter_job else None
    copy_cluster_status(draft, cluster)
    if draft.ray_job_ended:
        _ended(draft, submitter)
        return
    if submitter is not None and submitter.job is None and _lost(draft, result):
        fail(draft, JobFailedReason.APP_FAILED, _FORGOTTEN)
        return
    if draft.uses_own_cluster and not alive(cluster):
        where = f"{draft.obj.namespace}/{draft.status.get('rayClusterName')}"
        fail(draft, JobFailedReason.APP_FAILED, f"RayCluster {where} was deleted while the job was running")
        return
    if draft.uses_own_cluster and cluster is not None:
        service = job_head_service(draft, cluster)
        draft.write(*([service] if service is not None else []))
    hook_calls.extra_resources(draft)
    if submitter is not None and _decided_by_submitter(draft, submitter, result):
        return
    message = checks_timed_out(draft, result)
    if message is not None:
        fail(draft, JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED, message)
        return
    if submitter is not None and submitter.job is None and cluster is not None:
        _replace_submitter(draft, cluster, result)
    draft.wait("the Ray job is running" if draft.job_status == JobStatus.RUNNING else "the Ray job has not started")


def _ended(draft: Draft, submitter: Submitter | None) -> None:
    """Ray has reported an end: wait for the submitter, but not for ever."""
    at_work = submitter is not None and submitter.job is not None and submitter.finished_at is None
    if not at_work:
        end_with_ray_job(draft)
        return
    ended_at = draft.time("rayJobInfo", "endTime")
    grace = draft.observed.config.job_transition_grace
    overdue = ended_at is not None and deadlines.passed(draft, ended_at + grace)
    if overdue or deadlines.active_deadline(draft) is not None:
        end_with_ray_job(draft, JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED, deadlines.TRANSITION_MESSAGE)
        return
    draft.wait("the Ray job has ended, its submitter has not")


def _decided_by_submitter(draft: Draft, submitter: Submitter, result: ProbeResult | None) -> bool:
    """Whether the submitter's end, together with what the dashboard has said since, ends the attempt."""
    finished_at = submitter.finished_at
    if finished_at is None:
        return False
    grace_over = deadlines.passed(draft, finished_at + deadlines.SUBMITTER_GRACE)
    fresh = asked_since(result, finished_at)
    if not fresh:
        # An answer that says the same again wakes nobody, so look for it.
        look_again_soon(draft)
    if submitter.failure is not None:
        if not fresh and not grace_over:
            draft.wait("the submitter has failed; the dashboard is asked about the job")
            return False
        fail(draft, JobFailedReason.SUBMISSION_FAILED, submitter.failure)
        return True
    if fresh and result is not None and result.outcome == "absent":
        fail(draft, JobFailedReason.APP_FAILED, _LOST_JOB)
        return True
    if not grace_over:
        draft.wait("the submitter has finished; Ray has not reported the end of the job")
        return False
    unanswered = failing_for(result, draft.now, deadlines.SUBMITTER_GRACE)
    if unanswered or (fresh and result is not None and result.outcome == "found"):
        draft.status["jobStatus"] = JobStatus.FAILED.value
        message = deadlines.submitter_grace_message(finished_at)
        fail(draft, JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED, message)
        return True
    if result is not None and result.outcome == "error":
        draft.wake_at((result.failing_since or result.at) + deadlines.SUBMITTER_GRACE)
    draft.wait("the submitter has finished; the dashboard is asked about the job")
    return False


def _lost(draft: Draft, result: ProbeResult | None) -> bool:
    """Whether Ray knew the job once and does not know it any more."""
    seen = draft.job_status not in (JobStatus.NEW, None)
    return seen and result is not None and result.outcome == "absent"


def _replace_submitter(draft: Draft, cluster: RayObject, result: ProbeResult | None) -> None:
    """The submitter Job was deleted. A job that never reached Ray is submitted again under its id; one that did goes
    on without a submitter."""
    if draft.job_status == JobStatus.NEW and result is not None and result.outcome == "absent":
        ensure_submitter(draft, cluster)
