"""What a plugin is handed instead of the operator's own values: deep copies, so that nothing it does leaks back.

A plugin gets one copy of an owner per pass and hooks of that pass share it; what it changes there nobody else sees.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import orjson

from kuberay.hooks.service_upgrade import ServiceUpgradeContext
from kuberay.hooks.types import FinishContext, GroupSize, OwnerContext, PodContext, UpgradeContext

Context = OwnerContext | PodContext | FinishContext | UpgradeContext | ServiceUpgradeContext
Json = TypeVar("Json")

_CLUSTER_SPECS = ("rayClusterSpec", "rayClusterConfig")
"""Where RayJobs and RayServices have the spec of their RayClusters."""
_PLAIN_JSON_ONLY = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


def copy_json(value: Json) -> Json:
    """A deep copy of JSON data. What is no plain JSON (a date that YAML made) is shared, for it cannot be changed."""
    try:
        copied: Json = orjson.loads(orjson.dumps(value, option=_PLAIN_JSON_ONLY))
    except TypeError:
        copied = _copy_slowly(value)
    return copied


def _copy_slowly(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy_slowly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copy_slowly(item) for item in value]
    return value


def owner_of(ctx: Context) -> OwnerContext:
    """The owner context itself, or the one inside."""
    return ctx if isinstance(ctx, OwnerContext) else ctx.owner


def with_owner(ctx: Context, owner: OwnerContext) -> Context:
    """*ctx* around *owner*, a copy that a plugin may keep; everything else in it is a value or copied here."""
    if isinstance(ctx, OwnerContext):
        return owner
    if isinstance(ctx, FinishContext):
        return replace(ctx, owner=owner, cluster_groups=_copy_groups(ctx.cluster_groups))
    return replace(ctx, owner=owner)


def copy_owner(ctx: OwnerContext, settings: Any) -> OwnerContext:
    """A deep copy with a plugin's own *settings*."""
    spec = copy_json(ctx.spec)
    within = next((key for key in _CLUSTER_SPECS if ctx.spec.get(key) is ctx.cluster_spec), None)
    if ctx.cluster_spec is ctx.spec:
        cluster_spec: dict[str, Any] | None = spec
    elif ctx.cluster_spec is not None and within is not None:
        cluster_spec = spec[within]
    else:
        cluster_spec = copy_json(ctx.cluster_spec)
    return replace(
        ctx,
        labels=dict(ctx.labels),
        annotations=dict(ctx.annotations),
        spec=spec,
        status=copy_json(ctx.status),
        cluster_spec=cluster_spec,
        groups=_copy_groups(ctx.groups),
        gates=dict(ctx.gates),
        owner_reference=dict(ctx.owner_reference),
        settings=settings,
    )


def _copy_groups(groups: Any) -> tuple[GroupSize, ...]:
    return tuple(replace(group, requests=dict(group.requests)) for group in groups)
