"""A whole simulated cluster to run operators in: server, controllers and kubelet as tasks, processes that can be killed.

Invariants given to `SimWorld.always` are checked after every commit; the first broken one fails the run.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self

from kuberay.api import kinds

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.gc import GarbageCollector
from kuberay_testkit.sim.jobs import JobController
from kuberay_testkit.sim.kubelet import Behave, SimKubelet
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.transport import SimTransport

Main = Callable[[SimTransport], Coroutine[Any, Any, Any]]
"""An operator: runs until cancelled, talks only through the transport."""

Invariant = Callable[[SimServer, Change], None]
"""Raises ``AssertionError`` when the cluster is in a state it must never be in."""

_process: ContextVar[Process | None] = ContextVar("process", default=None)


class Process:
    """One running operator. Every task it starts, directly or not, belongs to it and dies with it."""

    def __init__(self, world: SimWorld, main: Main, transport: SimTransport) -> None:
        self.transport = transport
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._world = world
        token = _process.set(self)
        try:
            self.main: asyncio.Task[Any] = asyncio.create_task(main(transport), name=transport.client)
        finally:
            _process.reset(token)

    async def kill(self) -> None:
        """As SIGKILL: nothing it does from now on has any effect. Returns when all its tasks have ended."""
        self.transport.crash()
        await self._end()

    async def stop(self) -> None:
        """As SIGTERM: cancels the main task and waits for it, so that it can clean up; then ends what is left."""
        self.main.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self.main
        await self._end()

    async def wait_crash(self) -> bool:
        """Until the transport's ``crash_at`` boundary (True) or the end of the main task (False); tasks are ended."""
        crashed = asyncio.ensure_future(self.transport.crashed.wait())
        await asyncio.wait({crashed, self.main}, return_when=asyncio.FIRST_COMPLETED)
        crashed.cancel()
        if self.transport.crashed.is_set():
            await self._end()
            return True
        self.main.result()
        return False

    async def _end(self) -> None:
        await self.transport.close()
        for _ in range(10):
            left = [task for task in self.tasks if not task.done()]
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=5.0)
        else:
            raise RuntimeError(f"tasks refuse to end: {[task.get_name() for task in left]}")


