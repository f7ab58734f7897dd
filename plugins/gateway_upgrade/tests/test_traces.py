"""Upgrades and rollbacks from the first to the last number. A line is a pass that changed something: ``aC/aT pC/pT``.

The specification puts capacity and requests of one pass into one line. Here a capacity counts from the pass on that sees it
accepted, so each of its lines is the end of one or two of ours; none is left out.
"""

from __future__ import annotations

import itertools
from datetime import timedelta
from typing import Any

import pytest

from .conftest import NOW, World, side

UPGRADES: dict[str, tuple[dict[str, Any], list[str], list[str]]] = {
    "100-100": (
        {"stepSizePercent": 100, "maxSurgePercent": 100},
        ["100/0 100/100", "0/0 100/100"],
        ["100/100 100/0", "100/0 100/100", "0/0 100/100"],
    ),
    "25-50": (
        {"stepSizePercent": 25, "maxSurgePercent": 50},
        ["100/75 50/25", "100/50 50/50", "50/50 50/50", "50/25 100/75", "50/0 100/100", "0/0 100/100"],
        [
            "100/100 50/0",
            "100/75 50/25",
            "100/50 50/50",
            "50/50 50/50",
            "50/50 100/50",
            "50/25 100/75",
            "50/0 100/100",
            "0/0 100/100",
        ],
    ),
    "25-30": (
        {"stepSizePercent": 25, "maxSurgePercent": 30},
        [
            *["100/75 30/25", "100/70 30/30", "70/70 30/30", "70/45 60/55", "70/40 60/60", "40/40 60/60"],
            *["40/15 90/85", "40/10 90/90", "10/10 90/90", "10/0 100/100", "0/0 100/100"],
        ],
        [
            *["100/100 30/0", "100/75 30/25", "100/70 30/30", "70/70 30/30"],
            *["70/70 60/30", "70/45 60/55", "70/40 60/60", "40/40 60/60"],
            *["40/40 90/60", "40/15 90/85", "40/10 90/90", "10/10 90/90"],
            *["10/10 100/90", "10/0 100/100", "0/0 100/100"],
        ],
    ),
    "40-60": (
        {"stepSizePercent": 40, "maxSurgePercent": 60},
        ["100/60 60/40", "100/40 60/60", "40/40 60/60", "40/0 100/100", "0/0 100/100"],
        [
            *["100/100 60/0", "100/60 60/40", "100/40 60/60", "40/40 60/60"],
            *["40/40 100/60", "40/0 100/100", "0/0 100/100"],
        ],
    ),
    "10-10": (
        {"stepSizePercent": 10, "maxSurgePercent": 10},
        ["100/90 10/10", "90/90 10/10", "90/90 20/10", "90/80 20/20", "10/0 100/100", "0/0 100/100"],
        [
            "100/100 10/0",
            *[
                line
                for p in range(10, 100, 10)
                for line in (
                    f"{110 - p}/{100 - p} {p}/{p}",
                    f"{100 - p}/{100 - p} {p}/{p}",
                    f"{100 - p}/{100 - p} {p + 10}/{p}",
                )
            ],
            "10/0 100/100",
            "0/0 100/100",
        ],
    ),
}


def contains(lines: list[str], wanted: list[str]) -> bool:
    """Whether *wanted* are among *lines*, in this order."""
    rest = iter(lines)
    return all(any(line == each for line in rest) for each in wanted)


@pytest.mark.parametrize(("options", "specified", "expected"), UPGRADES.values(), ids=UPGRADES)
def test_an_upgrade(options: dict[str, Any], specified: list[str], expected: list[str]) -> None:
    """The traces of spec 3.4, each to its promotion."""
    world = World(options)
    lines = world.trace()
    assert lines == [*expected, "100/100 -"]
    assert contains(lines, specified)
    assert (world.promoted, world.given_up, world.replaced) == (["p"], [], 0)
    world.turn()
    assert world.weights() == [("p", 100)]


