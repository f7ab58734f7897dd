"""RayService upgrades of type NewClusterWithIncrementalUpgrade: requests move step by step, by weights of an HTTPRoute.

Source: spec rayservice.md 3.4 and 3.5, plugins.md 13. The gate ``RayServiceIncrementalUpgrade`` is the core's.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.gates import INCREMENTAL_UPGRADE
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, RAYSERVICE
from kuberay.hooks import OwnerContext, PolicyRule, UpgradeContext, Watch, hookimpl
from kuberay.hooks.types import Manifest

from kuberay_gateway_upgrade import resources
from kuberay_gateway_upgrade.config import GatewayUpgradeSettings
from kuberay_gateway_upgrade.strategy import IncrementalUpgrade

kuberay_hook_api = (1, 0)


@hookimpl
def settings() -> type[GatewayUpgradeSettings]:
    return GatewayUpgradeSettings


@hookimpl
def rbac_rules() -> Sequence[PolicyRule]:
    verbs = ("create", "delete", "get", "list", "patch", "watch")
    return [PolicyRule((GATEWAY.group,), (GATEWAY.plural, HTTP_ROUTE.plural), verbs)]


@hookimpl
def watches() -> Sequence[Watch]:
    """Nothing is pruned: requests come through these objects, also while the type is being changed to another one."""
    return [Watch(GATEWAY), Watch(HTTP_ROUTE)]


@hookimpl
def upgrade_strategy(ctx: UpgradeContext) -> IncrementalUpgrade | None:
    """Nothing while the gate is off; the core then treats the type like None (spec 3.1)."""
    return IncrementalUpgrade() if _decides(ctx.owner, ctx.type) else None


@hookimpl
def extra_resources(ctx: OwnerContext) -> Sequence[Manifest] | None:
    """Whoever comes through the gateway goes on being served after the type was changed to another one."""
    type_ = (ctx.spec.get("upgradeStrategy") or {}).get("type")
    if ctx.kind != RAYSERVICE or _decides(ctx, type_):
        return None
    return resources.left_behind(ctx)


def _decides(owner: OwnerContext, type_: str | None) -> bool:
    """Whether this strategy is the one of a RayService."""
    return owner.kind == RAYSERVICE and type_ == IncrementalUpgrade.name and bool(owner.gates.get(INCREMENTAL_UPGRADE))
