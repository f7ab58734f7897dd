"""What a former operator wrote into a status and nobody wants any more: server-side apply leaves that to its owner.

Plain data; the executor applies the patch that comes out.
"""

from __future__ import annotations

from typing import Any

_ZERO_SAYS_SOMETHING = frozenset({"targetCapacity", "trafficRoutedPercent"})
"""Numbers without a default in the schema."""


def leftovers_of(wanted: dict[str, Any], live: dict[str, Any]) -> dict[str, Any]:
    """Merge patch that removes what *live* has and *wanted* has not: fields, also of the cluster's status in a RayJob's,
    and conditions.

    Other zeros stay: they may be the schema's defaults, which come back at once.
    """
    patch: dict[str, Any] = {
        key: None
        for key, value in live.items()
        if key not in wanted and (value not in (0, {}, []) or key in _ZERO_SAYS_SOMETHING)
    }
    for key, value in live.items():
        inner = (
            leftovers_of(wanted[key], value) if isinstance(value, dict) and isinstance(wanted.get(key), dict) else None
        )
        if inner:
            patch[key] = inner
    types = {condition["type"] for condition in wanted.get("conditions") or ()}
    if any(condition.get("type") not in types for condition in live.get("conditions") or ()):
        patch["conditions"] = wanted.get("conditions") or None
    return patch
