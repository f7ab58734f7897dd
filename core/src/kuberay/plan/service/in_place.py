"""Which edits reach a RayCluster that is there, without another one being made.

Source: spec rayservice.md 2.6; cases.md RS-01, RS-02, RS-07, RS-08. An edit is carried out once: what others (the autoscaler,
queues, people) change of a RayCluster afterwards stays as they want it.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from kuberay.api import names
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.objects import RayObject
from kuberay.api.service import UpgradeType
from kuberay.hooks.service_upgrade import Relation
from kuberay.plan.model import Event, Manifest, Patch
from kuberay.plan.service.cluster_body import cluster_annotations, cluster_labels, cluster_spec, stamped
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.goal import (
    GROUPS,
    UNFINISHED,
    Stamp,
    cluster_strategy,
    count_as_updated,
    goal_stamp,
    last_edit,
    read_stamp,
    relation,
    shape_of,
    unfinished,
    wanted,
)
from kuberay.plan.service.sides import Side

_FOLLOWED: Mapping[str, Any] = {
    "minReplicas": 0,
    "maxReplicas": 2_147_483_647,
    "fallback": None,
    "disruptionBudget": None,
}
"""Fields of worker groups that always reach the RayCluster, with what an absent one means."""
_OF_AUTOSCALER: Mapping[str, Any] = {"replicas": 0, "scaleStrategy": None}
"""And those that do unless the autoscaler decides about them."""

_PATIENCE = timedelta(seconds=30)


def follow(draft: Draft, side: Side) -> None:
    """Bring the RayCluster of *side* up to date, as far as that needs no other one."""
    cluster = side.cluster
    if cluster is None or cluster.deleting:
        return
    goal, stored = goal_stamp(draft), read_stamp(cluster)
    told = stamped(draft, goal)
    if stored == goal:
        if (
            cluster.metadata.annotations.get(names.ANNOTATION_OPERATOR_VERSION)
            != draft.observed.config.operator_version
        ):
            draft.write(_metadata(cluster, {"annotations": told}))
        return
    found = relation(draft, side)
    if _takes_everything(draft, cluster, stored, found):
        draft.write(*_update(draft, side, cluster, _everything(draft, cluster), told))
        count_as_updated(draft, cluster)
        sentence = f"RayCluster {cluster.namespace}/{cluster.name} has not taken over rayClusterConfig yet"
        draft.hold("RayClusterNotUpdated", sentence, since=last_edit(draft) or draft.now, patience=_PATIENCE)
        return
    changes = list(_suspension(draft, cluster, stored))
    if found != "differs" and draft.strategy.on_change != "same-cluster" and _replaces_pods(cluster):
        seen = cluster.status.get("observedGeneration")
        if seen is not None and seen != cluster.metadata.generation:
            draft.wait(
                f"RayCluster {cluster.namespace}/{cluster.name} has not said yet whether all its pods are replaced"
            )
            return
        if unfinished(cluster):
            # The replacement ends here, and what it has left is the next strategy's to see to.
            told = stamped(draft, Stamp(UNFINISHED, goal.whole, goal.suspended))
            draft.write(*_update(draft, side, cluster, [*changes, *_strategy(draft, cluster)], told))
            return
    if found == "differs":
        if draft.strategy.on_change == "same-cluster":
            draft.hold(
                "UpgradePaused",
                f"an annotation keeps rayClusterConfig from RayCluster {draft.obj.namespace}/{side.name}",
            )
        if draft.strategy.on_change != "ignore":
            return
        # Another shape is not rolled out, but the RayCluster can still be scaled.
        goal = Stamp(stored.shape if stored else shape_of(cluster.spec), goal.whole, goal.suspended)
        if stored == goal:
            return
        told = stamped(draft, goal, cluster.spec)
    if stored is not None:
        # One of another operator keeps its numbers: it may have ignored edits, and this is not the time to catch up.
        changes += _counts(draft, cluster)
    if found != "differs":
        changes += _strategy(draft, cluster)
    if found == "extended":
        changes += _appended(draft, cluster)
    if changes:
        draft.write(*_update(draft, side, cluster, changes, told))
    else:
        draft.write(_metadata(cluster, {"annotations": told}))


def on_hold(draft: Draft) -> bool:
    """Whether the user has stopped the upgrade."""
    told = draft.obj.metadata.annotations
    switches = (names.ANNOTATION_UPGRADE_PAUSED, names.ANNOTATION_UPGRADE_ABORTED)
    return any(told.get(switch, "").strip().lower() == "true" for switch in switches)


def _replaces_pods(cluster: RayObject) -> bool:
    """Whether its upgrade strategy is one that a RayService's type gives it to have its pods replaced."""
    type_ = (cluster.spec.get("upgradeStrategy") or {}).get("type")
    return type_ in (UpgradeType.ROLLING, UpgradeType.RECREATE)


