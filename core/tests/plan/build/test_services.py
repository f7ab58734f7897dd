"""Services of a RayCluster (spec raycluster.md 2.5-2.7 and 8.5)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.plan.build.services import head_ports, head_service, headless_service, serve_service

OWNER = {"uid": "u"}
DEFAULT_PORTS = {"client": 10001, "dashboard": 8265, "gcs-server": 6379, "metrics": 8080, "serve": 8000}


def spec(ports: Any = None, metadata: Any = None, annotations: Any = None, **head: Any) -> RayClusterSpec:
    container = {"name": "ray", **({"ports": ports} if ports else {})}
    template = {"spec": {"containers": [container]}, **({"metadata": metadata} if metadata else {})}
    raw = {"headGroupSpec": {"template": template, **head}}
    if annotations:
        raw["headServiceAnnotations"] = annotations
    return RayClusterSpec.parse(raw)


def service(found: RayClusterSpec, *, cluster_ip: bool = False) -> dict[str, Any]:
    return head_service("c", "ns", found, OWNER, cluster_ip=cluster_ip)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        (None, DEFAULT_PORTS),
        ([{"name": "random", "containerPort": 1234}], {"metrics": 8080, "random": 1234}),
        ([{"containerPort": 7777}], {"7777-port": 7777, "metrics": 8080}),
        ([{"name": "metrics", "containerPort": 8081}], {"metrics": 8081}),
    ],
)
def test_head_ports(declared: Any, expected: dict[str, int]) -> None:
    found = head_ports(spec(declared))
    assert found == expected
    assert list(found) == sorted(found)


@pytest.mark.parametrize(
    ("declared", "params", "expected"),
    [
        ([{"name": "dashboard", "containerPort": 8265}], {}, 8080),
        ([{"name": "dashboard", "containerPort": 8265}], {"metrics-export-port": "8090"}, 8090),
        ([{"name": "metrics", "containerPort": 8081}], {"metrics-export-port": "8090"}, 8081),
        (None, {"metrics-export-port": "8090"}, 8090),
    ],
)
def test_the_metrics_port_is_always_there(declared: Any, params: dict[str, str], expected: int) -> None:
    """ME-03: whichever other ports the user lists, in the same order each time."""
    found = spec(declared, rayStartParams=params)
    ports = service(found)["spec"]["ports"]
    assert {"name": "metrics", "port": expected, "protocol": "TCP", "appProtocol": "tcp"} in ports
    assert ports == service(found)["spec"]["ports"] == sorted(ports, key=lambda port: port["name"])


def test_moved_ports_show_in_the_service() -> None:
    """RC-16."""
    params = {"dashboard-port": "8300", "port": "6390", "ray-client-server-port": "bad"}
    assert head_ports(spec(rayStartParams=params)) == {**DEFAULT_PORTS, "dashboard": 8300, "gcs-server": 6390}


@pytest.mark.parametrize(
    ("service_type", "cluster_ip", "headless"),
    [("", False, True), ("ClusterIP", False, True), ("", True, False), ("NodePort", False, False)],
)
def test_headless(service_type: str, cluster_ip: bool, headless: bool) -> None:
    found = service(spec(serviceType=service_type), cluster_ip=cluster_ip)["spec"]
    assert found.get("clusterIP") == ("None" if headless else None)
    assert found.get("publishNotReadyAddresses") == (True if headless else None)
    assert found.get("type", "") == service_type
    assert all(port["appProtocol"] == "tcp" for port in found["ports"])


def test_users_service() -> None:
    custom = {
        "metadata": {
            "name": "front",
            "namespace": "elsewhere",
            "labels": {"ray.io/cluster": "x", "mine": "yes"},
            "annotations": {"team": "red", "only": "user"},
        },
        "spec": {"type": "LoadBalancer", "selector": {"pick": "me"}, "ports": [{"name": "extra", "port": 9}]},
    }
    found = service(spec(annotations={"team": "blue"}, headService=custom))
    metadata = found["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("front", "ns")
    assert metadata["labels"].items() >= {"ray.io/cluster": "c", "mine": "yes"}.items()
    assert metadata["annotations"] == {"team": "blue", "only": "user"}
    assert found["spec"]["type"] == "LoadBalancer"
    assert [port["name"] for port in found["spec"]["ports"]] == ["extra", *DEFAULT_PORTS]
    assert found["spec"]["selector"]["ray.io/cluster"] == "c"
    assert "clusterIP" not in found["spec"]
    assert custom["spec"]["selector"] == {"pick": "me"}  # type: ignore[index]


def test_users_ports_take_the_place_of_ours() -> None:
    """Kubernetes refuses a service with one name or number twice."""
    ports = [
        {"name": "dashboard", "port": 80, "targetPort": 8265},
        {"name": "mine", "port": 8000},
        {"name": "udp", "port": 6379, "protocol": "UDP"},
    ]
    found = service(spec(headService={"metadata": {}, "spec": {"ports": ports}}))["spec"]["ports"]
    assert [port["name"] for port in found] == ["dashboard", "mine", "udp", "client", "gcs-server", "metrics"]


def test_users_service_may_be_empty() -> None:
    assert service(spec(headService={"metadata": {}}))["metadata"]["name"] == "c-head-svc"


def test_selector_has_what_the_head_pod_carries() -> None:
    found = service(spec(metadata={"labels": {"app.kubernetes.io/name": "myapp"}}, labels={"ray.io/identifier": "me"}))
    assert found["spec"]["selector"].items() >= {"app.kubernetes.io/name": "myapp", "ray.io/identifier": "me"}.items()
    assert (
        found["metadata"]["labels"].items()
        >= {
            "app.kubernetes.io/name": "myapp",
            "ray.io/identifier": "c-head",
        }.items()
    )


def test_headless_service() -> None:
    found = headless_service("c", "ns", OWNER)
    assert found["metadata"]["name"] == "c-headless"
    assert found["metadata"]["labels"] == {"ray.io/headless-worker-svc": "c"}
    assert found["spec"]["selector"] == {"ray.io/cluster": "c", "ray.io/node-type": "worker"}
    assert (found["spec"]["clusterIP"], found["spec"]["publishNotReadyAddresses"]) == ("None", True)


def test_serve_service_takes_serving_ports_only() -> None:
    names = ["gcs-server", "dashboard", "serve", "serve-grpc", "server"]
    declared = [{"name": name, "containerPort": number} for number, name in enumerate(names, 1)]
    found = serve_service("c", "ns", spec(declared), OWNER)
    assert found is not None
    assert [port["name"] for port in found["spec"]["ports"]] == ["serve", "serve-grpc"]
    assert found["metadata"]["name"] == "c-serve-svc"
    assert found["spec"]["selector"] == {"ray.io/cluster": "c"}


def test_no_serve_service_without_a_serving_port() -> None:
    assert serve_service("c", "ns", spec([{"name": "x", "containerPort": 1}]), OWNER) is None
