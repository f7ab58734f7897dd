"""How what a RayJob made is deleted: its own RayCluster, and its other children. Clusters it does not control are left alone (RJ-05).

Source: spec rayjob.md 4.8 and 7.1.
"""

from __future__ import annotations

from kuberay.api.kinds import RAYCLUSTER, Kind
from kuberay.api.objects import Object, RayObject
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import owned_by
from kuberay.plan.model import Delete, Event, Write


def delete_cluster(draft: Draft, cluster: RayObject | None) -> list[Write]:
    """The delete of *cluster*; nothing when it is gone, going, or not the RayJob's."""
    if cluster is None or cluster.deleting or not draft.uses_own_cluster or not owned_by(draft, cluster):
        return []
    return [delete_child(RAYCLUSTER, cluster, "RayCluster", "cluster")]


def delete_child(kind: Kind, child: Object, reason: str, words: str) -> Delete:
    """The delete of a RayJob's child, with the events ``Deleted<reason>`` and ``FailedToDelete<reason>``."""
    what = f"{words} {child.namespace}/{child.name}"
    return Delete(
        kind=kind,
        namespace=child.namespace,
        name=child.name,
        uid=child.uid,
        done=Event(f"Deleted{reason}", f"Deleted {what}", action="Delete"),
        failed=lambda error: Event(f"FailedToDelete{reason}", f"Failed to delete {what}: {error}", "Warning", "Delete"),
    )
