"""The event source on a server that refuses it for a while: kopf goes on where it was, and the operator never notices."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from kuberay.api.kinds import RAYCLUSTER, Kind
from kuberay.kube import connection
from kuberay.kube.connection import connect
from kuberay.operator import source
from kuberay.operator.source import KopfSource
from kuberay_testkit.apiserver import ApiServer, kubeconfig
from kuberay_testkit.builders import build_raycluster


class Refusing(ApiServer):
    """Answers requests with these tokens, or with any, by a refusal."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens: set[str] = set()
        self.code = 0
        self.refusals = 0

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        code = 401 if token in self.tokens else self.code
        if code:
            self.refusals += 1
            return web.json_response({"kind": "Status", "code": code, "message": "refused"}, status=code)
        return await super()._answer(request)


class World:
    def __init__(self, server: Refusing, file: Path) -> None:
        self.server = server
        self.token = file.parent / "token"
        self.seen: set[str] = set()
        self.source: KopfSource | None = None
        self._kubeconfig = file

    async def start(self) -> None:
        config = kubeconfig(self.server.url).replace("token: operator", "tokenFile: token")
        await asyncio.to_thread(self._kubeconfig.write_text, config)
        await self.give("operator")
        self.source = KopfSource(await connect(str(self._kubeconfig)), [RAYCLUSTER], [])
        await self.source.start(self._take)

    async def give(self, token: str) -> None:
        await asyncio.to_thread(self.token.write_text, token)

    def _take(self, _kind: Kind, event: str | None, body: dict[str, Any]) -> None:
        if event != "DELETED":
            self.seen.add(body["metadata"]["name"])

    async def sees(self, name: str, within: float = 10.0) -> None:
        """A RayCluster that is made now."""
        self.server.server.create(build_raycluster(name))
        await self.until(lambda: name in self.seen, within)

    async def until(self, holds: Callable[[], bool], within: float = 10.0) -> None:
        async with asyncio.timeout(within):
            while not holds():
                assert self.source is not None
                assert not self.source.failed.done(), self.source.failed.exception()
                await asyncio.sleep(0.02)


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(connection, "RENEW_EVERY", 0.0)
    monkeypatch.setattr(source, "RENEW_EVERY", 0.05)
    server = Refusing()
    async with server.running():
        world = World(server, tmp_path / "kubeconfig")
        await world.start()
        yield world
        assert world.source is not None
        await world.source.stop()


async def test_a_token_that_was_replaced(world: World) -> None:
    await world.sees("before")
    await world.give("another")
    world.server.tokens = {"operator"}
    world.server.server.cut_watches()
    await world.sees("after")


async def test_a_token_that_is_refused_until_there_is_another(world: World) -> None:
    await world.sees("before")
    world.server.tokens = {"operator"}
    world.server.server.cut_watches()
    await world.until(lambda: world.server.refusals >= 5)
    await world.give("another")
    await world.sees("after")


async def test_a_token_that_is_refused_and_then_good_again(world: World) -> None:
    """An authenticator that was away."""
    await world.sees("before")
    world.server.tokens = {"operator"}
    world.server.server.cut_watches()
    await world.until(lambda: world.server.refusals >= 5)
    world.server.tokens = set()
    await world.sees("after")


@pytest.mark.parametrize("code", [403, 503])
async def test_requests_that_are_refused_for_a_while(world: World, code: int) -> None:
    await world.sees("before")
    world.server.code = code
    world.server.server.cut_watches()
    await world.until(lambda: world.server.refusals >= 3)
    world.server.code = 0
    await world.sees("after", within=8.0)


def test_attempts_of_a_request_are_told_seldom(caplog: pytest.LogCaptureFixture) -> None:
    kopf_log = logging.getLogger("kopf._cogs.clients.watching")
    kopf_log.addFilter(source._SELDOM)
    for number in range(1, 200):
        kopf_log.error("Request attempt #%d failed; will retry: GET /apis/ray.io/v1/rayjobs -> refused", number)
    kopf_log.error("something else")
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert [level for level, _ in told] == ["WARNING", "WARNING", "WARNING", "ERROR"]
    assert told[-1][1] == "something else"
