"""How the head's dashboard is reached from outside: the Ingress, and on OpenShift the Route, of a RayCluster.

Source: spec raycluster.md 6.3 and 6.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api import names
from kuberay.api.cluster import IngressOptions, RayClusterSpec
from kuberay.plan.build.services import dashboard_port

_NO_OPTIONS = IngressOptions()


def ingress(
    cluster: str,
    namespace: str,
    spec: RayClusterSpec,
    annotations: Mapping[str, str],
    owner: Mapping[str, Any],
    service: str,
) -> dict[str, Any]:
    """The Ingress in front of *service*. *annotations* are the RayCluster's; its ingress class becomes a field."""
    options = spec.head_group_spec.ingress_options or _NO_OPTIONS
    port = {"number": dashboard_port(spec)}
    path = {
        "path": options.path or "/",
        "pathType": options.path_type or "Prefix",
        "backend": {"service": {"name": service, "port": port}},
    }
    rule: dict[str, Any] = {"http": {"paths": [path]}}
    if options.host:
        rule["host"] = options.host
    body: dict[str, Any] = {"rules": [rule]}
    if options.tls:
        body["tls"] = [dict(entry) for entry in options.tls]
    ingress_class = annotations.get(names.ANNOTATION_INGRESS_CLASS)
    if ingress_class:
        body["ingressClassName"] = ingress_class
    copied = {key: value for key, value in annotations.items() if key != names.ANNOTATION_INGRESS_CLASS}
    metadata = _metadata(names.ingress_name(cluster), cluster, namespace, copied, owner)
    return {"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": metadata, "spec": body}


def route(
    cluster: str,
    namespace: str,
    spec: RayClusterSpec,
    annotations: Mapping[str, str],
    owner: Mapping[str, Any],
    service: str,
) -> dict[str, Any]:
    """The Route in front of *service*."""
    return {
        "apiVersion": "route.openshift.io/v1",
        "kind": "Route",
        "metadata": _metadata(names.route_name(cluster, namespace), cluster, namespace, annotations, owner),
        "spec": {
            "to": {"kind": "Service", "name": service, "weight": 100},
            "port": {"targetPort": dashboard_port(spec)},
            "wildcardPolicy": "None",
        },
    }


def _metadata(
    name: str, cluster: str, namespace: str, annotations: Mapping[str, str], owner: Mapping[str, Any]
) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": namespace,
        "labels": {
            names.LABEL_CLUSTER: cluster,
            names.LABEL_IDENTIFIER: names.identifier(cluster, names.HEAD),
            names.LABEL_APP_NAME: names.APP_NAME,
            names.LABEL_CREATED_BY: names.COMPONENT,
        },
    }
    # kubectl's copy of the whole RayCluster says nothing about this object and would change with every edit.
    copied = {key: value for key, value in annotations.items() if key != names.ANNOTATION_LAST_APPLIED}
    if copied:
        metadata["annotations"] = copied
    metadata["ownerReferences"] = [dict(owner)]
    return metadata
