"""How environment variables are appended to containers.

Source: spec raycluster.md 3.5 ("if absent" and unconditional entries).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kuberay.api.podtemplate import find_env


def append(container: dict[str, Any], *entries: Mapping[str, Any]) -> None:
    """Append entries whatever is there; for doubles the kubelet takes the later one."""
    if not container.get("env"):
        container["env"] = []
    container["env"].extend(dict(entry) for entry in entries)


def append_absent(container: dict[str, Any], entries: Iterable[Mapping[str, Any]]) -> None:
    """Append those entries whose name is not there yet."""
    for entry in entries:
        if find_env(container, entry["name"]) is None:
            append(container, entry)


def literal(name: str, value: str) -> dict[str, Any]:
    """An entry with a plain value."""
    return {"name": name, "value": value}


def from_field(name: str, path: str) -> dict[str, Any]:
    """An entry taken from a field of the pod."""
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def from_label(name: str, label: str) -> dict[str, Any]:
    """An entry taken from a label of the pod."""
    return from_field(name, f"metadata.labels['{label}']")
