"""A plugin that implements every hook of a pass and does nothing in any: what it costs is what being called costs."""

from __future__ import annotations

from typing import Any

from kuberay.hooks import FinishContext, OwnerContext, PodContext, UpgradeContext, hookimpl

kuberay_hook_api = (1, 0)


@hookimpl
def feature_gates() -> list[Any]:
    return []


@hookimpl
def rbac_rules() -> list[Any]:
    return []


@hookimpl
def watches() -> list[Any]:
    return []


@hookimpl
def validate(ctx: OwnerContext) -> None:
    return None


@hookimpl
def warn(ctx: OwnerContext) -> None:
    return None


@hookimpl
def ray_start_params(ctx: PodContext) -> None:
    return None


@hookimpl
def mutate_pod(ctx: PodContext, pod: dict[str, Any]) -> None:
    return None


@hookimpl
def mutate_cluster(ctx: PodContext, cluster: dict[str, Any]) -> None:
    return None


@hookimpl
def pre_create_pods(ctx: OwnerContext) -> None:
    return None


@hookimpl
def extra_resources(ctx: OwnerContext) -> None:
    return None


@hookimpl
def upgrade_strategy(ctx: UpgradeContext) -> None:
    return None


@hookimpl
def finish(ctx: FinishContext) -> None:
    return None


@hookimpl
def diagnose(ctx: OwnerContext) -> None:
    return None
