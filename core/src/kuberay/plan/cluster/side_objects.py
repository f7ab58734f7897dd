"""What stands beside the pods and services of a RayCluster: token Secret, Ingress or Route, storage claim.

Source: spec raycluster.md 2.2. What cannot be done about one of them is a condition while it lasts, and told once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kuberay.api.conditions import ClusterCondition
from kuberay.plan.cluster.auth_secret import auth_secret_writes, former_secret
from kuberay.plan.cluster.conditions import Conditions
from kuberay.plan.cluster.gcs_claim import decide_gcs_claim
from kuberay.plan.cluster.held_back import Hold
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.routes import decide_routes
from kuberay.plan.cluster.trouble import Trouble
from kuberay.plan.model import Event, Write

_CONDITIONS = (ClusterCondition.INGRESS_CONFLICT, ClusterCondition.GCS_STORAGE_PROBLEM)


@dataclass(slots=True)
class SideObjects:
    """Writes for them, what is wrong with them, and whether a head that is missing has to wait."""

    writes: list[Write] = field(default_factory=list)
    troubles: dict[str, Trouble] = field(default_factory=dict)
    """By condition type."""
    hold: Hold | None = None


def decide_side_objects(cluster: ClusterPass) -> SideObjects:
    """What to do about all of them."""
    found = SideObjects()
    writes, conflict = decide_routes(cluster)
    found.writes += writes
    if conflict is not None:
        found.troubles[ClusterCondition.INGRESS_CONFLICT] = conflict
    found.writes += auth_secret_writes(cluster)
    if cluster.children.head is None:
        former = former_secret(cluster)
        if former:
            found.hold = Hold("SecretNotOwned", former)
    claim = decide_gcs_claim(cluster)
    if claim is not None:
        found.writes += claim.writes
        if claim.trouble is not None:
            found.troubles[ClusterCondition.GCS_STORAGE_PROBLEM] = claim.trouble
            if claim.blocks and cluster.children.head is None:
                found.hold = Hold(claim.trouble.reason, claim.trouble.event.note)
    return found


def set_troubles(conditions: Conditions, found: SideObjects) -> list[Event]:
    """Sets or removes the conditions, and returns the events that are news."""
    events = []
    for type_ in _CONDITIONS:
        trouble = found.troubles.get(type_)
        if conditions.set_present(type_, (trouble.reason, trouble.event.note) if trouble else None):
            assert trouble is not None
            events.append(trouble.event)
    return events


def all_events(found: SideObjects) -> Iterable[Event]:
    """Every event, for operators without conditions to remember what was told."""
    return [trouble.event for trouble in found.troubles.values()]
