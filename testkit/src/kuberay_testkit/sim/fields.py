"""Who owns which field: sets of field paths, their ``fieldsV1`` form, and what changed between two objects.

A path is a tuple of ``fieldsV1`` keys: ``f:name`` for a field, ``k:{...}`` for an item of a keyed list, ``v:...`` for an
item of a set. Lists that are neither are atomic: owned and replaced as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

Path = tuple[str, ...]
Paths = frozenset[Path]

_NAME = ("name",)
_LIST_KEYS: dict[str, tuple[str, ...]] = {
    "containers": _NAME,
    "initContainers": _NAME,
    "ephemeralContainers": _NAME,
    "env": _NAME,
    "volumes": _NAME,
    "imagePullSecrets": _NAME,
    "resourceClaims": _NAME,
    "claims": _NAME,
    "secrets": _NAME,
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "hostAliases": ("ip",),
    "podIPs": ("ip",),
    "ownerReferences": ("uid",),
    "conditions": ("type",),
    "webhooks": _NAME,
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
}
_SETS = frozenset({"finalizers"})
ATOMIC_MAPS = frozenset(
    {
        "selector",
        "nodeSelector",
        "labelSelector",
        "roleRef",
        "fieldRef",
        "secretKeyRef",
        "configMapKeyRef",
        "resourceFieldRef",
        "regarding",
        "related",
    }
)
ATOMIC_ITEMS = frozenset({"ownerReferences"})

_UNOWNED_METADATA = frozenset(
    {
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)


def ownable(body: Mapping[str, Any]) -> dict[str, Any]:
    """*body* without what no field manager can own: identity and what the server itself keeps in metadata."""
    rest = {key: value for key, value in body.items() if key not in ("apiVersion", "kind", "metadata")}
    metadata = {k: v for k, v in (body.get("metadata") or {}).items() if k not in _UNOWNED_METADATA}
    if metadata:
        rest["metadata"] = metadata
    return rest


def _key_names(name: str, items: list[Any]) -> tuple[str, ...] | None:
    if name == "ports":
        first = items[0] if items else None
        return ("containerPort" if isinstance(first, dict) and "containerPort" in first else "port", "protocol")
    return _LIST_KEYS.get(name)


def index_items(name: str, items: list[Any]) -> dict[str, Any] | None:
    """Items of the list field *name* by path element, in order; None when the list is atomic (or keys repeat or miss)."""
    if name in _SETS:
        return {"v:" + orjson.dumps(item).decode(): item for item in items}
    keys = _key_names(name, items)
    if keys is None:
        return None
    indexed: dict[str, Any] = {}
    for item in items:
        if not isinstance(item, dict):
            return None
        values = {key: item.get(key) for key in keys}
        if "protocol" in values and values["protocol"] is None:
            values["protocol"] = "TCP"
        if any(value is None for value in values.values()):
            return None
        element = "k:" + orjson.dumps(values, option=orjson.OPT_SORT_KEYS).decode()
        if element in indexed:
            return None
        indexed[element] = item
    return indexed


def repeated_key(value: Any, path: Path = ()) -> str:
    """Tells the first keyed list in *value* in which two items have the same key; empty when there is none."""
    if isinstance(value, dict):
        for name, child in value.items():
            here = (*path, "f:" + name)
            if isinstance(child, list) and index_items(name, child) is None:
                keys = _key_names(name, child) or ()
                seen = [tuple(item.get(key) for key in keys) for item in child if isinstance(item, dict)]
                for values in seen:
                    if keys and None not in values and seen.count(values) > 1:
                        pairs = dict(zip(keys, values, strict=True))
                        shown = show(("k:" + orjson.dumps(pairs).decode(),))
                        return f"{show(here)}: duplicate entries for key {shown}"
            if found := repeated_key(child, here):
                return found
    elif isinstance(value, list):
        for item in value:
            if found := repeated_key(item, path):
                return found
    return ""


def _is_map(name: str, value: Any) -> bool:
    return isinstance(value, dict) and name not in ATOMIC_MAPS


def paths_of(body: Mapping[str, Any]) -> Paths:
    """The fields an applied configuration claims: its leaves, and the items of its keyed lists."""
    found: set[Path] = set()
    _collect(ownable(body), (), found, containers=False)
    return frozenset(found)


def _collect(value: Mapping[str, Any], path: Path, found: set[Path], *, containers: bool) -> None:
    for name, child in value.items():
        here = (*path, "f:" + name)
        _collect_value(name, child, here, found, containers=containers)


def _collect_value(name: str, child: Any, here: Path, found: set[Path], *, containers: bool) -> None:
    if child and _is_map(name, child):
        if containers:
            found.add(here)
        _collect(child, here, found, containers=containers)
        return
    if isinstance(child, list):
        items = index_items(name, child)
        if items is not None:
            if containers:
                found.add(here)
            for element, item in items.items():
                place = (*here, element)
                found.add(place)
                if isinstance(item, dict) and name not in ATOMIC_ITEMS:
                    _collect(item, place, found, containers=containers)
            return
    found.add(here)


class Difference:
    """Fields that vanished, and fields that are new or have another value."""

    __slots__ = ("changed", "removed")

    def __init__(self) -> None:
        self.removed: set[Path] = set()
        self.changed: set[Path] = set()

    def __bool__(self) -> bool:
        return bool(self.removed or self.changed)


_ROOTS = frozenset({("f:metadata",), ("f:spec",), ("f:status",)})


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> Difference:
    """What a write changed, in the fields somebody can own."""
    difference = Difference()
    _compare_maps(ownable(old), ownable(new), (), difference)
    difference.changed -= _ROOTS
    difference.removed -= _ROOTS
    return difference


def _compare_maps(old: Mapping[str, Any], new: Mapping[str, Any], path: Path, difference: Difference) -> None:
    for name, value in old.items():
        if name not in new:
            _collect_value(name, value, (*path, "f:" + name), difference.removed, containers=True)
    for name, value in new.items():
        here = (*path, "f:" + name)
        if name not in old:
            _collect_value(name, value, here, difference.changed, containers=True)
        elif old[name] != value:
            _compare_values(name, old[name], value, here, difference)


def _compare_values(name: str, old: Any, new: Any, here: Path, difference: Difference) -> None:
    if _is_map(name, old) and _is_map(name, new):
        _compare_maps(old, new, here, difference)
        return
    if isinstance(old, list) and isinstance(new, list):
        old_items, new_items = index_items(name, old), index_items(name, new)
        if old_items is not None and new_items is not None:
            _compare_items(name, old_items, new_items, here, difference)
            return
    _collect_value(name, old, here, difference.removed, containers=True)
    difference.removed.discard(here)
    _collect_value(name, new, here, difference.changed, containers=True)
    difference.changed.add(here)


def _compare_items(
    name: str, old: Mapping[str, Any], new: Mapping[str, Any], here: Path, difference: Difference
) -> None:
    atomic = name in ATOMIC_ITEMS or name in _SETS
    for element in old.keys() - new.keys():
        difference.removed.add((*here, element))
        if not atomic:
            _collect(old[element], (*here, element), difference.removed, containers=True)
    for element, item in new.items():
        place = (*here, element)
        if element not in old:
            difference.changed.add(place)
            if not atomic:
                _collect(item, place, difference.changed, containers=True)
        elif old[element] != item:
            if atomic:
                difference.changed.add(place)
            else:
                _compare_maps(old[element], item, place, difference)


def encode(paths: Iterable[Path]) -> dict[str, Any]:
    """The ``fieldsV1`` tree of a set of paths."""
    root: dict[str, Any] = {}
    ordered = sorted(paths)
    members = set(ordered)
    for path in ordered:
        node = root
        for depth, element in enumerate(path):
            child = node.get(element)
            if child is None:
                child = node[element] = {}
                if depth + 1 < len(path) and path[: depth + 1] in members:
                    child["."] = {}
            elif depth + 1 < len(path) and not child and path[: depth + 1] in members:
                child["."] = {}
            node = child
    return root


def decode(tree: Mapping[str, Any]) -> Paths:
    """The inverse of `encode`."""
    found: set[Path] = set()

    def walk(node: Mapping[str, Any], path: Path) -> None:
        if not node or "." in node:
            found.add(path)
        for element, child in node.items():
            if element != ".":
                walk(child, (*path, element))

    for element, child in tree.items():
        walk(child, (element,))
    return frozenset(found)


def show(path: Path) -> str:
    """As conflict messages print it: ``.spec.containers[name="a"].image``."""
    text = ""
    for element in path:
        kind, _, rest = element.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = orjson.loads(rest)
            text += "[" + ",".join(f"{key}={orjson.dumps(value).decode()}" for key, value in keys.items()) + "]"
        else:
            text += f"[={rest}]"
    return text
