"""The transport over real sockets: credentials, throttling, time-outs, and watch streams in any chunks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from kuberay.kube.connection import Connection
from kuberay.kube.errors import NotLeadingError
from kuberay.kube.http import HttpTransport
from kuberay.kube.limits import RateLimit
from kuberay.kube.transport import APPLY_PATCH, TransportError

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler, **options: Any) -> AsyncIterator[HttpTransport]:
    """A transport to a server that answers everything with *handler*."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    changes = options.pop("connection", {})
    if options.pop("named", False):
        changes["server"] = f"http://localhost:{port}"
    transport = HttpTransport(connection(port, **changes), user_agent="test/1", **options)
    try:
        yield transport
    finally:
        await transport.close()
        await runner.cleanup()


def connection(port: int, **changes: Any) -> Connection:
    async def no_authorization() -> str | None:
        return None

    values: dict[str, Any] = {
        "server": f"http://127.0.0.1:{port}",
        "ca_path": None,
        "insecure": False,
        "cert_path": None,
        "key_path": None,
        "namespace": "",
        "in_cluster": False,
        "authorization": no_authorization,
        "renew": no_authorization,
    }
    return Connection(**{**values, **changes})


class Observer:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.seconds: list[float] = []

    def answered(self, method: str, path: str, code: int, seconds: float, sent: int, received: int) -> None:
        self.told.append(f"{method} {path} {code}, {sent} bytes sent, {received} received")
        self.seconds.append(seconds)

    def unanswered(self, method: str) -> None:
        self.told.append(f"{method} without an answer")

    def repeated(self, method: str, code: int) -> None:
        self.told.append(f"{method} again after {code}")

    def waited(self, method: str, seconds: float) -> None:
        self.told.append(f"{method} waited")
        self.seconds.append(seconds)

    def resolved(self, seconds: float) -> None:
        self.told.append("looked up")
        self.seconds.append(seconds)


