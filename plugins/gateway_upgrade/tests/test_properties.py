"""Whatever the options and whatever happens in between: what holds in every pass, and that every upgrade ends."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kuberay_gateway_upgrade.options import problems

from .conftest import World, owner, spec


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    surge = draw(st.integers(1, 100))
    return {
        "maxSurgePercent": surge,
        "stepSizePercent": draw(st.integers(1, surge)),
        "intervalSeconds": draw(st.integers(1, 20)),
    }


EVENT = st.sampled_from(
    [
        "revert",
        "resume",
        "third spec",
        "abort",
        "no abort",
        "pause",
        "no pause",
        "serve refuses",
        "serve accepts",
        "gateway goes",
        "gateway comes",
        "pending fails",
        "pending runs",
        "wait",
    ]
)


def happen(world: World, event: str) -> None:
    assert world.pending is not None
    if event in ("revert", "resume", "third spec"):
        world.edit(
            active="same" if event == "revert" else "differs", pending="same" if event == "resume" else "differs"
        )
    elif event in ("abort", "no abort"):
        world.aborted = event == "abort"
    elif event in ("pause", "no pause"):
        world.paused = event == "pause"
    elif event in ("serve refuses", "serve accepts"):
        world.serve_accepts = event == "serve accepts"
    elif event in ("gateway goes", "gateway comes"):
        world.gateway_serves = event == "gateway comes"
    elif event in ("pending fails", "pending runs"):
        world.pending = replace(world.pending, ready=event == "pending runs")
    else:
        world.now += timedelta(seconds=7)


def check_turn(world: World, surge: int) -> None:
    """One pass, and what has to hold in it."""
    active, pending = world.active, world.pending
    assert active is not None
    assert pending is not None
    step = world.turn()
    assert step.active is not None
    assert step.pending is not None
    shares = (step.active, step.pending)
    assert sum(share.traffic or 0 for share in shares) == 100
    assert [weight for _, weight in world.weights()] == [share.traffic for share in shares]
    assert sum(share.capacity or 0 for share in shares) <= 100 + surge
    for before, after in ((active.share, step.active), (pending.share, step.pending)):
        assert (after.capacity or 0) >= (after.traffic or 0), "less capacity than requests"
        if (after.traffic or 0) > (before.traffic or 0):
            assert (after.traffic or 0) <= (before.capacity or 0), "requests before the capacity was accepted"
    changed = [a.share.capacity != s.capacity for a, s in ((active, step.active), (pending, step.pending))]
    moved = active.share.traffic != step.active.traffic
    assert changed.count(True) + moved <= 1, "one thing at a time"
    assert not step.replace, "a third one"
    world.now += timedelta(seconds=1)


@settings(deadline=None)
@given(options())
def test_an_upgrade_only_goes_forward_and_ends(chosen: dict[str, Any]) -> None:
    assert not problems(owner(spec(**chosen)))
    world = World(chosen)
    for _ in range(20_000):
        if world.pending is None:
            break
        active, pending = world.active, world.pending
        check_turn(world, chosen["maxSurgePercent"])
        if world.pending is not None:
            assert active is not None
            assert world.active is not None
            for old, new in ((world.active.share, active.share), (pending.share, world.pending.share)):
                assert (old.capacity or 0) <= (new.capacity or 0)
                assert (old.traffic or 0) <= (new.traffic or 0)
    assert world.promoted == ["p"]
    assert str(world) == "100/100 -"


@settings(deadline=None)
@given(options(), st.lists(st.tuples(st.integers(0, 12), EVENT), max_size=25), st.sampled_from(["resume", "revert"]))
def test_whatever_happens_it_ends_where_it_is_told_to(
    chosen: dict[str, Any], events: list[tuple[int, str]], end: str
) -> None:
    world = World(chosen)
    for passes, event in events:
        for _ in range(passes):
            if world.pending is not None:
                check_turn(world, chosen["maxSurgePercent"])
        if world.pending is not None:
            happen(world, event)
    if world.pending is None:
        return
    for last in (end, "no abort", "no pause", "serve accepts", "gateway comes", "pending runs"):
        happen(world, last)
    for _ in range(20_000):
        if world.pending is None:
            break
        check_turn(world, chosen["maxSurgePercent"])
    ended = (world.promoted, world.given_up)
    assert ended == ((["p"], []) if end == "resume" else ([], ["p"]))
    assert str(world) == "100/100 -"


@settings(deadline=None)
@given(options(), st.integers(0, 400))
def test_a_rollback_from_anywhere_only_goes_back_and_ends(chosen: dict[str, Any], passes: int) -> None:
    """GW-02."""
    world = World(chosen)
    for _ in range(passes):
        if world.pending is not None:
            check_turn(world, chosen["maxSurgePercent"])
    if world.pending is None:
        return
    world.edit(active="same", pending="differs")
    for _ in range(20_000):
        if world.pending is None:
            break
        active, pending = world.active, world.pending
        check_turn(world, chosen["maxSurgePercent"])
        if world.pending is not None:
            assert active is not None
            assert world.active is not None
            for less, more in ((active.share, world.active.share), (world.pending.share, pending.share)):
                assert (less.capacity or 0) <= (more.capacity or 0)
                assert (less.traffic or 0) <= (more.traffic or 0)
    assert world.given_up == ["p"]
    assert world.promoted == []