ROLLBACKS = {
    "from-50-50": (
        "50/50 50/50",
        ["100/75 50/25", "100/100 50/0", "100/100 0/0"],
        ["100/50 50/50", "100/75 50/25", "100/100 50/0", "100/100 0/0"],
    ),
    "from-75": (
        "50/25 100/75",
        ["50/50 100/50", "100/75 50/25", "100/100 50/0", "100/100 0/0"],
        [
            *["50/50 100/50", "50/50 50/50", "100/50 50/50", "100/75 50/25"],
            *["100/100 50/0", "100/100 0/0"],
        ],
    ),
    "from-all-moved": (
        "50/0 100/100",
        ["50/50 100/50", "100/75 50/25", "100/100 50/0", "100/100 0/0"],
        [
            *["50/25 100/75", "50/50 100/50", "50/50 50/50", "100/50 50/50", "100/75 50/25"],
            *["100/100 50/0", "100/100 0/0"],
        ],
    ),
    "from-nothing-moved": ("100/100 0/0", [], []),
}


@pytest.mark.parametrize(("start", "specified", "expected"), ROLLBACKS.values(), ids=ROLLBACKS)
@pytest.mark.parametrize("why", ["reverted", "another spec", "aborted"])
def test_a_rollback(start: str, specified: list[str], expected: list[str], why: str) -> None:
    """The traces of spec 3.5: the same whatever the reason, and the pending RayCluster is let go at the end."""
    world = World().until(start)
    world.edit(active="same" if why == "reverted" else "differs", pending="differs" if why != "aborted" else "same")
    world.aborted = why == "aborted"
    lines = world.trace()
    assert lines == [*expected, "100/100 -"]
    assert contains(lines, specified)
    assert (world.promoted, world.given_up, world.replaced) == ([], ["p"], 0)
    assert not world.rolling_back
    world.turn()
    assert world.weights() == [("a", 100)]


def test_gw_02_changing_ones_mind_at_30_percent() -> None:
    """GW-02: back in steps, capacity before requests, never a third RayCluster, always a hundred in sum."""
    world = World({"stepSizePercent": 10, "maxSurgePercent": 20, "intervalSeconds": 5}).until("80/70 40/30")
    world.edit(active="same", pending="differs")
    weights, seen = [], []
    while world.pending is not None:
        before = (world.active.share.capacity, world.active.share.traffic) if world.active else None
        step = world.turn()
        assert not step.replace
        assert world.active is not None
        assert sum(weight for _, weight in world.weights()) == 100
        assert [name for name, _ in world.weights()] == ["a", "p"]
        if (found := world.weights()[0][1]) not in weights:
            weights.append(found)
        assert before is not None
        assert (world.active.share.traffic or 0) <= (before[0] or 0), "requests came before capacity"
        seen.append(str(world))
        world.now += timedelta(seconds=1)
        assert len(seen) < 300
    assert weights == [70, 80, 90, 100]
    assert world.given_up == ["p"]
    assert world.active is not None
    assert world.active.share.capacity == 100


def test_an_upgrade_taken_back_and_wanted_again_goes_on() -> None:
    """A→B→A→B, spec 3.5 second row: from the numbers it has."""
    world = World().until("50/25 100/75")
    world.edit(active="same", pending="differs").until("100/75 50/25")
    assert world.rolling_back
    world.edit(active="differs", pending="same")
    assert world.trace() == [
        *["100/50 50/50", "50/50 50/50", "50/50 100/50", "50/25 100/75", "50/0 100/100", "0/0 100/100"],
        "100/100 -",
    ]
    assert world.promoted == ["p"]
    assert not world.rolling_back


def test_an_abort_taken_back_in_the_middle_goes_on() -> None:
    world = World().until("50/25 100/75")
    world.aborted = True
    world.until("100/50 50/50")
    assert world.rolling_back
    world.aborted = False
    assert world.trace()[-2:] == ["0/0 100/100", "100/100 -"]
    assert world.promoted == ["p"]


