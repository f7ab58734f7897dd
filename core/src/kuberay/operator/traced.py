"""Puts spans around what others do: requests to the API server, and calls of plugins' hooks. Only used when something traces."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from kuberay.kube.transport import Response, Transport
from kuberay.operator.tracing import Tracing
from kuberay.plugins.manager import Observer


class TracedTransport:
    """A `Transport` whose requests are spans, repetitions and waiting included. Watches are not: they last for minutes."""

    def __init__(self, transport: Transport, tracing: Tracing) -> None:
        self._transport = transport
        self._tracing = tracing

    async def request(self, method: str, path: str, **options: Any) -> Response:
        """See `Transport.request`."""
        with self._tracing.span("api request", {"http.request.method": method, "url.path": path}) as span:
            response = await self._transport.request(method, path, **options)
            span.note("http.response.status_code", response.status)
            if response.status >= 400:
                span.fail(f"HTTP {response.status}")
            return response

    def stream(
        self, path: str, *, params: Mapping[str, str] | None = None, idle_timeout: float = 70.0
    ) -> AbstractAsyncContextManager[tuple[int, AsyncIterator[bytes]]]:
        """See `Transport.stream`."""
        return self._transport.stream(path, params=params, idle_timeout=idle_timeout)

    async def close(self) -> None:
        await self._transport.close()


class TracedHooks:
    """An `Observer` of the plugin manager that tells another one, and makes a span of each call."""

    def __init__(self, observer: Observer, tracing: Tracing) -> None:
        self._observer = observer
        self._tracing = tracing

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        self._observer.hook_called(plugin, hook, seconds, failed)
        attributes = {"kuberay.plugin": plugin, "kuberay.hook": hook}
        self._tracing.past("hook", attributes, seconds, "the plugin failed" if failed else "")
