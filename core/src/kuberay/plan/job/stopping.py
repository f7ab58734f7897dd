"""How an attempt is taken down to be suspended or tried again, and how a suspended RayJob comes back.

Source: spec rayjob.md 2.2 (Suspending, Retrying, Suspended) and 4.4.
"""

from __future__ import annotations

from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import JOB
from kuberay.plan.job import hook_calls
from kuberay.plan.job.cluster_removal import delete_child, delete_cluster
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import find_cluster, owned_by
from kuberay.plan.job.starting import begin
from kuberay.plan.job.submitter_watch import look_at_job
from kuberay.plan.model import Write

_OF_THE_ATTEMPT = (
    "rayClusterStatus",
    "rayClusterName",
    "dashboardURL",
    "jobId",
    "jobStatus",
    "message",
    "reason",
    "rayJobInfo",
    "jobStatusCheckFailureStartTime",
)


def take_down(draft: Draft) -> None:
    """Suspending and Retrying: delete what the attempt made, and move on once all of it is really gone.

    Suspending goes to its end whatever ``spec.suspend`` says meanwhile; a retry that is to be suspended rests (RJ-23).
    """
    retrying = draft.state == JobDeploymentStatus.RETRYING
    remains, deletes = _remains(draft)
    draft.write(*deletes)
    if remains:
        draft.wait(f"{' and '.join(remains)} must be gone first")
        return
    if not hook_calls.clean_up(draft, "Retrying" if retrying else "Suspended", None, wait=True):
        return
    for key in _OF_THE_ATTEMPT:
        draft.status.pop(key, None)
    goes_on = retrying and not draft.suspend_wanted
    following = JobDeploymentStatus.NEW if goes_on else JobDeploymentStatus.SUSPENDED
    draft.status["jobDeploymentStatus"] = following.value


def _remains(draft: Draft) -> tuple[list[str], list[Write]]:
    remains: list[str] = []
    deletes: list[Write] = []
    cluster = find_cluster(draft)
    if cluster is not None and draft.uses_own_cluster and owned_by(draft, cluster):
        remains.append(f"RayCluster {cluster.name}")
        deletes += delete_cluster(draft, cluster)
    submitter = look_at_job(draft).job
    if submitter is not None:
        remains.append(f"Job {submitter.name}")
        if not submitter.deleting:
            deletes.append(delete_child(JOB, submitter, "RayJobSubmitter", "submitter K8s Job"))
    return remains, deletes


def rest(draft: Draft) -> None:
    """Suspended: nothing until ``spec.suspend`` is false; then the next attempt begins in the same pass."""
    if draft.spec.suspend:
        draft.wait("the RayJob is suspended")
        return
    begin(draft)
