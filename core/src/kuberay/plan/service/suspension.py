"""Suspend and resume: everything that the RayService owns is deleted, and made anew with the newest spec.

Source: spec rayservice.md 2.4; cases.md RS-17. The stored condition Suspending is the point of no return.
"""

from __future__ import annotations

from kuberay.api.conditions import FALSE, TRUE, ServiceCondition, ServiceReason
from kuberay.api.kinds import RAYCLUSTER, SERVICE, Kind
from kuberay.api.objects import Object
from kuberay.plan.model import Delete, Event, Write
from kuberay.plan.service.deletion import delete_cluster
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft

SUSPENDING = "RayService is suspending."
SUSPENDED = "RayService is suspended."
_MOMENT = " during suspend"
C, R = ServiceCondition, ServiceReason


def rules(draft: Draft) -> bool:
    """Whether suspending has this pass; then nothing else happens in it."""
    if draft.is_true(C.SUSPENDING):
        _take_down(draft)
        return True
    if draft.is_true(C.SUSPENDED):
        if draft.spec.suspend:
            draft.wait("the RayService is suspended")
            return True
        _resume(draft)
        return False
    if draft.spec.suspend:
        _begin(draft)
        return True
    return False


def _begin(draft: Draft) -> None:
    """Only said in this pass: nothing is deleted before it is stored."""
    status = draft.status
    status["observedGeneration"] = draft.obj.metadata.generation
    told = "Spec.Suspend is true; will delete all Kubernetes resources owned by this RayService."
    draft.condition(C.SUSPENDING, TRUE, R.SUSPEND_REQUESTED, told)
    draft.condition(C.READY, FALSE, R.SUSPEND_IN_PROGRESS, SUSPENDING)
    draft.condition(C.UPGRADE_IN_PROGRESS, FALSE, R.SUSPEND_IN_PROGRESS, "No upgrade in progress.")
    draft.condition(C.ROLLBACK_IN_PROGRESS, FALSE, R.SUSPEND_IN_PROGRESS, "No rollback in progress.")
    draft.drop_condition(C.EDIT_IGNORED)
    for side in (ACTIVE, PENDING):
        status[side] = {}
    for field in ("numServeEndpoints", "serviceStatus"):
        status.pop(field, None)
    draft.wait("the RayService is about to be suspended")


def _take_down(draft: Draft) -> None:
    left = [(kind, obj) for kind in _kinds(draft) for obj in draft.observed.view.owned(draft.obj.uid, kind)]
    if left:
        told = "Waiting for all Kubernetes resources owned by this RayService to be deleted."
        draft.condition(C.SUSPENDING, TRUE, R.SUSPEND_IN_PROGRESS, told)
        draft.write(*(_delete(kind, obj) for kind, obj in left if not obj.deleting))
        draft.wait("what the RayService owns is being deleted")
        return
    draft.condition(C.SUSPENDING, FALSE, R.SUSPEND_COMPLETE, "All owned resources have been deleted.")
    draft.condition(C.SUSPENDED, TRUE, R.SUSPEND_COMPLETE, "All owned resources have been deleted.")
    draft.condition(C.READY, FALSE, R.SUSPEND_COMPLETE, SUSPENDED)
    draft.condition(C.UPGRADE_IN_PROGRESS, FALSE, R.SUSPEND_COMPLETE, "No upgrade in progress.")
    draft.condition(C.ROLLBACK_IN_PROGRESS, FALSE, R.SUSPEND_COMPLETE, "No rollback in progress.")


def _resume(draft: Draft) -> None:
    draft.status["observedGeneration"] = draft.obj.metadata.generation
    draft.condition(C.SUSPENDED, FALSE, R.RESUMED, "Spec.Suspend is false; RayService has resumed.")
    for type_ in (C.READY, C.UPGRADE_IN_PROGRESS):
        # Time begins anew: for the initializing timeout, too.
        draft.drop_condition(type_)
        draft.condition(type_, FALSE, R.INITIALIZING, "RayService is initializing after resuming from suspend.")


def _kinds(draft: Draft) -> list[Kind]:
    """What a RayService may own: its RayClusters, services, and objects of plugins (Gateway and HTTPRoute)."""
    kinds = [RAYCLUSTER, SERVICE]
    kinds += [watch.kind for watch in draft.observed.hooks.watches() if watch.kind not in kinds]
    return kinds


def _delete(kind: Kind, obj: Object) -> Write:
    if kind == RAYCLUSTER:
        return delete_cluster(obj, during=_MOMENT)
    what = f"the {kind.kind} {obj.namespace}/{obj.name}{_MOMENT}"
    return Delete(
        kind=kind,
        namespace=obj.namespace,
        name=obj.name,
        uid=obj.uid,
        done=Event(f"Deleted{kind.kind}", f"Deleted {what}", action="Delete"),
        failed=lambda error: Event(
            f"FailedToDelete{kind.kind}", f"Failed to delete {what}: {error}", "Warning", "Delete"
        ),
    )
