"""Whether a job that nobody wants any more may still reach Ray: a request to stop it would come too early then.

Source: spec rayjob.md 3.5 and 4.10; cases.md RJ-29. Who hands the job in may be about to, or have just done it.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import cast

from kuberay.api.kinds import POD
from kuberay.api.objects import Job, Pod, RayObject
from kuberay.plan.job import deadlines
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.job_probe import job_info_probe
from kuberay.plan.job.submission import submitted
from kuberay.plan.job.submitter_watch import head_pod, look_at_job, look_at_submitter, ray_container

WITHDRAWAL = timedelta(seconds=45)
"""How long a submitter Job is waited for that was told to end: its pod has 30 s for it."""

POST_FLIGHT = timedelta(seconds=10)
"""How long a request that hands in a job may be under way, be it from a pod that was ended at once."""


def may_come_yet(draft: Draft, cluster: RayObject, since: datetime) -> bool:
    """Whether the job may still be handed to *cluster*, and is not there. Nobody wants it *since* then."""
    if draft.mode.sidecar:
        return _sidecar_may(draft, cluster, since)
    if draft.mode.posts:
        over = deadlines.passed(draft, since + POST_FLIGHT)
    else:
        submitter = look_at_job(draft) if draft.mode.submitter_job else None
        job = submitter.job if submitter is not None and submitter.finished_at is None else None
        # A pod that is gone for the API server may be alive on its node for some seconds more.
        rests = job is not None and _rests(draft, job) and deadlines.passed(draft, since + POST_FLIGHT)
        over = job is None or rests or deadlines.passed(draft, since + WITHDRAWAL)
    return not over and not _is_there(draft, cluster)


def _is_there(draft: Draft, cluster: RayObject) -> bool:
    probe = job_info_probe(draft, cluster)
    if probe is None:
        return False
    draft.want(probe)
    result = draft.observed.probes.get(probe)
    return result is not None and result.outcome == "found"


def _rests(draft: Draft, job: Job) -> bool:
    """Whether a Job is suspended and its pods have ended."""
    pods = cast("Sequence[Pod]", draft.observed.view.owned(job.uid, POD))
    at_work = job.status.active or any(pod.status.phase not in ("Failed", "Succeeded") for pod in pods)
    return job.suspended and not at_work


def asked_until(draft: Draft, cluster: RayObject, since: datetime) -> datetime:
    """How long a dashboard is asked about a job that nobody wants *since* then. One whose Ray comes up later than that is
    asked from there on, if its head submits."""
    started = _ray_started(draft, cluster) if draft.mode.sidecar and not submitted(draft) else None
    return max(since, started or since) + draft.observed.config.job_status_check_timeout


def _sidecar_may(draft: Draft, cluster: RayObject, since: datetime) -> bool:
    """A submitter in the head pod hands the job in soon after Ray is up, however long that takes."""
    submitter = look_at_submitter(draft, cluster)
    if submitter is None or submitter.lost is not None or submitter.finished_at is not None:
        return False
    if _ray_started(draft, cluster) is None:
        # Until it runs there is nobody to ask; the RayCluster's status tells when it does.
        return True
    return not deadlines.passed(draft, asked_until(draft, cluster, since)) and not _is_there(draft, cluster)


def _ray_started(draft: Draft, cluster: RayObject) -> datetime | None:
    """Since when Ray runs in the head pod; None while it does not."""
    pod = head_pod(draft, cluster)
    ray = ray_container(pod) if pod is not None else None
    if pod is None or ray is None or ray.state.running is None:
        return None
    return ray.state.running.started_at or pod.metadata.creation_timestamp
