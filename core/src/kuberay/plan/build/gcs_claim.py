"""The volume claim of embedded GCS fault tolerance, and in what a live one differs from what is asked for.

Source: spec raycluster.md 1.6, 2.8 and 7.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api import names, quantity
from kuberay.api.cluster import GcsStorage

DEFAULT_SIZE = "1Gi"
DEFAULT_ACCESS_MODES = ("ReadWriteOnce",)


def retained(storage: GcsStorage) -> bool:
    """Whether the claim outlives the cluster."""
    return storage.deletion_policy == "Retain"


def gcs_claim(cluster: str, namespace: str, storage: GcsStorage, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The claim as it is made; *owner* is left out of a retained one."""
    metadata: dict[str, Any] = {
        "name": names.gcs_claim_name(cluster),
        "namespace": namespace,
        "labels": {names.LABEL_CLUSTER: cluster},
    }
    if not retained(storage):
        metadata["ownerReferences"] = [dict(owner)]
    spec: dict[str, Any] = {
        "accessModes": _access_modes(storage),
        "resources": {"requests": {"storage": _size(storage)}},
    }
    if storage.storage_class_name is not None:
        spec["storageClassName"] = storage.storage_class_name
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def claim_differences(storage: GcsStorage, live: Mapping[str, Any]) -> str:
    """What of *storage* the spec of a *live* claim does not honour, joined by ``; ``; empty when nothing."""
    found = []
    wanted, current = _size(storage), ((live.get("resources") or {}).get("requests") or {}).get("storage", "0")
    if not _same_quantity(wanted, current):
        found.append(f"requested size {wanted} != current {current}")
    wanted_class, current_class = storage.storage_class_name, live.get("storageClassName") or ""
    if wanted_class is not None and wanted_class != current_class:
        found.append(f"storageClassName {wanted_class} != current {current_class}")
    modes, current_modes = _access_modes(storage), list(live.get("accessModes") or ())
    if sorted(modes) != sorted(current_modes):
        found.append(f"accessModes [{' '.join(modes)}] != current [{' '.join(current_modes)}]")
    return "; ".join(found)


def _size(storage: GcsStorage) -> str:
    if storage.size is None:
        return DEFAULT_SIZE
    try:
        return quantity.canonical(storage.size)
    except ValueError:
        return str(storage.size)  # the API server refuses it in its own words


def _access_modes(storage: GcsStorage) -> list[str]:
    return list(storage.access_modes or DEFAULT_ACCESS_MODES)


def _same_quantity(one: str, other: str) -> bool:
    try:
        return quantity.parse(one) == quantity.parse(other)
    except ValueError:
        return one == other
