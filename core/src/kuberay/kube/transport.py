"""The one door to the API server: requests and watch streams as bytes. Everything above it is the same in tests.

`kuberay.kube.http` implements it with aiohttp and the Kubernetes client's configuration; the test kit with a simulated
API server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Response:
    """Status code, body bytes (JSON) and the headers that matter (``Retry-After``), names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class TransportError(Exception):
    """The request got no answer: connection refused, reset, timed out. Whether it took effect is unknown."""


class Transport(Protocol):
    """Implementations are safe to use from many tasks of one event loop."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float | None = None,  # noqa: ASYNC109
        gate: Callable[[], None] | None = None,
    ) -> Response:
        """One request. *timeout* in seconds. Any HTTP status is a Response; no answer is a `TransportError`. *gate* is called
        each time right before something is sent, after all waiting; what it raises ends the request."""
        ...

    def stream(
        self, path: str, *, params: Mapping[str, str] | None = None, idle_timeout: float = 70.0
    ) -> AbstractAsyncContextManager[tuple[int, AsyncIterator[bytes]]]:
        """A watch. Yields the HTTP status and an iterator of lines (one JSON watch event each; for a status other than
        200 the body). Silence longer than *idle_timeout* seconds, or a broken connection, is a `TransportError`."""
        ...

    async def close(self) -> None: ...
