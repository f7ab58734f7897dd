"""Who is admitted although no rule of the user says so: the operator, name servers, and the API server.

Source: cases.md NP-01; KubeRay admits none of them. Each can be turned off by the administrator, and for a single cluster
by an annotation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.names import HEAD_GROUP, LABEL_ORIGIN_CRD
from kuberay.hooks import OwnerContext
from kuberay.plan.build.serve_services import serve_port
from kuberay.plan.build.start_params import (
    DEFAULT_DASHBOARD_PORT,
    DEFAULT_GCS_PORT,
    DEFAULT_METRICS_PORT,
    gcs_port,
    port_param,
)

from kuberay_networkpolicy.config import OPERATOR_LABELS, NetworkPolicySettings, settings_of

Rule = dict[str, Any]

ANNOTATION = "ray.io/network-policy-presets"
"""On a RayCluster: which presets it has, of those that the administrator left on; ``none`` for none of them."""
PRESETS = ("operator", "dns", "api-server")
NAMESPACE_NAME = "kubernetes.io/metadata.name"


def unknown_presets(ctx: OwnerContext) -> list[str]:
    """Words of the annotation that name no preset."""
    return [word for word in _words(ctx) if word not in (*PRESETS, "none")]


def chosen(ctx: OwnerContext) -> frozenset[str]:
    """The presets of this cluster."""
    settings = settings_of(ctx.settings)
    on = {"operator": settings.admit_operator, "dns": settings.admit_dns, "api-server": settings.admit_api_server}
    asked = _words(ctx) if ANNOTATION in ctx.annotations else PRESETS
    return frozenset(preset for preset in PRESETS if on[preset] and preset in asked)


def ingress(ctx: OwnerContext, spec: RayClusterSpec, group: str) -> list[Rule]:
    """Rules after the base rule; *group* is ``headgroup`` or a worker group's name."""
    peers = _operator(ctx, settings_of(ctx.settings)) if "operator" in chosen(ctx) else []
    ports = _operator_ports(ctx, spec, group)
    return [{"from": peers, "ports": _ports(ports)}] if peers and ports else []


def egress(ctx: OwnerContext, spec: RayClusterSpec, group: str) -> list[Rule]:
    """Rules after the base rule."""
    settings, presets = settings_of(ctx.settings), chosen(ctx)
    rules: list[Rule] = []
    if "dns" in presets:
        rules.append({"to": settings.dns_peers, "ports": _ports(settings.dns_ports, ("UDP", "TCP"))})
    if "api-server" in presets and _needs_api_server(spec, group):
        rules.append({"to": settings.api_server_peers, "ports": _ports(settings.api_server_ports)})
    return rules


def dashboard_port(spec: RayClusterSpec) -> int:
    """Where the head's dashboard listens."""
    return port_param(spec.head_group_spec.ray_start_params, "dashboard-port", DEFAULT_DASHBOARD_PORT)


def _words(ctx: OwnerContext) -> Sequence[str]:
    return [word for part in ctx.annotations.get(ANNOTATION, "").split(",") if (word := part.strip())]


def _operator(ctx: OwnerContext, settings: NetworkPolicySettings) -> list[dict[str, Any]]:
    """Nobody where it is not known in which namespace the operator runs: outside the cluster no selector finds it."""
    if settings.operator_peers:
        return settings.operator_peers
    if not ctx.operator_namespace:
        return []
    return [
        {
            "namespaceSelector": {"matchLabels": {NAMESPACE_NAME: ctx.operator_namespace}},
            "podSelector": {"matchLabels": dict(OPERATOR_LABELS)},
        }
    ]


def _operator_ports(ctx: OwnerContext, spec: RayClusterSpec, group: str) -> list[int]:
    """What the operator itself asks: jobs and Serve at the dashboard, the GCS to drain workers; of a RayService, whether
    its proxy is healthy and what is in flight in each pod."""
    serves = ctx.labels.get(LABEL_ORIGIN_CRD) == "RayService"
    if group != HEAD_GROUP:
        found = spec.group(group)
        params = found.ray_start_params if found is not None else {}
        return [port_param(params, "metrics-export-port", DEFAULT_METRICS_PORT)] if serves else []
    params = spec.head_group_spec.ray_start_params
    gcs = gcs_port(params)
    ports = [dashboard_port(spec), int(gcs if gcs.isdecimal() else DEFAULT_GCS_PORT)]
    if serves:
        ports += [serve_port(spec), port_param(params, "metrics-export-port", DEFAULT_METRICS_PORT)]
    return list(dict.fromkeys(ports))


def _needs_api_server(spec: RayClusterSpec, group: str) -> bool:
    options = spec.auth_options
    reviews_tokens = options is not None and options.mode == "token" and bool(options.enable_k8s_token_auth)
    return reviews_tokens or (spec.autoscaling and group == HEAD_GROUP)


def _ports(ports: Iterable[int], protocols: Sequence[str] = ("TCP",)) -> list[dict[str, Any]]:
    return [{"protocol": protocol, "port": port} for port in ports for protocol in protocols]
