"""The subresource ``pods/resize`` (Kubernetes 1.33): CPU and memory of containers change, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api import kinds, quantity

from kuberay_testkit.sim.status import invalid
from kuberay_testkit.sim.store import Stored

RESIZE = "resize"
_RESIZABLE = ("cpu", "memory")


def resized(stored: Stored, body: Mapping[str, Any]) -> dict[str, Any]:
    """*stored* with the sizes of *body*; everything else of *body* is dropped. Raises 422 for sizes that cannot be."""
    kept = stored.copy()
    containers = kept["spec"]["containers"]
    for number, (container, wanted) in enumerate(zip(containers, (body.get("spec") or {})["containers"], strict=True)):
        before = _sizes(container, "limits"), _sizes(container, "requests")
        resources = container.setdefault("resources", {})
        for kind, had in zip(("limits", "requests"), before, strict=True):
            amounts = (wanted.get("resources") or {}).get(kind) or {}
            if had.keys() - amounts.keys():
                path, text = (
                    f"spec.containers[{number}].resources.{kind}",
                    f"Forbidden: resource {kind} cannot be removed",
                )
                raise invalid(kinds.POD, stored.key.name, ("FieldValueForbidden", path, text))
            sizes = {name: amounts[name] for name in _RESIZABLE if name in amounts}
            if sizes:
                resources[kind] = {**(resources.get(kind) or {}), **sizes}
        if not resources:
            del container["resources"]
    if _class_of_service(stored.body["spec"]) != _class_of_service(kept["spec"]):
        text = (
            f'Invalid value: "{_class_of_service(kept["spec"])}": Pod QOS Class may not change as a result of resizing'
        )
        raise invalid(kinds.POD, stored.key.name, ("FieldValueInvalid", "spec", text))
    return kept


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
