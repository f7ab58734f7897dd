"""What the services of a RayService look like: ports, templates, labels, selectors (spec rayservice.md 4 and rows 125-136)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.plan.build.serve_services import (
    is_serving_port,
    serve_port,
    service_head_service,
    service_serve_service,
    serving_ports,
)
from kuberay.plan.build.services import NO_SERVE_PORT
from kuberay_testkit.builders import build_cluster_spec

OWNER = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "s", "uid": "u1", "controller": True}
DEFAULT_PORTS = ["client", "dashboard", "gcs-server", "metrics", "serve"]


def spec(ports: dict[str, int] | None = None, **head: Any) -> RayClusterSpec:
    """A RayCluster whose head declares *ports*."""
    raw = build_cluster_spec(1)
    container = raw["headGroupSpec"]["template"]["spec"]["containers"][0]
    container.pop("ports", None)
    if ports is not None:
        container["ports"] = [{"name": name, "containerPort": number} for name, number in ports.items()]
    raw["headGroupSpec"] |= head
    return RayClusterSpec.parse(raw)


def serve(ports: dict[str, int] | None = None, template: dict[str, Any] | None = None, **options: Any) -> Any:
    return service_serve_service("s", "ns", "s-abcde", spec(ports), OWNER, template=template, **options)


def head(
    cluster: RayClusterSpec | None = None, wanted: RayClusterSpec | None = None, *, cluster_ip: bool = False
) -> Any:
    cluster = cluster or spec()
    return service_head_service("s", "ns", "s-abcde", cluster, wanted or cluster, OWNER, cluster_ip=cluster_ip)


def told(body: dict[str, Any]) -> dict[str, int]:
    return {port["name"]: port["port"] for port in body["spec"]["ports"]}


def test_the_serve_service_selects_pods_of_the_cluster_that_serve() -> None:
    """Row 125."""
    assert serve({"serve": 8000, "dashboard": 8265}, service_type="ClusterIP") == {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": "s-serve-svc",
            "namespace": "ns",
            "labels": {
                "ray.io/originated-from-cr-name": "s",
                "ray.io/originated-from-crd": "RayService",
                "ray.io/serve": "s-serve",
            },
            "ownerReferences": [OWNER],
        },
        "spec": {
            "type": "ClusterIP",
            "selector": {"ray.io/cluster": "s-abcde", "ray.io/serve": "true"},
            "ports": [{"name": "serve", "port": 8000, "protocol": "TCP"}],
        },
    }


@pytest.mark.parametrize(
    ("ports", "users", "expected"),
    [
        pytest.param({"gcs-server": 6379}, None, None, id="126 no port serves"),
        pytest.param({"gcs-server": 6379}, [], None, id="126 nor does the template"),
        pytest.param(None, None, {"serve": 8000}, id="Ray's own port"),
        pytest.param({"serve": 8000}, [("serve", 12345), ("client", 98765)], {"serve": 12345}, id="127"),
        pytest.param(
            {"serve": 8000, "serve-grpc": 9000, "gcs": 1, "dashboard": 2},
            None,
            {"serve": 8000, "serve-grpc": 9000},
            id="128 GW-05",
        ),
        pytest.param({"serve": 8000}, [("serve", 8000), ("serve-grpc", 9000)], {"serve": 8000}, id="129"),
        pytest.param(
            {"gcs-server": 6379},
            [("serve-grpc", 9000), ("not-a-serve-port", 1234)],
            {"serve-grpc": 9000, "not-a-serve-port": 1234},
            id="131",
        ),
        pytest.param(None, [("web", 80)], {"serve": 8000}, id="a template's other ports are dropped"),
    ],
)
def test_ports_of_the_serve_service(
    ports: dict[str, int] | None, users: list[tuple[str, int]] | None, expected: dict[str, int] | None
) -> None:
    """Rows 126-131; GW-05: all ports whose name begins with serve- are there."""
    template = None
    if users is not None:
        template = {"spec": {"ports": [{"name": name, "port": number} for name, number in users]}}
    body = serve(ports, template)
    assert (None if body is None else told(body)) == expected
    if expected is None:
        assert "Please specify a port named 'serve'" in NO_SERVE_PORT


def test_a_users_template_is_the_base() -> None:
    """Row 127: name, labels, annotations, type and other fields are the user's; selector, owner and our labels are not."""
    body = serve(
        {"serve": 8000},
        {
            "metadata": {
                "name": "mine",
                "namespace": "elsewhere",
                "labels": {"team": "blue", "ray.io/serve": "no"},
                "annotations": {"lb": "internal"},
            },
            "spec": {
                "type": "LoadBalancer",
                "externalTrafficPolicy": "Local",
                "selector": {"a": "b"},
                "ports": [{"name": "serve", "port": 12345, "nodePort": 31000}],
            },
        },
        service_type="NodePort",
    )
    assert (body["metadata"]["name"], body["metadata"]["namespace"]) == ("mine", "ns")
    assert body["metadata"]["labels"] == {
        "team": "blue",
        "ray.io/serve": "s-serve",
        "ray.io/originated-from-cr-name": "s",
        "ray.io/originated-from-crd": "RayService",
    }
    assert body["metadata"]["annotations"] == {"lb": "internal"}
    assert body["spec"] == {
        "type": "LoadBalancer",
        "externalTrafficPolicy": "Local",
        "selector": {"ray.io/cluster": "s-abcde", "ray.io/serve": "true"},
        "ports": [{"name": "serve", "port": 12345, "nodePort": 31000, "protocol": "TCP"}],
    }


