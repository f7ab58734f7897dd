"""The core's upgrade strategies of a RayService besides NewCluster, which is `ServiceUpgradeStrategy` itself.

Source: spec rayservice.md 3.1-3.3. Rolling and Recreate are this operator's own: neither needs a second RayCluster.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from kuberay.api.service import UpgradeType
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep
from kuberay.hooks.types import OwnerContext

_ROLLING_OPTIONS = ("maxUnavailable", "maxSurge", "allowHeadRestart")


class Keep(ServiceUpgradeStrategy):
    """None: the RayCluster that serves stays as it was made. Serve configuration and appended groups still reach it."""

    name: ClassVar[str] = UpgradeType.NONE.value
    on_change: ClassVar[Literal["new-cluster", "same-cluster", "ignore"]] = "ignore"


class Rolling(ServiceUpgradeStrategy):
    """The pods of the one RayCluster are replaced step by step, as its own strategy Rolling does."""

    name: ClassVar[str] = UpgradeType.ROLLING.value
    on_change: ClassVar[Literal["new-cluster", "same-cluster", "ignore"]] = "same-cluster"

    def cluster_strategy(self, owner: OwnerContext) -> Mapping[str, Any] | None:
        options = owner.spec.get("upgradeStrategy") or {}
        return {"type": "Rolling"} | {key: options[key] for key in _ROLLING_OPTIONS if options.get(key) is not None}


class Recreate(ServiceUpgradeStrategy):
    """All pods of the one RayCluster go and come back: the service is away meanwhile, and nothing more is needed."""

    name: ClassVar[str] = UpgradeType.RECREATE.value
    on_change: ClassVar[Literal["new-cluster", "same-cluster", "ignore"]] = "same-cluster"

    def cluster_strategy(self, owner: OwnerContext) -> Mapping[str, Any] | None:
        return {"type": "Recreate"}


class Missing(ServiceUpgradeStrategy):
    """Of a type that nobody offers here: nothing is made, and what runs is left as it is."""

    name: ClassVar[str] = ""
    on_change: ClassVar[Literal["new-cluster", "same-cluster", "ignore"]] = "ignore"
    own_services: ClassVar[bool] = True
    """So that none is made; those that are there are kept."""

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        return UpgradeStep()


_CORE: Mapping[str, type[ServiceUpgradeStrategy]] = {
    UpgradeType.NEW_CLUSTER: ServiceUpgradeStrategy,
    UpgradeType.NONE: Keep,
    UpgradeType.ROLLING: Rolling,
    UpgradeType.RECREATE: Recreate,
}


def core_strategy(type_: str | None, *, zero_downtime: bool, incremental: bool) -> ServiceUpgradeStrategy | None:
    """The core's own strategy for ``upgradeStrategy.type`` (3.1); None when it is a plugin's.

    *zero_downtime* counts where no type is named; *incremental* says whether the feature gate is on."""
    if not type_:
        return ServiceUpgradeStrategy() if zero_downtime else Keep()
    if type_ == UpgradeType.INCREMENTAL and not incremental:
        return Keep()
    found = _CORE.get(type_)
    return found() if found is not None else None
