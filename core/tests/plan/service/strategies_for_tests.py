"""Plugins that bring an upgrade strategy, for tests: what a strategy decides is what the test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from kuberay.api.kinds import GATEWAY, HTTP_ROUTE
from kuberay.hooks.calls import NoHooks
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep
from kuberay.hooks.types import UpgradeContext, Watch

Decide = Callable[[ServiceUpgradeContext], UpgradeStep]


class Scripted(ServiceUpgradeStrategy):
    """Asks the test what to do."""

    name: ClassVar[str] = "Scripted"
    own_services: ClassVar[bool] = True

    def __init__(self, decide: Decide, capacities: tuple[int | None, int | None]) -> None:
        self._decide, self._capacities = decide, capacities

    def first_capacity(self, *, first_cluster: bool) -> int | None:
        return self._capacities[0 if first_cluster else 1]

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        return self._decide(ctx)


class Hooks(NoHooks):
    """Offers `Scripted`. ``seen`` has what the strategy was shown."""

    def __init__(self, decide: Decide, capacities: tuple[int | None, int | None] = (100, 0)) -> None:
        self.decide, self.capacities = decide, capacities
        self.seen: list[ServiceUpgradeContext] = []

    def service_strategy(self, ctx: UpgradeContext, failures: Any = None) -> ServiceUpgradeStrategy | None:
        return Scripted(self._step, self.capacities) if ctx.type == "Scripted" else None

    def watches(self) -> Sequence[Watch]:
        return (Watch(GATEWAY), Watch(HTTP_ROUTE))

    def _step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        self.seen.append(ctx)
        return self.decide(ctx)


class EndlessStrategy(ServiceUpgradeStrategy):
    """Prepares another RayCluster like NewCluster, and never ends."""

    name: ClassVar[str] = "Endless"

    def __init__(self, hooks: Endless) -> None:
        self._hooks = hooks

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        if ctx.active is None:
            return super().step(ctx)
        return UpgradeStep(rolling_back=self._hooks.rolling_back, message="back")


class Endless(NoHooks):
    """Offers `EndlessStrategy`."""

    rolling_back = False

    def service_strategy(self, ctx: UpgradeContext, failures: Any = None) -> ServiceUpgradeStrategy | None:
        return EndlessStrategy(self) if ctx.type == "Endless" else None
