"""What a pod says about the spec it was made from: one hash per group, by which rolling upgrades tell old pods from new.

Source: docs/upgrades.md; cases.md RC-04 and RC-17. It depends on what the user wrote only, never on defaults or on the
operator's version, and takes in nothing but the fields that pods are built from.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import orjson

from kuberay.api import names, quantity
from kuberay.api.cluster import GroupSpec, RayClusterSpec
from kuberay.plan.build.start_params import gcs_port

SCHEME = "1"
"""Changes with the way hashes are made. Hashes of another scheme say nothing: they are replaced, pods are not."""

RESIZING = "resizing"
"""Stands for the size of a pod whose resources are being changed in place."""

_RESIZABLE = ("cpu", "memory")
_READ_WHILE_RUNNING = ("idleTimeoutSeconds", "upscalingMode")
_NOT_OF_PODS = ("tolerations", "schedulingGates")
"""Fields of a pod's spec that queues add and change."""


def group_hashes(raw: Mapping[str, Any], spec: RayClusterSpec) -> dict[str, str]:
    """Hashes by group name, the head's under `HEAD_GROUP`. *raw* and *spec* are one spec and are not changed."""
    shared = _shared(raw, spec)
    head = {
        "gcs": raw.get("gcsFaultToleranceOptions"),
        "autoscaler": _sidecar(raw.get("autoscalerOptions") or {}) if spec.autoscaling else None,
    }
    worker = {"gcs": spec.gcs_fault_tolerance_options is not None}
    hashes = {}
    for group in spec.worker_group_specs:
        hashes[group.group_name] = _hash(group, {**shared, **worker, "hosts": group.num_of_hosts})
    hashes[names.HEAD_GROUP] = _hash(spec.head_group_spec, {**shared, **head})
    return hashes


def known_scheme(told: str) -> bool:
    """Whether a hash found on a pod can be compared with ours."""
    return told.startswith(f"{SCHEME}-")


def same_but_size(told: str, wanted: str) -> bool:
    """Whether two hashes differ at most in CPU and memory of containers."""
    return told.rpartition("-")[0] == wanted.rpartition("-")[0]


def resizing(wanted: str) -> str:
    """What a pod says while its resources are being changed in place towards *wanted*."""
    return f"{wanted.rpartition('-')[0]}-{RESIZING}"


def _shared(raw: Mapping[str, Any], spec: RayClusterSpec) -> dict[str, Any]:
    """What the pods of all groups are built from."""
    service = (spec.head_group_spec.head_service or {}).get("metadata") or {}
    return {
        "ray": spec.ray_version,
        "auth": raw.get("authOptions") if spec.token_auth else None,
        "tls": spec.tls,
        "history": raw.get("historyServerOptions") or None,
        "port": gcs_port(spec.head_group_spec.ray_start_params),
        "service": service.get("name") or "",
        "never_restarts": spec.autoscaling
        and spec.autoscaler_options is not None
        and spec.autoscaler_options.version == "v2",
    }


def _sidecar(options: Mapping[str, Any]) -> dict[str, Any]:
    """What of the autoscaler's options is in its container; it reads the others from the RayCluster as it goes."""
    return {key: value for key, value in options.items() if key not in _READ_WHILE_RUNNING}


def _hash(group: GroupSpec, others: Mapping[str, Any]) -> str:
    template, size = _without_size(group.template)
    shape = {
        "template": template,
        "params": group.ray_start_params,
        "resources": group.resources,
        "labels": group.labels,
        **others,
    }
    return f"{SCHEME}-{_digest(shape)}-{_digest(size)}"


def _digest(value: Any) -> str:
    return hashlib.blake2b(orjson.dumps(value, option=orjson.OPT_SORT_KEYS), digest_size=10).hexdigest()


def _without_size(template: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """The template without what never counts and without CPU and memory of its containers, and those."""
    rest = dict(template)
    if isinstance(rest.get("metadata"), dict):
        rest["metadata"] = {key: value for key, value in rest["metadata"].items() if key != "creationTimestamp"}
    if not rest.get("metadata"):
        rest.pop("metadata", None)
    pod_spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in _NOT_OF_PODS}
    size: list[Any] = []
    containers = []
    for container in pod_spec.get("containers") or ():
        resources = dict(container.get("resources") or {})
        amounts = {}
        for kind in ("limits", "requests"):
            wanted = resources.pop(kind, None) or {}
            amounts[kind] = {name: _canonical(wanted[name]) for name in _RESIZABLE if name in wanted}
            others = {name: _canonical(amount) for name, amount in wanted.items() if name not in _RESIZABLE}
            if others:
                resources[kind] = others
        size.append(amounts)
        trimmed = {key: value for key, value in container.items() if key != "resources"}
        containers.append({**trimmed, "resources": resources} if resources else trimmed)
    if containers:
        pod_spec["containers"] = containers
    rest["spec"] = pod_spec
    return rest, size


def _canonical(amount: Any) -> Any:
    try:
        return quantity.canonical(amount)
    except ValueError:
        return amount
