"""What a plugin is handed instead of the operator's own values: deep copies, so that nothing it does leaks back.

A hook gets a fresh copy at each call; a plugin that changes its context changes nothing, not even its own next call.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import orjson

from kuberay.hooks.types import FinishContext, GroupSize, OwnerContext, PodContext, UpgradeContext

Context = OwnerContext | PodContext | FinishContext | UpgradeContext
Json = TypeVar("Json")

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


def copy_context(ctx: Context, settings: Any) -> Context:
    """*ctx* for one plugin: deep copies inside, and the plugin's own *settings* in the owner context."""
    if isinstance(ctx, OwnerContext):
        return _copy_owner(ctx, settings)
    if isinstance(ctx, FinishContext):
        return replace(ctx, owner=_copy_owner(ctx.owner, settings), cluster_groups=_copy_groups(ctx.cluster_groups))
    return replace(ctx, owner=_copy_owner(ctx.owner, settings))


def _copy_owner(ctx: OwnerContext, settings: Any) -> OwnerContext:
    spec = copy_json(ctx.spec)
    if ctx.cluster_spec is ctx.spec:
        cluster_spec: dict[str, Any] | None = spec
    elif ctx.cluster_spec is not None and ctx.cluster_spec is ctx.spec.get("rayClusterSpec"):
        cluster_spec = spec["rayClusterSpec"]
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
