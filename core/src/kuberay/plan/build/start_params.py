"""Which parameters ``ray start`` gets for a pod: the user's, completed from defaults, groups and container limits.

Source: spec raycluster.md 3.6 and 8.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from kuberay.api import quantity
from kuberay.api.cluster import GroupSpec
from kuberay.api.names import HEAD

DEFAULT_GCS_PORT = "6379"
DEFAULT_DASHBOARD_PORT = 8265
DEFAULT_AGENT_PORT = 52365
DEFAULT_METRICS_PORT = 8080

_LARGEST_WHOLE = 2**63
"""Beyond it, JSON has numbers with an exponent only."""
_INT32 = re.compile(r"[+-]?[0-9]{1,10}")
"""What Go reads as a number; Python would take blanks and underscores, too."""
_MIG = re.compile(r"nvidia\.com/mig-\d+g\.\d+gb$")
_ACCELERATORS = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}


def gcs_port(head_params: Mapping[str, str]) -> str:
    """The port of the GCS, from the head's own parameters."""
    return head_params.get("port", DEFAULT_GCS_PORT)


def is_gpu(resource: str) -> bool:
    """Whether Ray counts this Kubernetes resource as GPUs."""
    return resource.endswith("gpu") or _MIG.search(resource) is not None


def complete(
    group: GroupSpec,
    *,
    node_type: str,
    gcs_address: str,
    forced: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The completed parameters of a group's pods.

    *gcs_address* is ``host:port`` for workers to join. *forced* (from plugins and credentials) wins over the user's.
    The group is not changed.
    """
    params = dict(group.ray_start_params)
    if group.resources:
        _apply_group_resources(params, group.resources)
    if group.labels:
        params["labels"] = ",".join(f"{key}={group.labels[key]}" for key in sorted(group.labels))
    if node_type == HEAD:
        params.setdefault("dashboard-host", "0.0.0.0")  # noqa: S104 (the dashboard listens inside the pod)
    else:
        params.setdefault("address", gcs_address)
    params.setdefault("metrics-export-port", str(DEFAULT_METRICS_PORT))
    params["block"] = "true"
    params.setdefault("dashboard-agent-listen-port", str(DEFAULT_AGENT_PORT))
    if forced:
        params.update(forced)
    add_container_resources(params, group.ray_container.get("resources") or {})
    return params


def _apply_group_resources(params: dict[str, str], resources: Mapping[str, str]) -> None:
    custom: dict[str, float] = {}
    for name in sorted(resources):
        lowered = name.lower()
        try:
            if lowered == "cpu":
                params["num-cpus"] = str(quantity.ceil_int(resources[name]))
            elif lowered == "memory":
                params["memory"] = str(quantity.ceil_int(resources[name]))
            elif is_gpu(lowered):
                params["num-gpus"] = str(quantity.ceil_int(resources[name]))
            else:
                custom[name] = quantity.to_float(resources[name])
        except ValueError:
            continue
    if custom:
        params["resources"] = _render_resources(custom)


def add_container_resources(params: dict[str, str], resources: Mapping[str, Any]) -> None:
    """Fill in ``num-cpus``, ``memory``, ``num-gpus`` and accelerators from the Ray container's resources."""
    limits: Mapping[str, Any] = resources.get("limits") or {}
    requests: Mapping[str, Any] = resources.get("requests") or {}
    if "num-cpus" not in params:
        cpus = _whole(limits.get("cpu")) or _whole(requests.get("cpu"))
        if cpus:
            params["num-cpus"] = str(cpus)
    if "memory" not in params:
        memory = _whole(limits.get("memory"))
        if memory:
            params["memory"] = str(memory)
    _add_accelerators(params, limits)


def _add_accelerators(params: dict[str, str], limits: Mapping[str, Any]) -> None:
    custom: dict[str, Any] = {}
    if "resources" in params:
        try:
            parsed = orjson.loads(params["resources"].strip(" '\"`"))
        except orjson.JSONDecodeError:
            return
        if not isinstance(parsed, dict) or not all(_is_number(value) for value in parsed.values()):
            return
        custom = parsed
    accelerator_known = any(name in custom for name in _ACCELERATORS.values())
    for name in sorted(limits):
        amount = _whole(limits[name])
        if not amount:
            continue
        if is_gpu(name):
            params.setdefault("num-gpus", str(amount))
        elif name in _ACCELERATORS and not accelerator_known:
            custom[_ACCELERATORS[name]] = quantity.to_float(limits[name])
            params["resources"] = _render_resources(custom)
            accelerator_known = True


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _render_resources(resources: Mapping[str, Any]) -> str:
    whole = {
        name: int(value) if float(value).is_integer() and abs(value) < _LARGEST_WHOLE else float(value)
        for name, value in resources.items()
    }
    return f"'{orjson.dumps(whole, option=orjson.OPT_SORT_KEYS).decode()}'"


def _whole(amount: Any) -> int:
    """Rounded up; 0 when absent or no quantity (the API server refuses such a pod)."""
    if amount is None:
        return 0
    try:
        return quantity.ceil_int(amount)
    except ValueError:
        return 0


def port_param(params: Mapping[str, str], name: str, default: int) -> int:
    """A port parameter as a number; *default* when absent or no int32."""
    text = params.get(name, "")
    if _INT32.fullmatch(text) is None:
        return default
    port = int(text)
    return port if -(2**31) <= port < 2**31 else default
