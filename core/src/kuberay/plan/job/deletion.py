"""What must happen before a deleted RayJob may go: one attempt to stop its Ray job, then the finalizer is removed.

Source: spec rayjob.md 4.10; cases.md RJ-29: whatever comes of the attempt, the finalizer goes.
"""

from __future__ import annotations

from datetime import timedelta

from kuberay.api.kinds import RAYJOB
from kuberay.api.names import RAYJOB_FINALIZER
from kuberay.plan.job import deadlines
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.job_probe import stop_call
from kuberay.plan.job.ray_cluster import alive, find_cluster
from kuberay.plan.model import Patch

PATIENCE = timedelta(seconds=30)
"""How long after the delete the result of the stop request is waited for: it never came if the operator restarted."""


def let_go(draft: Draft) -> None:
    """The RayJob is being deleted."""
    obj = draft.obj
    if RAYJOB_FINALIZER not in obj.metadata.finalizers or not _stopped(draft):
        return
    remaining = [name for name in obj.metadata.finalizers if name != RAYJOB_FINALIZER]
    draft.write(
        Patch(
            kind=RAYJOB,
            namespace=obj.namespace,
            name=obj.name,
            body={"metadata": {"finalizers": remaining}},
            resource_version=obj.metadata.resource_version,
        )
    )


def _stopped(draft: Draft) -> bool:
    """Whether the Ray job needs no stop, or the one attempt at it is over."""
    cluster = find_cluster(draft)
    if draft.ray_job_ended or not alive(cluster):
        return True
    call = stop_call(draft, cluster)
    if call is None:
        return True
    draft.want(call)
    result = draft.observed.probes.get(call)
    if result is None:
        since = draft.obj.metadata.deletion_timestamp or draft.now
        draft.wait("the Ray job is being stopped")
        if not deadlines.passed(draft, since + PATIENCE):
            return False
        problem = f"no answer within {int(PATIENCE.total_seconds())}s"
    elif result.outcome == "error":
        problem = result.error
    else:
        return True
    note = f"Failed to stop Ray job {call.job_id} of RayJob {draft.where}: {problem}"
    draft.event("FailedToStopRayJob", note, action="Delete", warning=True)
    return True
