"""What ``status.message`` says of a job that Ray ran: Ray's own words, and how the log of a failed job ends where they lack it.

Source: spec rayjob.md 1.3 and 3.10. Of a job that failed, Ray's message normally holds the last lines of the log.
"""

from __future__ import annotations

from datetime import timedelta

from kuberay.api.job import JobStatus
from kuberay.plan.job.draft import Draft
from kuberay.plan.model import JobInfoProbe, JobLogsProbe

MAX_BYTES = 32_000
"""The status is part of an object that must stay small, and a job writes its own log."""
_CUT = "\n[… cut …]\n"
_TOO_LATE = timedelta(minutes=1)
"""After the end of a job nobody waits for its log any more."""


def bounded(message: str) -> str:
    """*message*, or its beginning and, mostly, its end: that is what tells why a job failed."""
    raw = message.encode(errors="replace")
    if len(raw) <= MAX_BYTES:
        return message
    room = MAX_BYTES - len(_CUT.encode())
    start, end = raw[: room // 4], raw[-(room - room // 4) :]
    return start.decode(errors="ignore") + _CUT + end.decode(errors="ignore")


def add_last_lines(draft: Draft, asked: JobInfoProbe | None) -> bool:
    """Have the log of a failed job end its message, if Ray's does not hold any of it. False while that is awaited: its
    dashboard answers, or fails to, within seconds. *asked* is the question about the job itself."""
    message = str(draft.status.get("message") or "")
    if draft.job_status != JobStatus.FAILED or asked is None or "\n" in message.strip():
        return True
    probe = JobLogsProbe(asked.address, asked.job_id, asked.namespace, asked.service, asked.auth)
    draft.want(probe)
    result = draft.observed.probes.get(probe)
    if result is None:
        ended_at = draft.time("rayJobInfo", "endTime")
        if ended_at is None or draft.now >= ended_at + _TOO_LATE:
            return True
        draft.wake_at(ended_at + _TOO_LATE)
        return False
    lines = str(result.value.get("lines") or "") if result.outcome == "found" else ""
    if lines:
        draft.status["message"] = bounded(f"{message.strip() or 'The job failed.'}\nLast lines of its log:\n{lines}")
    return True


def leave_for_later(draft: Draft) -> None:
    """Write the end only together with its message: the dashboard's answer is taken over again in the next pass."""
    for key in ("jobStatus", "message", "reason", "rayJobInfo"):
        if key in draft.obj.status:
            draft.status[key] = draft.obj.status[key]
        else:
            draft.status.pop(key, None)
    draft.wait("the Ray job has failed; its log is asked for")
