"""Where the time goes: looks at the stacks of threads many times a second, from a thread of its own, and counts them.

Nothing that is looked at runs slower for it, which a profiler that traces calls could not say. A look needs the interpreter's
lock, so what a library does without it (TLS, parsing JSON) is counted for whoever called it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from types import FrameType
from typing import Any

Stack = tuple[str, ...]
"""Functions, outermost first: ``kuberay/operator/controller.py:handle``."""

_DEEPEST = 128


class StackProfile:
    """Stacks and how often each was seen, by name of the thread."""

    def __init__(self, interval: float) -> None:
        self.interval = interval
        """Seconds between two looks."""
        self.looks = 0
        self.seen: dict[str, Counter[Stack]] = {}

    def collapsed(self) -> str:
        """One line for each stack, ``thread;outer;inner count``: what flame graph tools and speedscope read."""
        lines = [
            f"{';'.join((thread, *stack))} {count}\n"
            for thread, stacks in sorted(self.seen.items())
            for stack, count in sorted(stacks.items(), key=lambda item: (-item[1], item[0]))
        ]
        return "".join(lines)

    def speedscope(self, name: str) -> dict[str, Any]:
        """The file format of https://www.speedscope.app, one profile for each thread; times in seconds."""
        places: dict[str, int] = {}
        profiles = []
        for thread, stacks in sorted(self.seen.items()):
            samples = [[places.setdefault(frame, len(places)) for frame in stack] for stack in stacks]
            weights = [count * self.interval for count in stacks.values()]
            profiles.append(
                {
                    "type": "sampled",
                    "name": thread,
                    "unit": "seconds",
                    "startValue": 0,
                    "endValue": sum(weights),
                    "samples": samples,
                    "weights": weights,
                }
            )
        return {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "name": name,
            "exporter": "kuberay",
            "shared": {"frames": [{"name": place} for place in places]},
            "profiles": profiles,
        }


def profile(
    seconds: float,
    rate: float,
    *,
    threads: Collection[str] = (),
    stop: threading.Event | None = None,
    clock: Callable[[], float] = time.monotonic,
    frames: Callable[[], Mapping[int, FrameType]] = sys._current_frames,
) -> StackProfile:
    """Look *rate* times a second for *seconds*, or until *stop*; blocks, so call it in a thread. *threads*: names of those to
    look at, all but the caller's own when empty."""
    found = StackProfile(1 / rate)
    pause = stop or threading.Event()
    end, due, own = clock() + seconds, clock(), threading.get_ident()
    while not pause.is_set() and clock() < end:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        for ident, frame in frames().items():
            name = names.get(ident, str(ident))
            if ident != own and (not threads or name in threads):
                found.seen.setdefault(name, Counter())[_stack(frame)] += 1
        found.looks += 1
        due += found.interval
        pause.wait(max(0.0, min(due, end) - clock()))
    return found


def _stack(frame: FrameType | None) -> Stack:
    stack: list[str] = []
    while frame is not None and len(stack) < _DEEPEST:
        code = frame.f_code
        stack.append(f"{_short(code.co_filename)}:{code.co_name}")
        frame = frame.f_back
    return tuple(reversed(stack))


def _short(path: str) -> str:
    """Without the folder that the library is installed in; ``;`` would part frames."""
    for mark in ("/site-packages/", "/src/", "/lib/python"):
        _, found, rest = path.rpartition(mark)
        if found:
            return rest.replace(";", ",")
    return path.replace(";", ",")
