"""Which question is put to the dashboard about the present attempt, and what its last answer does to the status.

Source: spec rayjob.md 2.4 (10, 11) and 3.9. Nothing here waits: answers arrive in later passes.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta

from kuberay.api import names
from kuberay.api.job import JobStatus
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time, from_milliseconds
from kuberay.plan.build.dashboard import dashboard_token, head_service_of
from kuberay.plan.job import deadlines
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.message import bounded
from kuberay.plan.job.submit_command import submit_request
from kuberay.plan.model import AuthSecret, JobInfoProbe, ProbeResult, StopJobCall, SubmitJobCall

TIMER = "jobStatusCheckFailureStartTime"
"""The status field that says since when checks fail."""
_ENDS = frozenset(status.value for status in JobStatus if status.terminal)


def job_info_probe(draft: Draft, cluster: RayObject | None) -> JobInfoProbe | None:
    """The question for the attempt's submission; None while there is nobody or nothing to ask about."""
    address, job_id = draft.status.get("dashboardURL"), draft.status.get("jobId")
    if not address or not job_id:
        return None
    service, auth = access(draft, cluster)
    return JobInfoProbe(address, job_id, draft.obj.namespace, service, auth)


def stop_call(draft: Draft, cluster: RayObject | None, *, until_answered: bool = False) -> StopJobCall | None:
    """The request to stop the attempt's submission; None when there is none to stop."""
    probe = job_info_probe(draft, cluster)
    if probe is None:
        return None
    return StopJobCall(probe.address, probe.job_id, probe.namespace, probe.service, probe.auth, until_answered)


def submit_job_call(draft: Draft, cluster: RayObject | None) -> SubmitJobCall | None:
    """The request to submit the attempt's job; None while there is nobody to ask. Raises `SubmitCommandError`."""
    probe = job_info_probe(draft, cluster)
    if probe is None:
        return None
    request = json.dumps(submit_request(draft.spec, probe.job_id), ensure_ascii=False)
    return SubmitJobCall(probe.address, probe.job_id, request, probe.namespace, probe.service, probe.auth)


def access(draft: Draft, cluster: RayObject | None) -> tuple[str, AuthSecret | None]:
    """Head service name and token of the dashboard."""
    if cluster is None:
        return names.head_service_name(draft.status.get("rayClusterName") or ""), None
    return head_service_of(cluster), dashboard_token(cluster)


def ask(draft: Draft, cluster: RayObject | None, *, submitting: bool = False, anew: bool = False) -> ProbeResult | None:
    """Keep the question going and take over its last answer; returns that answer.

    While the operator itself is *submitting*, an answer that the job is not known does not end a streak of failures.
    *anew*: the submitter was seen to have ended, and only what is asked from then on counts, whatever clocks say.
    """
    probe = job_info_probe(draft, cluster)
    if probe is None:
        return None
    if anew and not draft.ray_job_ended:
        probe = replace(probe, asked_for="the submitter's end")
    draft.want(probe)
    result = draft.observed.probes.get(probe)
    if result is None:
        return None
    status = draft.status
    if result.outcome == "error" and result.value.get("status") in _ENDS:
        # An answer before this one told of an end, which may not have been written yet; Ray never leaves an end.
        _take_over(draft, result)
        return result
    if result.outcome == "error":
        if not status.get(TIMER):
            status[TIMER] = format_time(result.failing_since or result.at)
        return result
    if result.outcome == "found":
        status.pop(TIMER, None)
        _take_over(draft, result)
    elif not submitting:
        status.pop(TIMER, None)
    return result


def told_early(draft: Draft, cluster: RayObject) -> bool:
    """Ask about the job before it counts as running, where failing checks mean nothing yet; whether Ray knows it."""
    probe = job_info_probe(draft, cluster)
    if probe is None:
        return False
    draft.want(probe)
    result = draft.observed.probes.get(probe)
    if result is None or result.outcome != "found":
        return False
    _take_over(draft, result)
    return True


def _take_over(draft: Draft, result: ProbeResult) -> None:
    info, status = result.value, draft.status
    if draft.ray_job_ended and info.get("status") != status.get("jobStatus"):
        # Ray never leaves an end, so this answer was given before the one that is stored.
        return
    status["jobStatus"] = info.get("status") or ""
    status["message"] = bounded(info.get("message") or "")
    status["reason"] = ""
    times = {"startTime": info.get("start_time"), "endTime": info.get("end_time")}
    told = {key: moment for key, value in times.items() if value and (moment := _moment(value))}
    if told:
        status["rayJobInfo"] = {**(status.get("rayJobInfo") or {}), **told}


def _moment(milliseconds: int) -> str:
    """The time as a status has it; empty for one that is on no calendar."""
    try:
        return format_time(from_milliseconds(milliseconds))
    except (ValueError, OverflowError, OSError):
        return ""


def checks_timed_out(draft: Draft, *results: ProbeResult | None) -> str | None:
    """The message when checks have been failing for too long. One of *results* must have failed just now to say so."""
    since = draft.time(TIMER)
    if since is None or all(result is None or result.outcome != "error" for result in results):
        return None
    timeout = draft.observed.config.job_status_check_timeout
    return deadlines.check_timeout_message(since, timeout) if deadlines.passed(draft, since + timeout) else None


def asked_since(result: ProbeResult | None, moment: datetime) -> bool:
    """Whether the dashboard was asked after *moment*, so that its answer may judge what happened then (RJ-08).

    Times of Kubernetes have whole seconds, so the second that *moment* names must be over.
    """
    return result is not None and result.at >= moment + timedelta(seconds=1)


def failing_for(draft: Draft, result: ProbeResult | None, period: timedelta) -> bool:
    """Whether the dashboard has just given no answer, as it has for *period*."""
    since = draft.time(TIMER)
    return result is not None and result.outcome == "error" and since is not None and draft.now - since >= period
