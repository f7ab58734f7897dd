"""The simulated gateway: what it says of Gateways and HTTPRoutes, and where it sends requests meanwhile."""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import GATEWAY, HTTP_ROUTE
from kuberay_testkit.sim.gateways import SimGateways
from kuberay_testkit.sim.server import SimServer

API = "gateway.networking.k8s.io/v1"


class Lab:
    def __init__(self) -> None:
        self.server = SimServer()
        self.gateways = SimGateways(self.server, delay=(0, 0))

    def gateway(self) -> None:
        spec = {"gatewayClassName": "c", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]}
        self.server.create({"apiVersion": API, "kind": "Gateway", "metadata": {"name": "g"}, "spec": spec})

    def service(self, name: str) -> None:
        spec = {"ports": [{"port": 8000}]}
        self.server.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})

    def route(self, **weights: int) -> None:
        backends = [{"name": name, "namespace": "default", "port": 8000, "weight": w} for name, w in weights.items()]
        spec = {"parentRefs": [{"name": "g", "namespace": "default"}], "rules": [{"backendRefs": backends}]}
        self.server.apply({"apiVersion": API, "kind": "HTTPRoute", "metadata": {"name": "r"}, "spec": spec})

    def of_gateway(self) -> dict[str, str]:
        self.gateways.step(everything=True)
        status = (self.server.peek(GATEWAY, "default", "g") or {}).get("status") or {}
        return {each["type"]: each["status"] for each in status.get("conditions") or ()}

    def of_route(self) -> dict[str, str]:
        self.gateways.step(everything=True)
        status = (self.server.peek(HTTP_ROUTE, "default", "r") or {}).get("status") or {}
        found: list[dict[str, Any]] = status.get("parents") or []
        return {each["type"]: each["status"] for parent in found for each in parent["conditions"]}

    def weights(self) -> dict[str, int]:
        self.gateways.step(everything=True)
        return self.gateways.weights("default", "r")


def test_a_gateway_and_a_route_are_accepted() -> None:
    lab = Lab()
    lab.gateway()
    lab.service("a")
    lab.route(a=100)
    assert lab.of_gateway() == {"Accepted": "True", "Programmed": "True"}
    assert lab.of_route() == {"Accepted": "True", "ResolvedRefs": "True"}
    assert lab.weights() == {"a": 100}


def test_a_route_waits_for_its_gateway_and_its_services() -> None:
    lab = Lab()
    lab.route(a=100)
    assert lab.of_route() == {"Accepted": "False", "ResolvedRefs": "False"}
    assert lab.weights() == {}
    lab.gateway()
    assert lab.of_route() == {"Accepted": "True", "ResolvedRefs": "False"}
    lab.service("a")
    assert lab.of_route() == {"Accepted": "True", "ResolvedRefs": "True"}


def test_while_it_is_held_traffic_goes_where_it_went() -> None:
    lab = Lab()
    lab.gateway()
    lab.route(a=100)
    lab.weights()
    lab.gateways.hold()
    lab.route(a=90, b=10)
    assert lab.weights() == {"a": 100}
    lab.gateways.serve()
    assert lab.weights() == {"a": 90, "b": 10}


def test_what_is_refused_says_so_and_changes_nothing() -> None:
    lab = Lab()
    lab.gateway()
    lab.route(a=100)
    lab.weights()
    lab.gateways.refuse()
    lab.route(a=90, b=10)
    assert lab.of_gateway()["Programmed"] == "False"
    assert lab.of_route()["Accepted"] == "False"
    assert lab.weights() == {"a": 100}
    lab.gateways.serve()
    assert lab.of_route()["Accepted"] == "True"
    assert lab.weights() == {"a": 90, "b": 10}


def test_a_transition_time_moves_with_the_status_only() -> None:
    lab = Lab()
    lab.gateway()
    lab.of_gateway()
    before = lab.server.peek(GATEWAY, "default", "g")
    lab.server.clock.advance(60)
    lab.server.patch(GATEWAY, "default", "g", {"spec": {"gatewayClassName": "d"}})
    lab.of_gateway()
    after = lab.server.peek(GATEWAY, "default", "g")
    assert before is not None
    assert after is not None
    times = [[c["lastTransitionTime"] for c in each["status"]["conditions"]] for each in (before, after)]
    assert times[0] == times[1]
    assert {c["observedGeneration"] for c in after["status"]["conditions"]} == {2}


def test_a_route_that_is_gone_routes_nothing_and_defaults_are_filled_in() -> None:
    lab = Lab()
    lab.gateway()
    lab.route(a=100)
    route = lab.server.peek(HTTP_ROUTE, "default", "r")
    assert route is not None
    assert route["spec"]["parentRefs"][0]["kind"] == "Gateway"
    assert route["spec"]["rules"][0]["matches"] == [{"path": {"type": "PathPrefix", "value": "/"}}]
    lab.server.delete(HTTP_ROUTE, "default", "r")
    assert lab.weights() == {}
