"""When a RayService's status is worth a write, and the form in which it is written.

Source: spec rayservice.md 5.4, by value. What only mirrors a RayCluster's status rides along with other changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kuberay.api.times import format_time

SIDES = ("activeServiceStatus", "pendingServiceStatus")
_DECISIVE = ("serviceStatus", "numServeEndpoints", "conditions", "observedGeneration")
_OF_A_SIDE = (
    "rayClusterName",
    "applicationStatuses",
    "targetCapacity",
    "trafficRoutedPercent",
    "lastTrafficMigratedTime",
)
NO_CLUSTER: dict[str, Any] = {"desiredCPU": "0", "desiredMemory": "0", "desiredGPU": "0", "desiredTPU": "0"}
"""``rayClusterStatus`` of a side without a RayCluster: KubeRay always writes both sides (1.3)."""
_EMPTY: tuple[Any, ...] = (None, "", {}, [])


def status_to_write(stored: Mapping[str, Any], wanted: Mapping[str, Any], now: datetime) -> dict[str, Any] | None:
    """The whole status to apply, or None when nothing decisive differs from what is stored."""
    if not _differs(stored, wanted):
        return None
    status = {key: value for key, value in wanted.items() if value not in _EMPTY and key not in SIDES}
    if not status.get("numServeEndpoints"):
        status.pop("numServeEndpoints", None)
    for key in SIDES:
        side = {name: _filled(value) for name, value in (wanted.get(key) or {}).items() if value not in _EMPTY}
        status[key] = {"rayClusterStatus": NO_CLUSTER} | side
    status["lastUpdateTime"] = format_time(now)
    return status


def _filled(value: Any) -> Any:
    """Without empty maps: applied in place of what was in one, they become null, and the whole status is refused."""
    if not isinstance(value, Mapping):
        return value
    filled = {key: _filled(item) for key, item in value.items()}
    return {key: item for key, item in filled.items() if item != {}}


def _differs(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    if any((stored.get(key) or None) != (wanted.get(key) or None) for key in _DECISIVE):
        return True
    for key in SIDES:
        old, new = stored.get(key) or {}, wanted.get(key) or {}
        # A share of 0 percent is not the same as none (3.4).
        if any(_told(old.get(name)) != _told(new.get(name)) for name in _OF_A_SIDE):
            return True
    return False


def _told(value: Any) -> Any:
    return None if value in _EMPTY else value
