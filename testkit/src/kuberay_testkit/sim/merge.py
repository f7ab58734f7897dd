"""How one object is laid over another: applied configurations, JSON merge patches and JSON patches.

All functions change the object they are given; callers hand in copies of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kuberay_testkit.sim.fields import ATOMIC_ITEMS, ATOMIC_MAPS, Path, index_items
from kuberay_testkit.sim.status import APIError, bad_request


def overlay(live: dict[str, Any], applied: Mapping[str, Any]) -> None:
    """Lay an applied configuration over *live*: maps merge, keyed lists merge by key, everything else is replaced."""
    for name, value in applied.items():
        current = live.get(name)
        if isinstance(value, dict) and isinstance(current, dict) and name not in ATOMIC_MAPS:
            overlay(current, value)
        elif isinstance(value, list) and isinstance(current, list):
            live[name] = _overlay_list(name, current, value)
        else:
            live[name] = value


def _overlay_list(name: str, live: list[Any], applied: list[Any]) -> list[Any]:
    live_items, applied_items = index_items(name, live), index_items(name, applied)
    if live_items is None or applied_items is None:
        return applied
    merged: list[Any] = []
    mine, theirs = list(live_items), list(applied_items)
    # The applied order wins among shared items; items only one side has keep their place before the next shared one.
    left = right = 0
    while left < len(mine) or right < len(theirs):
        if left < len(mine) and mine[left] not in applied_items:
            merged.append(live_items[mine[left]])
            left += 1
        elif left < len(mine) and right < len(theirs) and theirs[right] in live_items and mine[left] != theirs[right]:
            # Shared, but at another place: it comes when its turn in the applied order has come.
            left += 1
        elif right < len(theirs):
            element = theirs[right]
            merged.append(_overlay_item(name, live_items.get(element), applied_items[element]))
            left += left < len(mine) and mine[left] == element
            right += 1
        else:
            left += 1
    return merged


def _overlay_item(name: str, live: Any, applied: Any) -> Any:
    if isinstance(live, dict) and isinstance(applied, dict) and name not in ATOMIC_ITEMS:
        overlay(live, applied)
        return live
    return applied


def remove(body: dict[str, Any], paths: Iterable[Path]) -> None:
    """Take the fields at *paths* out of *body*, and the maps and lists that are empty afterwards."""
    tree: dict[str, Any] = {}
    for path in paths:
        node = tree
        for element in path:
            node = node.setdefault(element, {})
        node["."] = {}
    _remove(body, tree)


def _remove(body: dict[str, Any], tree: Mapping[str, Any]) -> None:
    for element, subtree in tree.items():
        name = element[2:]
        if element == "." or name not in body:
            continue
        value = body[name]
        if isinstance(value, list) and any(key != "." for key in subtree):
            items = index_items(name, value) or {}
            for key, below in subtree.items():
                if key == "." or key not in items:
                    continue
                if "." in below:
                    del items[key]
                else:
                    _remove(items[key], below)
            value = body[name] = list(items.values())
        elif isinstance(value, dict) and any(key != "." for key in subtree):
            _remove(value, subtree)
        elif "." in subtree:
            del body[name]
            continue
        if value in ({}, []):
            del body[name]


def merge_patch(target: Any, patch: Any) -> Any:
    """RFC 7386. Returns the result."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        else:
            target[name] = merge_patch(target.get(name), value)
    return target


def json_patch(target: Any, operations: Any) -> Any:
    """RFC 6902. A failing ``test`` or a missing path is a 422 as the real server answers it."""
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    for operation in operations:
        op = operation.get("op")
        pointer = _pointer(operation.get("path", ""))
        try:
            if op == "test":
                if _get(target, pointer) != operation.get("value"):
                    raise _refused(f"testing path {operation['path']} value failed: test failed")
            elif op in ("add", "replace"):
                if op == "replace":
                    _get(target, pointer)
                target = _put(target, pointer, operation.get("value"), insert=op == "add")
            elif op == "remove":
                _take(target, pointer)
            elif op in ("move", "copy"):
                source = _pointer(operation["from"])
                value = _take(target, source) if op == "move" else _get(target, source)
                target = _put(target, pointer, value, insert=True)
            else:
                raise bad_request(f"Unexpected kind: {op}")
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _refused(f"{op} operation does not apply: doc is missing path: {operation.get('path')}") from error
    return target


def _refused(message: str) -> APIError:
    text = f"the server rejected our request due to an error in our request: {message}"
    return APIError(422, "Invalid", text, details={})


def _pointer(text: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _step(node: Any, part: str) -> Any:
    return node[int(part)] if isinstance(node, list) else node[part]


def _get(target: Any, pointer: list[str]) -> Any:
    for part in pointer:
        target = _step(target, part)
    return target


def _put(target: Any, pointer: list[str], value: Any, *, insert: bool) -> Any:
    if not pointer:
        return value
    parent, last = _get(target, pointer[:-1]), pointer[-1]
    if isinstance(parent, list):
        index = len(parent) if last == "-" else int(last)
        if index > len(parent):
            raise IndexError(index)
        if insert:
            parent.insert(index, value)
        else:
            parent[index] = value
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise TypeError(last)
    return target


def _take(target: Any, pointer: list[str]) -> Any:
    parent, last = _get(target, pointer[:-1]), pointer[-1]
    return parent.pop(int(last)) if isinstance(parent, list) else parent.pop(last)
