"""Which object is looked at next: one queue of keys with coalescing, delays, priorities and per-key back-off.

Semantics are those of Kubernetes controllers: a key is handled by at most one worker; adds while it is handled make it
dirty and it is handled once more; of two delays the shorter wins, of two priorities the higher.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from collections.abc import Hashable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", contravariant=True)

LOW = -100
"""Priority of objects of the first list, so that fresh changes overtake a restart's backlog."""
NORMAL = 0


class QueueObserver(Protocol[K_contra]):
    """Is told what happens to keys; the operator's metrics implement it. Times are in seconds."""

    def added(self, key: K_contra) -> None:
        """A key became due that was not."""

    def retried(self, key: K_contra) -> None:
        """A key failed and is put back."""

    def taken(self, key: K_contra, seconds: float) -> None:
        """A worker took a key that had been due for *seconds*."""

    def done(self, key: K_contra, seconds: float) -> None:
        """A worker is done with a key after *seconds*."""


class WorkQueue(Generic[K]):
    """Used from one event loop. Delays are seconds of that loop's clock."""

    def __init__(self, *, backoff_first: float = 0.05, backoff_most: float = 120.0) -> None:
        self._ready: list[tuple[int, int, K]] = []
        self._priority: dict[K, int] = {}
        """Keys that are ready, with their present priority; heap entries of another priority are stale."""
        self._delayed: dict[K, tuple[float, int, asyncio.TimerHandle]] = {}
        self._due_at: dict[K, float] = {}
        """Since when each of these keys is ready, by the loop's clock."""
        self._processing: dict[K, float] = {}
        """Keys being handled, and since when if anybody wants to know."""
        self._dirty: dict[K, int] = {}
        self._failures: dict[K, int] = {}
        self._counter = itertools.count()
        self._wakeup = asyncio.Event()
        self._closed = False
        self._backoff_first = backoff_first
        self._backoff_most = backoff_most
        self.observer: QueueObserver[K] | None = None

    def __len__(self) -> int:
        return len(self._priority)

    @property
    def idle(self) -> bool:
        """Whether nothing is ready or being handled (keys may be delayed)."""
        return not self._priority and not self._processing

    @property
    def processing(self) -> int:
        return len(self._processing)

    @property
    def delayed(self) -> int:
        """Keys that become ready later."""
        return len(self._delayed)

    @property
    def failing(self) -> int:
        """Keys whose last handling failed."""
        return len(self._failures)

    def waiting(self) -> Iterable[K]:
        """Keys that are ready and wait for a worker."""
        return list(self._priority)

    def taken_at(self) -> Mapping[K, float]:
        """When each key that is being handled was taken, by the loop's clock; told while there is an observer."""
        return dict(self._processing)

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self.observer is not None else 0.0

    def add(self, key: K, *, delay: float = 0.0, priority: int = NORMAL) -> None:
        """Handle *key* after *delay* seconds at the latest."""
        if self._closed:
            return
        if delay > 0:
            self._add_later(key, delay, priority)
            return
        if key in self._processing:
            priority = self._not_later(key, priority)
            if self.observer is not None and key not in self._dirty:
                self.observer.added(key)
            self._dirty[key] = max(priority, self._dirty.get(key, priority))
            return
        self._make_ready(key, priority)

    def _not_later(self, key: K, priority: int) -> int:
        """The key is due now: the delayed add, if there is one, is part of that. Returns the higher priority of both."""
        pending = self._delayed.pop(key, None)
        if pending is None:
            return priority
        pending[2].cancel()
        return max(priority, pending[1])

    def _make_ready(self, key: K, priority: int, *, told: bool = False) -> None:
        """*told*: that it is due was told while it was handled."""
        priority = self._not_later(key, priority)
        present = self._priority.get(key)
        if present is None and self.observer is not None:
            self._due_at[key] = self._now()
            if not told:
                self.observer.added(key)
        if present is None or priority > present:
            self._priority[key] = priority
            heapq.heappush(self._ready, (-priority, next(self._counter), key))
            self._wakeup.set()

    def _add_later(self, key: K, delay: float, priority: int) -> None:
        if key in self._priority:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + delay
        pending = self._delayed.get(key)
        if pending is not None:
            pending[2].cancel()
            due, priority = min(due, pending[0]), max(priority, pending[1])
        self._delayed[key] = (due, priority, loop.call_at(due, self._fire, key, priority))

    def _fire(self, key: K, priority: int) -> None:
        self._delayed.pop(key, None)
        self.add(key, priority=priority)

    async def get(self) -> K:
        """The next key; the caller must call `done` with it. Raises `QueueClosed` after `close`."""
        while True:
            while self._ready:
                negative, _, key = heapq.heappop(self._ready)
                if self._priority.get(key) != -negative:
                    continue
                del self._priority[key]
                self._processing[key] = self._now()
                if self.observer is not None:
                    self.observer.taken(key, self._processing[key] - self._due_at.pop(key, self._processing[key]))
                return key
            if self._closed:
                raise QueueClosedError
            self._wakeup.clear()
            await self._wakeup.wait()

    def done(self, key: K) -> None:
        """The worker has finished with *key*; if it was added meanwhile it is ready again."""
        began = self._processing.pop(key, None)
        if self.observer is not None and began is not None:
            self.observer.done(key, self._now() - began)
        priority = self._dirty.pop(key, None)
        if priority is not None and not self._closed:
            self._make_ready(key, priority, told=True)

    def retry(self, key: K) -> float:
        """Add after an exponential, jittered back-off; returns the delay in seconds."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        if self.observer is not None:
            self.observer.retried(key)
        delay: float = min(self._backoff_most, self._backoff_first * 2 ** min(failures, 20))
        delay *= 0.75 + random.random() / 2  # noqa: S311 - spreads retries, not a secret
        self.add(key, delay=delay)
        return delay

    def forget(self, key: K) -> None:
        """The key succeeded: its next failure starts with the shortest back-off."""
        self._failures.pop(key, None)

    def close(self) -> None:
        """Wake all waiting workers; they get `QueueClosedError`."""
        self._closed = True
        for _, _, handle in self._delayed.values():
            handle.cancel()
        self._delayed.clear()
        self._ready.clear()
        self._priority.clear()
        self._due_at.clear()
        self._wakeup.set()


class QueueClosedError(Exception):
    """The queue was closed; the worker should end."""
