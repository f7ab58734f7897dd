"""Which RayClusters are no longer used, and when they are deleted.

Source: spec rayservice.md 2.7; cases.md RS-15: not before the delay has passed since the switch, also across restarts,
so the time is stored on the RayCluster (KubeRay keeps it in memory). `drained` says when one may go before.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from kuberay.api import names
from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE
from kuberay.api.objects import Object
from kuberay.api.service import DEFAULT_DELETION_DELAY
from kuberay.api.times import format_time, parse_time
from kuberay.plan.model import Delete, Event, Patch
from kuberay.plan.service import drained
from kuberay.plan.service.deletion import delete_cluster
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft

_AGAIN = timedelta(seconds=30)


def tidy(draft: Draft) -> None:
    """Look at all RayClusters of the RayService: what is used stays, what is not gets its time, and goes when it has come.

    Decided by the stored status: what this pass may change of it is not yet true."""
    used = {draft.cluster_name(ACTIVE), draft.cluster_name(PENDING)}
    due: list[Delete] = []
    for cluster in draft.observed.view.owned(draft.obj.uid, RAYCLUSTER):
        if cluster.deleting or not _ours(draft, cluster):
            continue
        deadline = _deadline(cluster)
        if cluster.name in used:
            if names.ANNOTATION_DELETE_AFTER in cluster.metadata.annotations:
                draft.write(_annotate(cluster, None))
        elif deadline is None and (delay := _delay(draft)):
            # Whole seconds are stored, and none of them may be missing.
            deadline = (draft.now + delay + timedelta(microseconds=999_999)).replace(microsecond=0)
            draft.write(_annotate(cluster, deadline))
            draft.wake_at(deadline)
        elif deadline is not None and draft.now < deadline:
            draft.wake_at(deadline)
            if drained.wanted(draft) and drained.is_drained(draft, cluster):
                due.append(delete_cluster(cluster, because=drained.REASON, optional=True))
        else:
            due.append(delete_cluster(cluster, optional=True))
    if due:
        # If the status has moved on without our knowing (another replica had the lead until now), one of them may be in
        # use: this write fails then.
        draft.write(_unchanged(draft))
        draft.write(*due)
        draft.wake_at(draft.now + _AGAIN)


def _ours(draft: Draft, cluster: Object) -> bool:
    labels = cluster.metadata.labels
    return (labels.get(names.LABEL_ORIGIN_CRD), labels.get(names.LABEL_ORIGIN_NAME)) == (
        RAYSERVICE.kind,
        draft.obj.name,
    )


def _delay(draft: Draft) -> timedelta:
    """As the spec says, which may be wrong in other places; a minute where it does not, or says nonsense."""
    seconds = draft.obj.spec.get("rayClusterDeletionDelaySeconds")
    if not isinstance(seconds, int) or isinstance(seconds, bool) or seconds < 0:
        return DEFAULT_DELETION_DELAY
    return timedelta(seconds=seconds)


def _deadline(cluster: Object) -> datetime | None:
    text = cluster.metadata.annotations.get(names.ANNOTATION_DELETE_AFTER)
    try:
        return parse_time(text) if text else None
    except ValueError:
        return None


def _annotate(cluster: Object, deadline: datetime | None) -> Patch:
    value = format_time(deadline) if deadline is not None else None
    what = f"the RayCluster {cluster.namespace}/{cluster.name}"
    return Patch(
        kind=RAYCLUSTER,
        namespace=cluster.namespace,
        name=cluster.name,
        body={"metadata": {"uid": cluster.uid, "annotations": {names.ANNOTATION_DELETE_AFTER: value}}},
        optional=True,
        failed=lambda error: Event(
            "FailedToUpdateRayCluster", f"Failed to update {what}: {error}", "Warning", "Update"
        ),
    )


def _unchanged(draft: Draft) -> Patch:
    obj = draft.obj
    return Patch(
        kind=RAYSERVICE,
        namespace=obj.namespace,
        name=obj.name,
        resource_version=obj.metadata.resource_version,
        must_exist=True,
    )
