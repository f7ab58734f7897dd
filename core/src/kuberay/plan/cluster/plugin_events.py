"""Which events tell that an object of a plugin was made, changed or deleted, or could not be: KubeRay's, by kind.

Source: spec raycluster.md 6.2 and 7. Kinds that KubeRay has no events for are told only when a write of them fails.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kuberay.api.kinds import NETWORK_POLICY, ROLE, ROLE_BINDING, SERVICE_ACCOUNT, Kind
from kuberay.plan.cluster.deletions import deleted, failure
from kuberay.plan.model import Event

Failed = Callable[[str], Event]

_CREATION_TOLD = {SERVICE_ACCOUNT: "service account", ROLE: "role", ROLE_BINDING: "role binding"}
"""Kinds whose creation is told, with the words for them."""


@dataclass(frozen=True, slots=True)
class ApplyEvents:
    """Those of one `Apply`; None: not told."""

    failed: Failed
    done: Event | None = None
    updated: Event | None = None
    taken: Event | None = None


def apply_events(kind: Kind, place: str, *, exists: bool) -> ApplyEvents:
    """*place* is ``namespace/name``; *exists*: the object is there and may be changed."""
    if kind == NETWORK_POLICY:
        return _network_policy(place, exists=exists)
    words = _CREATION_TOLD.get(kind, kind.kind)
    done = Event(f"Created{kind.kind}", f"Created {words} {place}", action="Create") if kind in _CREATION_TOLD else None
    return ApplyEvents(failure(f"FailedToCreate{kind.kind}", f"Failed creating {words} {place}", action="Create"), done)


def deletion_events(kind: Kind, place: str) -> tuple[Event | None, Failed | None]:
    """For an object that no plugin wants any more: the event when it is gone, and when it stays."""
    if kind != NETWORK_POLICY:
        return None, None
    return (
        deleted("DeletedNetworkPolicy", f"Deleted NetworkPolicy {place}"),
        _failed("FailedToDeleteNetworkPolicy", f"Failed to delete NetworkPolicy {place}", "Delete"),
    )


def _network_policy(place: str, *, exists: bool) -> ApplyEvents:
    what = f"NetworkPolicy {place}"
    verb = "Update" if exists else "Create"
    taken = (
        f"{what} already exists and is not owned by this RayCluster: network isolation cannot be applied, and no pod is "
        "made without it. Rename the existing NetworkPolicy or use a different RayCluster name to avoid the collision"
    )
    return ApplyEvents(
        failed=_failed(f"FailedTo{verb}NetworkPolicy", f"Failed to {verb.lower()} {what}", verb),
        done=Event("CreatedNetworkPolicy", f"Created {what}", action="Create"),
        updated=Event("UpdatedNetworkPolicy", f"Updated {what}", action="Update"),
        taken=Event("NetworkPolicyNameCollision", taken, type="Warning", action="Validate"),
    )


def _failed(reason: str, note: str, action: str) -> Failed:
    return lambda error: Event(reason, f"{note}: {error}", type="Warning", action=action)
