"""When a submitter Job must not go on, since it would hand the job in again: it is suspended, and its pod goes.

A submitter that is restarted hands in a job that Ray does not know (spec rayjob.md 3.2). Without fault tolerance of the GCS a
job dies with the head it ran on, and Ray forgets it, so from then on a submitter is a second run of one attempt (cases.md RJ-01,
for K8sJobMode). A submitter that only follows the log of a job which Ray still has is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kuberay.api.job import JobFailedReason
from kuberay.api.kinds import JOB, POD
from kuberay.api.names import ANNOTATION_SILENCED
from kuberay.api.objects import Job, Pod, RayObject
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.job_probe import asked_since
from kuberay.plan.job.ray_cluster import cluster_spec
from kuberay.plan.job.submission import seen, submitted, submitted_at
from kuberay.plan.job.submitter_watch import Submitter, head_pod, look_at_job, ray_container
from kuberay.plan.model import Delete, Event, Patch, ProbeResult

_OVER = ("Failed", "Succeeded")
"""Phases of pods that have ended; those of a submitter stay for their logs."""


def guard_submitter(
    draft: Draft, cluster: RayObject | None, submitter: Submitter | None, result: ProbeResult | None
) -> None:
    """The RayJob is Running: suspend its submitter while the head that took the job is gone, or while Ray does not tell of
    the job and a pod of the submitter has failed; until Ray is seen to have the job. *result* is the dashboard's last answer.
    """
    job = submitter.job if submitter is not None else None
    if submitter is None or job is None or job.deleting or submitter.finished_at is not None:
        return
    doubt = _doubt(draft, cluster, job, result) if submitted(draft) else ""
    ours = ANNOTATION_SILENCED in job.metadata.annotations
    if doubt and not job.suspended:
        _suspend(draft, job, doubt)
    elif job.suspended and ours and not doubt and _told_since(job, result):
        body = {"metadata": {"uid": job.uid, "annotations": {ANNOTATION_SILENCED: None}}, "spec": {"suspend": False}}
        draft.write(Patch(kind=JOB, namespace=job.namespace, name=job.name, body=body, optional=True))
    elif job.suspended and ours:
        _end_pods(draft, job)


def _doubt(draft: Draft, cluster: RayObject | None, job: Job, result: ProbeResult | None) -> str:
    """Why it is not certain that the submitter's next try finds the job with Ray; empty when it is."""
    if _head_changed(draft, cluster, result):
        return "the head that ran the Ray job is gone"
    if job.status.failed and result is not None and result.outcome != "found":
        # Its head may be gone before that is noticed.
        return "a pod failed, and Ray does not tell of the job"
    return ""


def silence_submitter(draft: Draft, stopped: ProbeResult | None, *, given_up: bool = False) -> None:
    """The RayJob is over, and its submitter is not. *stopped* is how the request to stop its Ray job went, where one was made; *given_up*: it was
    not answered for so long that nobody waits for it any more."""
    if not draft.mode.submitter_job:
        return
    submitter = look_at_job(draft)
    job = submitter.job
    if job is None or job.deleting or submitter.finished_at is not None:
        return
    if job.suspended:
        if ANNOTATION_SILENCED in job.metadata.annotations:
            _end_pods(draft, job)
        return
    in_time = seen(draft) and draft.status.get("reason") == JobFailedReason.DEADLINE_EXCEEDED
    if in_time and not given_up and (stopped is None or (stopped.outcome == "found" and stopped.value.get("stopped"))):
        return
    _suspend(draft, job, "the RayJob is over")


def _suspend(draft: Draft, job: Job, why: str) -> None:
    where = f"{job.namespace}/{job.name}"
    body = {"metadata": {"uid": job.uid, "annotations": {ANNOTATION_SILENCED: "true"}}, "spec": {"suspend": True}}
    note = f"Suspended Kubernetes Job {where}: {why}, and the job must not be submitted again"
    done = Event("SuspendedRayJobSubmitter", note, "Warning", action="Update")
    draft.write(Patch(kind=JOB, namespace=job.namespace, name=job.name, body=body, done=done, optional=True))


def _end_pods(draft: Draft, job: Job) -> None:
    """The pods of a suspended Job get 30 s to end, and the shell in them does not listen: long enough to submit."""
    pods = cast("Sequence[Pod]", draft.observed.view.owned(job.uid, POD))
    draft.write(
        *(
            Delete(kind=POD, namespace=pod.namespace, name=pod.name, uid=pod.uid, at_once=True, optional=True)
            for pod in pods
            # One that is to be gone by now cannot be told so again.
            if pod.status.phase not in _OVER
            and (pod.metadata.deletion_timestamp is None or pod.metadata.deletion_timestamp > draft.now)
        )
    )


def _told_since(job: Job, result: ProbeResult | None) -> bool:
    """Whether Ray has told of the job since its submitter rests."""
    rests = next((each for each in job.status.conditions if each.type == "Suspended" and each.status == "True"), None)
    since = rests.last_transition_time if rests is not None else None
    return since is not None and result is not None and result.outcome == "found" and asked_since(result, since)


def _head_changed(draft: Draft, cluster: RayObject | None, result: ProbeResult | None) -> bool:
    """Whether the present head is not the one that took the job, and Ray has not told of the job since it runs."""
    at = submitted_at(draft)
    if at is None:
        return False
    pod = head_pod(draft, cluster)
    there = pod is not None and pod.status.phase not in _OVER
    ray = ray_container(pod) if pod is not None and there else None
    runs_since = ray.state.running.started_at if ray is not None and ray.state.running is not None else None
    if pod is not None and there:
        # By the API server's clock where that can tell: the kubelet's may be another.
        made = runs_since if ray is not None and ray.restart_count else pod.metadata.creation_timestamp
        if made is not None and made <= at:
            return False
        if ray is None:
            runs_since = made
    spec = cluster_spec(cluster) if cluster is not None else None
    if cluster is not None and spec is not None and spec.gcs_ft_enabled(cluster.metadata.annotations):
        return False
    told = result is not None and result.outcome == "found"
    return not (told and runs_since is not None and asked_since(result, runs_since))
