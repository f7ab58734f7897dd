"""Connections to heads: services are looked up by absolute names, and nothing that hangs takes a place from others."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from kuberay.ray.connections import HeadResolver, head_connector


@pytest.mark.parametrize(
    ("host", "domain", "looked_up"),
    [
        ("raycluster-head-svc.ns.svc.cluster.local", "cluster.local", "raycluster-head-svc.ns.svc.cluster.local."),
        ("raycluster-head-svc.ns.svc.example.org", "example.org.", "raycluster-head-svc.ns.svc.example.org."),
        ("kubernetes.default.svc", "cluster.local", "kubernetes.default.svc"),
        ("mycluster.local", "cluster.local", "mycluster.local"),
    ],
)
async def test_only_names_of_the_clusters_domain_are_absolute(
    host: str, domain: str, looked_up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def resolve(_self: Any, host: str, port: int = 0, family: Any = None) -> list[Any]:
        asked.append(host)
        return []

    monkeypatch.setattr(aiohttp.AsyncResolver, "resolve", resolve)
    resolver = HeadResolver(domain)
    await resolver.resolve(host, 8265)
    await resolver.close()
    assert asked == [looked_up]


async def test_hundreds_that_hang_leave_room_for_another() -> None:
    """RJ-08"""
    waiting = asyncio.Semaphore(0)
    over = asyncio.Event()

    async def answer(request: web.BaseRequest) -> web.Response:
        if request.path == "/hang":
            waiting.release()
            await over.wait()
        return web.Response(text="here")

    server = await asyncio.get_running_loop().create_server(web.Server(answer), "127.0.0.1", 0, backlog=512)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with aiohttp.ClientSession(connector=head_connector("cluster.local")) as session:

        async def ask(path: str) -> str:
            async with session.get(url + path) as response:
                return await response.text()

        hanging = [asyncio.create_task(ask("/hang")) for _ in range(200)]
        for _ in hanging:
            await waiting.acquire()
        assert await ask("/") == "here"
        over.set()
        assert await asyncio.gather(*hanging) == ["here"] * 200
    server.close()
