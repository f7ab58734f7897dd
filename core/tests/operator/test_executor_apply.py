"""Applies on the simulated API server: nothing foreign touched, nothing asked without need, one event for what is news."""

from __future__ import annotations

from typing import Any

import pytest
from executor_world import DONE, UPDATED, World
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, SERVICE, Kind
from kuberay.kube.client import Client
from kuberay.kube.store import Store
from kuberay.operator.executor import Executor
from kuberay.plan.model import Apply, Delete
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time


def ports(world: World) -> list[int]:
    """Those of the live service."""
    service = world.server.peek(SERVICE, "ns", "s")
    assert service is not None
    return [port["port"] for port in service["spec"]["ports"]]


async def assert_updates_once(world: World, port: int) -> None:
    """The service has this one port afterwards, and the same once more is no request."""
    outcome = await world.run([world.apply(world.service(port=port))])
    assert (outcome.changed, outcome.failure, outcome.events) == (True, None, [UPDATED])
    assert ports(world) == [port]
    world.server.calls.clear()
    assert not (await world.run([world.apply(world.service(port=port))])).changed
    assert world.asked() == []


@pytest.mark.parametrize("owner", ["a-former-rc", "-"])
def test_a_guarded_apply_needs_no_look_and_takes_nothing_over(owner: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        def selecting(selector: str, **rest: Any) -> dict[str, Any]:
            body = world.service(**rest)
            body["spec"]["selector"] = {"cluster": selector}
            return body

        world = World()
        service = world.server.create(selecting("theirs", owner=owner))
        write = world.apply(selecting("ours"), guarded=True)
        for _ in range(2):
            outcome = await world.run([write])
            assert outcome.failure is not None
            assert outcome.failure.reason == "NotOwnedError"
            assert world.server.peek(SERVICE, "ns", "s") == service
        world.server.delete(SERVICE, "ns", "s")
        assert (await world.run([write])).events == [DONE]
        made = world.server.peek(SERVICE, "ns", "s")
        assert made is not None
        assert made["spec"]["selector"] == {"cluster": "ours"}

    scenario()


@in_virtual_time
async def test_a_guarded_apply_of_what_is_wrong_in_itself_fails_with_the_reason() -> None:
    world = World()
    body = world.service()
    body["metadata"]["labels"] = {"a": "no label!"}
    outcome = await world.run([world.apply(body, guarded=True)])
    assert outcome.failure is not None
    assert outcome.failure.reason == "Invalid"


@in_virtual_time
async def test_a_foreign_object_that_is_gone_is_no_longer_in_the_way() -> None:
    """Also when no watch tells of it: what others own need not carry the labels that are watched."""
    world = World()
    world.server.create(world.service(owner="-", port=1))
    assert (await world.run([world.apply()])).failure is not None
    world.server.delete(SERVICE, "ns", "s")
    assert (await world.run([world.apply()])).events == [DONE]


@in_virtual_time
async def test_a_create_only_apply_leaves_what_exists_alone_whoever_made_it() -> None:
    world = World()
    theirs = world.server.create(world.service("theirs", owner="-", port=1))
    ours = world.server.create(world.service("ours", port=1))
    for name in ("theirs", "ours"):
        outcome = await world.run([world.apply(world.service(name, port=2), create_only=True)])
        assert (outcome.changed, outcome.failure) == (False, None)
    assert world.server.peek(SERVICE, "ns", "theirs") == theirs
    assert world.server.peek(SERVICE, "ns", "ours") == ours
    assert (await world.run([world.apply(world.service("new"), create_only=True)])).events == [DONE]


@in_virtual_time
async def test_a_create_only_apply_does_not_take_what_goes_with_a_former_owner_of_the_name() -> None:
    """A service account, for example: whoever started with it would lose its rights."""
    world = World()
    former = world.server.create(world.service("s", owner="uid-of-a-former-rc"))
    outcome = await world.run([world.apply(world.service("s"), create_only=True)])
    assert outcome.failure is not None
    assert outcome.failure.reason == "NotOwnedError"
    assert world.server.peek(SERVICE, "ns", "s") == former
    world.server.delete(SERVICE, "ns", "s")
    world.store.remove(SERVICE, "ns", "s", former["metadata"]["uid"])
    assert (await world.run([world.apply(world.service("s"), create_only=True)])).events == [DONE]


@in_virtual_time
async def test_an_apply_in_sync_costs_no_request() -> None:
    world = World()
    assert (await world.run([world.apply()])).events == [DONE]
    world.server.calls.clear()
    for _ in range(3):
        outcome = await world.run([world.apply()])
        assert (outcome.changed, outcome.events) == (False, [])
    world.watch_catches_up()
    await world.run([world.apply()])
    assert world.asked() == []


@in_virtual_time
async def test_an_apply_in_sync_costs_no_request_after_a_restart_either() -> None:
    first = World()
    await first.run([first.apply()])
    first.store = Store()
    first.watch_catches_up()
    again = Executor(Client(SimTransport(first.server)), first.store, first.server.now, lambda *_: None)
    first.server.calls.clear()
    assert not (await again.run(first.owner, [[first.apply()]])).changed
    assert first.asked() == []


@in_virtual_time
async def test_an_apply_updates_what_changed_once() -> None:
    world = World()
    await world.run([world.apply()])
    await assert_updates_once(world, port=81)


@in_virtual_time
async def test_what_another_operator_put_into_a_list_gives_way_where_both_together_are_refused() -> None:
    """Two ports of one name: those of KubeRay are of another field manager, and stay when ours are applied."""
    world = World()
    world.server.create(world.service(port=80), manager="manager")
    world.watch_catches_up()
    await assert_updates_once(world, port=81)


@in_virtual_time
async def test_what_kuberay_put_into_a_list_goes_when_it_is_no_longer_wanted() -> None:
    """It has this operator's name, but updates: an apply alone would leave its items there for good."""
    world = World()
    two = world.body(SERVICE, "s", spec={"ports": [{"name": "p", "port": 80}, {"name": "q", "port": 90}]})
    world.server.create(two, manager="kuberay-operator")
    world.watch_catches_up()
    both = await world.run([world.apply(two)])
    assert (both.changed, world.asked()) == (False, []), "all of it is there, whoever wrote it"
    for port in (80, 81):
        await assert_updates_once(world, port)


@in_virtual_time
async def test_what_is_wrong_in_itself_fails_with_the_words_for_what_was_applied() -> None:
    world = World()
    world.server.create(world.service(port=80), manager="manager")
    world.watch_catches_up()
    twice = world.body(SERVICE, "s", spec={"ports": [{"name": "p", "port": 81}, {"name": "p", "port": 82}]})
    outcome = await world.run([world.apply(twice)])
    assert outcome.failure is not None
    assert "Duplicate value" in outcome.failure.message
    assert ports(world) == [80]


@in_virtual_time
async def test_an_apply_waits_for_an_object_that_is_being_deleted() -> None:
    world = World()
    await world.run([world.apply()])
    world.server.patch(SERVICE, "ns", "s", {"metadata": {"finalizers": ["x/y"]}})
    world.server.delete(SERVICE, "ns", "s")
    world.watch_catches_up()
    world.server.calls.clear()
    outcome = await world.run([world.apply(world.service(port=81))])
    assert (outcome.changed, outcome.failure, world.asked()) == (False, None, [])


@in_virtual_time
async def test_an_apply_that_yields_learns_of_the_other_object_and_says_nothing() -> None:
    world = World()
    theirs = world.server.create(world.service(owner="-"))
    outcome = await world.run([world.apply(yields=True)])
    assert (outcome.failure, outcome.events, outcome.changed) == (None, [], True)
    again = await world.run([world.apply(yields=True)])
    assert (again.failure, again.events, again.changed) == (None, [], False)
    assert world.server.peek(SERVICE, "ns", "s") == theirs
    world.server.delete(SERVICE, "ns", "s")
    assert (await world.run([world.apply(yields=True)])).events == [DONE], "it need not be watched"


RAY_CLUSTER_OF_IT = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "name": "rc-1",
    "uid": "uid-rc-1",
    "controller": True,
}


