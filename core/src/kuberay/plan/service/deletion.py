"""The finalizer of a RayService, and how a deleted one goes: its RayClusters first, as long as that is reasonable.

Source: spec rayservice.md 2.3. Services, Gateway and HTTPRoute go with their owner, through garbage collection.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE
from kuberay.api.names import RAYSERVICE_FINALIZER
from kuberay.api.objects import Object
from kuberay.plan.model import Delete, Event, Patch, Plan
from kuberay.plan.service.draft import Draft

PATIENCE = timedelta(minutes=5)
"""How long after the delete the RayClusters are waited for. Each has its own cleanup, which then goes on without us."""


def hold_on(draft: Draft) -> bool:
    """Put the finalizer there; True when it was missing, and nothing else happens in this pass."""
    present = draft.obj.metadata.finalizers
    if RAYSERVICE_FINALIZER in present:
        return False
    draft.write(_finalizers(draft, [*present, RAYSERVICE_FINALIZER]))
    return True


def let_go(draft: Draft) -> Plan:
    """The RayService is being deleted. Whatever its spec says, and whatever becomes of its RayClusters, it goes."""
    obj = draft.obj
    if RAYSERVICE_FINALIZER not in obj.metadata.finalizers:
        return Plan()
    left = draft.observed.view.owned(obj.uid, RAYCLUSTER)
    deadline = (obj.metadata.deletion_timestamp or draft.now) + PATIENCE
    if left and draft.now < deadline:
        draft.write(*(delete_cluster(cluster, optional=True) for cluster in left if not cluster.deleting))
        draft.wait(f"the RayClusters are being deleted: {', '.join(cluster.name for cluster in left)}")
        draft.wake_at(deadline)
    else:
        # Those that are left are deleted with their owner, by garbage collection.
        draft.write(_finalizers(draft, [name for name in obj.metadata.finalizers if name != RAYSERVICE_FINALIZER]))
    plan = draft.close()
    plan.status = None
    return plan


def delete_cluster(cluster: Object, *, during: str = "", because: str = "", optional: bool = False) -> Delete:
    """The delete of a RayCluster with the events of spec 6.2; *during* ends their messages (`` during suspend``), and
    *because* is told once it is done."""
    what = f"the RayCluster {cluster.namespace}/{cluster.name}{during}"
    return Delete(
        kind=RAYCLUSTER,
        namespace=cluster.namespace,
        name=cluster.name,
        uid=cluster.uid,
        done=Event("DeletedRayCluster", f"Deleted {what}{f': {because}' if because else ''}", action="Delete"),
        failed=lambda error: Event(
            "FailedToDeleteRayCluster", f"Failed to delete {what}: {error}", "Warning", "Delete"
        ),
        optional=optional,
    )


def _finalizers(draft: Draft, finalizers: Sequence[str]) -> Patch:
    obj = draft.obj
    return Patch(
        kind=RAYSERVICE,
        namespace=obj.namespace,
        name=obj.name,
        body={"metadata": {"finalizers": list(finalizers)}},
        resource_version=obj.metadata.resource_version,
    )
