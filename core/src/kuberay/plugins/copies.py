"""What a plugin is handed instead of the operator's own values: deep copies, so that nothing it does leaks back.

A plugin gets one copy of an owner per pass and hooks of that pass share it; what it changes there nobody else sees.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar

import orjson

from kuberay.hooks.service_upgrade import ServiceUpgradeContext
from kuberay.hooks.types import FinishContext, GroupSize, OwnerContext, PodContext, UpgradeContext

Context = OwnerContext | PodContext | FinishContext | UpgradeContext | ServiceUpgradeContext
Json = TypeVar("Json")
Value = TypeVar("Value")

_CLUSTER_SPECS = ("rayClusterSpec", "rayClusterConfig")
"""Where RayJobs and RayServices have the spec of their RayClusters."""
_PLAIN_JSON_ONLY = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_SUBCLASS


def copy_json(value: Json) -> Json:
    """A deep copy of JSON data. What is no plain JSON (a date that YAML made) is shared, for it cannot be changed."""
    return copy_and_text(value)[0]


def copy_and_text(value: Json, text: bytes = b"") -> tuple[Json, bytes]:
    """The same, and its text, which tells whether the copy was changed; empty when *value* is no plain JSON.

    *text*: that of the same value, when it is known already.
    """
    try:
        text = text or orjson.dumps(value, option=_PLAIN_JSON_ONLY)
        copied: Json = orjson.loads(text)
    except TypeError:
        return _copy_slowly(value), b""
    return copied, text


def is_still(value: Any, text: bytes) -> bool:
    """Whether *value* is what *text*, of `copy_and_text`, says. False also when that cannot be told."""
    try:
        return bool(text) and orjson.dumps(value, option=_PLAIN_JSON_ONLY) == text
    except (TypeError, RecursionError):
        return False


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
        return _with(ctx, owner=owner, cluster_groups=_copy_groups(ctx.cluster_groups))
    return _with(ctx, owner=owner)


def copy_owner(ctx: OwnerContext, settings: Any) -> OwnerContext:
    """A deep copy with a plugin's own *settings*. Each part is copied when the plugin first looks at it."""
    copied: Any = object.__new__(_Copied)
    object.__setattr__(copied, "_source", ctx)
    object.__setattr__(copied, "settings", settings)
    return copied  # type: ignore[no-any-return]


class _Copied(OwnerContext):
    """Fills its fields from another context as they are read. Most hooks read few of them, and a spec costs more to copy
    than most hooks take. The other context never changes, as it belongs to one pass."""

    __slots__ = ("_source",)

    def __getattr__(self, name: str) -> Any:
        # Only called for a field that was not read yet.
        if name.startswith("_"):
            raise AttributeError(name)
        source: OwnerContext = self._source
        copy = _COPY.get(name)
        value = copy(getattr(source, name)) if copy else getattr(source, name)
        if name == "cluster_spec":
            value = self._same_part(source)
        object.__setattr__(self, name, value)
        return value

    def _same_part(self, source: OwnerContext) -> Any:
        """The part of this very copy that ``cluster_spec`` is of the spec."""
        if source.cluster_spec is source.spec:
            return self.spec
        within = next((key for key in _CLUSTER_SPECS if source.spec.get(key) is source.cluster_spec), None)
        if source.cluster_spec is not None and within is not None:
            return self.spec[within]
        return copy_json(source.cluster_spec)


def _copy_groups(groups: Any) -> tuple[GroupSize, ...]:
    return tuple(_with(group, requests=dict(group.requests), sidecars=dict(group.sidecars)) for group in groups)


_COPY: Mapping[str, Callable[[Any], Any]] = {
    "labels": dict,
    "annotations": dict,
    "spec": copy_json,
    "status": copy_json,
    "groups": _copy_groups,
    "gates": dict,
    "owner_reference": dict,
}
"""What is no value that could be shared."""


@cache
def _fields(of: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(of))


def _with(value: Value, **changes: Any) -> Value:
    """As ``dataclasses.replace``, without calling the class again: half of what a plugin's copy would cost."""
    kind: Any = type(value)
    copied: Any = object.__new__(kind)
    for name in _fields(kind):
        object.__setattr__(copied, name, changes[name] if name in changes else getattr(value, name))
    return copied  # type: ignore[no-any-return]