def for_the_child(world: World, port: int = 8000) -> dict[str, Any]:
    """A service that the owner makes for a RayCluster of its own, and that goes with that."""
    body = world.service(port=port)
    body["metadata"]["ownerReferences"] = [RAY_CLUSTER_OF_IT]
    return body


@in_virtual_time
async def test_what_is_made_for_a_child_is_the_childs_and_still_kept_up_to_date() -> None:
    world = World()
    assert (await world.run([world.apply(for_the_child(world))])).events == [DONE]
    assert (await world.run([world.apply(for_the_child(world))])).events == []
    outcome = await world.run([world.apply(for_the_child(world, port=9000))])
    assert (outcome.failure, outcome.events) == (None, [UPDATED])
    assert ports(world) == [9000]


@in_virtual_time
async def test_what_is_the_childs_is_not_taken_over_for_the_owner_or_another_child() -> None:
    world = World()
    other = for_the_child(world)
    other["metadata"]["ownerReferences"] = [{**RAY_CLUSTER_OF_IT, "name": "rc-2", "uid": "uid-rc-2"}]
    await world.run([world.apply(other)])
    for body in (for_the_child(world), world.service()):
        outcome = await world.run([world.apply(body)])
        assert outcome.failure is not None
        assert outcome.failure.reason == "NotOwnedError"


