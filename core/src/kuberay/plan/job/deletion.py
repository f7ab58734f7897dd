"""What must happen before a deleted RayJob may go: its Ray job is stopped, as far as time allows; then the finalizer goes.

Source: spec rayjob.md 4.10; cases.md RJ-29: whatever comes of the attempt, the finalizer goes.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from kuberay.api.kinds import JOB, RAYJOB
from kuberay.api.names import RAYJOB_FINALIZER
from kuberay.api.objects import RayObject
from kuberay.plan.job import deadlines
from kuberay.plan.job.cluster_removal import delete_child
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.in_flight import WITHDRAWAL, may_come_yet
from kuberay.plan.job.job_probe import stop_call
from kuberay.plan.job.ray_cluster import alive, find_cluster, owned_by
from kuberay.plan.job.submission import submitted
from kuberay.plan.job.submitter_watch import look_at_job
from kuberay.plan.model import Event, Patch

PATIENCE = timedelta(seconds=30)
"""How long after the delete the result of the stop request is waited for: it never came if the operator restarted."""


def let_go(draft: Draft) -> None:
    """The RayJob is being deleted. Nothing that its spec, its namespace or anybody else says keeps it for good."""
    obj = draft.obj
    if RAYJOB_FINALIZER not in obj.metadata.finalizers:
        return
    try:
        problem = _stop(draft)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # A RayCluster or a status of a shape that nobody thought of.
        problem = f"{type(error).__name__}: {error}"
    if problem is None:
        draft.wait("the Ray job is being stopped")
        return
    done = None
    if problem:
        note = f"Failed to stop Ray job {draft.status.get('jobId')} of RayJob {draft.where}: {problem}"
        done = Event("FailedToStopRayJob", note, "Warning", "Delete")
    remaining = [name for name in obj.metadata.finalizers if name != RAYJOB_FINALIZER]
    draft.write(
        Patch(
            kind=RAYJOB,
            namespace=obj.namespace,
            name=obj.name,
            body={"metadata": {"finalizers": remaining}},
            resource_version=obj.metadata.resource_version,
            # Told with the write: the RayJob may be gone before the pass is over.
            done=done,
        )
    )


def _stop(draft: Draft) -> str | None:
    """What kept the Ray job from being stopped, empty when it needs no stop or is stopped; None while that is going on."""
    cluster = find_cluster(draft)
    if draft.ray_job_ended or cluster is None or not alive(cluster):
        return ""
    call = stop_call(draft, cluster)
    if call is None:
        return ""
    since = draft.obj.metadata.deletion_timestamp or draft.now
    # A cluster of the RayJob's own goes with it, and so does what comes late. On one that stays it would run for good.
    stays = not owned_by(draft, cluster) and not submitted(draft)
    patience = WITHDRAWAL + PATIENCE if stays else PATIENCE
    if not (stays and _may_come_yet(draft, cluster, since)):
        draft.want(call)
        result = draft.observed.probes.get(call)
        if result is not None:
            return result.error if result.outcome == "error" else ""
    if deadlines.passed(draft, since + patience):
        return f"no answer within {int(patience.total_seconds())}s"
    return None


def _may_come_yet(draft: Draft, cluster: RayObject, since: datetime) -> bool:
    """Whether the job may still be handed to the cluster, so that a stop would come too early; has its submitter end."""
    if not may_come_yet(draft, cluster, since):
        return False
    submitter = look_at_job(draft) if draft.mode.submitter_job else None
    if submitter is not None and submitter.job is not None and not submitter.going:
        # In the foreground it is there until its pods are gone. That it cannot be deleted is no reason to stay.
        delete = delete_child(JOB, submitter.job, "RayJobSubmitter", "submitter K8s Job")
        draft.write(replace(delete, propagation="Foreground", optional=True))
    return True
