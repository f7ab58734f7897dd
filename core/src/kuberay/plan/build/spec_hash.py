"""When a spec counts as another one: the hash that the Recreate strategy and RayServices compare.

Source: spec raycluster.md 4.9, rayservice.md 2.6, cases.md RC-04 and RC-17.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

_NOT_OF_PODS = ("upgradeStrategy", "lifecycle")
"""Fields of the spec that change no pod."""
NOT_OF_GROUPS = ("replicas", "minReplicas", "maxReplicas", "fallback", "disruptionBudget")
"""Fields of a worker group that change no pod of it; the head has a ``disruptionBudget`` as well."""


def spec_hash(raw: Mapping[str, Any]) -> str:
    """32 characters that change when anything but scaling, tolerations, gates and the strategy itself changes.

    It depends on what the user wrote only, never on defaults or on the operator's version. *raw* is not changed.
    """
    return digest(significant(raw))


def digest(value: Any) -> str:
    """32 characters that stand for *value*, whatever the order of its keys."""
    found = hashlib.sha1(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), usedforsecurity=False).digest()
    return base64.b32hexencode(found).decode()


def significant(raw: Mapping[str, Any]) -> dict[str, Any]:
    """The spec without what the hash leaves out. *raw* is not changed."""
    spec = {key: value for key, value in raw.items() if key not in _NOT_OF_PODS}
    if not spec.get("suspend"):
        spec.pop("suspend", None)
    if isinstance(spec.get("headGroupSpec"), dict):
        spec["headGroupSpec"] = _without_scheduling(spec["headGroupSpec"])
        spec["headGroupSpec"].pop("disruptionBudget", None)
    if spec.get("workerGroupSpecs"):
        spec["workerGroupSpecs"] = [_worker_group(group) for group in spec["workerGroupSpecs"]]
    return spec


def _worker_group(group: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in _without_scheduling(group).items() if key not in NOT_OF_GROUPS}
    if not kept.get("suspend"):
        kept.pop("suspend", None)
    if "scaleStrategy" in kept:
        strategy = {key: value for key, value in (kept["scaleStrategy"] or {}).items() if key != "workersToDelete"}
        if strategy:
            kept["scaleStrategy"] = strategy
        else:
            del kept["scaleStrategy"]
    return kept


def _without_scheduling(group: Mapping[str, Any]) -> dict[str, Any]:
    kept = dict(group)
    if not kept.get("rayStartParams"):
        kept.pop("rayStartParams", None)
    pod_spec = (kept.get("template") or {}).get("spec")
    if isinstance(pod_spec, dict) and ("tolerations" in pod_spec or "schedulingGates" in pod_spec):
        trimmed = {key: value for key, value in pod_spec.items() if key not in ("tolerations", "schedulingGates")}
        kept["template"] = {**kept["template"], "spec": trimmed}
    return kept
