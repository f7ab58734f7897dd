"""What each deletion policy does to what a RayJob leaves behind, when that is done already, and from when on it is due.

Source: spec rayjob.md 4.8 and 4.9; cases.md RJ-05: a RayCluster that the RayJob does not control is never touched.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kuberay.api.job import DeletionPolicy
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.objects import RayObject
from kuberay.plan.job.cluster_removal import delete_cluster
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import owned_by
from kuberay.plan.model import Delete, Event, Manifest, Patch, Write

_LONGEST = 2**31 - 1


def policy_named(word: str | None) -> DeletionPolicy | None:
    """The policy a spec names; None for a word that is none."""
    try:
        return DeletionPolicy(word or "")
    except ValueError:
        return None


def due_at(draft: Draft, seconds: int) -> datetime | None:
    """When something is due that a spec wants *seconds* after the job's end; a negative number counts as 0."""
    ended_at = draft.time("endTime")
    return None if ended_at is None else ended_at + timedelta(seconds=min(max(seconds, 0), _LONGEST))


def achieved(draft: Draft, policy: DeletionPolicy, cluster: RayObject | None) -> bool:
    """Whether nothing is left to be done for *policy*: also when what it would delete is not the RayJob's."""
    if policy == DeletionPolicy.DELETE_NONE:
        return True
    if policy == DeletionPolicy.DELETE_SELF:
        return False
    if cluster is None or cluster.deleting or not draft.uses_own_cluster or not owned_by(draft, cluster):
        return True
    return policy == DeletionPolicy.DELETE_WORKERS and not _groups_with_workers(cluster)


def carry_out(draft: Draft, policy: DeletionPolicy, cluster: RayObject | None) -> None:
    """Have done what *policy* says. The submitter Job stays for its logs, unless the RayJob itself goes."""
    if achieved(draft, policy, cluster):
        return
    if policy == DeletionPolicy.DELETE_SELF:
        obj = draft.obj
        draft.write(Delete(kind=RAYJOB, namespace=obj.namespace, name=obj.name, uid=obj.uid))
    elif policy == DeletionPolicy.DELETE_CLUSTER:
        draft.write(*delete_cluster(draft, cluster))
    elif cluster is not None:
        _delete_workers(draft, cluster)


def _delete_workers(draft: Draft, cluster: RayObject) -> None:
    where = f"{cluster.namespace}/{cluster.name}"
    if cluster.spec.get("enableInTreeAutoscaling"):
        # Refused in the RayJob's spec, so somebody has turned it on since. Its RayCluster would be refused as a whole.
        sentence = f"the worker groups of RayCluster {where} cannot be suspended while it has autoscaling enabled"
        if draft.hold("WorkersNotDeleted", sentence):
            note = f"Failed to suspend worker groups in cluster {where}: {sentence}"
            draft.event("FailedToUpdateRayCluster", note, action="Update", warning=True)
        return
    draft.write(_suspend_groups(cluster, where))


def _suspend_groups(cluster: RayObject, where: str) -> Write:
    """``suspend: true`` for every worker group. The tests keep a place in the list from meaning another group by now;
    who changes anything else at the same time (replicas, a status) is not in the way."""
    operations: list[Manifest] = [{"op": "test", "path": "/metadata/uid", "value": cluster.uid}]
    for index, name in _groups_with_workers(cluster):
        path = f"/spec/workerGroupSpecs/{index}"
        operations.append({"op": "test", "path": f"{path}/groupName", "value": name})
        operations.append({"op": "add", "path": f"{path}/suspend", "value": True})
    note = f"Set the `suspend` field to true for all worker groups in cluster {where}"
    return Patch(
        kind=RAYCLUSTER,
        namespace=cluster.namespace,
        name=cluster.name,
        operations=operations,
        done=Event("UpdatedRayCluster", note, action="Update"),
        failed=lambda error: Event(
            "FailedToUpdateRayCluster",
            f"Failed to suspend worker groups in cluster {where}: {error}",
            "Warning",
            "Update",
        ),
    )


def _groups_with_workers(cluster: RayObject) -> list[tuple[int, str]]:
    """Place and name of the worker groups that are not suspended."""
    groups = cluster.spec.get("workerGroupSpecs") or []
    return [(index, group.get("groupName")) for index, group in enumerate(groups) if not group.get("suspend")]