def _takes_everything(draft: Draft, cluster: RayObject, stored: Stamp | None, found: Relation) -> bool:
    """Whether the whole configuration is written to this RayCluster: the strategy says so, or nothing runs in it."""
    if cluster.spec.get("suspend"):
        return stored is not None or found == "differs"
    return found == "differs" and draft.strategy.on_change == "same-cluster" and not on_hold(draft)


def _everything(draft: Draft, cluster: RayObject) -> list[Manifest]:
    """The whole configuration in place of what is there; what the autoscaler has chosen is kept."""
    spec = cluster_spec(draft)
    live = {group.get("groupName"): group for group in cluster.spec.get(GROUPS) or ()}
    for group in spec.get(GROUPS) or ():
        before = live.get(group.get("groupName"))
        if before is not None and _autoscaled(draft, cluster):
            for field in _OF_AUTOSCALER:
                group.pop(field, None)
                if field in before:
                    group[field] = copy.deepcopy(before[field])
    if "suspend" not in spec and "suspend" in cluster.spec and not _was_suspended_by_us(read_stamp(cluster)):
        spec["suspend"] = cluster.spec["suspend"]
    return [
        {"op": "test", "path": "/metadata/resourceVersion", "value": cluster.metadata.resource_version},
        {"op": "replace", "path": "/spec", "value": spec},
    ]


def _counts(draft: Draft, cluster: RayObject) -> Iterator[Manifest]:
    """Bounds and, unless the autoscaler decides, numbers of replicas: by group name."""
    followed = dict(_FOLLOWED) if _autoscaled(draft, cluster) else {**_FOLLOWED, **_OF_AUTOSCALER}
    asked = {group.get("groupName"): group for group in wanted(draft).get(GROUPS) or ()}
    for index, group in enumerate(cluster.spec.get(GROUPS) or ()):
        goal = asked.get(group.get("groupName"))
        if goal is None:
            continue
        place = f"/spec/{GROUPS}/{index}"
        changes = [change for field, absent in followed.items() for change in _field(place, field, group, goal, absent)]
        if changes:
            yield {"op": "test", "path": f"{place}/groupName", "value": group.get("groupName")}
            yield from changes
    head, wanted_head = cluster.spec.get("headGroupSpec") or {}, wanted(draft).get("headGroupSpec") or {}
    yield from _field("/spec/headGroupSpec", "disruptionBudget", head, wanted_head, None)


def _field(place: str, field: str, live: Mapping[str, Any], goal: Mapping[str, Any], absent: Any) -> Iterator[Manifest]:
    before, after = live.get(field), goal.get(field)
    if (absent if before is None else before) == (absent if after is None else after):
        return
    if after is None:
        yield {"op": "remove", "path": f"{place}/{field}"}
    else:
        yield {"op": "add", "path": f"{place}/{field}", "value": copy.deepcopy(after)}


