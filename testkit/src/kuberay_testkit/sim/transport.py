"""How requests travel to the simulated API server: they take time, meet the fault plan, and can be the last ones.

A `SimTransport` is one client process's connection. `crash_at` freezes that process at a chosen request boundary.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random

from kuberay.kube.transport import JSON, Response, TransportError

from kuberay_testkit.sim.faults import Rule
from kuberay_testkit.sim.paths import Subject, subject_of
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.status import APIError, internal, too_many
from kuberay_testkit.sim.watch import BOOKMARK, Watch

_TOLD_ONLY = ("events", "leases")


class SimTransport:
    """Implements `kuberay.kube.transport.Transport` over a `SimServer`."""

    def __init__(
        self,
        server: SimServer,
        *,
        client: str = "operator",
        latency: tuple[float, float] = (0.001, 0.004),
        crash_at: int | None = None,
    ) -> None:
        """*latency* is the range of seconds a request takes each way. *crash_at* is the number of the request boundary
        (two per request: before it is sent, after it took effect) at which nothing more ever comes back."""
        self.server = server
        self.client = client
        self.crash_at = crash_at
        self.boundaries = 0
        """Request boundaries passed so far."""
        self.writes: list[int] = []
        """Those at which a write had just taken effect; leases and events, which nothing follows from, are left out."""
        self.crashed = asyncio.Event()
        self.observe: Callable[[str, str, int, float, int, int], None] | None = None
        """Told of each request that was answered: method, path, status, seconds, bytes sent, bytes received."""
        self._latency = latency
        self._random = Random(f"{server.seed}/{client}")
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's own
        gate: Callable[[], None] | None = None,
    ) -> Response:
        if gate is not None:
            gate()
        if timeout is None:
            return await self._exchange(method, path, params or {}, body, content_type)
        try:
            async with asyncio.timeout(timeout) as deadline:
                return await self._exchange(method, path, params or {}, body, content_type)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise TransportError(f"{method} {path}: no answer within {timeout:g} s") from error

    async def _exchange(
        self, method: str, path: str, params: Mapping[str, str], body: bytes | None, content_type: str
    ) -> Response:
        begun = self.server.clock.elapsed()
        await self._boundary()
        await self._travel()
        await self._lost_when_crashed()
        server = self.server
        subject = subject_of(method, path, params, content_type, self.client)
        rule = server.faults.for_request(subject, server.clock.elapsed())
        if rule is None:
            response = server.handle(
                method, path, params=params, body=body, content_type=content_type, client=self.client
            )
        else:
            early = await self._before(rule, subject, params)
            response = early or server.handle(
                method,
                path,
                params=params,
                body=body,
                content_type=content_type,
                client=self.client,
                fault=rule.action,
                unanswered=rule.action == "timeout_after",
            )
            if early is None:
                response = await self._after(rule, response)
        if method != "GET" and subject.resource not in _TOLD_ONLY:
            self.writes.append(self.boundaries + 1)
        await self._boundary()
        await self._travel()
        if self.observe is not None:
            took = server.clock.elapsed() - begun
            self.observe(method, path, response.status, took, len(body or b""), len(response.body))
        return response

    async def _before(self, rule: Rule, subject: Subject, params: Mapping[str, str]) -> Response | None:
        """What a fault does before the request takes effect; None: it does take effect."""
        error: APIError
        match rule.action:
            case "conflict":
                message = "the object has been modified; please apply your changes to the latest version and try again"
                error = APIError(409, "Conflict", f'Operation cannot be fulfilled on "{subject.name}": {message}')
            case "throttle":
                error = too_many(max(1, round(rule.seconds)))
            case "refuse":
                error = APIError(rule.code, rule.reason, rule.message)
            case "error_before":
                error = internal("etcdserver: leader changed")
            case "timeout_before":
                self.server.record(subject, params, 0, rule.action)
                await asyncio.sleep(rule.seconds)
                raise TransportError("connection refused")
            case _:
                if rule.action == "slow":
                    await asyncio.sleep(self._random.random() * rule.seconds)
                return None
        self.server.record(subject, params, error.code, rule.action)
        return error.response()

    async def _after(self, rule: Rule, response: Response) -> Response:
        """What a fault does to the answer of a request that took effect."""
        match rule.action:
            case "error_after":
                return internal("etcdserver: request timed out").response()
            case "timeout_after":
                await asyncio.sleep(rule.seconds)
                raise TransportError("connection reset by peer")
            case "slow":
                await asyncio.sleep(self._random.random() * rule.seconds)
        return response

    async def _travel(self) -> None:
        low, high = self._latency
        await asyncio.sleep(low + (high - low) * self._random.random() if high else 0)

    async def _boundary(self) -> None:
        """Where a crash can happen. From then on nothing is sent and nothing comes back."""
        if self._closed:
            raise TransportError("the transport is closed")
        if self.crashed.is_set():
            raise TransportError("the process was killed")
        self.boundaries += 1
        if self.crash_at is not None and self.boundaries >= self.crash_at:
            self.crash()
            await self._never()

    async def _lost_when_crashed(self) -> None:
        """A request that was under way when its process was killed arrives or not: both happen."""
        if self.crashed.is_set() and self._random.random() < 0.5:
            await self._never()

    @staticmethod
    async def _never() -> None:
        await asyncio.get_running_loop().create_future()

    def crash(self) -> None:
        """Kill the process behind this transport now; whoever runs it sees `crashed` and cancels its tasks."""
        self.crashed.set()

    def stream(
        self, path: str, *, params: Mapping[str, str] | None = None, idle_timeout: float = 70.0
    ) -> AbstractAsyncContextManager[tuple[int, AsyncIterator[bytes]]]:
        return self._stream(path, dict(params or {}), idle_timeout)

    @asynccontextmanager
    async def _stream(
        self, path: str, params: Mapping[str, str], idle_timeout: float
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        await self._boundary()
        await self._travel()
        server = self.server
        subject = subject_of("GET", path, {**params, "watch": "1"}, JSON, self.client)
        rule = server.faults.for_request(subject, server.clock.elapsed())
        early = await self._before(rule, subject, params) if rule is not None else None
        if early is not None:
            yield early.status, _once(early.body)
            return
        status, source = server.open_watch(path, params, self.client, rule.action if rule else "")
        if isinstance(source, bytes):
            yield status, _once(source)
            return
        lines = self._deliver(source, subject, idle_timeout)
        try:
            yield status, lines
        finally:
            await lines.aclose()
            server.close_watch(source)

    async def _deliver(self, watch: Watch, subject: Subject, idle_timeout: float) -> AsyncGenerator[bytes, None]:
        source = watch.lines(idle_timeout)
        try:
            async for line in source:
                if self.crashed.is_set():
                    await self._never()
                rule = self.server.faults.for_event(subject, self.server.clock.elapsed())
                if rule is not None:
                    match rule.action:
                        case "delay_event":
                            await asyncio.sleep(rule.seconds)
                        case "repeat_event":
                            self.server.steps.events += 1
                            yield line
                        case "close_watch":
                            return
                        case "silence_watch":
                            await asyncio.sleep(idle_timeout)
                            raise TransportError(f"the watch was silent for {idle_timeout:g} s")
                        case "expire_watch":
                            self.server.compact()
                            raise TransportError("connection reset by peer")
                        case _:
                            raise TransportError("connection reset by peer")
                if not line.startswith(BOOKMARK):
                    self.server.steps.events += 1
                yield line
        finally:
            await source.aclose()

    async def close(self) -> None:
        self._closed = True


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body
