"""What comes about for a RayService in a played world, in words: what its status says, and what RayClusters are given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kuberay.api import names
from kuberay.api.conditions import TRUE, ServiceCondition, ServiceReason, find_condition
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE, Kind
from kuberay.plan.edit.changes import field_changes

Body = Mapping[str, Any]

_SIDES = ("activeServiceStatus", "pendingServiceStatus")
_OPERATORS = frozenset(
    {
        names.ANNOTATION_CLUSTER_HASH,
        names.ANNOTATION_WORKER_GROUPS,
        names.ANNOTATION_OPERATOR_VERSION,
        names.ANNOTATION_SERVE_CONFIG,
        names.ANNOTATION_SERVE_CONFIG_GIVEN,
        names.ANNOTATION_DELETE_AFTER,
    }
)
"""Annotations that the operator keeps its own books with."""
_GIVEN = (names.ANNOTATION_SERVE_CONFIG, names.ANNOTATION_SERVE_CONFIG_GIVEN)
_BEGINS = {
    ServiceCondition.SUSPENDING: "the RayService is suspended: all that it owns is deleted",
    ServiceCondition.SUSPENDED: "everything is given back; it stays suspended until spec.suspend is false",
}
_READY = {
    ServiceReason.INITIALIZING_TIMEOUT: "the RayService gives up: it has not served within its initializing timeout",
    ServiceReason.VALIDATION_FAILED: "the RayService is refused",
}


def service_moves(before: Body, after: Body) -> Iterator[str]:
    """What a write of the status says has come about."""
    yield from _conditions(before, after)
    (was_active, was_pending), (active, pending) = _clusters(before), _clusters(after)
    if active and active != was_active:
        shared = (before.get(_SIDES[1]) or {}).get("trafficRoutedPercent") is not None
        instead = f": requests go there instead of to RayCluster {was_active}" if was_active and not shared else ""
        yield f"RayCluster {active} becomes the active one{instead}"
    if was_pending and was_pending not in (active, pending):
        yield f"RayCluster {was_pending} is no longer prepared"
    old, new = _shares(before), _shares(after)
    for name, share in new.items():
        was = old.get(name, share).get("targetCapacity")
        now = share.get("targetCapacity")
        if was != now and now is not None:
            yield f"RayCluster {name} runs {now} % of its capacity (from {100 if was is None else was} %)"
    if pending and pending in old:
        was, now = (each[pending].get("trafficRoutedPercent") for each in (old, new))
        if was != now and now is not None and (was or now):
            yield f"{now} % of the requests go to RayCluster {pending}, {100 - now} % to RayCluster {active}"


def _conditions(before: Body, after: Body) -> Iterator[str]:
    for type_, words in _BEGINS.items():
        if _is_true(after, type_) and not _is_true(before, type_):
            yield words
    if _is_true(before, ServiceCondition.SUSPENDED) and not _is_true(after, ServiceCondition.SUSPENDED):
        yield "the RayService is resumed"
    rollback = ServiceCondition.ROLLBACK_IN_PROGRESS
    if _is_true(after, rollback) and not _is_true(before, rollback):
        yield f"the upgrade goes back to RayCluster {_clusters(after)[0]}"
    was, now = ((_found(status, ServiceCondition.READY) or {}).get("reason") for status in (before, after))
    if now != was and now in _READY:
        yield _READY[ServiceReason(now)]


def told_metadata(kind: Kind, name: str, before: Body, after: Body) -> Iterator[str]:
    """What a write changes of labels and annotations, as far as that is not the operator's own affair."""
    old, new = before.get("metadata") or {}, after.get("metadata") or {}
    if kind == RAYCLUSTER:
        given = [[(each.get("annotations") or {}).get(key) for key in _GIVEN] for each in (old, new)]
        if given[0] != given[1]:
            yield f"Serve of RayCluster {name} is given its configuration"
    if kind == POD:
        was, now = ((each.get("labels") or {}).get(names.LABEL_SERVE) for each in (old, new))
        if was != now:
            yield f"Pod {name} {'gets requests' if now == 'true' else 'gets no requests any more'}"
    if kind not in (RAYCLUSTER, SERVICE):
        return
    for part in ("labels", "annotations"):
        was, now = (
            {key: value for key, value in (each.get(part) or {}).items() if key not in _OPERATORS}
            for each in (old, new)
        )
        for change in field_changes(was, now, ("metadata", part)):
            yield f"{kind.kind} {name}: {change.path} {_text(change.before)} -> {_text(change.after)}"


def _text(value: Any) -> str:
    return "(none)" if value is None else str(value)


def _clusters(status: Body) -> tuple[str, str]:
    """Names of the active and the pending RayCluster."""
    active, pending = (str((status.get(key) or {}).get("rayClusterName") or "") for key in _SIDES)
    return active, pending


def _shares(status: Body) -> dict[str, Body]:
    return {
        str(side["rayClusterName"]): side
        for side in (status.get(key) or {} for key in _SIDES)
        if side.get("rayClusterName")
    }


def _found(status: Body, type_: ServiceCondition) -> Mapping[str, Any] | None:
    return find_condition(status.get("conditions") or (), type_)


def _is_true(status: Body, type_: ServiceCondition) -> bool:
    return (_found(status, type_) or {}).get("status") == TRUE
