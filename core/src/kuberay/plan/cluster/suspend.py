"""Where a RayCluster stands between running and suspended.

Source: spec raycluster.md 4.8, cases.md RC-14. Suspending, once begun, runs to its end; then the spec is asked again.
"""

from __future__ import annotations

from dataclasses import dataclass

from kuberay.api.conditions import ClusterCondition
from kuberay.api.gates import STATUS_CONDITIONS
from kuberay.plan.cluster import deletions
from kuberay.plan.cluster.conditions import Conditions
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.model import Event, Write


@dataclass(frozen=True, slots=True)
class SuspendDecision:
    """What suspension means for this pass."""

    holds: bool
    """No pod may be made."""
    deleting: bool = False
    """All pods go; the operation is under way."""
    completed: bool = False
    """The last pod has just gone (or there never was one)."""
    suspended: bool = False
    """The state after this pass: no pods, and none wanted."""

    @property
    def resumes(self) -> bool:
        """The suspension was called off while it ran. That it is over must be written before pods come back: else the
        next look would take the new pods for old ones."""
        return self.completed and not self.suspended


def decide_suspend(cluster: ClusterPass, conditions: Conditions) -> SuspendDecision:
    """A cluster without pods is suspended at once, a suspended one resumed at once; absent ``spec.suspend`` means false."""
    wanted = cluster.suspend_wanted
    has_pods = bool(cluster.children.pods)
    if not cluster.observed.gate(STATUS_CONDITIONS):
        return SuspendDecision(holds=wanted, deleting=wanted and has_pods, suspended=wanted)
    # Pods of a suspended cluster are those whose creation was answered too late to be seen.
    suspended = conditions.true(ClusterCondition.SUSPENDED) and not has_pods
    begun = conditions.true(ClusterCondition.SUSPENDING) or (wanted and not suspended)
    if begun:
        return SuspendDecision(holds=True, deleting=has_pods, completed=not has_pods, suspended=wanted and not has_pods)
    return SuspendDecision(holds=wanted, suspended=wanted)


def suspend_writes(cluster: ClusterPass) -> list[Write]:
    """Deletes all pods. That it is done is told when the last one has gone (`suspended_event`)."""
    failed = f"Failed deleting Pods due to suspension for RayCluster {cluster.place}"
    return list(deletions.all_pods(cluster.children.pods, None, failed))


def suspended_event(cluster: ClusterPass) -> Event:
    """Told once per suspension."""
    return deletions.deleted("DeletedPod", f"Deleted Pods for RayCluster {cluster.place} due to suspension")
