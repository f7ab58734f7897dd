"""Which services a RayCluster has: for its head, for the hosts of multi-host groups, and for Serve.

Source: spec raycluster.md 2.5-2.7 and 5.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.plan.build.pods import head_service_name, pod_labels
from kuberay.plan.build.probes import DEFAULT_SERVE_PORT
from kuberay.plan.build.start_params import (
    DEFAULT_DASHBOARD_PORT,
    DEFAULT_GCS_PORT,
    DEFAULT_METRICS_PORT,
    port_param,
)

NO_SERVE_PORT = (
    "Please specify a port named 'serve' (or with the prefix 'serve-', e.g. 'serve-grpc') in the Ray head container; "
    "otherwise, the Kubernetes service for Ray Serve will not be created."
)


def head_ports(spec: RayClusterSpec) -> dict[str, int]:
    """Port names to numbers, sorted by name: those the Ray container declares, or Ray's own.

    Ray's own follow ``rayStartParams`` (RC-16). A ``metrics`` port is always there (ME-03).
    """
    params = spec.head_group_spec.ray_start_params
    declared = spec.head_group_spec.ray_container.get("ports") or ()
    ports = {port.get("name") or f"{port['containerPort']}-port": int(port["containerPort"]) for port in declared}
    if not ports:
        ports = {
            "client": port_param(params, "ray-client-server-port", 10001),
            "gcs-server": port_param(params, "port", int(DEFAULT_GCS_PORT)),
            "dashboard": port_param(params, "dashboard-port", DEFAULT_DASHBOARD_PORT),
            "serve": DEFAULT_SERVE_PORT,
        }
    ports.setdefault("metrics", port_param(params, "metrics-export-port", DEFAULT_METRICS_PORT))
    return dict(sorted(ports.items()))


def dashboard_port(spec: RayClusterSpec) -> int:
    """Where the head service offers the dashboard, and where the head would if the service does not say."""
    port = head_ports(spec).get("dashboard")
    if port is not None:
        return port
    return port_param(spec.head_group_spec.ray_start_params, "dashboard-port", DEFAULT_DASHBOARD_PORT)


def head_service_labels(cluster: str, spec: RayClusterSpec) -> dict[str, str]:
    """Labels of the head service; the head template may rename the application."""
    labels = {
        names.LABEL_CLUSTER: cluster,
        names.LABEL_NODE_TYPE: names.HEAD,
        names.LABEL_IDENTIFIER: names.identifier(cluster, names.HEAD),
        names.LABEL_APP_NAME: names.APP_NAME,
        names.LABEL_CREATED_BY: names.COMPONENT,
    }
    app = _template_labels(spec).get(names.LABEL_APP_NAME)
    if app is not None:
        labels[names.LABEL_APP_NAME] = app
    return labels


def head_service_selector(cluster: str, spec: RayClusterSpec) -> dict[str, str]:
    """The five labels that select the head, with the values the head pod really carries."""
    actual = pod_labels(cluster, names.HEAD, names.HEAD_GROUP, _template_labels(spec), spec.head_group_spec.labels)
    return {key: actual[key] for key in head_service_labels(cluster, spec)}


def _template_labels(spec: RayClusterSpec) -> Mapping[str, str]:
    return (spec.head_group_spec.template.get("metadata") or {}).get("labels") or {}


def head_service(
    cluster: str,
    namespace: str,
    spec: RayClusterSpec,
    owner: Mapping[str, Any],
    *,
    cluster_ip: bool,
    submits: bool = False,
) -> dict[str, Any]:
    """The head service. *cluster_ip* gives it an address of its own instead of making it headless. *submits* says that the
    head submits a RayJob itself: once its submitter has ended the pod is unready to Kubernetes, and must still be found."""
    labels = head_service_labels(cluster, spec)
    selector = head_service_selector(cluster, spec)
    ports = [
        {"name": name, "port": number, "protocol": "TCP", "appProtocol": "tcp"}
        for name, number in head_ports(spec).items()
    ]
    name = head_service_name(cluster, spec)
    group = spec.head_group_spec
    service_spec: dict[str, Any]
    finalizers: list[str] = []
    if group.head_service is not None:
        custom: dict[str, Any] = orjson.loads(orjson.dumps(group.head_service))
        metadata = custom.get("metadata") or {}
        service_spec = custom.get("spec") or {}
        labels = {**(metadata.get("labels") or {}), **labels}
        finalizers = metadata.get("finalizers") or []
        annotations = {**(metadata.get("annotations") or {}), **spec.head_service_annotations}
        own_ports = [{"protocol": "TCP", **port} for port in service_spec.get("ports") or ()]
        service_spec["ports"] = [*own_ports, *_not_taken(ports, own_ports)]
        if not service_spec.get("type") and group.service_type:
            service_spec["type"] = group.service_type
        service_spec["selector"] = selector
    else:
        annotations = dict(spec.head_service_annotations)
        service_spec = {"selector": selector, "ports": ports}
        if group.service_type:
            service_spec["type"] = group.service_type
        if group.service_type in ("", "ClusterIP") and not cluster_ip:
            service_spec["clusterIP"] = "None"
            service_spec["publishNotReadyAddresses"] = True
    if submits:
        service_spec.setdefault("publishNotReadyAddresses", True)
    service = _service(name, namespace, labels, annotations, owner, service_spec)
    if finalizers:
        service["metadata"]["finalizers"] = finalizers
    return service


def _not_taken(ports: list[dict[str, Any]], by: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The ports whose names and numbers the user's own do not use: Kubernetes refuses a service that has one twice."""
    named = {port.get("name") for port in by}
    numbers = {(port.get("port"), port["protocol"]) for port in by}
    return [port for port in ports if port["name"] not in named and (port["port"], port["protocol"]) not in numbers]


