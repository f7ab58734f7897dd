"""Single steps: the rows of the specification, and what keeps a step from being made, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kuberay.hooks.service_upgrade import Share, UpgradeStep
from kuberay_gateway_upgrade import capacity, rollback, traffic
from kuberay_gateway_upgrade.loads import Load
from kuberay_gateway_upgrade.options import Options
from kuberay_gateway_upgrade.strategy import IncrementalUpgrade

from .conftest import NOW, World, side

LONG_AGO = NOW - timedelta(hours=1)


def world(active: tuple[int, int], pending: tuple[int | None, int | None], **more: Any) -> World:
    """Both sides with these numbers, moved long ago, and a gateway that has taken the weights."""
    options = {name: more.pop(name) for name in list(more) if name in ("stepSizePercent", "maxSurgePercent")}
    one = side("a", *active, LONG_AGO, relation="differs", **more.pop("a", {}))
    two = side("p", *pending, more.pop("moved", LONG_AGO), **more.pop("p", {}))
    found = World(options, active=one, pending=two, **more)
    return with_route(found)


def with_route(found: World) -> World:
    """The gateway has taken the route as it is to the stored numbers."""
    paused, found.paused = found.paused, True
    found.turn()
    found.paused = paused
    return found


def numbers(step: UpgradeStep) -> str:
    assert step.active is not None
    assert step.pending is not None
    return f"{step.active.capacity}/{step.active.traffic} {step.pending.capacity}/{step.pending.traffic}"


SURGE_100 = {"maxSurgePercent": 100, "stepSizePercent": 10}


@pytest.mark.parametrize(
    ("of", "expected"),
    [
        # Rows 81 to 84 and 88 to 91: requests.
        (lambda: world((100, 100), (30, 0), p={"ready": False}, **SURGE_100), "100/100 30/0"),
        (lambda: world((100, 100), (30, 0), moved=NOW, **SURGE_100), "100/100 30/0"),
        (lambda: world((100, 100), (60, 0), **SURGE_100), "100/90 60/10"),
        (lambda: world((100, 100), (5, 0), **SURGE_100), "100/95 5/5"),
        (lambda: world((100, 100), (100, 0), p={"ready": False}, **SURGE_100), "100/100 100/0"),
        (lambda: world((100, 100), (100, None), moved=None, **SURGE_100), "100/90 100/10"),
        # Rows 92, 93 and 98: capacity, of one side at a time.
        (lambda: world((70, 90), (10, 10), maxSurgePercent=20), "90/90 10/10"),
        (lambda: world((70, 70), (30, 30), maxSurgePercent=20), "70/70 50/30"),
        (lambda: world((80, 70), (30, 30), maxSurgePercent=20), "70/70 30/30"),
        (lambda: world((100, 70), (30, 30), maxSurgePercent=20), "80/70 30/30"),
        # Row 97: all is done, and nothing moves any more.
        (lambda: world((0, 0), (100, 100)), "0/0 100/100"),
    ],
)
def test_rows_of_the_specification(of: Callable[[], World], expected: str) -> None:
    assert numbers(of().step()) == expected


def test_two_moves_are_an_interval_apart_although_times_are_stored_in_seconds() -> None:
    """Rounded down, a move at 0.9 s would have the next one due 0.1 s later."""
    found = world((100, 100), (100, 0), stepSizePercent=10)
    found.now = NOW + timedelta(seconds=0.9)
    found.turn()
    assert found.pending is not None
    assert found.pending.share == Share(100, 10, NOW + timedelta(seconds=1))
    interval = Options.read(found.context().owner).interval
    found.now += interval
    assert found.step().look_after == timedelta(seconds=0.1)
    found.now += timedelta(seconds=0.1)
    assert numbers(found.step()) == "100/80 100/20"


def test_row_92_a_side_short_of_capacity_comes_first() -> None:
    """Row 92 has 70 % of the capacity carry 90 % of the requests, which no step leads to; KubeRay goes on with the pending one."""
    assert capacity.next_step(Load(70, 70), Load(10, 10), 20) == (70, 30)
    assert capacity.shortage(Load(70, 90))
    assert not capacity.shortage(Load(70, 70))


@pytest.mark.parametrize(
    ("giver", "receiver", "surge", "expected"),
    [
        # Upgrade: requests still catching up; sum at 100; sum above; the last steps.
        (Load(100, 75), Load(50, 25), 50, (100, 50)),
        (Load(100, 100), Load(0, 0), 50, (100, 50)),
        (Load(100, 50), Load(50, 50), 50, (50, 50)),
        (Load(80, 70), Load(30, 30), 20, (70, 30)),
        (Load(10, 10), Load(90, 90), 30, (10, 100)),
        (Load(10, 0), Load(100, 100), 30, (0, 100)),
        (Load(40, 40), Load(30, 30), 30, (40, 60)),
        # Rollback is the same with the sides exchanged.
        (Load(50, 25), Load(100, 75), 50, (50, 100)),
        (Load(100, 50), Load(50, 50), 30, (70, 50)),
        (Load(50, 0), Load(100, 100), 50, (0, 100)),
        # Nothing of what still carries requests is taken away.
        (Load(100, 70), Load(30, 30), 100, (70, 30)),
    ],
)
def test_steps_of_capacity(giver: Load, receiver: Load, surge: int, expected: tuple[int, int]) -> None:
    assert capacity.next_step(giver, receiver, surge) == expected


@pytest.mark.parametrize(
    ("receiver", "step", "expected"),
    [
        (Load(100, 0), 10, 10),
        (Load(5, 0), 10, 5),
        (Load(100, 95), 10, 100),
        (Load(50, 25), 25, 50),
    ],
)
def test_steps_of_requests(receiver: Load, step: int, expected: int) -> None:
    assert traffic.next_weight(receiver, step) == expected


@pytest.mark.parametrize(
    ("moved", "seconds"),
    [
        (None, 0),
        (NOW, 10),
        (NOW - timedelta(seconds=4), 6),
        (NOW - timedelta(seconds=10), 0),
        (NOW - timedelta(hours=1), 0),
        (NOW + timedelta(seconds=2), 12),
        (NOW + timedelta(hours=1), 0),
    ],
)
def test_how_long_until_the_next_one(moved: Any, seconds: int) -> None:
    """Also with the clock of another replica, a little ahead, and one that was set back by an hour."""
    assert traffic.due_in(moved, timedelta(seconds=10), NOW) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("active", "pending", "before", "expected"),
    [
        ("differs", "same", False, rollback.Verdict(False)),
        ("same", "differs", False, rollback.Verdict(True, rollback.REVERTED)),
        ("same", "differs", True, rollback.Verdict(True, rollback.REVERTED)),
        ("differs", "same", True, rollback.Verdict(False)),
        ("differs", "differs", False, rollback.Verdict(True, rollback.CHANGED)),
        ("same", "same", False, rollback.Verdict(True, rollback.REVERTED)),
        # Groups appended to the one or to the other make it no other one.
        ("differs", "extended", False, rollback.Verdict(False)),
        ("extended", "differs", False, rollback.Verdict(True, rollback.REVERTED)),
    ],
)
def test_which_way_it_goes(active: str, pending: str, before: bool, expected: rollback.Verdict) -> None:
    """Spec rows 102 to 107."""
    found = World(rolling_back=before).edit(active=active, pending=pending)
    assert found.active is not None
    assert found.pending is not None
    assert rollback.decide(found.active, found.pending, aborted=False) == expected
    step = found.step()
    assert (step.rolling_back, step.message) == ((False, "") if step.give_up else (expected.back, expected.message))


@pytest.mark.parametrize(
    ("active", "pending", "head", "expected"),
    [
        ((100, 100), (0, 0), True, True),
        ((100, 100), (30, 0), False, True),
        ((100, 100), (50, 0), True, False),
        ((100, 75), (50, 25), False, False),
        ((50, 50), (50, 50), False, False),
    ],
)
def test_when_a_rollback_has_arrived(
    active: tuple[int, int], pending: tuple[int, int], head: bool, expected: bool
) -> None:
    """Spec rows 108, 109 and 111; for row 110 see `test_single`."""
    found = world(active, pending, p={"head_ready": head}).edit(active="same", pending="differs")
    step = found.step()
    assert step.give_up == expected
    assert step.rolling_back != expected
    assert not step.promote


def test_undecided_numbers_are_not_told_to_serve() -> None:
    """The type was changed while another strategy was in the middle: what Serve never heard of it is not told now."""
    found = with_route(World(active=side("a", None, None, relation="differs"), pending=side("p", None, None)))
    step = found.step()
    assert numbers(step) == "None/100 50/0"
    assert found.trace()[-1] == "100/100 -"
    assert found.promoted == ["p"]


def test_what_another_strategy_has_switched_is_promoted() -> None:
    """The type was changed between the switch of the services and the end of that upgrade."""
    found = World(pending=side("p", None, None))
    step = IncrementalUpgrade().step(replace(found.context(), served_by="p"))
    assert step.promote
    assert not IncrementalUpgrade().step(replace(found.context(), served_by="a")).promote


def test_a_move_that_was_applied_but_not_stored_is_stored() -> None:
    """The process ended between both. Neither the interval nor a gateway that has not looked yet takes it back."""
    found = World().until("100/75 50/25")
    found.objects["HTTPRoute"]["spec"]["rules"][0]["backendRefs"][0]["weight"] = 50
    found.objects["HTTPRoute"]["spec"]["rules"][0]["backendRefs"][1]["weight"] = 50
    route_behind(found).turn()
    assert str(found) == "100/50 50/50"
    assert found.pending is not None
    assert found.pending.share.moved == found.now


def test_weights_that_somebody_else_wrote_are_put_right() -> None:
    found = World().until("100/75 50/25")
    found.objects["HTTPRoute"]["spec"]["rules"][0]["backendRefs"][1]["weight"] = 99
    found.turn()
    assert found.weights() == [("a", 75), ("p", 25)]


# What holds it up

AWAY = {"head_ready": False, "ready": False, "backends": 0}
GATEWAY_DOWN = "Gateway s-gateway is not Programmed (Pending): a controller has to serve its GatewayClass"
ROUTE_BEHIND = "HTTPRoute s-httproute is not Accepted yet as it is now by Gateway s-gateway"


def gateway_down(found: World) -> World:
    conditions = found.objects["Gateway"]["status"]["conditions"]
    conditions[1] = {"type": "Programmed", "status": "False", "reason": "Pending"}
    return found


def route_behind(found: World) -> World:
    found.objects["HTTPRoute"]["metadata"]["generation"] += 1
    return found


HELD: dict[str, tuple[Callable[[], World], str]] = {
    "the first capacity: Gateway": (lambda: gateway_down(world((100, 100), (0, 0))), GATEWAY_DOWN),
    "requests: Gateway": (lambda: gateway_down(world((100, 100), (50, 0))), GATEWAY_DOWN),
    "less capacity: route": (lambda: route_behind(world((100, 50), (50, 50))), ROUTE_BEHIND),
    "more requests: route": (lambda: route_behind(world((100, 75), (50, 25))), ROUTE_BEHIND),
    "the first capacity: head": (
        lambda: world((100, 100), (0, 0), p=AWAY),
        "the head of RayCluster p is not ready",
    ),
    "the first capacity: Serve": (
        lambda: world((100, 100), (0, 0), p={"ready": False}),
        "Serve of RayCluster p has not said yet that its applications run",
    ),
    "less capacity: Serve of the pending one": (
        lambda: world((100, 50), (50, 50), p={"ready": False}),
        "Serve of RayCluster p has not said yet that its applications run",
    ),
    "requests: pods": (
        lambda: world((100, 100), (50, 0), p={"backends": 0}),
        "no pod of RayCluster p is ready to serve",
    ),
    "less capacity: head of the active one": (
        lambda: world((100, 50), (50, 50), a={"head_ready": False}),
        "the head of RayCluster a is not ready",
    ),
}


@pytest.mark.parametrize(("of", "why"), HELD.values(), ids=HELD)
def test_what_holds_an_upgrade(of: Callable[[], World], why: str) -> None:
    """Spec rows 94 to 96 and the recorded scenario incremental-gateway-not-ready: nothing moves, and why is told."""
    found = of()
    before = str(found)
    step = found.step()
    assert step.waiting == why
    assert numbers(step) == before
    assert [step.promote, step.give_up, step.replace] == [False] * 3


def test_a_gateway_that_comes_late_is_waited_for() -> None:
    found = World(gateway_serves=False)
    assert found.trace(seconds=60) == []
    found.accept()
    found.gateway_serves = True
    assert found.trace()[0] == "100/100 50/0"
    assert found.promoted == ["p"]


FAILED = {
    "pendingServiceStatus": {
        "rayClusterName": "p",
        "applicationStatuses": {
            "app1": {"status": "DEPLOY_FAILED", "message": "failed 3 times"},
            "app2": {"status": "DEPLOYING"},
            "app3": {"status": "RUNNING"},
        },
    }
}


def test_a_pending_application_that_fails_keeps_everything_and_says_so() -> None:
    """Recorded scenario incremental-pending-fails; here it gets no capacity either, for at 0 it must run as well."""
    found = world((100, 100), (0, 0), p={"ready": False}, status=FAILED)
    assert found.trace(seconds=60) == []
    assert found.step().waiting == (
        "Serve of RayCluster p does not run: app1 is DEPLOY_FAILED; correct the spec, or go back with annotation "
        'ray.io/upgrade-aborted: "true"'
    )


def test_an_application_that_only_takes_its_time_is_told_without_advice() -> None:
    status = {"pendingServiceStatus": {"rayClusterName": "p", "applicationStatuses": {"x": {"status": "DEPLOYING"}}}}
    found = world((100, 75), (50, 25), p={"ready": False}, status=status)
    assert found.step().waiting == "Serve of RayCluster p does not run: x is DEPLOYING"


def test_statuses_of_an_earlier_pending_cluster_are_not_this_ones() -> None:
    status = {"pendingServiceStatus": {**FAILED["pendingServiceStatus"], "rayClusterName": "earlier"}}
    found = world((100, 100), (0, 0), p={"ready": False}, status=status)
    assert found.step().waiting == "Serve of RayCluster p has not said yet that its applications run"


def test_a_pending_application_that_fails_in_the_middle_takes_nothing_away() -> None:
    """Half is there already. What the active one still has it keeps, and an abort brings the rest back."""
    found = world((100, 50), (50, 50), p={"ready": False}, status=FAILED)
    assert found.trace(seconds=120) == []
    found.aborted = True
    assert found.trace() == ["100/75 50/25", "100/100 50/0", "100/100 0/0", "100/100 -"]


# Going back when not all is well


def back(active: tuple[int, int], pending: tuple[int, int], **more: Any) -> World:
    return world(active, pending, **more).edit(active="same", pending="differs")


def test_back_from_a_cluster_that_works_requests_wait_for_the_active_one() -> None:
    found = back((100, 50), (50, 50), a={"ready": False})
    assert numbers(found.step()) == "100/50 50/50"
    assert found.step().waiting == "Serve of RayCluster a has not said yet that its applications run"


def test_an_active_application_that_fails_is_told_without_the_advice_to_go_back() -> None:
    status = {"activeServiceStatus": {**FAILED["pendingServiceStatus"], "rayClusterName": "a"}}
    found = back((100, 50), (50, 50), a={"ready": False}, status=status)
    assert found.step().waiting == "Serve of RayCluster a does not run: app1 is DEPLOY_FAILED"


def test_back_from_a_cluster_that_fails_they_do_not() -> None:
    """Spec 3.4: readiness is irrelevant for a rollback."""
    found = back((100, 50), (50, 50), a={"ready": False}, p={"ready": False})
    assert numbers(found.step()) == "100/75 50/25"


def test_back_from_a_cluster_without_pods_all_requests_go_at_once() -> None:
    found = back((100, 25), (75, 75), moved=NOW, p={"backends": 0, "ready": False})
    found.active = replace(found.active, share=Share(100, 25, NOW)) if found.active else None
    assert numbers(found.step()) == "100/100 75/0"


def test_but_not_beyond_the_capacity_of_the_active_one() -> None:
    found = back((50, 25), (100, 75), p={"backends": 0, "ready": False})
    assert found.trace()[:2] == ["50/50 100/50", "50/50 50/50"]


def test_requests_never_go_to_a_cluster_without_pods() -> None:
    for of in (back, world):
        found = of((100, 50), (60, 50), a={"backends": 0}, p={"backends": 0})
        assert numbers(found.step()) == "100/50 60/50"
        assert "is ready to serve" in found.step().waiting


def test_in_an_upgrade_too_requests_leave_a_side_without_pods_at_once() -> None:
    found = world((100, 90), (50, 10), moved=NOW, a={"backends": 0, "ready": False})
    assert numbers(found.step()) == "100/50 50/50"


def test_back_from_a_pending_cluster_whose_head_crashed() -> None:
    """End-to-end pin of the specification. Its capacity cannot be told anything any more, so nothing waits for that."""
    found = back((50, 25), (100, 75), p=AWAY)
    assert found.trace() == ["50/50 100/50", "100/50 100/50", "100/100 100/0", "100/100 -"]
    assert found.given_up == ["p"]


def test_back_while_the_gateway_is_away() -> None:
    """Weights are applied all the same; capacity waits for it until all requests are back."""
    found = gateway_down(back((50, 25), (100, 75)))
    found.gateway_serves = False
    assert found.trace(seconds=60) == ["50/50 100/50"]
    assert found.step().waiting == GATEWAY_DOWN
    found = gateway_down(back((100, 75), (50, 25)))
    found.gateway_serves = False
    assert found.trace() == ["100/100 50/0", "100/100 0/0", "100/100 -"]


def test_forward_past_an_active_head_that_crashed_when_all_requests_are_gone() -> None:
    found = world((50, 0), (100, 100), a=AWAY)
    step = found.step()
    assert step.promote
    assert numbers(step) == "50/0 100/100"


def test_but_not_while_requests_may_still_come_to_it() -> None:
    found = world((50, 0), (100, 100), moved=NOW, a=AWAY)
    assert (found.step().promote, found.step().look_after) == (False, timedelta(seconds=5))
    found.now += timedelta(seconds=5)
    assert found.step().promote


# Nothing is taken away while requests may still come by the earlier weights


@pytest.mark.parametrize(
    ("active", "pending", "goes_back"),
    [((100, 50), (50, 50), False), ((50, 0), (100, 100), False), ((100, 100), (50, 0), True)],
)
def test_capacity_is_taken_away_only_some_seconds_after_the_requests(
    active: tuple[int, int], pending: tuple[int, int], goes_back: bool
) -> None:
    found = (back if goes_back else world)(active, pending, moved=NOW)
    assert found.active is not None
    found.active = replace(found.active, share=replace(found.active.share, moved=NOW))
    before = numbers(found.step())
    assert (before, found.step().look_after) == (str(found), timedelta(seconds=5))
    found.now += timedelta(seconds=4)
    assert (numbers(found.step()), found.step().look_after) == (before, timedelta(seconds=1))
    found.now += timedelta(seconds=1)
    assert numbers(found.step()) != before
