"""The Gateway and the HTTPRoute as they are applied, and what counts as ready."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.kinds import HTTP_ROUTE, SERVICE, Kind
from kuberay.hooks.service_upgrade import UpgradeStep
from kuberay.kube.sync import in_sync
from kuberay.plugins.manager import PluginManager
from kuberay_gateway_upgrade import resources
from kuberay_gateway_upgrade.options import Options

from .conftest import World, owner, side, spec, true

GATEWAY = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "Gateway",
    "metadata": {"name": "s-gateway", "namespace": "lab"},
    "spec": {"gatewayClassName": "cls", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]},
}
ROUTE = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "HTTPRoute",
    "metadata": {"name": "s-httproute", "namespace": "lab"},
    "spec": {
        "parentRefs": [{"name": "s-gateway", "namespace": "lab"}],
        "rules": [
            {
                "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                "backendRefs": [
                    {"name": "a-serve-svc", "namespace": "lab", "port": 8000, "weight": 80},
                    {"name": "p-serve-svc", "namespace": "lab", "port": 9000, "weight": 20},
                ],
            }
        ],
    },
}


def by_kind(step: UpgradeStep) -> dict[str, Any]:
    return {manifest["kind"]: manifest for manifest in step.manifests}


def test_both_objects_are_kuberays() -> None:
    """Spec rows 78, 80 and 87: whatever is there already, all of it is applied; the active side first, each with its port."""
    world = World(
        active=side("a", 100, 80, relation="differs"), pending=side("p", 20, 20, serve_port=9000), paused=True
    )
    assert by_kind(world.step()) == {"Gateway": GATEWAY, "HTTPRoute": ROUTE}
    world.objects = {"Gateway": {**GATEWAY, "metadata": {"name": "s-gateway", "generation": 1}, "spec": {}}}
    assert by_kind(world.step())["Gateway"] == GATEWAY


def test_without_a_pending_cluster_there_is_one_backend() -> None:
    """Spec row 86 and 120."""
    world = World(pending=None)
    world.turn()
    assert world.weights() == [("a", 100)]


def test_a_pending_cluster_that_is_not_made_yet_is_no_backend() -> None:
    world = World(pending=side("p", 0, None, exists=False, ready=False, head_ready=False, backends=0))
    world.turn()
    assert world.weights() == [("a", 100)]
    assert str(world) == "100/100 0/None"


def test_before_anything_is_active_there_is_no_route() -> None:
    """Spec row 119: nothing that weights could be in."""
    for pending in (None, side("p", 100, None, ready=False)):
        assert list(by_kind(World(active=None, pending=pending).step())) == ["Gateway"]


def test_a_side_without_a_named_service_gets_kuberays_name() -> None:
    world = World(active=side("a", 100, 100, serve_service=""), pending=None)
    world.turn()
    assert world.weights() == [("a", 100)]


GATEWAY_STATUS = {
    "nothing": (None, "Gateway s-gateway is not Accepted yet: a controller has to serve its GatewayClass"),
    "only Programmed": (
        true("Programmed", generation=2),
        "Gateway s-gateway is not Accepted yet: a controller has to serve its GatewayClass",
    ),
    "only Accepted": (
        true("Accepted", generation=2),
        "Gateway s-gateway is not Programmed yet: a controller has to serve its GatewayClass",
    ),
    "refused": (
        [{"type": "Accepted", "status": "False", "reason": "InvalidParameters"}, *true("Programmed", generation=2)],
        "Gateway s-gateway is not Accepted (InvalidParameters): a controller has to serve its GatewayClass",
    ),
    "of an earlier spec": (
        true("Accepted", "Programmed", generation=1),
        "Gateway s-gateway is not Accepted yet as it is now: a controller has to serve its GatewayClass",
    ),
    "both": (true("Accepted", "Programmed", generation=2), ""),
    "both, without generations": (
        [{"type": "Accepted", "status": "True"}, {"type": "Programmed", "status": "True"}],
        "",
    ),
}


@pytest.mark.parametrize(("conditions", "why"), GATEWAY_STATUS.values(), ids=GATEWAY_STATUS)
def test_when_a_gateway_is_ready(conditions: Any, why: str) -> None:
    """Spec row 116."""
    world = World()
    world.turn()
    gateway = world.objects["Gateway"]
    gateway["metadata"]["generation"] = 2
    gateway["status"] = {} if conditions is None else {"conditions": conditions}
    assert resources.not_ready(world.context().owner) == why


def parent(*types: str, generation: int = 2, **reference: Any) -> dict[str, Any]:
    return {"parentRef": {"name": "s-gateway", **reference}, "conditions": true(*types, generation=generation)}


UNRESOLVED = {"type": "ResolvedRefs", "status": "False", "reason": "BackendNotFound"}
REFUSED = {**parent(), "conditions": [*true("Accepted", generation=2), UNRESOLVED]}
ROUTE_STATUS = {
    "nothing": (None, "has not been looked at"),
    "another parent": ([parent("Accepted", "ResolvedRefs", name="other")], "has not been looked at"),
    "another namespace": ([parent("Accepted", "ResolvedRefs", namespace="other")], "has not been looked at"),
    "only Accepted": ([parent("Accepted")], "is not ResolvedRefs yet"),
    "not resolved": ([REFUSED], "is not ResolvedRefs (BackendNotFound)"),
    "earlier weights": ([parent("Accepted", "ResolvedRefs", generation=1)], "is not Accepted yet as it is now"),
    "both": ([parent("Accepted", "ResolvedRefs")], ""),
    "both, with namespace": ([parent("Accepted", "ResolvedRefs", namespace="lab")], ""),
    "of two controllers one": ([parent(), parent("Accepted", "ResolvedRefs")], ""),
}


@pytest.mark.parametrize(("parents", "why"), ROUTE_STATUS.values(), ids=ROUTE_STATUS)
def test_when_a_route_is_ready(parents: Any, why: str) -> None:
    """Spec row 117."""
    world = World()
    world.turn()
    route = world.objects["HTTPRoute"]
    route["metadata"]["generation"] = 2
    route["status"] = {} if parents is None else {"parents": parents}
    expected = f"HTTPRoute s-httproute {why} by Gateway s-gateway" if why else ""
    assert resources.not_ready(world.context().owner) == expected


def test_objects_that_are_missing_or_on_their_way_out_are_not_ready() -> None:
    world = World()
    absent = "Gateway s-gateway is not there yet: the kinds of the Gateway API have to be installed"
    assert resources.not_ready(world.context().owner) == absent
    world.turn()
    assert resources.not_ready(world.context().owner) == ""
    world.objects["HTTPRoute"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert resources.not_ready(world.context().owner) == "HTTPRoute s-httproute is not there yet"
    world.objects["Gateway"]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert resources.not_ready(world.context().owner) == absent


def edited(base: dict[str, Any], change: Callable[[Any, Any], None]) -> dict[str, Any]:
    live = copy.deepcopy(base)
    change(live["spec"], (live["spec"].get("rules") or [{}])[0])
    return live


def set_(target: Any, key: Any, value: Any) -> None:
    target[key] = value


LIVE: dict[str, tuple[dict[str, Any], Callable[[Any, Any], None], bool]] = {
    "empty hostnames": (ROUTE, lambda spec, rule: set_(spec, "hostnames", []), True),
    "empty filters": (ROUTE, lambda spec, rule: set_(rule, "filters", []), True),
    "weight": (ROUTE, lambda spec, rule: set_(rule["backendRefs"][0], "weight", 81), False),
    "backend name": (ROUTE, lambda spec, rule: set_(rule["backendRefs"][0], "name", "x"), False),
    "backend namespace": (ROUTE, lambda spec, rule: set_(rule["backendRefs"][0], "namespace", "x"), False),
    "port": (ROUTE, lambda spec, rule: set_(rule["backendRefs"][0], "port", 1), False),
    "backend count": (ROUTE, lambda spec, rule: rule["backendRefs"].pop(), False),
    "rule count": (ROUTE, lambda spec, rule: spec["rules"].append(rule), False),
    "parentRef": (ROUTE, lambda spec, rule: set_(spec["parentRefs"][0], "name", "x"), False),
    "match": (ROUTE, lambda spec, rule: set_(rule["matches"][0]["path"], "value", "/x"), False),
    "class": (GATEWAY, lambda spec, rule: set_(spec, "gatewayClassName", "x"), False),
    "listener count": (GATEWAY, lambda spec, rule: spec["listeners"].append(spec["listeners"][0]), False),
    "listener name": (GATEWAY, lambda spec, rule: set_(spec["listeners"][0], "name", "x"), False),
    "listener protocol": (GATEWAY, lambda spec, rule: set_(spec["listeners"][0], "protocol", "HTTPS"), False),
    "listener port": (GATEWAY, lambda spec, rule: set_(spec["listeners"][0], "port", 81), False),
    "defaulted allowedRoutes": (
        GATEWAY,
        lambda spec, rule: set_(spec["listeners"][0], "allowedRoutes", {"namespaces": {"from": "Same"}}),
        True,
    ),
    "defaulted group and kind": (
        ROUTE,
        lambda spec, rule: spec["parentRefs"][0].update(group="gateway.networking.k8s.io", kind="Gateway"),
        True,
    ),
}


@pytest.mark.parametrize(("wanted", "change", "same"), LIVE.values(), ids=LIVE)
def test_what_makes_a_live_object_another_one(
    wanted: dict[str, Any], change: Callable[[Any, Any], None], same: bool
) -> None:
    """Spec rows 121 to 124: what is not the same is applied again, and what the server filled in is no difference."""
    assert in_sync(wanted, wanted)
    assert in_sync(wanted, edited(wanted, change)) == same


def test_the_options_make_the_gateway() -> None:
    about = owner()
    assert resources.gateway(about, Options.read(about)) == GATEWAY


# The type was changed to another one


def service(*ports: tuple[str, int], name: str = "s-serve-svc") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"ports": [{"name": each, "port": port} for each, port in ports]}}


def left(hooks: PluginManager, *objects: tuple[Kind, dict[str, Any]], **more: Any) -> list[dict[str, Any]]:
    """What is applied for a RayService with the type NewCluster beside these *objects*."""
    body = {"upgradeStrategy": {"type": "NewCluster"}} | more.pop("spec", {})
    children = lambda kind: [each for of, each in objects if of == kind]  # noqa: E731
    answer = hooks.extra_resources(owner(body, children=children, **more))
    assert not answer.failures
    return list(answer.manifests)


def test_the_route_leads_to_the_service_from_then_on(hooks: PluginManager) -> None:
    there = [(HTTP_ROUTE, ROUTE), (SERVICE, service(("metrics", 8080), ("serve", 8123)))]
    (route,) = left(hooks, *there)
    (rule,) = route["spec"]["rules"]
    assert rule["backendRefs"] == [{"name": "s-serve-svc", "namespace": "lab", "port": 8123, "weight": 100}]
    assert {**route["spec"], "rules": None} == {**ROUTE["spec"], "rules": None}
    named = {"serveService": {"metadata": {"name": "mine"}}}
    (route,) = left(hooks, (HTTP_ROUTE, ROUTE), (SERVICE, service(("http", 80), name="mine")), spec=named)
    assert route["spec"]["rules"][0]["backendRefs"][0]["name"] == "mine"


def test_nothing_is_made_that_was_not_there(hooks: PluginManager) -> None:
    own = service(("serve", 8000))
    assert left(hooks, (SERVICE, own)) == []
    assert left(hooks, (HTTP_ROUTE, ROUTE)) == [], "its service is not there yet"
    going = copy.deepcopy(ROUTE)
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert left(hooks, (HTTP_ROUTE, going), (SERVICE, own)) == []
    assert left(hooks, (HTTP_ROUTE, ROUTE), (SERVICE, service())) == []
    assert left(hooks, (HTTP_ROUTE, ROUTE), (SERVICE, own), spec=spec()) == [], "it is the strategy's own"
    assert left(hooks, (HTTP_ROUTE, ROUTE), (SERVICE, own), kind="RayCluster") == []


def test_with_the_gate_off_its_own_type_is_another_one(hooks: PluginManager) -> None:
    there = [(HTTP_ROUTE, ROUTE), (SERVICE, service(("serve", 8000)))]
    gates = {"RayServiceIncrementalUpgrade": False}
    (route,) = left(hooks, *there, spec=spec(), gates=gates)
    assert route["spec"]["rules"][0]["backendRefs"][0]["name"] == "s-serve-svc"