@pytest.mark.parametrize("at", ["100/100 0/0", "100/75 50/25", "50/50 50/50", "50/50 100/50", "0/0 100/100"])
def test_a_pause_moves_nothing_and_ends_nothing(at: str) -> None:
    world = World().until(at)
    world.paused = True
    weights = [("a", int(at.split()[0].partition("/")[2])), ("p", int(at.partition(" ")[2].partition("/")[2]))]
    for _ in range(120):
        step = world.turn()
        assert step.waiting == "the upgrade is paused by annotation ray.io/upgrade-paused"
        assert [step.promote, step.give_up, step.replace] == [False] * 3
        world.now += timedelta(seconds=1)
        assert (str(world), world.weights()) == (at, weights)
    world.paused = False
    world.trace()
    assert world.promoted == ["p"]


def test_a_pause_holds_a_rollback_too_and_an_abort_ends_the_pause() -> None:
    world = World().until("50/50 50/50").edit(active="same", pending="differs")
    world.paused = True
    step = world.turn()
    assert (str(world), step.rolling_back, bool(step.waiting)) == ("50/50 50/50", True, True)
    world.aborted = True
    assert world.trace()[-1] == "100/100 -"
    assert world.given_up == ["p"]


def test_steps_are_an_interval_apart_and_the_first_needs_none() -> None:
    world = World({"intervalSeconds": 30})
    at: list[float] = []
    last = 0
    while world.pending is not None:
        world.turn()
        if world.pending and world.pending.share.traffic != last:
            last = world.pending.share.traffic or 0
            assert world.pending.share.moved == world.now
            assert world.active is not None
            assert world.active.share.moved == world.now
            at.append((world.now - NOW).total_seconds())
        world.now += timedelta(seconds=1)
    assert at[0] < 5
    assert all(later - earlier >= 30 for earlier, later in itertools.pairwise(at))
    assert len(at) == 4


def test_the_strategy_says_when_to_look_again() -> None:
    """Nothing but the clock changes until the next step, so somebody has to look then."""
    world = World().until("100/75 50/25")
    step = world.step()
    assert step.look_after == timedelta(seconds=9)
    assert step.waiting == ""
    assert step.look_after is not None
    world.now += step.look_after
    world.turn()
    assert str(world) == "100/50 50/50"


def test_a_capacity_that_serve_does_not_take_holds_everything() -> None:
    world = World(serve_accepts=False)
    assert world.trace(seconds=60) == []
    step = world.step()
    assert step.pending is not None
    assert step.pending.capacity == 50, "it goes on being asked for"
    world.serve_accepts = True
    world.trace()
    assert world.promoted == ["p"]


@pytest.mark.parametrize(
    ("changed", "first"),
    [
        # A larger surge may take no more from the active one than what its requests left.
        ({"maxSurgePercent": 100}, "70/70 30/30"),
        # A smaller one takes less at a time.
        ({"maxSurgePercent": 10, "stepSizePercent": 10}, "90/70 30/30"),
    ],
)
def test_options_edited_in_the_middle_count_at_once(changed: dict[str, Any], first: str) -> None:
    world = World({"maxSurgePercent": 30}).until("100/70 30/30")
    world.options = world.options | changed
    lines = world.trace()
    assert lines[0] == first
    assert lines[-1] == "100/100 -"


def test_a_first_start_ends_with_everything() -> None:
    """Spec 3.4: capacity 100 from the beginning, no route before a RayCluster is active, then one backend."""
    world = World(active=None, pending=side("p", 100, None, ready=False))
    assert world.trace(seconds=5) == []
    assert sorted(world.objects) == ["Gateway"]
    assert world.pending is not None
    world.pending = side("p", 100, None)
    assert world.trace() == ["100/None -"]
    assert sorted(world.objects) == ["Gateway"]
    world.turn()
    assert str(world) == "100/100 -"
    assert world.weights() == [("p", 100)]
