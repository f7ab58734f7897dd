"""Which question is put to the dashboard about the present attempt, and what its last answer does to the status.

Source: spec rayjob.md 2.4 (10, 11) and 3.9. Nothing here waits: answers arrive in later passes.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kuberay.api import names
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time, from_milliseconds
from kuberay.plan.build.auth import SECRET_KEY, secret_name
from kuberay.plan.job import deadlines
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import head_service_of
from kuberay.plan.model import AuthSecret, JobInfoProbe, ProbeResult, StopJobCall

_TIMER = "jobStatusCheckFailureStartTime"


def job_info_probe(draft: Draft, cluster: RayObject | None) -> JobInfoProbe | None:
    """The question for the attempt's submission; None while there is nobody or nothing to ask about."""
    address, job_id = draft.status.get("dashboardURL"), draft.status.get("jobId")
    if not address or not job_id:
        return None
    service, auth = access(draft, cluster)
    return JobInfoProbe(address, job_id, draft.obj.namespace, service, auth)


def stop_call(draft: Draft, cluster: RayObject | None) -> StopJobCall | None:
    """The request to stop the attempt's submission; None when there is none to stop."""
    probe = job_info_probe(draft, cluster)
    return StopJobCall(probe.address, probe.job_id, probe.namespace, probe.service, probe.auth) if probe else None


def access(draft: Draft, cluster: RayObject | None) -> tuple[str, AuthSecret | None]:
    """Head service name and token of the dashboard."""
    if cluster is None:
        return names.head_service_name(draft.status.get("rayClusterName") or ""), None
    options = cluster.spec.get("authOptions") or {}
    auth = None
    if options.get("mode") == "token":
        auth = AuthSecret(cluster.namespace, secret_name(options, cluster.name), SECRET_KEY)
    return head_service_of(cluster), auth


def ask(draft: Draft, cluster: RayObject | None) -> ProbeResult | None:
    """Keep the question going and take over its last answer; returns that answer."""
    probe = job_info_probe(draft, cluster)
    if probe is None:
        return None
    draft.want(probe)
    result = draft.observed.probes.get(probe)
    if result is None:
        return None
    status = draft.status
    if result.outcome == "error":
        if not status.get(_TIMER):
            status[_TIMER] = format_time(result.failing_since or result.at)
        return result
    status.pop(_TIMER, None)
    if result.outcome == "found":
        _take_over(draft, result)
    return result


def _take_over(draft: Draft, result: ProbeResult) -> None:
    info, status = result.value, draft.status
    if draft.ray_job_ended and info.get("status") != status.get("jobStatus"):
        # Ray never leaves an end, so this answer was given before the one that is stored.
        return
    status["jobStatus"] = info.get("status") or ""
    status["message"] = info.get("message") or ""
    status["reason"] = ""
    times = {"startTime": info.get("start_time"), "endTime": info.get("end_time")}
    told = {key: format_time(from_milliseconds(value)) for key, value in times.items() if value}
    if told:
        status["rayJobInfo"] = {**(status.get("rayJobInfo") or {}), **told}


def checks_timed_out(draft: Draft, result: ProbeResult | None) -> str | None:
    """The message when checks have been failing for too long. A check must have failed just now to say so."""
    since = draft.time(_TIMER)
    if since is None or result is None or result.outcome != "error":
        return None
    timeout = draft.observed.config.job_status_check_timeout
    return deadlines.check_timeout_message(since, timeout) if deadlines.passed(draft, since + timeout) else None


def asked_since(result: ProbeResult | None, moment: datetime) -> bool:
    """Whether the dashboard was asked after *moment*, so that its answer may judge what happened then (RJ-08).

    Times of Kubernetes have whole seconds, so the second that *moment* names must be over.
    """
    return result is not None and result.at >= moment + timedelta(seconds=1)


def failing_for(result: ProbeResult | None, now: datetime, period: timedelta) -> bool:
    """Whether the dashboard has given no answer at all for *period*."""
    if result is None or result.outcome != "error":
        return False
    return now - (result.failing_since or result.at) >= period
