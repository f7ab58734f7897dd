"""KubeRay's conditions of a RayService: Ready follows the endpoints once a RayCluster is active, UpgradeInProgress the names.

Source: spec rayservice.md 5.1. In KubeRay, Ready also follows endpoints that no request is led to yet.
"""

from __future__ import annotations

from kuberay.api.conditions import FALSE, TRUE, UNKNOWN, ServiceCondition, ServiceReason
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft

_STARTING = (ServiceReason.INITIALIZING, ServiceReason.INITIALIZING_TIMEOUT)
_INITIALIZING = "RayService is initializing"


def update(draft: Draft, endpoints: int) -> None:
    """Bring both up to date."""
    _ready(draft, endpoints)
    _upgrade(draft)


def _ready(draft: Draft, endpoints: int) -> None:
    type_, found = ServiceCondition.READY, draft.found(ServiceCondition.READY)
    # The pass has come so far, so nothing is refused any more.
    refused = found is not None and found.get("reason") == ServiceReason.VALIDATION_FAILED
    if not draft.cluster_name(ACTIVE):
        # Pods are behind a service of the first RayCluster already where each has its own, but no application runs yet.
        if found is None or refused or draft.is_true(type_):
            draft.condition(type_, FALSE, ServiceReason.INITIALIZING, _INITIALIZING)
    elif endpoints > 0:
        message = "Number of serve endpoints is greater than 0"
        draft.condition(type_, TRUE, ServiceReason.NON_ZERO_ENDPOINTS, message)
    elif draft.is_true(type_) or refused:
        draft.condition(type_, FALSE, ServiceReason.ZERO_ENDPOINTS, "Number of serve endpoints dropped to 0")
    elif found is None:
        draft.condition(type_, FALSE, ServiceReason.INITIALIZING, _INITIALIZING)


def _upgrade(draft: Draft) -> None:
    type_, found = ServiceCondition.UPGRADE_IN_PROGRESS, draft.found(ServiceCondition.UPGRADE_IN_PROGRESS)
    if draft.cluster_name(ACTIVE) and draft.cluster_name(PENDING):
        message = "Both active and pending Ray clusters exist"
        draft.condition(type_, TRUE, ServiceReason.BOTH_CLUSTERS, message)
    elif draft.cluster_name(ACTIVE):
        message = "Active Ray cluster exists and no pending Ray cluster"
        draft.condition(type_, FALSE, ServiceReason.NO_PENDING, message)
    elif found is None:
        draft.condition(type_, FALSE, ServiceReason.INITIALIZING, _INITIALIZING)
    elif found.get("reason") not in _STARTING:
        message = "No active Ray cluster exists, and the RayService does not start"
        draft.condition(type_, UNKNOWN, ServiceReason.NO_ACTIVE, message)