def changes_headless(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether the service would become headless or cease to be, which Kubernetes does not allow."""
    is_headless: bool = (live.get("spec") or {}).get("clusterIP") == "None"
    wants_headless: bool = wanted["spec"].get("clusterIP") == "None"
    return is_headless != wants_headless


def keep_form(spec: dict[str, Any], live: Mapping[str, Any]) -> None:
    """What makes a service headless or not stays as it is; everything else may still change."""
    for key in ("clusterIP", "publishNotReadyAddresses", "type"):
        spec.pop(key, None)
        if key in live and key != "clusterIP":
            spec[key] = live[key]
    if live.get("clusterIP") == "None":
        spec["clusterIP"] = "None"


def headless_service(cluster: str, namespace: str, owner: Mapping[str, Any]) -> dict[str, Any]:
    """The service that gives workers of multi-host groups DNS names before they are ready."""
    return _service(
        names.headless_service_name(cluster),
        namespace,
        {names.LABEL_HEADLESS_SVC: cluster},
        {},
        owner,
        {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {names.LABEL_CLUSTER: cluster, names.LABEL_NODE_TYPE: names.WORKER},
        },
    )


def serve_service(
    cluster: str, namespace: str, spec: RayClusterSpec, owner: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The service in front of Serve on head and workers; None when no port of the head serves (`NO_SERVE_PORT`)."""
    ports = [
        {"name": name, "port": number, "protocol": "TCP"}
        for name, number in head_ports(spec).items()
        if name == "serve" or name.startswith("serve-")
    ]
    if not ports:
        return None
    service_spec: dict[str, Any] = {"selector": {names.LABEL_CLUSTER: cluster}, "ports": ports}
    if spec.head_group_spec.service_type:
        service_spec["type"] = spec.head_group_spec.service_type
    labels = {
        names.LABEL_ORIGIN_NAME: cluster,
        names.LABEL_ORIGIN_CRD: "RayCluster",
        names.LABEL_SERVE: f"{cluster}-serve",
    }
    return _service(names.serve_service_name(cluster), namespace, labels, {}, owner, service_spec)


def _service(
    name: str,
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    owner: Mapping[str, Any],
    spec: dict[str, Any],
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": name, "namespace": namespace, "labels": dict(labels)}
    if annotations:
        metadata["annotations"] = dict(annotations)
    metadata["ownerReferences"] = [dict(owner)]
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