def gateway_write(world: World, kind: Kind, spec: dict[str, Any]) -> Apply:
    body = world.body(kind, "rs", spec=spec)
    return Apply(kind=kind, namespace="ns", name="rs", body=body, done=DONE, updated=UPDATED)


def route(active: int, pending: int) -> dict[str, Any]:
    backends = [{"name": "one", "port": 8000, "weight": active}, {"name": "two", "port": 8000, "weight": pending}]
    return {"parentRefs": [{"name": "rs", "namespace": "ns"}], "rules": [{"backendRefs": backends}]}


@in_virtual_time
async def test_a_gateway_and_its_route_are_kept_up_to_date_and_deleted() -> None:
    world = World()
    listeners = {"gatewayClassName": "c", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]}
    gateway, first = gateway_write(world, GATEWAY, listeners), gateway_write(world, HTTP_ROUTE, route(100, 0))
    assert (await world.run([gateway], [first])).events == [DONE, DONE]
    world.server.calls.clear()
    assert not (await world.run([gateway], [first])).changed
    assert world.asked() == [], "what is in sync costs no request"
    assert (await world.run([gateway], [gateway_write(world, HTTP_ROUTE, route(90, 10))])).events == [UPDATED]
    live = world.server.peek(HTTP_ROUTE, "ns", "rs")
    assert live is not None
    assert [backend["weight"] for backend in live["spec"]["rules"][0]["backendRefs"]] == [90, 10]
    for kind in (HTTP_ROUTE, GATEWAY):
        stored = world.stored(kind, "rs")
        assert stored is not None
        await world.run([Delete(kind=kind, namespace="ns", name="rs", uid=stored.uid)])
        assert world.server.peek(kind, "ns", "rs") is None


@in_virtual_time
async def test_a_gateway_that_the_cluster_does_not_serve_is_said_in_words_that_help() -> None:
    world = World()
    world.server.unregister(GATEWAY)
    outcome = await world.run([gateway_write(world, GATEWAY, {})])
    assert outcome.failure is not None
    assert outcome.failure.message == (
        "gateways.gateway.networking.k8s.io is not served by this cluster: install its CRD, or turn off the plugin that "
        "needs it"
    )
