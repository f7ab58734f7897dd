"""Virtual time: an event loop whose time jumps to the next timer, and a wall clock that agrees with it.

`run_sim` runs one coroutine on such a loop with a seeded `random`, so that a failing run can be replayed.
"""

from __future__ import annotations

import asyncio
import random
import selectors
import sys
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from kuberay.kube.clock import Clock as Clock

T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
"""Wall-clock time at loop time zero."""


class VirtualClock:
    """Wall clock driven by the running event loop's time; `advance` moves it without one (for synchronous tests)."""

    def __init__(self, start: datetime = EPOCH) -> None:
        self._start = start
        self._origin: tuple[asyncio.AbstractEventLoop, float] | None = None
        self._extra = timedelta(0)

    def now(self) -> datetime:
        return self._start + self._extra + timedelta(seconds=self.elapsed())

    def elapsed(self) -> float:
        """Seconds of loop time since this clock was first read inside the running loop (zero outside a loop)."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return 0.0
        if isinstance(loop, SimEventLoop):
            return loop.time()
        if self._origin is None or self._origin[0] is not loop:
            self._origin = (loop, loop.time())
        return loop.time() - self._origin[1]

    def advance(self, seconds: float) -> None:
        """Move the wall clock forward on its own, as a clock correction would."""
        self._extra += timedelta(seconds=seconds)


class _JumpingSelector(selectors.DefaultSelector):
    """Never sleeps: when nothing is ready, time moves on instead. Threads of the loop's executor are waited for."""

    now = 0.0
    next_timer: Callable[[], float]
    threads: set[asyncio.Future[Any]]

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None or self.threads:
            # Only something outside the loop can go on. Real time passes, virtual time stands still.
            return super().select(0.05 if timeout is not None else None)
        # Exactly the timer's own time: a sum of differences could stay a trifle below it and never reach it.
        self.now = max(self.now, self.next_timer())
        return ready


class SimEventLoop(asyncio.SelectorEventLoop):
    """Time starts at zero and jumps to the next timer whenever nothing is ready."""

    def __init__(self) -> None:
        self._clock = _JumpingSelector()
        self._clock.threads = set()
        super().__init__(self._clock)
        # asyncio keeps its timers in a heap of this name in all versions, and replaces the list now and then.
        self._clock.next_timer = lambda: self._scheduled[0].when()  # type: ignore[attr-defined]

    def time(self) -> float:
        return self._clock.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = super().run_in_executor(executor, func, *args)
        self._clock.threads.add(future)
        future.add_done_callback(self._clock.threads.discard)
        return future


def run_sim(
    main: Coroutine[Any, Any, T] | Callable[[], Coroutine[Any, Any, T]],
    *,
    seed: int = 0,
    limit: float = 24 * 3600.0,
) -> T:
    """Run *main* on a virtual clock with `random` seeded, and return its result.

    *limit* is in virtual seconds; reaching it raises ``TimeoutError`` (at once when every task waits for another one).
    When *main* fails, the seed is told on standard error and noted on the exception.
    """
    state = random.getstate()
    random.seed(seed)
    try:
        with asyncio.Runner(loop_factory=SimEventLoop) as runner:
            coroutine = main() if callable(main) else main
            return runner.run(_limited(coroutine, limit))
    except BaseException as error:
        error.add_note(f"simulation seed: {seed}")
        sys.stderr.write(f"simulation failed with seed {seed}\n")
        raise
    finally:
        random.setstate(state)


async def _limited(coroutine: Coroutine[Any, Any, T], limit: float) -> T:
    try:
        async with asyncio.timeout(limit) as deadline:
            return await coroutine
    except TimeoutError as error:
        if deadline.expired():
            raise TimeoutError(f"the simulation was not over after {limit:g} virtual seconds") from error
        raise
