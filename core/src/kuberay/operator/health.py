"""What probes are told: alive while the loop turns and the store is fed, ready once everything is synced.

``/metrics`` has a listener of its own, because KubeRay's shipped manifests probe that port (operator.md 6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiohttp import web

from kuberay.operator.metrics import Metrics

LAG_LIMIT = 10.0
"""Seconds the event loop may be late before the process counts as hung."""


class Health:
    """Answers for `/livez`, `/healthz` and `/readyz`. Each check returns a sentence, or an empty string when fine."""

    def __init__(self, live: Callable[[], str], ready: Callable[[], str]) -> None:
        self._live = live
        self._ready = ready
        self._lag = 0.0

    async def run(self) -> None:
        """Measure the loop's lag for ever."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            await asyncio.sleep(1.0)
            self._lag = loop.time() - started - 1.0

    def livez(self, _request: web.Request) -> web.Response:
        problem = self._live()
        if self._lag > LAG_LIMIT:
            problem = f"the event loop is {self._lag:.1f} s late"
        return _answer(problem)

    def readyz(self, _request: web.Request) -> web.Response:
        return _answer(self._ready())


def _answer(problem: str) -> web.Response:
    return web.Response(text=problem or "ok", status=503 if problem else 200)


def parse_address(address: str) -> tuple[str | None, int] | None:
    """``:8080``, ``127.0.0.1:0`` or ``0`` (None: off). Raises ValueError with one sentence."""
    if address in ("0", ""):
        return None
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not a listen address; write host:port, :port, or 0 for none")
    return host.strip("[]") or None, int(port)


class Servers:
    """The HTTP listeners; `start` raises OSError when a port is taken."""

    def __init__(self) -> None:
        self._runners: list[web.AppRunner] = []

    async def start(self, metrics_addr: str, probe_addr: str, metrics: Metrics, health: Health) -> None:
        async def metrics_page(_request: web.Request) -> web.Response:
            return web.Response(body=metrics.exposition(), content_type="text/plain", charset="utf-8")

        async def livez(request: web.Request) -> web.Response:
            return health.livez(request)

        async def readyz(request: web.Request) -> web.Response:
            return health.readyz(request)

        pages: dict[str, list[web.RouteDef]] = {metrics_addr: [web.get("/metrics", metrics_page)]}
        pages.setdefault(probe_addr, []).extend(
            [web.get("/livez", livez), web.get("/healthz", livez), web.get("/readyz", readyz)]
        )
        for address, routes in pages.items():
            where = parse_address(address)
            if where is None:
                continue
            app = web.Application()
            app.add_routes(routes)
            runner = web.AppRunner(app, access_log=None, handle_signals=False)
            await runner.setup()
            await web.TCPSite(runner, where[0], where[1]).start()
            self._runners.append(runner)

    async def stop(self) -> None:
        for runner in self._runners:
            await runner.cleanup()
