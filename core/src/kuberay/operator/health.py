"""What probes are told: alive while the loop turns and the store is fed, ready once everything is synced; and why not.

``/metrics`` has a listener of its own, because KubeRay's shipped manifests probe that port (operator.md 6).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson
from aiohttp import web

from kuberay.operator.listen import parse_address
from kuberay.operator.metrics import Metrics

LAG_LIMIT = 10.0
"""Seconds the event loop may be late before the process counts as hung."""

Check = Callable[[], str]
"""A sentence that says what is wrong; empty when nothing is."""


class Health:
    """Answers for ``/livez``, ``/healthz`` and ``/readyz``: 200 while all checks pass, else 503 and what is wrong.

    As with Kubernetes' own components ``?verbose`` lists the checks, ``?exclude=<check>`` leaves one out, and
    ``/readyz/<check>`` asks for one.
    """

    def __init__(self, live: Check, ready: Check, measured: Callable[[float], None] | None = None) -> None:
        """*measured* is told how late the event loop was, in seconds, once a second."""
        self._live: dict[str, Check] = {"ping": str, "event-loop": self._late, "full-lists": live}
        self._ready: dict[str, Check] = {"ping": str, "first-lists": ready}
        self._measured = measured
        self._lag = 0.0

    def add_ready(self, name: str, check: Check) -> None:
        """One more that must pass before the process is ready."""
        self._ready[name] = check

    async def run(self) -> None:
        """Measure the loop's lag for ever."""
        loop = asyncio.get_running_loop()
        while True:
            started = loop.time()
            await asyncio.sleep(1.0)
            self._lag = loop.time() - started - 1.0
            if self._measured is not None:
                self._measured(max(self._lag, 0.0))

    def _late(self) -> str:
        return f"the event loop is {self._lag:.1f} s late" if self._lag > LAG_LIMIT else ""

    def livez(self, request: web.Request | None = None) -> web.Response:
        return _answer("livez", self._live, request)

    def readyz(self, request: web.Request | None = None) -> web.Response:
        return _answer("readyz", self._ready, request)


def _answer(page: str, checks: Mapping[str, Check], request: web.Request | None) -> web.Response:
    query: Mapping[str, str] = request.query if request is not None else {}
    one = request.match_info.get("check", "") if request is not None else ""
    if one:
        if one not in checks:
            return web.Response(text=f"{page} has no check {one!r}; it has {', '.join(checks)}\n", status=404)
        checks = {one: checks[one]}
    excluded = set(request.query.getall("exclude", ())) if request is not None else set()
    problems = {name: check() for name, check in checks.items() if name not in excluded}
    wrong = "; ".join(filter(None, problems.values()))
    status = 503 if wrong else 200
    if "verbose" not in query:
        return web.Response(text=wrong or "ok", status=status)
    lines = [
        f"[+]{name} excluded: ok"
        if name in excluded
        else f"[-]{name} failed: {problems[name]}"
        if problems[name]
        else f"[+]{name} ok"
        for name in checks
    ]
    lines += [f"warn: no check {name!r} to exclude" for name in sorted(excluded - checks.keys())]
    lines.append(f"{page} check {'failed' if wrong else 'passed'}")
    return web.Response(text="\n".join(lines) + "\n", status=status)


class Servers:
    """The HTTP listeners; `start` raises OSError when a port is taken."""

    def __init__(self) -> None:
        self._runners: list[web.AppRunner] = []

    async def start(
        self,
        metrics_addr: str,
        probe_addr: str,
        metrics: Metrics,
        health: Health,
        pages: Mapping[str, Callable[[], Any]] | None = None,
    ) -> None:
        """*pages*: what else may be read beside the probes, by path, as plain data without secrets."""

        async def metrics_page(_request: web.Request) -> web.Response:
            return web.Response(body=metrics.exposition(), content_type="text/plain", charset="utf-8")

        async def livez(request: web.Request) -> web.Response:
            return health.livez(request)

        async def readyz(request: web.Request) -> web.Response:
            return health.readyz(request)

        routes: dict[str, list[web.RouteDef]] = {metrics_addr: [web.get("/metrics", metrics_page)]}
        probes = routes.setdefault(probe_addr, [])
        for path, handler in (("/livez", livez), ("/healthz", livez), ("/readyz", readyz)):
            probes += [web.get(path, handler), web.get(path + "/{check}", handler)]
        probes += [web.get(path, _as_json(page)) for path, page in (pages or {}).items()]
        for address, of_address in routes.items():
            await self.listen(address, of_address)

    async def listen(self, address: str, routes: list[web.RouteDef]) -> None:
        """One more listener, unless *address* says that there is none."""
        where = parse_address(address)
        if where is None:
            return
        app = web.Application()
        app.add_routes(routes)
        runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, where[0], where[1]).start()

    async def stop(self) -> None:
        while self._runners:
            await self._runners.pop().cleanup()


def _as_json(page: Callable[[], Any]) -> Callable[[web.Request], Any]:
    async def answer(_request: web.Request) -> web.Response:
        body = orjson.dumps(page(), option=orjson.OPT_INDENT_2, default=str)
        return web.Response(body=body, content_type="application/json")

    return answer
