"""How the kubelet tells whether a Ray container lives and is ready.

Source: spec raycluster.md 3.8.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.names import HEAD
from kuberay.api.versions import Version, try_parse_version
from kuberay.plan.build.start_params import DEFAULT_AGENT_PORT, DEFAULT_DASHBOARD_PORT, port_param

DEFAULT_SERVE_PORT = 8000
_HEALTHZ_SINCE = Version(2, 53)


def has_healthz(ray_version: str) -> bool:
    """Whether this Ray answers ``/api/healthz`` on every node; False when the version cannot be read."""
    version = try_parse_version(ray_version)
    return version is not None and version >= _HEALTHZ_SINCE


def add_probes(
    container: dict[str, Any], *, node_type: str, params: Mapping[str, str], ray_version: str, serves: bool
) -> None:
    """Give the Ray container the probes the user left unset.

    *params* are the completed start parameters. *serves* marks a cluster of a RayService, whose workers are ready only
    when their Serve proxy answers.
    """
    agent = port_param(params, "dashboard-agent-listen-port", DEFAULT_AGENT_PORT)
    checks = [f"wget --tries 1 -T 2 -q -O- http://localhost:{agent}/api/local_raylet_healthz | grep success"]
    if node_type == HEAD:
        dashboard = port_param(params, "dashboard-port", DEFAULT_DASHBOARD_PORT)
        checks.append(f"wget --tries 1 -T 10 -q -O- http://localhost:{dashboard}/api/gcs_healthz | grep success")
    http = has_healthz(ray_version)

    def handler(extra: str = "") -> dict[str, Any]:
        if http and not extra:
            return {"httpGet": {"path": "/api/healthz", "port": agent}}
        return {"exec": {"command": ["bash", "-c", " && ".join([*checks, *([extra] if extra else [])])]}}

    timeout = 5 if node_type == HEAD else 2
    if not container.get("livenessProbe"):
        container["livenessProbe"] = _probe(handler(), delay=30, timeout=timeout, failures=120)
    if not container.get("readinessProbe"):
        if serves and node_type != HEAD:
            proxy = f"http://localhost:{_serve_port(container)}/-/healthz"
            check = handler(f"wget --tries 1 -T 10 -q -O- {proxy} | grep success")
            container["readinessProbe"] = _probe(check, delay=10, timeout=timeout, failures=1)
        else:
            container["readinessProbe"] = _probe(handler(), delay=10, timeout=timeout, failures=10)


def _probe(handler: dict[str, Any], *, delay: int, timeout: int, failures: int) -> dict[str, Any]:
    return {
        **handler,
        "initialDelaySeconds": delay,
        "timeoutSeconds": timeout,
        "periodSeconds": 5,
        "successThreshold": 1,
        "failureThreshold": failures,
    }


def _serve_port(container: Mapping[str, Any]) -> int:
    for port in container.get("ports") or ():
        if port.get("name") == "serve":
            return int(port["containerPort"])
    return DEFAULT_SERVE_PORT
