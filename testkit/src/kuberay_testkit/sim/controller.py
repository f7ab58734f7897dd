"""How the simulated cluster's own controllers take their time: a queue of keys with due times, run as a task or by steps."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from abc import ABC, abstractmethod

from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key


class Controller(ABC):
    """Sees every commit, queues what concerns it, and acts on it later, directly on the server (no request recorded)."""

    def __init__(self, server: SimServer, *, delay: tuple[float, float] = (0.05, 0.5)) -> None:
        """*delay* is the range of seconds between a change and this controller's reaction."""
        self.server = server
        self.delay = delay
        self._due: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._numbers = itertools.count()
        self._waiter: asyncio.Future[None] | None = None
        self._stop = server.store.listen(self.observe)
        for stored in list(server.store):
            self.observe(Change("ADDED", stored.rv, stored, None))

    @abstractmethod
    def observe(self, change: Change) -> None:
        """Queue what *change* concerns."""

    @abstractmethod
    def sync(self, key: Key) -> None:
        """Bring one object to where it should be."""

    def enqueue(self, key: Key, after: float | None = None) -> None:
        """Sync *key* in *after* seconds (drawn from `delay` when None), or earlier if it is queued already."""
        if after is None:
            low, high = self.delay
            after = low + (high - low) * self.server.random.random() if high > low else low
        due = self.server.clock.elapsed() + after
        if key in self._due and self._due[key] <= due:
            return
        self._due[key] = due
        heapq.heappush(self._heap, (due, next(self._numbers), key))
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def step(self, *, everything: bool = False) -> int:
        """Sync all keys that are due (or *everything* queued now). Returns how many."""
        now = self.server.clock.elapsed()
        ready: list[Key] = []
        while self._heap and (everything or self._heap[0][0] <= now):
            due, _, key = heapq.heappop(self._heap)
            if self._due.get(key) == due:
                del self._due[key]
                ready.append(key)
        for key in ready:
            self.sync(key)
        return len(ready)

    def settle(self, *, rounds: int = 100) -> int:
        """Step until nothing is queued, without time passing. Returns how many keys were synced."""
        total = 0
        for _ in range(rounds):
            done = self.step(everything=True)
            if not done:
                return total
            total += done
        raise RuntimeError(f"{type(self).__name__} does not come to rest")

    async def run(self) -> None:
        """Act at its own pace until cancelled."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                self.step()
                self._waiter = loop.create_future()
                timer = None
                if self._heap:
                    after = max(0.0, self._heap[0][0] - self.server.clock.elapsed())
                    timer = loop.call_later(after, _wake, self._waiter)
                try:
                    await self._waiter
                finally:
                    if timer is not None:
                        timer.cancel()
        finally:
            self._waiter = None

    def close(self) -> None:
        """Look away for good."""
        self._stop()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
