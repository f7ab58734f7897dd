"""Passes that would wait for a slow plugin are made here, so that nobody waits for it but the object it is slow for.

Two lanes follow the event loop. Objects whose plugin turned out to be slow elsewhere go to many threads; those it is slow for
go on to few, where they wait for each other.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from kuberay.hooks.calls import Hooks, Lane
from kuberay.kube.store import Store
from kuberay.operator.keys import Key
from kuberay.plan.model import Plan
from kuberay.plan.observed import Observed

log = logging.getLogger("kuberay.operator.beside")

THREADS: Mapping[Lane, int] = {Lane.BESIDE: 16, Lane.LAST: 4}
"""Passes under way at once."""

NEXT = {Lane.LOOP: Lane.BESIDE, Lane.BESIDE: Lane.LAST}

THREAD_PREFIX = "slow-plugins-"
"""How the names of its threads begin."""

_SWITCH_SECONDS = 0.0005
"""How long a thread may compute while the event loop waits to go on (Python's default is ten times as long)."""


class Beside:
    """*handle* makes one pass over a key in a lane. Without a slow plugin there is no thread and no task here."""

    def __init__(self, hooks: Hooks, store: Store, handle: Callable[[Key, Lane], Awaitable[None]]) -> None:
        self._hooks = hooks
        self._store = store
        self._handle = handle
        self._waiting: dict[Lane, deque[Key]] = {lane: deque() for lane in THREADS}
        self._at_work: dict[Lane, set[asyncio.Task[None]]] = {lane: set() for lane in THREADS}
        self._threads: dict[Lane, ThreadPoolExecutor] = {}
        self._closed = False

    def take(self, key: Key, lane: Lane) -> None:
        """Have a pass over *key* made in *lane*, as soon as it has a thread to spare."""
        if self._closed:
            return
        self._waiting[lane].append(key)
        if len(self._at_work[lane]) < THREADS[lane]:
            task = asyncio.create_task(self._work(lane), name=f"slow plugins, {lane.value}")
            self._at_work[lane].add(task)
            task.add_done_callback(self._at_work[lane].discard)

    async def _work(self, lane: Lane) -> None:
        while self._waiting[lane]:
            await self._handle(self._waiting[lane].popleft(), lane)

    async def plan(self, plan_for: Callable[[Observed], Plan], observed: Observed, lane: Lane) -> Plan:
        """The plan, made in a thread of *lane*. Raises `SlowPluginError` when it has to go to the next one."""

        def make() -> Plan:
            with self._hooks.in_lane(lane):
                return plan_for(replace(observed, view=view))

        with self._store.frozen() as view:
            # What a hook logs there, and its span, belong to this pass, too.
            run = contextvars.copy_context().run
            return await asyncio.get_running_loop().run_in_executor(self._pool(lane), run, make)

    def _pool(self, lane: Lane) -> ThreadPoolExecutor:
        pool = self._threads.get(lane)
        if pool is None:
            log.warning("a plugin is slow: passes that wait for it are made beside the others (%s)", lane.value)
            sys.setswitchinterval(_SWITCH_SECONDS)
            pool = ThreadPoolExecutor(THREADS[lane], thread_name_prefix=f"{THREAD_PREFIX}{lane.value}")
            self._threads[lane] = pool
        return pool

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """Passes under way."""
        return [task for tasks in self._at_work.values() for task in tasks]

    def close(self) -> None:
        """No pass begins any more."""
        self._closed = True
        for waiting in self._waiting.values():
            waiting.clear()

    def end(self) -> None:
        """When no pass is under way any more. A hook that still runs in a thread is not waited for."""
        for pool in self._threads.values():
            pool.shutdown(wait=False, cancel_futures=True)
