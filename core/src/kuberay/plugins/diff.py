"""Which places of a manifest a plugin changed, as JSON pointers (RFC 6901) into the new manifest.

Lists whose items have names (containers, env, volumes) are compared by name, so that an item put in front does not
make all later ones count as changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def changed_paths(before: Any, after: Any) -> list[str]:
    """The shortest list of pointers that covers all changes, in order of appearance; removed places count as changed."""
    return list(_walk(before, after, ""))


def _walk(before: Any, after: Any, path: str) -> Iterator[str]:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            if key in before:
                yield from _walk(before[key], value, f"{path}/{_escape(key)}")
            else:
                yield f"{path}/{_escape(key)}"
        yield from (f"{path}/{_escape(key)}" for key in before if key not in after)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _walk_lists(before, after, path)
    elif before != after or type(before) is not type(after):
        yield path or "/"


def _walk_lists(before: list[Any], after: list[Any], path: str) -> Iterator[str]:
    old, new = _by_name(before), _by_name(after)
    if old is None or new is None:
        for index, value in enumerate(after):
            if index < len(before):
                yield from _walk(before[index], value, f"{path}/{index}")
            else:
                yield f"{path}/{index}"
        yield from (f"{path}/{index}" for index in range(len(after), len(before)))
        return
    for index, (name, value) in enumerate(new.items()):
        if name in old:
            yield from _walk(old[name], value, f"{path}/{index}")
        else:
            yield f"{path}/{index}"
    yield from (f"{path}/{index}" for index, name in enumerate(old) if name not in new)
    if [name for name in old if name in new] != [name for name in new if name in old]:
        yield path or "/"


def _by_name(items: list[Any]) -> dict[Any, Any] | None:
    """Items by ``mountPath`` or ``name``, or None when they have none or share one."""
    found: dict[Any, Any] = {}
    for item in items:
        if not isinstance(item, dict):
            return None
        name = item.get("mountPath") or item.get("name")
        if not isinstance(name, str) or name in found:
            return None
        found[name] = item
    return found


def _escape(key: Any) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
