"""What a plugin imports: the marker for its hook functions and the types they take and return."""

from __future__ import annotations

from kuberay.hooks.markers import PROJECT, hookimpl
from kuberay.hooks.reload import RELOADS
from kuberay.hooks.service_upgrade import (
    ServiceSide,
    ServiceUpgradeContext,
    ServiceUpgradeStrategy,
    Share,
    UpgradeStep,
)
from kuberay.hooks.tracing import Tracer
from kuberay.hooks.types import (
    FeatureGate,
    FinishContext,
    OwnerContext,
    PodAnnotations,
    PodContext,
    PolicyRule,
    Problem,
    RandomSecret,
    UpgradeContext,
    UpgradeStrategy,
    Wait,
    Watch,
)

HOOK_API = (1, 0)
"""Version of the hook contract. A plugin's distribution depends on ``kuberay-core>=X,<Y``; a plugin module may also set
``kuberay_hook_api = (major, minor)``: another major, or a newer minor, is refused at start."""

__all__ = [
    "HOOK_API",
    "PROJECT",
    "RELOADS",
    "FeatureGate",
    "FinishContext",
    "OwnerContext",
    "PodAnnotations",
    "PodContext",
    "PolicyRule",
    "Problem",
    "RandomSecret",
    "ServiceSide",
    "ServiceUpgradeContext",
    "ServiceUpgradeStrategy",
    "Share",
    "Tracer",
    "UpgradeContext",
    "UpgradeStep",
    "UpgradeStrategy",
    "Wait",
    "Watch",
    "hookimpl",
]
