"""Which services a RayService has: one for the head and one for Serve, both of the RayCluster that serves.

Source: spec rayservice.md 4, cases RS-18 and GW-05.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import RAYSERVICE
from kuberay.plan.build.probes import DEFAULT_SERVE_PORT
from kuberay.plan.build.services import head_ports, head_service

SERVE_PORT = "serve"


def is_serving_port(name: str) -> bool:
    """Whether a port of that name serves: ``serve`` itself, or one more like ``serve-grpc``."""
    return name == SERVE_PORT or name.startswith(f"{SERVE_PORT}-")


def serving_ports(spec: RayClusterSpec) -> dict[str, int]:
    """Those ports of the head that serve."""
    return {name: number for name, number in head_ports(spec).items() if is_serving_port(name)}


def serve_port(spec: RayClusterSpec | None) -> int:
    """Where Serve's proxy listens on the head: its container port ``serve``, else Ray's own."""
    ports = spec.head_group_spec.ray_container.get("ports") or () if spec is not None else ()
    declared = [int(port["containerPort"]) for port in ports if port.get("name") == SERVE_PORT]
    return declared[0] if declared else DEFAULT_SERVE_PORT


def service_head_service(
    service: str,
    namespace: str,
    cluster: str,
    spec: RayClusterSpec,
    wanted: RayClusterSpec,
    owner: Mapping[str, Any],
    *,
    cluster_ip: bool,
) -> dict[str, Any]:
    """The head service of RayService *service*, leading to the head of *cluster*.

    Ports and selector are those of *spec*, the RayCluster's own; what a user may change without another RayCluster (type,
    annotations, template) is that of *wanted*, the RayService's ``rayClusterConfig``."""
    group = wanted.head_group_spec
    kept = spec.head_group_spec.model_copy(
        update={"service_type": group.service_type, "head_service": group.head_service}
    )
    mixed = spec.model_copy(
        update={"head_group_spec": kept, "head_service_annotations": wanted.head_service_annotations}
    )
    body = head_service(cluster, namespace, mixed, owner, cluster_ip=cluster_ip)
    custom = ((group.head_service or {}).get("metadata") or {}).get("labels") or {}
    body["metadata"]["name"] = names.head_service_name(service)
    body["metadata"]["labels"] = {
        **custom,
        names.LABEL_ORIGIN_NAME: service,
        names.LABEL_ORIGIN_CRD: RAYSERVICE.kind,
        names.LABEL_NODE_TYPE: names.HEAD,
        names.LABEL_IDENTIFIER: names.identifier(service, names.HEAD),
    }
    return body


def service_serve_service(
    service: str,
    namespace: str,
    cluster: str,
    spec: RayClusterSpec,
    owner: Mapping[str, Any],
    *,
    service_type: str = "",
    template: Mapping[str, Any] | None = None,
) -> dict[str, Any] | None:
    """The serve service of *service* (a RayService, or a RayCluster that has one of its own), leading to those pods of
    *cluster* that serve. None when there is no port to serve on: neither at the head nor in the user's *template*."""
    custom: dict[str, Any] = orjson.loads(orjson.dumps(template)) if template else {}
    metadata: dict[str, Any] = custom.get("metadata") or {}
    service_spec: dict[str, Any] = custom.get("spec") or {}
    ports = _ports(serving_ports(spec), service_spec.get("ports") or [])
    if not ports:
        return None
    service_spec["ports"] = ports
    service_spec["selector"] = {names.LABEL_CLUSTER: cluster, names.LABEL_SERVE: "true"}
    if not service_spec.get("type") and service_type:
        service_spec["type"] = service_type
    kept: dict[str, Any] = {
        "name": metadata.get("name") or names.serve_service_name(service),
        "namespace": namespace,
        "labels": {
            **(metadata.get("labels") or {}),
            names.LABEL_ORIGIN_NAME: service,
            names.LABEL_ORIGIN_CRD: RAYSERVICE.kind,
            names.LABEL_SERVE: f"{service}-serve",
        },
    }
    for key in ("annotations", "finalizers"):
        if metadata.get(key):
            kept[key] = metadata[key]
    kept["ownerReferences"] = [dict(owner)]
    return {"apiVersion": "v1", "kind": "Service", "metadata": kept, "spec": service_spec}


def _ports(detected: Mapping[str, int], users: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A port that serves is the user's where there is one of its name. Other ports of the user's lead nowhere, unless
    none is known to serve."""
    own = [{"protocol": "TCP", **port} for port in users]
    if not detected:
        return own
    named = {port.get("name"): port for port in own}
    return [named.get(name) or {"name": name, "port": number, "protocol": "TCP"} for name, number in detected.items()]