@pytest.mark.parametrize("ports", [{"serve": 8000, "serve-grpc": 9000}, {"gcs-server": 6379}])
def test_what_the_user_says_of_a_port_is_kept(ports: dict[str, int]) -> None:
    """Rows 130 and 131: ``appProtocol`` stays on the port it was given for."""
    users = [{"name": "serve-grpc", "port": 9000, "appProtocol": "kubernetes.io/h2c"}]
    body = serve(ports, {"spec": {"ports": users}})
    protocols = {port["name"]: port.get("appProtocol") for port in body["spec"]["ports"]}
    assert protocols == {"serve-grpc": "kubernetes.io/h2c"} | ({"serve": None} if "serve" in ports else {})


@pytest.mark.parametrize(
    ("name", "serves"),
    [
        ("serve", True),
        ("serve-grpc", True),
        ("serve-http", True),
        ("server", False),
        ("dashboard", False),
        ("metrics", False),
        ("", False),
    ],
)
def test_which_ports_serve(name: str, serves: bool) -> None:
    """Row 132."""
    assert is_serving_port(name) is serves


@pytest.mark.parametrize("custom", [None, {"metadata": {"labels": {"team": "blue"}}}])
def test_the_head_service_is_named_after_the_service(custom: dict[str, Any] | None) -> None:
    """Row 133; the user's labels stay, which KubeRay drops."""
    cluster = spec(headService=custom) if custom else spec()
    metadata = head(cluster)["metadata"]
    assert metadata["name"] == "s-head-svc"
    assert metadata["labels"] == {
        "ray.io/originated-from-cr-name": "s",
        "ray.io/originated-from-crd": "RayService",
        "ray.io/node-type": "head",
        "ray.io/identifier": "s-head",
    } | (custom["metadata"]["labels"] if custom else {})


@pytest.mark.parametrize(("cluster_ip", "headless"), [(False, True), (True, False)])
def test_the_head_service_has_no_address_unless_it_is_to_have_one(cluster_ip: bool, headless: bool) -> None:
    """Row 134."""
    body = head(cluster_ip=cluster_ip)
    assert (body["spec"].get("clusterIP") == "None") is headless
    assert {port["appProtocol"] for port in body["spec"]["ports"]} == {"tcp"}
    assert body["spec"]["selector"] == {
        "ray.io/cluster": "s-abcde",
        "ray.io/node-type": "head",
        "ray.io/identifier": "s-abcde-head",
        "app.kubernetes.io/name": "kuberay",
        "app.kubernetes.io/created-by": "kuberay-operator",
    }


@pytest.mark.parametrize(
    ("ports", "expected"), [(None, DEFAULT_PORTS), ({"random": 1234}, ["metrics", "random"])], ids=["none", "one"]
)
def test_ports_of_the_head_service(ports: dict[str, int] | None, expected: list[str]) -> None:
    """Row 135."""
    assert list(told(head(spec(ports)))) == expected


def test_the_head_service_leads_to_the_running_head_in_the_form_that_is_asked_for() -> None:
    """RS-18: ports are those of the RayCluster that runs; type and annotations those of the RayService."""
    running = spec({"serve": 8000, "dashboard": 8265})
    raw = build_cluster_spec(1, headServiceAnnotations={"lb": "internal"})
    raw["headGroupSpec"]["serviceType"] = "LoadBalancer"
    body = head(running, RayClusterSpec.parse(raw))
    assert told(body) == {"dashboard": 8265, "metrics": 8080, "serve": 8000}
    assert (body["spec"]["type"], body["metadata"]["annotations"]) == ("LoadBalancer", {"lb": "internal"})
    assert "clusterIP" not in body["spec"]


@pytest.mark.parametrize(
    ("ports", "port"),
    [(None, 8000), ({"serve": 9000}, 9000), ({"serve-grpc": 9001}, 8000), ({"dashboard": 8265}, 8000)],
)
def test_where_the_proxy_listens(ports: dict[str, int] | None, port: int) -> None:
    """2.8: the container port named serve, else 8000."""
    assert serve_port(spec(ports)) == port


def test_where_the_proxy_listens_when_the_cluster_cannot_be_read() -> None:
    assert serve_port(None) == 8000
    assert serving_ports(spec({"serve-grpc": 9001})) == {"serve-grpc": 9001}
