"""A slow plugin is known after its second slow call, and from then on not called where others would wait."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kuberay.hooks.calls import Lane, SlowCall, SlowPluginError
from kuberay.plugins.pace import BUDGET, MEMORY, Pace

SLOW, FAST = BUDGET * 2, BUDGET / 10


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pace(clock: Clock) -> Pace:
    return Pace(clock)


@pytest.fixture
def call(pace: Pace, clock: Clock) -> Callable[..., None]:
    def make(plugin: str = "gang", hook: str = "validate", uid: str = "a", seconds: float = SLOW) -> None:
        clock.now += seconds
        pace.note(plugin, hook, uid, seconds, clock.now)

    return make


def may_call(pace: Pace, lane: Lane, plugin: str = "gang", uid: str = "a") -> bool:
    with pace.in_lane(lane):
        try:
            pace.check(plugin, uid)
        except SlowPluginError:
            return False
    return True


def test_one_slow_call_says_nothing(pace, call):
    call()
    assert list(pace.slow_calls("a")) == []
    assert may_call(pace, Lane.LOOP)


def test_after_the_second_one_it_is_not_called_on_the_loop_for_anybody(pace, call):
    call(uid="a")
    call(uid="b", hook="mutate_pod")
    assert not may_call(pace, Lane.LOOP, uid="a")
    assert not may_call(pace, Lane.LOOP, uid="c")
    assert may_call(pace, Lane.LOOP, plugin="other")


def test_objects_it_is_slow_for_are_told_from_others(pace, call):
    call(uid="a")
    call(uid="a", hook="mutate_pod")
    call(uid="c", seconds=FAST)
    assert pace.slow_calls("a") == [SlowCall("gang", "mutate_pod"), SlowCall("gang", "validate")]
    assert list(pace.slow_calls("c")) == []
    assert not may_call(pace, Lane.BESIDE, uid="a")
    assert may_call(pace, Lane.BESIDE, uid="c")
    assert may_call(pace, Lane.LAST, uid="a")


def test_where_nobody_waits_nothing_is_refused(pace, call):
    call()
    call()
    assert may_call(pace, Lane.ANY)
    pace.check("gang", "a")


def test_an_object_is_forgotten_when_its_hook_is_fast_again(pace, call):
    call()
    call()
    call(seconds=BUDGET * 0.8)
    assert pace.slow_calls("a") == [SlowCall("gang", "validate")], "nearly slow is no recovery"
    call(seconds=FAST)
    assert list(pace.slow_calls("a")) == []
    assert may_call(pace, Lane.BESIDE)
    assert not may_call(pace, Lane.LOOP), "the plugin itself is watched for longer"


def test_a_plugin_is_tried_on_the_loop_again_when_it_was_not_slow_for_long(pace, call, clock):
    call()
    call()
    clock.now += MEMORY + 1
    assert may_call(pace, Lane.LOOP)
    assert list(pace.slow_calls("a")) == []
    call()
    assert may_call(pace, Lane.LOOP), "one slow call now and one long ago say nothing"
    call()
    assert not may_call(pace, Lane.LOOP)


def test_lanes_end_with_their_block(pace, call):
    call()
    call()
    with pace.in_lane(Lane.LOOP):
        with pace.in_lane(Lane.LAST):
            pace.check("gang", "a")
        with pytest.raises(SlowPluginError):
            pace.check("gang", "a")
    pace.check("gang", "a")


def test_owners_are_not_remembered_without_end(pace, call, monkeypatch):
    monkeypatch.setattr("kuberay.plugins.pace._OWNERS", 3)
    for number in range(5):
        call(uid=str(number))
    assert [bool(pace.slow_calls(str(number))) for number in range(5)] == [False, False, True, True, True]


def test_owners_that_were_not_slow_for_long_are_forgotten(pace, call, clock):
    call(uid="gone")
    call(uid="there")
    clock.now += 2 * MEMORY
    call(uid="there")
    call(uid="there")
    assert (bool(pace.slow_calls("gone")), bool(pace.slow_calls("there"))) == (False, True)
    assert list(pace._owners) == ["there"]
