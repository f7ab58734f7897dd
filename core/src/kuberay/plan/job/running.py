"""What happens while a job runs: limits, the submitter, and what the dashboard says; in that order an end is decided.

Source: spec rayjob.md 2.4. Where KubeRay forces an end before asking the dashboard, the dashboard's answer comes first.
"""

from __future__ import annotations

from datetime import datetime

from kuberay.api.conditions import JobCondition, find_condition
from kuberay.api.job import JobDeploymentStatus, JobFailedReason, JobStatus
from kuberay.api.objects import RayObject
from kuberay.api.times import parse_time
from kuberay.plan.job import deadlines, hook_calls
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.head_service import job_head_service
from kuberay.plan.job.identity import told_job_id
from kuberay.plan.job.job_probe import ask, asked_since, checks_timed_out, failing_for, job_info_probe
from kuberay.plan.job.kept_out import kept_out
from kuberay.plan.job.message import add_last_lines, leave_for_later
from kuberay.plan.job.modes import Mode
from kuberay.plan.job.no_pod import tell_of_no_pod
from kuberay.plan.job.outcome import end_with_ray_job, fail
from kuberay.plan.job.ray_cluster import alive, copy_cluster_status, dashboard_url, find_cluster
from kuberay.plan.job.silence import guard_submitter
from kuberay.plan.job.starting import ensure_submitter
from kuberay.plan.job.submission import lost, submit, submitted
from kuberay.plan.job.submitter_watch import Submitter, look_at_submitter
from kuberay.plan.job.waiting import look_again_soon
from kuberay.plan.model import ProbeResult

_FORGOTTEN = "The RayCluster does not know the Ray job any more; it was lost with the head it ran on."
_NOT_FOUND = "Submitter completed but Ray job not found in RayCluster."


def run(draft: Draft) -> None:
    """Running: one look at everything, which may end the attempt."""
    if draft.suspend_wanted:
        draft.status["jobDeploymentStatus"] = JobDeploymentStatus.SUSPENDING.value
        return
    mode = draft.mode
    cluster = find_cluster(draft)
    _follow_told_id(draft, mode)
    if cluster is not None and not draft.status.get("dashboardURL"):
        # A status that somebody edited.
        draft.status["dashboardURL"] = dashboard_url(draft, cluster)
    submitter = look_at_submitter(draft, cluster)
    result = ask(
        draft,
        cluster,
        submitting=mode.posts and not submitted(draft),
        anew=submitter is not None and submitter.finished_at is not None,
    )
    late = None if draft.ray_job_ended else deadlines.active_deadline(draft)
    if late is not None:
        fail(draft, *late)
        return
    copy_cluster_status(draft, cluster)
    guard_submitter(draft, cluster, submitter, result)
    if draft.ray_job_ended:
        _ended(draft, cluster, submitter)
        return
    gone = _gone(draft, cluster, submitter, result)
    if gone is not None:
        fail(draft, JobFailedReason.APP_FAILED, gone)
        return
    if draft.uses_own_cluster and cluster is not None:
        service = job_head_service(draft, cluster)
        draft.write(*([service] if service is not None else []))
    hook_calls.extra_resources(draft)
    if submitter is not None and _decided_by_submitter(draft, submitter, result):
        return
    if kept_out(draft, cluster, submitter):
        return
    tell_of_no_pod(draft, submitter)
    handed_in = submit(draft, cluster, result)
    if draft.state != JobDeploymentStatus.RUNNING:
        return
    message = checks_timed_out(draft, result, handed_in)
    if message is not None:
        fail(draft, JobFailedReason.STATUS_CHECK_TIMEOUT_EXCEEDED, message)
        return
    if mode.submitter_job and submitter is not None and not submitter.present and cluster is not None:
        _replace_submitter(draft, cluster, result)
    _say(draft, mode, result)


def _follow_told_id(draft: Draft, mode: Mode) -> None:
    """InteractiveMode: another id is followed as long as Ray has not told of the one that is awaited."""
    told = told_job_id(draft) if mode.waits else ""
    if told and not submitted(draft):
        draft.status["jobId"] = told