class SimWorld:
    """``async with SimWorld(seed=1) as world``: a cluster in which pods start, Jobs run and garbage goes."""

    def __init__(
        self,
        *,
        seed: int = 0,
        server: SimServer | None = None,
        faults: Faults | None = None,
        pod_grace: float = 0.0,
        pod_delay: tuple[float, float] = (0.5, 2.0),
        behave: Behave | None = None,
        latency: tuple[float, float] = (0.001, 0.004),
    ) -> None:
        self.server = server or SimServer(seed=seed, faults=faults, pod_grace=pod_grace)
        self.kubelet = SimKubelet(self.server, delay=pod_delay, behave=behave)
        self.gc = GarbageCollector(self.server)
        self.jobs = JobController(self.server)
        self.latency = latency
        self.processes: list[Process] = []
        self._controllers: list[Controller] = [self.kubelet, self.gc, self.jobs]
        self._tasks: list[asyncio.Task[None]] = []
        self._broken: BaseException | None = None
        self._invariants: list[Invariant] = []
        self._commits = 0
        self._last_commit = 0.0
        self._stop = self.server.store.listen(self._committed)

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_task_factory(_make_task)  # type: ignore[arg-type]
        self._tasks = [asyncio.create_task(each.run(), name=type(each).__name__) for each in self._controllers]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self.processes:
            await process.kill()
        for task in self._tasks:
            task.cancel()
        results = await asyncio.gather(*self._tasks, return_exceptions=True)
        asyncio.get_running_loop().set_task_factory(None)
        self._stop()
        for controller in self._controllers:
            controller.close()
        if error is None:
            self.verify()
            for result in results:
                if isinstance(result, Exception):
                    raise result

    def add(self, *controllers: Controller) -> None:
        """Run more controllers beside the cluster's own, from now on."""
        for each in controllers:
            self._controllers.append(each)
            self.beside(each.run(), name=type(each).__name__)

    def beside(self, coroutine: Coroutine[Any, Any, None], *, name: str | None = None) -> None:
        """Run *coroutine* until the world ends, which fails if it does."""
        self._tasks.append(asyncio.create_task(coroutine, name=name))

    # -- operators

    def transport(self, client: str = "operator", *, crash_at: int | None = None) -> SimTransport:
        """A connection of its own for one process."""
        return SimTransport(self.server, client=client, latency=self.latency, crash_at=crash_at)

    def start(self, main: Main, *, client: str = "operator", crash_at: int | None = None) -> Process:
        """Run an operator as a process; *crash_at* kills its transport at that request boundary."""
        process = Process(self, main, self.transport(client, crash_at=crash_at))
        self.processes.append(process)
        return process

    # -- invariants and waiting

    def always(self, invariant: Invariant) -> None:
        """Check *invariant* after every commit."""
        self._invariants.append(invariant)

    def _committed(self, change: Change) -> None:
        if change.stored.key.kind not in (kinds.LEASE, kinds.EVENT):
            self._commits += 1
            self._last_commit = self.server.clock.elapsed()
        if self._broken is None:
            for invariant in self._invariants:
                try:
                    invariant(self.server, change)
                except AssertionError as error:
                    error.add_note(f"after {change.type} of {change.stored.key} at {self.server.clock.elapsed():.3f} s")
                    self._broken = error

    def broken(self, error: AssertionError) -> None:
        """Something happened that must never happen, seen elsewhere than at a commit."""
        if self._broken is None:
            error.add_note(f"at {self.server.clock.elapsed():.3f} s")
            self._broken = error

    def verify(self) -> None:
        """Raise the first broken invariant, a dead controller's error, or an operator's that ended by itself."""
        if self._broken is not None:
            raise self._broken
        for task in [*self._tasks, *(process.main for process in self.processes)]:
            if task.done() and not task.cancelled() and task.exception() is not None:
                raise RuntimeError(f"{task.get_name()} ended with an error") from task.exception()

    async def until(
        self,
        holds: Callable[[], bool | Awaitable[bool]],
        *,
        within: float = 600.0,
        every: float = 0.5,
        what: str = "",
    ) -> None:
        """Let time pass until *holds*; after *within* virtual seconds raise ``AssertionError`` saying *what* did not."""
        begun = self.server.clock.elapsed()
        while True:
            self.verify()
            answer = holds()
            if not isinstance(answer, bool):
                answer = await answer
            if answer:
                return
            if self.server.clock.elapsed() - begun >= within:
                text = what or getattr(holds, "__name__", "the condition")
                raise AssertionError(f"{text} did not come true within {within:g} virtual seconds")
            await asyncio.sleep(every)

    async def rest(self, *, quiet: float = 30.0, within: float = 3600.0) -> None:
        """Let time pass until nothing but Leases and Events was written for *quiet* seconds."""
        begun = self.server.clock.elapsed()
        while True:
            self.verify()
            now = self.server.clock.elapsed()
            idle = now - max(self._last_commit, begun)
            if idle >= quiet - 1e-6:
                return
            if now - begun >= within:
                raise AssertionError(f"the cluster did not come to rest within {within:g} virtual seconds")
            await asyncio.sleep(max(quiet - idle, 0.01))

    async def pass_time(self, seconds: float) -> None:
        """Let *seconds* pass, then `verify`."""
        await asyncio.sleep(seconds)
        self.verify()


def _make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
) -> asyncio.Task[Any]:
    """Task factory: a task belongs to the process whose context it is made in."""
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    process = _process.get()
    if process is not None:
        process.tasks[task] = None
        task.add_done_callback(lambda done: process.tasks.pop(done, None))
    return task
