"""Manifests of Ingress and Route (spec raycluster.md 6.3, 6.4 and 8.5)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.plan.build.routes import ingress, route

OWNER = {"uid": "u"}
LABELS = {
    "ray.io/cluster": "c",
    "ray.io/identifier": "c-head",
    "app.kubernetes.io/name": "kuberay",
    "app.kubernetes.io/created-by": "kuberay-operator",
}
ANNOTATIONS = {
    "kubernetes.io/ingress.class": "nginx",
    "team": "red",
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
}


def spec(ports: Any = None, **head: Any) -> RayClusterSpec:
    container = {"name": "ray", **({"ports": ports} if ports else {})}
    return RayClusterSpec.parse({"headGroupSpec": {"template": {"spec": {"containers": [container]}}, **head}})


def made(found: RayClusterSpec, annotations: Any = None) -> dict[str, Any]:
    return ingress("c", "ns", found, annotations or {}, OWNER, "c-head-svc")


def test_a_plain_ingress() -> None:
    assert made(spec()) == {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "Ingress",
        "metadata": {"name": "c-head-ingress", "namespace": "ns", "labels": LABELS, "ownerReferences": [OWNER]},
        "spec": {
            "rules": [
                {
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "c-head-svc", "port": {"number": 8265}}},
                            }
                        ]
                    }
                }
            ]
        },
    }


def test_options() -> None:
    tls = [{"hosts": ["h"], "secretName": "s"}]
    options = {"host": "h", "path": "/p", "pathType": "Exact", "tls": tls}
    found = made(spec(ingressOptions=options))["spec"]
    (rule,) = found["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"], path["pathType"], found["tls"]) == ("h", "/p", "Exact", tls)


def test_annotations_are_copied_and_the_class_becomes_a_field() -> None:
    found = made(spec(), ANNOTATIONS)
    assert found["metadata"]["annotations"] == {"team": "red"}
    assert found["spec"]["ingressClassName"] == "nginx"


@pytest.mark.parametrize(
    ("ports", "params", "expected"),
    [
        ([{"name": "dashboard", "containerPort": 8300}], {}, 8300),
        ([{"name": "other", "containerPort": 1}], {}, 8265),
        ([{"name": "other", "containerPort": 1}], {"dashboard-port": "8400"}, 8400),
        (None, {"dashboard-port": "8400"}, 8400),
        (None, {"dashboard-port": "bad"}, 8265),
    ],
)
def test_the_dashboards_port(ports: Any, params: dict[str, str], expected: int) -> None:
    found = spec(ports, rayStartParams=params)
    (rule,) = made(found)["spec"]["rules"]
    assert rule["http"]["paths"][0]["backend"]["service"]["port"] == {"number": expected}
    assert route("c", "ns", found, {}, OWNER, "s")["spec"]["port"] == {"targetPort": expected}


def test_a_route() -> None:
    found = route("c", "ns", spec(), ANNOTATIONS, OWNER, "c-head-svc")
    assert found["metadata"] == {
        "name": "c-head-route",
        "namespace": "ns",
        "labels": LABELS,
        "annotations": {"team": "red", "kubernetes.io/ingress.class": "nginx"},
        "ownerReferences": [OWNER],
    }
    assert found["spec"]["to"] == {"kind": "Service", "name": "c-head-svc", "weight": 100}
    assert found["spec"]["wildcardPolicy"] == "None"


@pytest.mark.parametrize(
    ("cluster", "namespace", "name"),
    [
        ("a" * 30, "n" * 20, "a" * 30 + "-"),
        ("a" * 31, "n" * 20, "a" * 31),
        ("c", "n" * 49, "c"),
        ("c", "n" * 60, ""),
    ],
)
def test_names_of_routes(cluster: str, namespace: str, name: str) -> None:
    assert route(cluster, namespace, spec(), {}, OWNER, "s")["metadata"]["name"] == name.rstrip("-")