def _gone(
    draft: Draft, cluster: RayObject | None, submitter: Submitter | None, result: ProbeResult | None
) -> str | None:
    """Why the job, which has not ended, never will: what it ran on is gone. The same in every mode."""
    if lost(draft, result):
        return _FORGOTTEN
    if draft.uses_own_cluster and not alive(cluster):
        return f"RayCluster {draft.obj.namespace}/{draft.status.get('rayClusterName')} was deleted while the job was running"
    return submitter.lost if submitter is not None else None


def _say(draft: Draft, mode: Mode, result: ProbeResult | None) -> None:
    """What is awaited now."""
    if not draft.status.get("jobId"):
        # A status that somebody edited.
        draft.hold("NoJobID", "status.jobId is empty, so nobody knows which Ray job to follow")
        return
    if draft.job_status == JobStatus.RUNNING:
        draft.wait("the Ray job is running")
        return
    if mode.waits and result is not None and result.outcome == "absent":
        cluster, job_id = draft.status.get("rayClusterName"), draft.status.get("jobId")
        draft.hold("JobNotFound", f"RayCluster {draft.obj.namespace}/{cluster} knows no job {job_id}")
    if submitted(draft) and result is not None and result.outcome == "absent":
        # The answer is from before the job was accepted; one that says the same again wakes nobody, so look for it.
        look_again_soon(draft)
    draft.wait("the Ray job has not started")


def _ended(draft: Draft, cluster: RayObject | None, submitter: Submitter | None) -> None:
    """Ray has reported an end: wait for the submitter, but not for ever."""
    told = add_last_lines(draft, job_info_probe(draft, cluster))
    if submitter is None or not submitter.at_work:
        if told:
            end_with_ray_job(draft)
        else:
            leave_for_later(draft)
        return
    ended_at = draft.time("rayJobInfo", "endTime") or _told_at(draft)
    if (
        deadlines.passed(draft, ended_at + draft.observed.config.job_transition_grace)
        or deadlines.active_deadline(draft) is not None
    ):
        end_with_ray_job(draft, JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED, deadlines.TRANSITION_MESSAGE)
        return
    draft.wait("the Ray job has ended, its submitter has not")


def _told_at(draft: Draft) -> datetime:
    """About when Ray told of an end whose time it does not tell."""
    if draft.obj.status.get("jobStatus") != draft.status.get("jobStatus"):
        return draft.now
    condition = find_condition(draft.status.get("conditions") or (), JobCondition.RUNNING) or {}
    try:
        return parse_time(str(condition.get("lastTransitionTime")))
    except ValueError:
        return draft.now


def _decided_by_submitter(draft: Draft, submitter: Submitter, result: ProbeResult | None) -> bool:
    """Whether the submitter's end, together with what the dashboard has said since, ends the attempt.

    Nothing is decided before the dashboard has answered since that end; if it does not, the limit for failing checks ends
    the attempt. Only where Ray was never seen to have the job, no answer for 30 s is enough: its submitter had none either.
    """
    finished_at = submitter.finished_at
    if finished_at is None:
        return False
    fresh = asked_since(result, finished_at) and result is not None and result.outcome != "error"
    grace_over = deadlines.passed(draft, finished_at + deadlines.SUBMITTER_GRACE)
    unanswered = (
        submitter.failure is not None
        and not submitted(draft)
        and grace_over
        and failing_for(draft, result, deadlines.SUBMITTER_GRACE)
    )
    if not fresh and not unanswered:
        # An answer that says the same again wakes nobody, so look for it.
        look_again_soon(draft)
        draft.wait("the submitter has ended; the dashboard is asked about the job")
        return False
    if submitter.failure is not None:
        fail(draft, JobFailedReason.SUBMISSION_FAILED, submitter.failure)
        return True
    if fresh and result is not None and result.outcome == "absent":
        fail(draft, JobFailedReason.APP_FAILED, _NOT_FOUND)
        return True
    if not grace_over:
        draft.wait("the submitter has finished; Ray has not reported the end of the job")
        return False
    draft.status["jobStatus"] = JobStatus.FAILED.value
    fail(draft, JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED, deadlines.submitter_grace_message(finished_at))
    return True


def _replace_submitter(draft: Draft, cluster: RayObject, result: ProbeResult | None) -> None:
    """The submitter Job was deleted. A job that never reached Ray is submitted again under its id; one that did goes
    on without a submitter."""
    if not submitted(draft) and result is not None and result.outcome == "absent":
        ensure_submitter(draft, cluster)