def _suspension(draft: Draft, cluster: RayObject, stored: Stamp | None) -> Iterator[Manifest]:
    """``suspend`` as it is asked for; one that is not mentioned may be a queue's own matter."""
    asked, there = wanted(draft).get("suspend"), cluster.spec.get("suspend")
    if asked is None and not _was_suspended_by_us(stored):
        return
    if bool(asked) != bool(there):
        yield {"op": "add", "path": "/spec/suspend", "value": bool(asked)}


def _was_suspended_by_us(stored: Stamp | None) -> bool:
    return stored is not None and stored.suspended


def _strategy(draft: Draft, cluster: RayObject) -> Iterator[Manifest]:
    """The RayCluster's own upgrade strategy, when the RayService's has changed."""
    strategy = cluster_strategy(draft)
    goal = {"upgradeStrategy": strategy} if strategy is not None else wanted(draft)
    yield from _field("/spec", "upgradeStrategy", cluster.spec, goal, None)


def _appended(draft: Draft, cluster: RayObject) -> Iterator[Manifest]:
    there = len(cluster.spec.get(GROUPS) or ())
    added = copy.deepcopy(list(wanted(draft).get(GROUPS) or ())[there:])
    if not there:
        yield {"op": "add", "path": f"/spec/{GROUPS}", "value": added}
        return
    for group in added:
        yield {"op": "add", "path": f"/spec/{GROUPS}/-", "value": group}


def _autoscaled(draft: Draft, cluster: RayObject) -> bool:
    return bool(wanted(draft).get("enableInTreeAutoscaling") and cluster.spec.get("enableInTreeAutoscaling"))


def _update(
    draft: Draft, side: Side, cluster: RayObject, changes: Sequence[Manifest], told: Mapping[str, str]
) -> list[Patch]:
    """One write that also says which configuration is followed now, so that it is never made twice; labels and annotations
    apart from it, since queues refuse some of them."""
    what = f"the {side.word} RayCluster {cluster.namespace}/{cluster.name}"
    stored = cluster.metadata.annotations.get(names.ANNOTATION_CLUSTER_HASH)
    operations: list[Manifest] = [{"op": "test", "path": "/metadata/uid", "value": cluster.uid}]
    if stored is None:
        version = cluster.metadata.resource_version
        operations.append({"op": "test", "path": "/metadata/resourceVersion", "value": version})
    else:
        operations.append({"op": "test", "path": _annotation(names.ANNOTATION_CLUSTER_HASH), "value": stored})
    if not cluster.metadata.annotations:
        operations.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    operations += changes
    for key, value in told.items():
        operations.append({"op": "add", "path": _annotation(key), "value": value})
    update = Patch(
        kind=RAYCLUSTER,
        namespace=cluster.namespace,
        name=cluster.name,
        operations=operations,
        # What runs is looked after whether it can be changed or not.
        optional=True,
        done=Event("UpdatedRayCluster", f"Updated {what}", action="Update"),
        failed=lambda error: Event(
            "FailedToUpdateRayCluster", f"Failed to update {what}: {error}", "Warning", "Update"
        ),
    )
    metadata = {
        "labels": _missing(cluster_labels(draft), cluster.metadata.labels),
        "annotations": _missing(cluster_annotations(draft), cluster.metadata.annotations),
    }
    news = {key: values for key, values in metadata.items() if values}
    if not news:
        return [update]
    return [update, _metadata(cluster, news)]


def _missing(asked: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in asked.items() if there.get(key) != value}


def _metadata(cluster: RayObject, metadata: Manifest) -> Patch:
    return Patch(
        kind=RAYCLUSTER,
        namespace=cluster.namespace,
        name=cluster.name,
        body={"metadata": {"uid": cluster.uid, **metadata}},
        optional=True,
    )


def _annotation(key: str) -> str:
    return f"/metadata/annotations/{key.replace('~', '~0').replace('/', '~1')}"