async def test_an_observer_is_told_of_waits_repeats_look_ups_and_lost_answers() -> None:
    count = 0

    async def handler(request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        if count == 1:
            return web.Response(status=429, headers={"Retry-After": "0"})
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    observer = Observer()
    async with serving(handler, observer=observer, limit=RateLimit(1000, 1000), named=True) as transport:
        with pytest.raises(TransportError):
            await transport.request("DELETE", "/a", body=b"{}")
    assert observer.told == [
        "DELETE waited",
        "looked up",
        "DELETE /a 429, 2 bytes sent, 0 received",
        "DELETE again after 429",
        "DELETE waited",
        "DELETE without an answer",
    ]
    assert all(0 <= seconds < 30 for seconds in observer.seconds)


async def test_a_request_arrives_as_it_was_meant() -> None:
    seen: dict[str, Any] = {}
    tokens = iter(["Bearer one", "Bearer two"])

    async def handler(request: web.Request) -> web.Response:
        seen.update(method=request.method, path=request.path_qs, body=await request.read())
        seen.update({name: request.headers.get(name) for name in ("Authorization", "Content-Type", "User-Agent")})
        return web.Response(status=201, body=b'{"ok":1}')

    async def authorization() -> str | None:
        return next(tokens)

    observer = Observer()
    async with serving(
        handler,
        connection={"authorization": authorization},
        observer=observer,
    ) as transport:
        answer = await transport.request("PATCH", "/a/b", params={"x": "1"}, body=b"{}", content_type=APPLY_PATCH)
        assert (answer.status, answer.body, answer.headers) == (201, b'{"ok":1}', {})
        assert seen == {
            "method": "PATCH",
            "path": "/a/b?x=1",
            "body": b"{}",
            "Authorization": "Bearer one",
            "Content-Type": APPLY_PATCH,
            "User-Agent": "test/1",
        }
        await transport.request("GET", "/a")
        assert seen["Authorization"] == "Bearer two", "rotated tokens are read again"
    assert observer.told == ["PATCH /a/b 201, 2 bytes sent, 8 received", "GET /a 201, 0 bytes sent, 8 received"]


@pytest.mark.parametrize(("refusals", "status", "asked"), [(0, 200, 1), (3, 200, 4), (50, 429, 5)])
async def test_throttled_requests_are_repeated_when_the_server_says_so(refusals: int, status: int, asked: int) -> None:
    count = 0

    async def handler(_request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        if count <= refusals:
            return web.Response(status=429, headers={"Retry-After": "0"})
        return web.Response(text="fine")

    async with serving(handler) as transport:
        assert (await transport.request("GET", "/")).status == status
    assert count == asked


async def test_a_retry_after_that_is_no_number_is_one_second() -> None:
    count = 0

    async def handler(_request: web.Request) -> web.Response:
        nonlocal count
        count += 1
        headers = {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}
        return web.Response(status=429, headers=headers) if count == 1 else web.Response()

    async with serving(handler) as transport:
        assert (await transport.request("GET", "/")).status == 200


async def test_errors_are_answers_and_only_no_answer_is_an_exception() -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(status=503, text="not now", headers={"Retry-After": "7"})

    async with serving(handler) as transport:
        answer = await transport.request("GET", "/")
        assert (answer.status, answer.body, answer.headers) == (503, b"not now", {"retry-after": "7"})


async def test_a_late_answer_is_no_answer() -> None:
    async def handler(_request: web.Request) -> web.Response:
        await asyncio.sleep(0.5)
        return web.Response()

    async with serving(handler) as transport:
        with pytest.raises(TransportError, match="GET /x: TimeoutError"):
            await transport.request("GET", "/x", timeout=0.05)
    async with serving(handler, request_timeout=0.05) as transport:
        with pytest.raises(TransportError, match="GET /x: TimeoutError"):
            await transport.request("GET", "/x")


async def test_nobody_there() -> None:
    dead = HttpTransport(connection(1), user_agent="test/1")
    try:
        with pytest.raises(TransportError, match="GET /x: ClientConnectorError"):
            await dead.request("GET", "/x")
        with pytest.raises(TransportError, match="watch /x: ClientConnectorError"):
            async with dead.stream("/x"):
                pass
    finally:
        await dead.close()


def streaming(*chunks: bytes, status: int = 200, pause: float = 0.0, cut: bool = False) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=status)
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
            await asyncio.sleep(0)
        await asyncio.sleep(pause)
        if cut and request.transport is not None:
            request.transport.abort()
        return response

    return handler


async def read(transport: HttpTransport, **options: Any) -> tuple[int, list[bytes]]:
    async with transport.stream("/w", params={"watch": "1"}, **options) as (status, lines):
        return status, [line async for line in lines]


LONG = b"x" * 3_000_000
"""Longer than any buffer."""


@pytest.mark.parametrize(
    ("chunks", "lines"),
    [
        ([], []),
        ([b"a\nb\n"], [b"a", b"b"]),
        ([b"a", b"b\nc", b"\n"], [b"ab", b"c"]),
        ([b"a\n\n\nb"], [b"a", b"b"]),
        ([b"last without newline"], [b"last without newline"]),
        ([LONG[:1_000_000], LONG[1_000_000:] + b"\n", b"b\n"], [LONG, b"b"]),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_streams_are_split_at_newlines_whatever_the_chunks(chunks: list[bytes], lines: list[bytes]) -> None:
    async with serving(streaming(*chunks)) as transport:
        assert await read(transport) == (200, lines)


async def test_a_refused_watch_gives_its_body() -> None:
    async with serving(streaming(b'{"code":410}', status=410)) as transport:
        assert await read(transport) == (410, [b'{"code":410}'])


async def test_a_silent_watch_is_cut() -> None:
    async with serving(streaming(b"a\n", pause=1.0)) as transport:
        with pytest.raises(TransportError, match=r"watch /w: .*Timeout"):
            await read(transport, idle_timeout=0.05)


async def test_a_broken_watch_is_told() -> None:
    async with serving(streaming(b"a\n", cut=True)) as transport:
        with pytest.raises(TransportError, match="watch /w: "):
            await read(transport)


async def test_a_refused_token_is_replaced_and_the_request_sent_again() -> None:
    held, newest = ["Bearer old"], "Bearer new"
    seen: list[tuple[str, str | None]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append((request.method, request.headers.get("Authorization")))
        return web.Response(status=200 if request.headers.get("Authorization") == "Bearer new" else 401)

    async def authorization() -> str | None:
        return held[0]

    async def renew() -> str | None:
        held[0] = newest
        return held[0]

    credentials = {"authorization": authorization, "renew": renew}
    async with serving(handler, connection=credentials) as transport:
        assert (await transport.request("POST", "/a", body=b"{}")).status == 200
        assert seen == [("POST", "Bearer old"), ("POST", "Bearer new")]
        held[0], newest = "Bearer old", "Bearer old"
        del seen[:]
        assert (await transport.request("POST", "/a", body=b"{}")).status == 401
        assert seen == [("POST", "Bearer old")], "the same token is not sent twice"


async def test_a_watch_whose_token_is_refused_has_another_one_next_time() -> None:
    held = ["Bearer old"]

    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=200 if request.headers.get("Authorization") == "Bearer new" else 401)

    async def authorization() -> str | None:
        return held[0]

    async def renew() -> str | None:
        held[0] = "Bearer new"
        return held[0]

    async with serving(handler, connection={"authorization": authorization, "renew": renew}) as transport:
        async with transport.stream("/a") as (status, _):
            assert status == 401
        async with transport.stream("/a") as (status, _):
            assert status == 200


async def test_the_gate_is_asked_after_all_waiting() -> None:
    """A process that waits for its turn may lose it meanwhile."""
    answers = iter([429, 200])
    sent: list[str] = []
    open_ = [True]

    async def handler(request: web.Request) -> web.Response:
        sent.append(request.path)
        open_[0] = False
        return web.Response(status=next(answers), headers={"Retry-After": "0"})

    def gate() -> None:
        if not open_[0]:
            raise NotLeadingError

    async with serving(handler) as transport:
        with pytest.raises(NotLeadingError):
            await transport.request("POST", "/a", body=b"{}", gate=gate)
        assert sent == ["/a"]
