"""What keeps a RayCluster of a RayService from serving, as far as it is the RayCluster: its own conditions say it best.

Source: this operator's own (docs/differences).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kuberay.api.conditions import FALSE, TRUE, ClusterCondition, find_condition
from kuberay.api.times import parse_time
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft
from kuberay.plan.service.sides import Side

HEAD_PATIENCE = timedelta(minutes=5)
"""How long a head may take to become ready before it is told that it is not."""

_TROUBLE = (
    ClusterCondition.HEAD_OUTDATED,
    ClusterCondition.PODS_NOT_READY,
    ClusterCondition.PODS_WAITING,
    ClusterCondition.REPLICA_FAILURE,
)


def explain(draft: Draft, side: Side) -> None:
    """Say so, if anything does."""
    where = f"RayCluster {draft.obj.namespace}/{side.name}"
    if side.cluster is None or not side.exists:
        if side.key == ACTIVE:
            successor = draft.cluster_name(PENDING)
            next_one = f"RayCluster {draft.obj.namespace}/{successor}" if successor else "another one"
            draft.hold("RayClusterDeleted", f"{where} was deleted; {next_one} takes its place")
        return
    conditions: Sequence[Mapping[str, Any]] = side.cluster.status.get("conditions") or ()
    valid = find_condition(conditions, ClusterCondition.SPEC_VALID)
    if valid is not None and valid.get("status") == FALSE:
        draft.hold("RayClusterRefused", f"{where} is refused: {valid.get('message')}")
    if side.cluster.spec.get("suspend"):
        draft.hold("RayClusterSuspended", f"{where} is suspended")
        return
    for type_ in _TROUBLE:
        found = find_condition(conditions, type_)
        if found is not None and found.get("status") == TRUE:
            draft.hold(str(found.get("reason") or type_), f"{where}: {found.get('message')}")
    rolling = find_condition(conditions, ClusterCondition.ROLLING_UPGRADE)
    if rolling is not None and rolling.get("status") == TRUE:
        draft.wait(f"{where}: {rolling.get('message')}")
    if not side.head_ready:
        told = since_when(find_condition(conditions, ClusterCondition.HEAD_POD_READY))
        since = told or side.cluster.metadata.creation_timestamp or draft.now
        draft.hold("HeadNotReady", f"the head of {where} is not ready", since=since, patience=HEAD_PATIENCE)


def since_when(condition: Mapping[str, Any] | None) -> datetime | None:
    """Since when a condition is as it is."""
    try:
        return parse_time(str((condition or {}).get("lastTransitionTime")))
    except ValueError:
        return None
