"""The subresource ``pods/resize`` (Kubernetes 1.33): CPU and memory of containers change, nothing else, within limits."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kuberay.api import kinds, quantity

from kuberay_testkit.sim.status import invalid
from kuberay_testkit.sim.store import Stored

RESIZE = "resize"
_RESIZABLE = ("cpu", "memory")


def resized(stored: Stored, body: Mapping[str, Any]) -> dict[str, Any]:
    """*stored* with the sizes of *body*. Raises 422 for what the API server does not let this endpoint do."""
    old, new = stored.body["spec"], body.get("spec") or {}
    name = stored.key.name
    if _without_sizes(old) != _without_sizes(new):
        text = 'Forbidden: only cpu and memory resources for containers of types "init","main" are mutable'
        raise invalid(kinds.POD, name, ("FieldValueForbidden", "spec", text))
    for number, (before, after) in enumerate(zip(old["containers"], new["containers"], strict=True)):
        for kind in ("limits", "requests"):
            had, has = _sizes(before, kind), _sizes(after, kind)
            if had.keys() - has.keys():
                path = f"spec.containers[{number}].resources.{kind}"
                raise invalid(
                    kinds.POD, name, ("FieldValueForbidden", path, f"Forbidden: resource {kind} cannot be removed")
                )
    if _class_of_service(old) != _class_of_service(new):
        text = f'Invalid value: "{_class_of_service(new)}": Pod QOS Class may not change as a result of resizing'
        raise invalid(kinds.POD, name, ("FieldValueInvalid", "spec", text))
    kept = stored.copy()
    kept["spec"]["containers"] = copy.deepcopy(new["containers"])
    return kept


def _without_sizes(spec: Mapping[str, Any]) -> dict[str, Any]:
    rest = copy.deepcopy(dict(spec))
    for container in rest.get("containers") or ():
        for amounts in (container.get("resources") or {}).values():
            if isinstance(amounts, dict):
                for resource in _RESIZABLE:
                    amounts.pop(resource, None)
    return rest


def _sizes(container: Mapping[str, Any], kind: str) -> dict[str, Any]:
    amounts = (container.get("resources") or {}).get(kind) or {}
    return {name: quantity.parse(amounts[name]) for name in _RESIZABLE if name in amounts}


def _class_of_service(spec: Mapping[str, Any]) -> str:
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    pairs = [(_sizes(container, "limits"), _sizes(container, "requests")) for container in containers]
    if not any(limits or requests for limits, requests in pairs):
        return "BestEffort"
    full = all(set(_RESIZABLE) <= limits.keys() and limits == requests for limits, requests in pairs)
    return "Guaranteed" if full else "Burstable"
