"""While only one of the two RayClusters is there: first starts, lost ones, and what is left after an upgrade."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kuberay.hooks.service_upgrade import Share
from kuberay_gateway_upgrade.strategy import IncrementalUpgrade

from .conftest import NOW, World, side

GONE = {"exists": False, "head_ready": False, "ready": False, "backends": 0}
STARTING = {"ready": False, "backends": 0}


def test_capacity_to_begin_with() -> None:
    """Spec 3.4: the first RayCluster has all, a second one nothing."""
    strategy = IncrementalUpgrade()
    assert strategy.first_capacity(first_cluster=True) == 100
    assert strategy.first_capacity(first_cluster=False) == 0
    assert strategy.own_services


@pytest.mark.parametrize(
    ("pending", "promote", "replaces"),
    [
        ({"ready": True}, True, False),
        (STARTING, False, False),
        ({**STARTING, "relation": "differs"}, False, True),
        ({"relation": "differs"}, False, True),
        ({**GONE}, False, False),
    ],
)
def test_a_first_start(pending: dict[str, Any], promote: bool, replaces: bool) -> None:
    step = World(active=None, pending=side("p", 100, None, **pending)).step()
    assert (step.promote, step.replace) == (promote, replaces)
    assert [manifest["kind"] for manifest in step.manifests] == ["Gateway"]


@pytest.mark.parametrize("how", ["paused", "aborted"])
def test_a_first_start_is_no_upgrade_that_could_be_held(how: str) -> None:
    assert World(active=None, pending=side("p", 100, None), **{how: True}).step().promote


@pytest.mark.parametrize("held", [{}, {"paused": True}, {"aborted": True}])
def test_a_deleted_active_cluster_blocks_nothing(held: dict[str, bool]) -> None:
    """KubeRay stops for good here. The pending one gets all requests when it serves, and full capacity before it counts."""
    world = World(active=side("a", 50, 50, relation="differs", **GONE), pending=side("p", 50, 50), **held)
    world.serve_accepts = False
    step = world.turn()
    assert step.waiting == "RayCluster a is gone: RayCluster p takes over when it serves"
    assert world.weights() == [("p", 100)]
    assert world.pending is not None
    assert world.pending.share == Share(50, 100, NOW)
    world.serve_accepts = True
    world.trace()
    assert world.promoted == ["p"]
    assert str(world) == "100/100 -"
    assert not step.rolling_back


def test_a_deleted_active_cluster_whose_successor_does_not_serve_yet() -> None:
    world = World(active=side("a", 100, 100, relation="differs", **GONE), pending=side("p", 0, 0, **STARTING))
    world.trace(seconds=10)
    assert str(world) == "100/100 100/0"
    assert "HTTPRoute" not in world.objects, "the route that is there is left alone"
    assert world.pending is not None
    world.pending = replace(world.pending, ready=True, backends=1)
    world.trace()
    assert str(world) == "100/100 -"
    assert world.weights() == [("p", 100)]


def test_a_successor_without_a_ready_pod_gets_no_route() -> None:
    """Its applications run, but the route that is there leads to nobody worse."""
    world = World(active=side("a", 50, 50, relation="differs", **GONE), pending=side("p", 50, 50, backends=0))
    step = world.step()
    assert [manifest["kind"] for manifest in step.manifests] == ["Gateway"]
    assert step.pending == Share(100, 50)
    assert not step.promote


@pytest.mark.parametrize(
    ("share", "state", "replaces"),
    [
        # Of an earlier spec and without a request: another one is made.
        ((0, 0), {}, True),
        ((50, 50), STARTING, True),
        # What serves is kept, and upgraded afterwards.
        ((50, 50), {}, False),
    ],
)
def test_the_spec_was_edited_while_the_active_cluster_was_deleted(
    share: tuple[int, int], state: dict[str, Any], replaces: bool
) -> None:
    pending = side("p", *share, **{**state, "relation": "differs"})
    world = World(active=side("a", 50, 50, relation="differs", **GONE), pending=pending)
    assert world.step().replace == replaces
    if not replaces:
        world.trace()
        assert world.promoted == ["p"]


def test_a_pending_cluster_that_was_deleted_is_followed_by_another_one() -> None:
    """The active one has all requests at once; its successor begins with nothing."""
    world = World().until("50/25 100/75")
    assert world.pending is not None
    world.pending = replace(world.pending, **GONE)
    step = world.turn()
    assert step.replace
    assert world.weights() == [("a", 100)]
    assert str(world) == "100/100 0/None"
    assert (world.replaced, world.given_up) == (1, [])
    assert not world.step().replace
    assert world.pending is not None
    world.pending = replace(world.pending, exists=True, head_ready=True, ready=True, backends=2)
    world.trace()
    assert world.promoted == ["p1"]


def test_a_pending_cluster_deleted_during_a_rollback_ends_it() -> None:
    """Spec row 110, once the active one has its capacity back."""
    world = World().until("50/25 100/75").edit(active="same", pending="differs")
    assert world.pending is not None
    world.pending = replace(world.pending, **GONE)
    step = world.turn()
    assert (str(world), step.rolling_back, step.give_up) == ("100/100 100/75", True, False)
    world.turn()
    assert (str(world), world.given_up, world.rolling_back) == ("100/100 -", ["p"], False)


def test_an_abort_before_the_second_cluster_is_made() -> None:
    world = World(pending=side("p", 0, None, **GONE), aborted=True)
    world.turn()
    assert world.given_up == ["p"]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (Share(100, 100, NOW), Share(100, 100, NOW)),
        (Share(100, None), Share(100, 100, NOW)),
        # Another strategy's cluster: Serve was never told a capacity.
        (Share(), Share(None, 100, NOW)),
        # Left from an upgrade whose pending cluster is no longer named.
        (Share(50, 40, NOW), Share(100, 100, NOW)),
    ],
)
def test_alone_it_carries_everything(share: Share, expected: Share) -> None:
    world = World(active=side("a", share.capacity, share.traffic, share.moved), pending=None)
    assert world.step().active == expected
    world.turn()
    assert world.weights() == [("a", 100)]


def test_when_nothing_is_there_only_the_gateway_is_kept() -> None:
    for active in (None, side("a", 100, 100, **GONE)):
        step = World(active=active, pending=None).step()
        assert [manifest["kind"] for manifest in step.manifests] == ["Gateway"]
        assert (step.active, step.pending, step.promote, step.replace) == (None, None, False, False)
