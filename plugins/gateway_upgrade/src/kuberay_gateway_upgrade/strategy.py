"""The strategy NewClusterWithIncrementalUpgrade: which of its parts decides in a pass.

Source: spec rayservice.md 3.4 and 3.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from kuberay.api.problems import Problem
from kuberay.api.service import UpgradeType
from kuberay.hooks import OwnerContext
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, ServiceUpgradeStrategy, UpgradeStep

from kuberay_gateway_upgrade import options, resources, rollback, single
from kuberay_gateway_upgrade.config import settle
from kuberay_gateway_upgrade.loads import FULL
from kuberay_gateway_upgrade.moves import move


class IncrementalUpgrade(ServiceUpgradeStrategy):
    """Everything is in what `step` is given; each part that decides is a file of its own."""

    name: ClassVar[str] = UpgradeType.INCREMENTAL.value
    own_services: ClassVar[bool] = True

    def problems(self, owner: OwnerContext) -> Sequence[Problem]:
        return options.problems(owner)

    def first_capacity(self, *, first_cluster: bool) -> int | None:
        return FULL if first_cluster else 0

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        chosen = options.Options.read(ctx.owner)
        active, pending = ctx.active, ctx.pending
        if pending is None:
            return single.idle(ctx, chosen)
        if ctx.served_by == pending.cluster:
            # Another strategy has switched over before the type was changed.
            return UpgradeStep(promote=True, manifests=[resources.gateway(ctx.owner, chosen)])
        if active is None or not active.exists:
            return single.take_over(ctx, pending, chosen)
        if not pending.exists:
            verdict = rollback.decide(active, pending, aborted=ctx.aborted)
            return single.pending_lost(ctx, active, pending, chosen, verdict)
        return move(ctx, active, pending, chosen, settle(ctx.owner))
