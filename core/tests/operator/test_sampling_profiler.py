"""Stacks are counted for the threads that were asked for, and told in the formats that tools read."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter

from kuberay.operator.sampling_profiler import StackProfile, profile


def spin(stop: threading.Event) -> None:
    while not stop.is_set():
        sum(range(100))


def test_a_busy_function_is_seen_and_other_threads_are_not() -> None:
    stop = threading.Event()
    busy = threading.Thread(target=spin, args=(stop,), name="busy")
    other = threading.Thread(target=stop.wait, name="other")
    for thread in (busy, other):
        thread.start()
    try:
        found = profile(0.2, 200, threads=("busy",))
        everybody = profile(0.05, 200)
    finally:
        stop.set()
        for thread in (busy, other):
            thread.join()
    assert found.seen.keys() == {"busy"}
    assert all(any(frame.endswith("test_sampling_profiler.py:spin") for frame in stack) for stack in found.seen["busy"])
    assert 0 < found.looks == sum(found.seen["busy"].values())
    assert {"busy", "other"} <= everybody.seen.keys()
    assert threading.current_thread().name not in everybody.seen


def test_it_ends_when_it_is_told_to() -> None:
    stop = threading.Event()
    results: list[StackProfile] = []
    thread = threading.Thread(target=lambda: results.append(profile(600, 10, stop=stop)))
    thread.start()
    time.sleep(0.01)
    stop.set()
    thread.join(5)
    assert len(results) == 1


def test_it_looks_as_often_as_it_was_asked_to() -> None:
    """On a clock of its own: a look that was late does not make the next ones late."""
    now = [0.0]

    class Pause(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            now[0] += timeout or 0.0
            return False

    def frames() -> dict[int, object]:
        now[0] += 0.003
        return {1: sys._getframe()}

    found = profile(1.0, 100, stop=Pause(), clock=lambda: now[0], frames=frames)  # type: ignore[arg-type]
    assert found.looks == 100
    assert sum(found.seen["1"].values()) == 100


def test_the_two_formats() -> None:
    found = StackProfile(0.01)
    found.seen["MainThread"] = Counter({("a.py:run", "b.py:work"): 3, ("a.py:run",): 1})
    assert found.collapsed() == "MainThread;a.py:run;b.py:work 3\nMainThread;a.py:run 1\n"
    told = found.speedscope("name")
    assert [frame["name"] for frame in told["shared"]["frames"]] == ["a.py:run", "b.py:work"]
    (one,) = told["profiles"]
    assert (one["type"], one["samples"], one["weights"], one["endValue"]) == (
        "sampled",
        [[0, 1], [0]],
        [0.03, 0.01],
        0.04,
    )
