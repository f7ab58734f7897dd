"""Which plugins take too long, and that passes which would wait for one are made beside the event loop.

A hook is a plain function, so the first slow call is only known when it is over; the second makes its plugin count as slow.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from kuberay.hooks.calls import Lane, SlowCall, SlowPluginError

BUDGET = 0.2
"""Seconds that one call of a hook may take. Shipped plugins take less than a thousandth of it."""

STRIKES = 2
"""How many slow calls make a plugin slow: one alone may be the machine's fault."""

MEMORY = 600.0
"""Seconds after its last slow call for which a plugin counts as slow."""

_OWNERS = 10_000
"""For how many owners slow calls are remembered."""
_OWNER_MEMORY = 2 * MEMORY
"""For how many seconds: every object is looked at in that time, so one that was not is gone."""


@dataclass(slots=True)
class _Owner:
    """What is slow for one object."""

    calls: set[tuple[str, str]] = field(default_factory=set)
    """Plugin and hook of each slow call."""
    last: float = 0.0
    """When the last one ended."""


class Pace:
    """Used from any thread. *clock* returns seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._place = threading.local()
        self._strikes: dict[str, list[float]] = {}
        """Times of the last slow calls, by plugin."""
        self._owners: OrderedDict[str, _Owner] = OrderedDict()
        """What was slow when it was asked last, by UID of the owner. Who was slow first comes first."""

    @contextmanager
    def in_lane(self, lane: Lane) -> Iterator[None]:
        """Hooks that this thread calls within are called in *lane*."""
        before = getattr(self._place, "lane", Lane.ANY)
        self._place.lane = lane
        try:
            yield
        finally:
            self._place.lane = before

    def check(self, plugin: str, uid: str) -> None:
        """Raises `SlowPluginError` when a hook of *plugin* must not be called here for that owner."""
        if not self._strikes:
            return
        lane = getattr(self._place, "lane", Lane.ANY)
        if lane is Lane.ANY or not self.is_slow(plugin):
            return
        slow_here = lane is Lane.BESIDE and any(name == plugin for name, _ in self._calls_of(uid))
        if lane is Lane.LOOP or slow_here:
            raise SlowPluginError(plugin)

    def note(self, plugin: str, hook: str, uid: str, seconds: float, at: float) -> None:
        """A call that ended *at* took *seconds*."""
        if seconds > BUDGET:
            self._note_slow(plugin, hook, uid, at)
        elif seconds < BUDGET / 2 and uid in self._owners:
            with self._lock:
                calls = self._calls_of(uid)
                calls.discard((plugin, hook))
                if not calls:
                    self._owners.pop(uid, None)

    def slow_calls(self, uid: str) -> Sequence[SlowCall]:
        """What was slow for that owner when it was asked last, in name order."""
        if uid not in self._owners:
            return ()
        with self._lock:
            calls = sorted(self._calls_of(uid))
        return [SlowCall(plugin, hook) for plugin, hook in calls if self.is_slow(plugin)]

    def _note_slow(self, plugin: str, hook: str, uid: str, at: float) -> None:
        with self._lock:
            strikes = [*self._strikes.get(plugin, ()), at]
            self._strikes[plugin] = strikes[-STRIKES:]
            owner = self._owners.setdefault(uid, _Owner())
            owner.calls.add((plugin, hook))
            owner.last = at
            self._owners.move_to_end(uid)
            while len(self._owners) > _OWNERS or next(iter(self._owners.values())).last < at - _OWNER_MEMORY:
                self._owners.popitem(last=False)

    def _calls_of(self, uid: str) -> set[tuple[str, str]]:
        owner = self._owners.get(uid)
        return owner.calls if owner is not None else set()

    def is_slow(self, plugin: str) -> bool:
        """Whether the plugin counts as slow now."""
        strikes: Sequence[float] = self._strikes.get(plugin, ())
        # The first ones are together, too: two slow calls in a year say nothing.
        return len(strikes) >= STRIKES and self._clock() - strikes[0] < MEMORY
