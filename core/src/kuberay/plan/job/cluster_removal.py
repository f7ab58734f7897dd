"""How a RayJob's own RayCluster is deleted. Clusters it does not control are left alone (RJ-05).

Source: spec rayjob.md 4.8 and 7.1.
"""

from __future__ import annotations

from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.objects import RayObject
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import owned_by
from kuberay.plan.model import Delete, Event, Write


def delete_cluster(draft: Draft, cluster: RayObject | None) -> list[Write]:
    """The delete of *cluster*; nothing when it is gone, going, or not the RayJob's."""
    if cluster is None or cluster.deleting or not draft.uses_own_cluster or not owned_by(draft, cluster):
        return []
    where = f"{cluster.namespace}/{cluster.name}"
    return [
        Delete(
            kind=RAYCLUSTER,
            namespace=cluster.namespace,
            name=cluster.name,
            uid=cluster.uid,
            done=Event("DeletedRayCluster", f"Deleted cluster {where}", action="Delete"),
            failed=lambda error: Event(
                "FailedToDeleteRayCluster", f"Failed to delete cluster {where}: {error}", "Warning", "Delete"
            ),
        )
    ]
