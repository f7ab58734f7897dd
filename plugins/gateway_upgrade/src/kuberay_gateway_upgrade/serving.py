"""Why a RayCluster does not serve as it should, in words: from what the core sees of it and what its status says of Serve.

Sentences leave out Serve's own messages, which count attempts; those are in the RayService's status.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.names import ANNOTATION_UPGRADE_ABORTED
from kuberay.api.service import ServeApplicationStatus
from kuberay.hooks.service_upgrade import ServiceSide, ServiceUpgradeContext

_FAILED = (ServeApplicationStatus.DEPLOY_FAILED, ServeApplicationStatus.UNHEALTHY)


def not_serving(ctx: ServiceUpgradeContext, side: ServiceSide) -> str:
    """One sentence; empty when all its applications run."""
    if side.ready:
        return ""
    if not side.head_ready:
        return f"the head of RayCluster {side.cluster} is not ready"
    told = {name: status for name, status in _told(ctx, side).items() if status != ServeApplicationStatus.RUNNING}
    failed = {name: status for name, status in told.items() if status in _FAILED}
    named = failed or told
    if not named:
        return f"Serve of RayCluster {side.cluster} has not said yet that its applications run"
    statuses = ", ".join(f"{name} is {status}" for name, status in sorted(named.items()))
    sentence = f"Serve of RayCluster {side.cluster} does not run: {statuses}"
    if failed and side is ctx.pending:
        return f'{sentence}; correct the spec, or go back with annotation {ANNOTATION_UPGRADE_ABORTED}: "true"'
    return sentence


def _told(ctx: ServiceUpgradeContext, side: ServiceSide) -> Mapping[str, str]:
    """The stored statuses of its applications by name."""
    for key in ("activeServiceStatus", "pendingServiceStatus"):
        stored: Mapping[str, Any] = ctx.owner.status.get(key) or {}
        if stored.get("rayClusterName") == side.cluster:
            applications = stored.get("applicationStatuses") or {}
            return {name: str((each or {}).get("status") or "") for name, each in applications.items()}
    return {}
