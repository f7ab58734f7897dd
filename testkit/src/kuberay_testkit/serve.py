"""Serve without Ray: what one head was given, and the applications that come of it.

`kuberay_testkit.dashboard` has one for each of its heads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kuberay.ray.serve import DEFAULT_APPLICATION, ServeApplication, ServeDeployment, ServeDetails


@dataclass(slots=True)
class FakeServe:
    """Applications are DEPLOYING for a while and then what `becomes` says."""

    becomes: str = "RUNNING"
    """Status of applications once they were deployed."""
    seconds: float = 0.0
    """How long deploying takes."""
    refusal: str = ""
    """Why no configuration is taken; empty: each is."""
    configs: list[dict[str, Any]] = field(default_factory=list)
    """The configurations that were taken, in order."""
    applications: dict[str, ServeApplication] = field(default_factory=dict)
    due: dict[str, float] = field(default_factory=dict)
    """When applications that are being deployed will have been, in seconds of any clock."""

    def take(self, config: dict[str, Any], now: float) -> None:
        """What a configuration leaves out is removed, what it changes deployed again, and the rest left alone."""
        before = _by_name(self.configs[-1]) if self.configs else {}
        wanted = _by_name(config)
        self.configs.append(config)
        for name in self.applications.keys() - wanted.keys():
            self.set(name, None)
        for name, application in wanted.items():
            if name in self.applications and before.get(name) == application:
                continue
            deployments = [str(each.get("name")) for each in application.get("deployments") or ()]
            self.set(name, "DEPLOYING", deployments=dict.fromkeys(deployments, "UPDATING"))
            self.due[name] = now + self.seconds

    def set(
        self, name: str, status: str | None, message: str = "", *, deployments: dict[str, str] | None = None
    ) -> None:
        """Put an application into *status*, until the next configuration; None: it is not there."""
        self.due.pop(name, None)
        old = self.applications.pop(name, None)
        if status is not None:
            parts = {each: ServeDeployment(status=of) for each, of in (deployments or {}).items()}
            kept = old.deployments if old is not None and deployments is None else parts
            self.applications[name] = ServeApplication(status=status, message=message, deployments=kept)

    def lose(self) -> None:
        """The head lost its state, as it does when it restarts without fault tolerance."""
        self.applications.clear()
        self.due.clear()

    def details(self, now: float) -> ServeDetails:
        """What the dashboard says."""
        for name in [name for name, at in self.due.items() if at <= now]:
            health = "HEALTHY" if self.becomes == "RUNNING" else "UNHEALTHY"
            self.set(name, self.becomes, deployments=dict.fromkeys(self.applications[name].deployments, health))
        return ServeDetails(deploy_mode="MULTI_APP", applications=dict(self.applications))


def _by_name(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {str(each.get("name") or DEFAULT_APPLICATION): each for each in config.get("applications") or ()}


def serve_metrics(in_flight: int = 0, *, seen: int = 1, proxy: bool = True) -> str:
    """Metrics of a Ray node with one replica and a proxy, as Ray writes them. The number of the *proxy* itself is there
    for some seconds after it has changed only."""
    deployment = 'application="app",deployment="D",otel_scope_version=""'
    gauges = {
        f"ray_serve_replica_processing_queries{{{deployment}}}": in_flight,
        f"ray_serve_num_ongoing_requests_at_replicas{{{deployment}}}": in_flight,
        f"ray_serve_deployment_queued_queries{{{deployment}}}": 0,
    }
    if proxy:
        gauges['ray_serve_num_ongoing_http_requests{node_ip_address="10.0.0.1"}'] = in_flight
    samples = {
        **gauges,
        f"ray_serve_num_router_requests_total{{{deployment}}}": seen,
        'ray_node_cpu_count{instance="head"}': 2,
    }
    return "".join(f"{name} {float(value)}\n" for name, value in samples.items())
