"""When a submitter Job must not go on, since it would hand the job in again: it is suspended, and its pod goes.

A submitter that is restarted hands in a job that Ray does not know (spec rayjob.md 3.2). Without fault tolerance of the GCS a
job dies with the head it ran on, and Ray forgets it, so from then on a submitter is a second run of one attempt (cases.md RJ-01,
for K8sJobMode). A submitter that only follows the log of a job which Ray still has is left alone.
"""

from __future__ import annotations

from datetime import datetime

from kuberay.api.job import JobFailedReason
from kuberay.api.kinds import JOB
from kuberay.api.names import ANNOTATION_SILENCED
from kuberay.api.objects import Job, RayObject
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.job_probe import asked_since
from kuberay.plan.job.modes import mode_of
from kuberay.plan.job.ray_cluster import cluster_spec
from kuberay.plan.job.submission import seen, submitted, submitted_at
from kuberay.plan.job.submitter_watch import Submitter, head_pod, look_at_job, ray_container
from kuberay.plan.model import Event, Patch, ProbeResult


def guard_submitter(
    draft: Draft, cluster: RayObject | None, submitter: Submitter | None, result: ProbeResult | None
) -> None:
    """The RayJob is Running: suspend its submitter while the head that took the job is gone, until Ray is seen to have
    the job all the same. *result* is the dashboard's last answer."""
    job = submitter.job if submitter is not None else None
    if submitter is None or job is None or job.deleting or submitter.finished_at is not None:
        return
    doubtful = submitted(draft) and _head_changed(draft, cluster, result)
    if doubtful and not job.suspended:
        _suspend(draft, job, "the head that ran the Ray job is gone")
    elif (
        job.suspended and ANNOTATION_SILENCED in job.metadata.annotations and not doubtful and _told_since(job, result)
    ):
        body = {"metadata": {"uid": job.uid, "annotations": {ANNOTATION_SILENCED: None}}, "spec": {"suspend": False}}
        draft.write(Patch(kind=JOB, namespace=job.namespace, name=job.name, body=body, optional=True))


def silence_submitter(draft: Draft, stopped: ProbeResult | None, *, given_up: bool = False) -> None:
    """The RayJob is Failed. *stopped* is how the request to stop its Ray job went, where one was made; *given_up*: it was
    not answered for so long that nobody waits for it any more."""
    if not mode_of(draft.spec).submitter_job or draft.ray_job_ended:
        return
    submitter = look_at_job(draft)
    job = submitter.job
    if job is None or job.deleting or submitter.finished_at is not None or job.suspended:
        return
    in_time = seen(draft) and draft.status.get("reason") == JobFailedReason.DEADLINE_EXCEEDED
    if in_time and not given_up and (stopped is None or (stopped.outcome == "found" and stopped.value.get("stopped"))):
        return
    _suspend(draft, job, "the RayJob has failed")


def _suspend(draft: Draft, job: Job, why: str) -> None:
    where = f"{job.namespace}/{job.name}"
    body = {"metadata": {"uid": job.uid, "annotations": {ANNOTATION_SILENCED: "true"}}, "spec": {"suspend": True}}
    note = f"Suspended Kubernetes Job {where}: {why}, and the job must not be submitted again"
    done = Event("SuspendedRayJobSubmitter", note, "Warning", action="Update")
    draft.write(Patch(kind=JOB, namespace=job.namespace, name=job.name, body=body, done=done, optional=True))


def _told_since(job: Job, result: ProbeResult | None) -> bool:
    """Whether Ray has told of the job since its submitter rests."""
    rests = next((each for each in job.status.conditions if each.type == "Suspended" and each.status == "True"), None)
    since = rests.last_transition_time if rests is not None else None
    return since is not None and result is not None and result.outcome == "found" and asked_since(result, since)


def _head_changed(draft: Draft, cluster: RayObject | None, result: ProbeResult | None) -> bool:
    """Whether the present head is not the one that took the job, and Ray has not told of the job since it runs."""
    since, at = _head_since(draft, cluster), submitted_at(draft)
    if at is None or (since is not None and since <= at):
        return False
    spec = cluster_spec(cluster) if cluster is not None else None
    if cluster is not None and spec is not None and spec.gcs_ft_enabled(cluster.metadata.annotations):
        return False
    return since is None or result is None or result.outcome != "found" or result.at < since


def _head_since(draft: Draft, cluster: RayObject | None) -> datetime | None:
    """Since when the present head runs; None while there is none that runs."""
    pod = head_pod(draft, cluster)
    if pod is None or pod.status.phase in ("Failed", "Succeeded"):
        return None
    ray = ray_container(pod)
    if ray is None or not ray.restart_count:
        return pod.metadata.creation_timestamp
    return ray.state.running.started_at if ray.state.running is not None else None
