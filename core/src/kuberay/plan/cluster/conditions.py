"""Which conditions a RayCluster carries after a pass.

Source: spec raycluster.md 5.5 and 4.8, cases.md RC-09, RC-34 and RC-35.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kuberay.api.conditions import (
    FALSE,
    TRUE,
    UNKNOWN,
    ClusterCondition,
    ClusterReason,
    Condition,
    find_condition,
    is_true,
    remove_condition,
    set_condition,
)
from kuberay.api.objects import Pod
from kuberay.plan.cluster.pod_health import pod_condition
from kuberay.plan.model import WriteFailure

GROUP_REMOVED = "WorkerGroupRemoved"
"""True while pods of a group that is no longer in the spec are going; the message names the groups."""
HEAD_POD_CREATING = "HeadPodCreating"
"""Reason of ``HeadPodReady`` before the first head exists."""

HELD_BACK = (
    ClusterCondition.PODS_WAITING,
    ClusterCondition.PLUGIN_FAILED,
    ClusterCondition.PLUGIN_SLOW,
    ClusterCondition.PLUGIN_MISSING,
    GROUP_REMOVED,
)
"""Conditions that are present while they are True and absent otherwise."""


class Conditions:
    """The conditions of one cluster during one pass; `items` is the outcome, sorted by type."""

    def __init__(self, items: Sequence[Condition], now: datetime) -> None:
        self.items: list[Condition] = list(items)
        self._now = now

    def set(self, type_: str, status: str, reason: str, message: str = "", generation: int | None = None) -> None:
        old = find_condition(self.items, type_)
        if (
            old is not None
            and (old.get("status"), old.get("reason"), old.get("message", "")) == (status, reason, message)
            and old.get("observedGeneration") == generation
        ):
            return
        self.items = set_condition(self.items, type_, status, reason, message, self._now, generation)

    def remove(self, type_: str) -> None:
        if find_condition(self.items, type_) is not None:
            self.items = remove_condition(self.items, type_)

    def true(self, type_: str) -> bool:
        return is_true(self.items, type_)

    def set_present(self, type_: str, told: tuple[str, str] | None) -> bool:
        """True with (reason, message) while *told* is given, absent otherwise. Whether it is news to be told."""
        if told is None:
            self.remove(type_)
            return False
        old = find_condition(self.items, type_)
        self.set(type_, TRUE, *told)
        return old is None or old.get("message") != told[1]

    def set_suspend(self, *, suspending: bool, suspended: bool) -> None:
        """Both suspend conditions; never both True."""
        self.set(ClusterCondition.SUSPENDING, TRUE if suspending else FALSE, ClusterReason.SUSPENDING)
        self.set(ClusterCondition.SUSPENDED, TRUE if suspended else FALSE, ClusterReason.SUSPENDED)

    def set_head(self, pod: Pod | None, *, never_seen: bool, final: str = "") -> None:
        """``HeadPodReady`` from the head pod. *never_seen* says that a head is only just being made, *final* why a lost one
        does not come back."""
        kind = ClusterCondition.HEAD_POD_READY
        if pod is None:
            if final:
                self.set(kind, FALSE, ClusterReason.HEAD_POD_NOT_FOUND, f"Head Pod not found: {final}")
            elif never_seen:
                self.set(kind, FALSE, HEAD_POD_CREATING, "Head Pod is being created")
            else:
                self.set(kind, FALSE, ClusterReason.HEAD_POD_NOT_FOUND, "Head Pod not found")
            return
        ready = pod_condition(pod, "Ready")
        if ready is None:
            self.set(kind, FALSE, ClusterReason.UNKNOWN)
            return
        reason, message = ready.reason, ready.message
        if not reason:
            reason = ClusterReason.HEAD_POD_RUNNING_AND_READY if ready.status == TRUE else ClusterReason.UNKNOWN
        if reason == ClusterReason.CONTAINERS_NOT_READY:
            reason, message = _container_reason(pod, message)
        self.set(kind, ready.status or UNKNOWN, reason, message)

    def set_provisioned(self, *, all_ready: bool) -> None:
        """``RayClusterProvisioned``: sticky once True."""
        kind = ClusterCondition.PROVISIONED
        if self.true(kind):
            return
        if all_ready:
            message = "All Ray Pods are ready for the first time"
            self.set(kind, TRUE, ClusterReason.ALL_PODS_READY_FIRST_TIME, message)
        else:
            message = "RayCluster Pods are being provisioned for first time"
            self.set(kind, FALSE, ClusterReason.PODS_PROVISIONING, message)

    def suspend_completed(self) -> None:
        """No pod is left: provisioning starts over after a resume."""
        message = "RayCluster has been suspended"
        self.set(ClusterCondition.PROVISIONED, FALSE, ClusterReason.PODS_PROVISIONING, message)

    def set_replica_failure(self, failure: WriteFailure | None) -> None:
        """True with the API server's words while writes fail; failures of other writes leave it as it is."""
        if failure is None:
            self.remove(ClusterCondition.REPLICA_FAILURE)
        elif failure.marker:
            message = f"{failure.marker}\n{failure.message}"
            self.set(ClusterCondition.REPLICA_FAILURE, TRUE, failure.marker, message)


def _container_reason(pod: Pod, message: str) -> tuple[str, str]:
    """The first container that is not running says more than ``ContainersNotReady``."""
    for container in pod.status.container_statuses:
        detail = container.state.waiting or container.state.terminated
        if detail is not None:
            told = f"{container.name}: {detail.message}"
            return detail.reason or ClusterReason.CONTAINERS_NOT_READY, f"{message}; {told}" if message else told
    return ClusterReason.CONTAINERS_NOT_READY, message


def conditions_of(status: dict[str, Any]) -> list[Condition]:
    """The stored conditions, sorted by type as all lists here are."""
    return sorted(status.get("conditions") or [], key=lambda condition: str(condition.get("type", "")))
