"""What a RayCluster was made for, as its annotation says, compared with what ``rayClusterConfig`` asks for now.

Source: spec rayservice.md 2.6; cases.md RS-02, RS-08. It depends on what users wrote only, never on defaults or on the
operator's version. What a RayCluster of another operator says cannot be compared, so its spec is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from kuberay.api import names
from kuberay.api.conditions import ClusterCondition, is_true
from kuberay.api.objects import RayObject
from kuberay.hooks.service_upgrade import Relation
from kuberay.plan.build.spec_hash import digest, significant
from kuberay.plan.service.draft import ACTIVE, Draft
from kuberay.plan.service.likeness import asks_no_more, canonical
from kuberay.plan.service.owner import service_context
from kuberay.plan.service.sides import Side

SCHEME = "1"
"""Changes with the way hashes are made."""
UNFINISHED = "unfinished"
"""In place of a shape: its pods are of two configurations, since a replacement step by step was broken off."""
_SUSPENDED = "suspended"
GROUPS = "workerGroupSpecs"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the annotation says of a RayCluster: the configuration that it follows."""

    shape: str
    """Stands for what a change of needs another RayCluster."""
    whole: str
    """Stands for everything, numbers of replicas included."""
    suspended: bool = False
    """Whether the configuration asked for ``suspend``."""

    @property
    def text(self) -> str:
        return "-".join((SCHEME, self.shape, self.whole, *((_SUSPENDED,) if self.suspended else ())))


def read_stamp(cluster: RayObject) -> Stamp | None:
    """The annotation as this operator writes it; None when it is absent or somebody else's."""
    parts = cluster.metadata.annotations.get(names.ANNOTATION_CLUSTER_HASH, "").split("-")
    if len(parts) not in (3, 4) or parts[0] != SCHEME:
        return None
    return Stamp(parts[1], parts[2], parts[3:] == [_SUSPENDED])


def goal_stamp(draft: Draft) -> Stamp:
    """What a RayCluster will say that follows the present ``rayClusterConfig``."""
    config = wanted(draft)
    whole = [canonical(config), cluster_strategy(draft)]
    return Stamp(_goal_shapes(draft)[0], digest(whole)[:16], bool(config.get("suspend")))


def cluster_strategy(draft: Draft) -> dict[str, Any] | None:
    """``upgradeStrategy`` that the RayClusters are to have; None: none of their own."""
    found, failures = draft.observed.hooks.cluster_strategy(draft.strategy, service_context(draft))
    draft.blame(list(failures))
    return None if found is None else dict(found)


def wanted(draft: Draft) -> Mapping[str, Any]:
    """``spec.rayClusterConfig`` as it stands there."""
    config: Mapping[str, Any] = draft.obj.spec.get("rayClusterConfig") or {}
    return config


def shape_of(spec: Mapping[str, Any]) -> str:
    """The hash of what a change of needs another RayCluster."""
    return digest(_shape(spec))


def relation(draft: Draft, side: Side) -> Relation:
    """How ``rayClusterConfig`` is to what the RayCluster of *side* was made for.

    A pending one that is not there yet will be made from it; an active one that is gone is no longer what is asked for."""
    if side.cluster is None:
        return "differs" if side.key == ACTIVE else "same"
    if side.cluster.uid in draft.memo.get("updated", ()):
        return "same"
    stamp = read_stamp(side.cluster)
    if stamp is not None:
        shapes = _goal_shapes(draft)
        return "same" if stamp.shape == shapes[0] else "extended" if stamp.shape in shapes else "differs"
    edited, made = last_edit(draft), side.cluster.metadata.creation_timestamp
    if edited is not None and made is not None and edited < made:
        return "same"
    return _by_spec(side.cluster.spec, wanted(draft))


def unfinished(cluster: RayObject) -> bool:
    """Whether the RayCluster says that pods of its own are still of another spec."""
    conditions = cluster.status.get("conditions") or ()
    types = (ClusterCondition.ROLLING_UPGRADE, ClusterCondition.HEAD_OUTDATED)
    return any(is_true(conditions, type_) for type_ in types)


def count_as_updated(draft: Draft, cluster: RayObject) -> None:
    """From here on the pass takes the RayCluster for what it will be once its writes are done."""
    draft.memo.setdefault("updated", set()).add(cluster.uid)


def last_edit(draft: Draft) -> datetime | None:
    """When ``rayClusterConfig`` can have been edited last; None where that is not recorded."""
    owners = draft.obj.metadata.managed_fields
    times = [each.time for each in owners if each.time is not None and "rayClusterConfig" in each.owned]
    return max(times, default=None)


def first_groups(config: Mapping[str, Any], count: int) -> dict[str, Any]:
    """The configuration as it was before all but its first *count* worker groups were appended."""
    return {**config, GROUPS: list(config.get(GROUPS) or ())[:count]}


def _goal_shapes(draft: Draft) -> list[str]:
    """The hash of the present configuration, and those of what it was before worker groups were appended."""
    known: list[str] | None = draft.memo.get("shapes")
    if known is None:
        config = wanted(draft)
        counts = range(len(config.get(GROUPS) or ()), -1, -1)
        known = draft.memo["shapes"] = [shape_of(first_groups(config, count)) for count in counts]
    return known


def _by_spec(live: Mapping[str, Any], config: Mapping[str, Any]) -> Relation:
    """Of a RayCluster that another operator made: it has all that is asked for. What it has beyond that may be defaults,
    or what webhooks and queues have added."""
    there: Sequence[Any] = live.get(GROUPS) or ()
    asked: Sequence[Any] = config.get(GROUPS) or ()
    if len(there) > len(asked) or not asks_no_more(_shape(first_groups(config, len(there))), _shape(live)):
        return "differs"
    return "same" if len(there) == len(asked) else "extended"


def _shape(spec: Mapping[str, Any]) -> dict[str, Any]:
    shape: dict[str, Any] = canonical(significant(spec))
    shape.pop("suspend", None)
    if not shape.get(GROUPS):
        shape.pop(GROUPS, None)
    return shape
