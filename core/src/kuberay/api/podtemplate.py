"""What of raw pod templates and Services decisions look at, and whether their shapes are what readers rely on.

The checks make guards needless elsewhere; a slim CRD lets anything through.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.quantity import parse

Manifest = dict[str, Any]

_POD_LISTS = ("containers", "initContainers", "volumes", "tolerations", "imagePullSecrets", "hostAliases")
_CONTAINER_LISTS = ("env", "envFrom", "ports", "volumeMounts", "volumeDevices")
_RESOURCE_MAPS = ("limits", "requests")


def check_template(template: Manifest) -> Manifest:
    """*template* itself. Raises ValueError, naming the place, when a list or map has another shape."""
    _check_metadata(template)
    spec = _map(template, "spec", "spec")
    for key in _POD_LISTS:
        items = _objects(spec, key, f"spec.{key}")
        if key in ("containers", "initContainers"):
            for index, container in enumerate(items):
                _check_container(container, f"spec.{key}[{index}]")
    return template


def _check_container(container: Manifest, path: str) -> None:
    for key in _CONTAINER_LISTS:
        items = _objects(container, key, f"{path}.{key}")
        if key == "env":
            _check_env(items, f"{path}.env")
        elif key == "ports":
            _check_ports(items, f"{path}.ports", "containerPort")
    for key in ("command", "args"):
        words = container.get(key)
        if words is not None and not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
            raise ValueError(f"{path}.{key} must be a list of strings")
    _check_resources(_map(container, "resources", f"{path}.resources"), f"{path}.resources.")


def _check_env(items: list[Manifest], path: str) -> None:
    for index, item in enumerate(items):
        if not isinstance(item.get("name"), str):
            raise ValueError(f"{path}[{index}].name must be a string")
        if not isinstance(item.get("value", ""), str | None):
            raise ValueError(f"{path}[{index}].value must be a string (quote it)")


def _check_ports(items: list[Manifest], path: str, number: str) -> None:
    for index, item in enumerate(items):
        if type(item.get(number)) is not int:
            raise ValueError(f"{path}[{index}].{number} must be an integer")
        if not isinstance(item.get("name", ""), str | None):
            raise ValueError(f"{path}[{index}].name must be a string")


def _check_resources(resources: Manifest, path: str) -> None:
    for key in _RESOURCE_MAPS:
        for name, quantity in _map(resources, key, path + key).items():
            try:
                parse(quantity)
            except ValueError as error:
                raise ValueError(f"{path}{key}.{name}: {error}") from error


def check_resources(resources: Manifest | None) -> Manifest | None:
    """*resources* itself. Raises ValueError when a limit or request is no quantity."""
    if resources is not None:
        _check_resources(resources, "")
    return resources


def check_env(items: list[Manifest]) -> list[Manifest]:
    """*items* themselves. Raises ValueError when an entry has no name or a value that is not text."""
    _check_env(items, "env")
    return items


def check_service(service: Manifest | None) -> Manifest | None:
    """*service* itself. Raises ValueError, naming the place, when a map or list has another shape."""
    if service is None:
        return None
    metadata = _check_metadata(service)
    if not isinstance(metadata.get("name", ""), str | None):
        raise ValueError("metadata.name must be a string")
    _check_ports(_objects(_map(service, "spec", "spec"), "ports", "spec.ports"), "spec.ports", "port")
    return service


def _check_metadata(parent: Manifest) -> Manifest:
    metadata = _map(parent, "metadata", "metadata")
    for key in ("labels", "annotations"):
        for name, value in _map(metadata, key, f"metadata.{key}").items():
            if not isinstance(value, str):
                raise ValueError(f"metadata.{key}.{name} must be a string")
    return metadata


def _map(parent: Mapping[str, Any], key: str, path: str) -> Manifest:
    value = parent.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{path} must be an object")
    return value


def _objects(parent: Mapping[str, Any], key: str, path: str) -> list[Manifest]:
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise ValueError(f"{path} must be a list")
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise ValueError(f"{path}[{index}] must be an object")
    return value


def ray_container(template: Mapping[str, Any]) -> Manifest:
    """Container 0 of a pod template, whatever its name; empty when there is none."""
    containers = (template.get("spec") or {}).get("containers") or []
    container: Manifest = containers[0] if containers else {}
    return container


def find_env(container: Mapping[str, Any], name: str) -> Manifest | None:
    """The first environment entry of that name, with ``value`` or ``valueFrom``."""
    entry: Manifest
    for entry in container.get("env") or []:
        if entry.get("name") == name:
            return entry
    return None


def env_value(container: Mapping[str, Any], name: str) -> str | None:
    """The literal value of an environment variable: empty for ``valueFrom``, None when there is no such variable."""
    entry = find_env(container, name)
    return None if entry is None else str(entry.get("value") or "")
