"""The two RayClusters of a RayService, active and pending, with what is seen of them: pods, readiness, shares.

Source: spec rayservice.md 1.3 and 2.9. A `Side` is read only; what is decided about it goes into the `Draft`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.conditions import ClusterCondition, is_true
from kuberay.api.gates import STATUS_CONDITIONS
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.objects import Pod, RayObject
from kuberay.hooks.service_upgrade import Share
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft, SideKey, percent


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two. ``cluster`` is None while the RayCluster is not there (not yet, or no longer)."""

    key: SideKey
    name: str
    cluster: RayObject | None
    pods: Sequence[Pod]
    head_ready: bool
    share: Share

    @property
    def exists(self) -> bool:
        """Whether the RayCluster is there and not on its way out."""
        return self.cluster is not None and not self.cluster.deleting

    @property
    def word(self) -> str:
        """``active`` or ``pending``."""
        return "active" if self.key == ACTIVE else "pending"

    @property
    def head(self) -> Pod | None:
        """The head pod that lives, if there is one."""
        heads = [pod for pod in self.pods if pod.metadata.labels.get(names.LABEL_NODE_TYPE) == names.HEAD]
        return next((pod for pod in heads if not pod.deleting), None)

    @property
    def spec(self) -> RayClusterSpec | None:
        """The typed spec of the live cluster; None when it cannot be read (its own plan says why)."""
        if self.cluster is None:
            return None
        try:
            return RayClusterSpec.parse(self.cluster.spec)
        except ValueError:
            return None


def side_of(draft: Draft, key: SideKey) -> Side | None:
    """A side as the status names it now; None when it names no RayCluster."""
    name = draft.cluster_name(key)
    if not name:
        return None
    found = draft.observed.view.get(RAYCLUSTER, draft.obj.namespace, name)
    cluster = found if isinstance(found, RayObject) and draft.controls(found) else None
    pods = cast("Sequence[Pod]", draft.observed.view.owned(cluster.uid, POD)) if cluster is not None else ()
    stored = draft.status.get(key) or {}
    share = Share(
        capacity=percent(stored.get("targetCapacity")),
        traffic=percent(stored.get("trafficRoutedPercent")),
        moved=draft.time(key, "lastTrafficMigratedTime"),
    )
    return Side(key, name, cluster, pods, _head_ready(draft, cluster, pods), share)


def both_sides(draft: Draft) -> tuple[Side | None, Side | None]:
    """Active and pending."""
    return side_of(draft, ACTIVE), side_of(draft, PENDING)


def _head_ready(draft: Draft, cluster: RayObject | None, pods: Sequence[Pod]) -> bool:
    """The gate before Serve is asked (2.9.1)."""
    if cluster is None:
        return False
    if draft.observed.gate(STATUS_CONDITIONS):
        return is_true(cluster.status.get("conditions") or (), ClusterCondition.HEAD_POD_READY)
    heads = [pod for pod in pods if pod.metadata.labels.get(names.LABEL_NODE_TYPE) == names.HEAD]
    return any(is_ready(pod) and not pod.deleting for pod in heads)
