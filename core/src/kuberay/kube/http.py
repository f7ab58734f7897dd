"""The transport over the network: aiohttp, keep-alive connections, bytes in and out.

Retries of throttled requests happen here (the server said when), and one with a newer token where the old one is refused;
every other error is the caller's to judge.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from socket import AddressFamily
from typing import Protocol
from urllib.parse import urlencode

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from kuberay.kube.connection import Connection
from kuberay.kube.limits import RateLimit
from kuberay.kube.transport import JSON, Response, TransportError

_THROTTLE_TRIES = 5


class RequestObserver(Protocol):
    """Is told of every request, but not of watches; the operator's metrics implement it. Times are in seconds, sizes in bytes."""

    def answered(self, method: str, path: str, code: int, seconds: float, sent: int, received: int) -> None: ...

    def unanswered(self, method: str) -> None: ...

    def repeated(self, method: str, code: int) -> None:
        """An answer with that code leads to the same request again."""

    def waited(self, method: str, seconds: float) -> None:
        """How long the limit on requests held one back."""

    def resolved(self, seconds: float) -> None:
        """How long it took to look the server's name up."""


class HttpTransport:
    """A `kuberay.kube.transport.Transport` for one API server. Create it inside the event loop that will use it."""

    def __init__(
        self,
        connection: Connection,
        *,
        user_agent: str,
        limit: RateLimit | None = None,
        request_timeout: float = 30.0,
        connections: int = 64,
        observer: RequestObserver | None = None,
    ) -> None:
        self._connection = connection
        self._limit = limit
        self._timeout = request_timeout
        self._observer = observer
        self._resolver = _TimedResolver(observer) if observer is not None else None
        ssl_context = connection.ssl_context()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=connections,
                ssl=ssl_context if ssl_context else True,
                ttl_dns_cache=60,
                resolver=self._resolver,
            ),
            headers={"User-Agent": user_agent, "Accept": JSON},
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers={"Content-Type"},
            timeout=aiohttp.ClientTimeout(total=None),
            read_bufsize=2**20,
        )

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
        """See `Transport.request`. 429 answers are repeated up to five times after the server's ``Retry-After``."""
        send = partial(self._once, method, path, params, body, content_type, timeout or self._timeout, gate)
        for attempt in range(_THROTTLE_TRIES):
            response = await self._known(send)
            if response.status != 429 or attempt == _THROTTLE_TRIES - 1:
                return response
            if self._observer is not None:
                self._observer.repeated(method, response.status)
            await asyncio.sleep(_seconds(response.headers.get("retry-after", "")))
        raise AssertionError("unreachable")

    async def _known(self, send: Callable[[str | None], Awaitable[Response]]) -> Response:
        """One request, and a second one if the first was refused for its token and there is another one by now."""
        authorization = await self._connection.authorization()
        response = await send(authorization)
        if response.status == 401:
            renewed = await self._connection.renew()
            if renewed != authorization:
                return await send(renewed)
        return response

    async def _once(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        seconds: float,
        gate: Callable[[], None] | None,
        authorization: str | None,
    ) -> Response:
        observer, loop = self._observer, asyncio.get_running_loop()
        if self._limit is not None and self._limit.on:
            asked = loop.time()
            await self._limit.take()
            if observer is not None:
                observer.waited(method, loop.time() - asked)
        headers = {"Authorization": authorization} if authorization else {}
        if body is not None:
            headers["Content-Type"] = content_type
        if gate is not None:
            gate()
        began = loop.time()
        try:
            async with self._session.request(
                method,
                self._url(path, params),
                data=body,
                headers=headers,
                timeout=_timeout(seconds),
            ) as answer:
                data = await answer.read()
                if observer is not None:
                    seconds = loop.time() - began
                    observer.answered(method, path, answer.status, seconds, len(body or b""), len(data))
                retry_after = answer.headers.get("Retry-After")
                return Response(answer.status, data, {"retry-after": retry_after} if retry_after else {})
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            if observer is not None:
                observer.unanswered(method)
            raise TransportError(f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error

    @asynccontextmanager
    async def stream(
        self, path: str, *, params: Mapping[str, str] | None = None, idle_timeout: float = 70.0
    ) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        """See `Transport.stream`."""
        try:
            authorization = await self._connection.authorization()
            async with self._session.get(
                self._url(path, params),
                headers={"Authorization": authorization} if authorization else {},
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=idle_timeout),
            ) as answer:
                if answer.status == 401:
                    # For the next try, which the caller makes.
                    await self._connection.renew()
                yield answer.status, _lines(answer)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransportError(f"watch {path}: {type(error).__name__} {error}".rstrip()) from error

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        """Already encoded: names of Kubernetes objects need no quoting, and parsing each URL anew costs more than TLS."""
        query = f"?{_query(tuple(params.items()))}" if params else ""
        return URL(f"{self._connection.server}{path}{query}", encoded=True)

    async def close(self) -> None:
        await self._session.close()
        if self._resolver is not None:
            await self._resolver.close()


class _TimedResolver(AbstractResolver):
    """Looks names up as aiohttp does, and tells how long that took; what aiohttp still knows is not looked up."""

    def __init__(self, observer: RequestObserver) -> None:
        self._observer = observer
        self._resolver = aiohttp.DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: AddressFamily = AddressFamily.AF_INET
    ) -> list[ResolveResult]:
        began = asyncio.get_running_loop().time()
        try:
            return await self._resolver.resolve(host, port, family)
        finally:
            self._observer.resolved(asyncio.get_running_loop().time() - began)

    async def close(self) -> None:
        await self._resolver.close()


def _seconds(retry_after: str) -> float:
    """How long to wait; a proxy's date or nonsense counts as one second, more than a minute as one minute."""
    try:
        return min(max(float(retry_after), 0.0), 60.0)
    except ValueError:
        return 1.0


@lru_cache(maxsize=256)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    return urlencode(params)


@lru_cache(maxsize=16)
def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds)


async def _lines(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Split the body at newlines without a limit on a line's length (objects may be larger than any buffer)."""
    rest = b""
    async for chunk in answer.content.iter_any():
        lines = (rest + chunk if rest else chunk).split(b"\n")
        rest = lines.pop()
        for line in lines:
            if line:
                yield line
    if rest:
        yield rest
