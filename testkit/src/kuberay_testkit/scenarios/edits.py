"""Turns a scenario's ``edit`` (members by their dotted path) into a merge patch; a number in a path is a place in a list."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any


def edit_patch(live: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A merge patch that makes *changes* to *live*; None removes. Lists it touches are in it as a whole."""
    patch: dict[str, Any] = {}
    for path, value in changes.items():
        _set(patch, live, path.split("."), value)
    return patch


def _set(place: Any, there: Any, path: list[str], value: Any) -> None:
    """Set *path* in *place*, which is patched into what is *there*; None: all of it is in *place* already."""
    key, *rest = path
    if isinstance(place, list):
        index = int(key)
        if index == len(place):
            place.append(None)
        if rest:
            _set(place[index], None, rest, value)
        else:
            place[index] = value
        return
    if not rest:
        place[key] = value
        return
    below = there.get(key) if isinstance(there, Mapping) else None
    if key not in place:
        place[key] = copy.deepcopy(below) if isinstance(below, list) else {}
    _set(place[key], None if isinstance(below, list) else below, rest, value)
