"""Which volumes a pod gets besides the user's: shared memory for the object store, and mounts by name.

Source: spec raycluster.md 3.10.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SHARED_MEMORY = "shared-mem"
SHARED_MEMORY_PATH = "/dev/shm"  # noqa: S108 (this is the mount point, nothing is written)


def add_shared_memory(pod_spec: dict[str, Any], container: dict[str, Any], params: Mapping[str, str]) -> None:
    """A memory-backed ``/dev/shm`` of the container's size, unless plasma lives elsewhere or the user mounts it."""
    if "plasma-directory" in params:
        return
    resources = container.get("resources") or {}
    size = (resources.get("limits") or {}).get("memory") or (resources.get("requests") or {}).get("memory")
    volume: dict[str, Any] = {"medium": "Memory"}
    if size:
        volume["sizeLimit"] = size
    add_volume(pod_spec, container, SHARED_MEMORY, {"emptyDir": volume}, SHARED_MEMORY_PATH)


def add_volume(
    pod_spec: dict[str, Any], container: dict[str, Any], name: str, source: Mapping[str, Any], path: str, **mount: Any
) -> None:
    """Mount a volume at *path* in *container*, adding it to the pod when no volume has that name.

    Nothing happens when the container already mounts something at *path*. *mount* are further fields of the mount.
    """
    if any(str(existing.get("mountPath", "")).rstrip("/") == path for existing in container.get("volumeMounts") or ()):
        return
    volumes = _list(pod_spec, "volumes")
    if all(volume.get("name") != name for volume in volumes):
        volumes.append({"name": name, **source})
    _list(container, "volumeMounts").append({"name": name, "mountPath": path, **mount})


def _list(owner: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The list under *key*, put there when absent or null."""
    if not owner.get(key):
        owner[key] = []
    items: list[dict[str, Any]] = owner[key]
    return items
