"""A server for a played dashboard, which each file plays in its way, and a client that asks it.

Keeps pytest-asyncio from making an event loop of its own that nobody closes. It asks asyncio for the loop to restore after each test; on Python 3.11 the first question makes one, and the warning
about it fails the run. Once a loop has been set, even to none, nothing is made.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kuberay.ray.http import HttpDashboardClient

from core.tests.ray.played import Played

asyncio.set_event_loop(None)


@pytest.fixture
async def server(played: Played) -> AsyncIterator[TestServer]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", played.handle)
    server = TestServer(app)
    await server.start_server()
    yield server
    await server.close()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as opened:
        yield opened


@pytest.fixture
def client(session: aiohttp.ClientSession) -> HttpDashboardClient:
    return HttpDashboardClient(session)
