"""A listener for whoever looks into an operator that runs: CPU profiles, memory, tasks, what waits, and log levels.

Off unless ``profilingAddr`` says where, and then of the loopback interface only: what stacks and tasks tell is not for everybody,
and there is no log-in. ``kubectl port-forward`` reaches it, so Kubernetes decides who may.
"""

from __future__ import annotations

import asyncio
import linecache
import threading
import tracemalloc
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import orjson
from aiohttp import web

from kuberay.operator.health import Servers
from kuberay.operator.log_levels import LogLevels
from kuberay.operator.sampling_profiler import profile

INDEX = """\
GET /debug/profile?seconds=10&rate=100&thread=MainThread&format=collapsed   where the time goes; thread=all, format=speedscope
GET /debug/tasks                                                            asyncio tasks and where each waits
GET /debug/summary                                                          store, queue, probes, lists
PUT /debug/heap?trace=on&frames=1                                           trace allocations (slow!) until trace=off
GET /debug/heap?top=30                                                      which lines hold how much memory
GET /debug/log-levels                                                       levels in force
PUT /debug/log-levels?logger=kuberay.kube&level=debug                       until the settings change; no logger: for all
"""

_MOST_SECONDS = 600.0
_MOST_RATE = 1000.0


class Profiling:
    """`listen` opens, moves or closes the listener. *summary* gives plain data."""

    def __init__(self, levels: LogLevels, summary: Callable[[], Mapping[str, Any]]) -> None:
        self._levels = levels
        self._summary = summary
        self._servers = Servers()
        self._profiling: threading.Event | None = None
        """Ends the profile that is being taken."""

    async def listen(self, address: str) -> None:
        """At *address* from now on, nowhere when it is ``0``. Raises OSError and stays where it was when it cannot."""
        servers = Servers()
        try:
            await servers.listen(address, self._routes())
        except OSError:
            await servers.stop()
            raise
        await self.stop()
        self._servers = servers

    async def stop(self) -> None:
        if self._profiling is not None:
            self._profiling.set()
        await self._servers.stop()

    def _routes(self) -> list[web.RouteDef]:
        return [
            web.get("/", _index),
            web.get("/debug", _index),
            web.get("/debug/profile", self._profile),
            web.get("/debug/tasks", _tasks),
            web.get("/debug/summary", self._summary_page),
            web.get("/debug/heap", _heap),
            web.put("/debug/heap", _trace_heap),
            web.get("/debug/log-levels", self._log_levels),
            web.put("/debug/log-levels", self._set_log_level),
        ]

    async def _profile(self, request: web.Request) -> web.Response:
        seconds = _number(request, "seconds", 10.0, _MOST_SECONDS)
        rate = _number(request, "rate", 100.0, _MOST_RATE)
        thread = request.query.get("thread", threading.current_thread().name)
        form = request.query.get("format", "collapsed")
        if form not in ("collapsed", "speedscope"):
            raise web.HTTPBadRequest(text=f"format is {form!r}; use collapsed or speedscope\n")
        if self._profiling is not None:
            raise web.HTTPConflict(text="another profile is being taken; wait for its end\n")
        self._profiling = threading.Event()
        try:
            found = await asyncio.to_thread(
                profile, seconds, rate, threads=() if thread == "all" else (thread,), stop=self._profiling
            )
        finally:
            self._profiling.set()
            self._profiling = None
        if form == "collapsed":
            return web.Response(text=found.collapsed())
        return _json(found.speedscope(f"kuberay, {seconds:g} s"))

    async def _summary_page(self, _request: web.Request) -> web.Response:
        return _json(self._summary())

    async def _log_levels(self, _request: web.Request) -> web.Response:
        return _json(self._levels.in_force())

    async def _set_log_level(self, request: web.Request) -> web.Response:
        try:
            self._levels.override(request.query.get("logger", ""), request.query.get("level", ""))
        except ValueError as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from None
        return _json(self._levels.in_force())


async def _index(_request: web.Request) -> web.Response:
    return web.Response(text=INDEX)


async def _tasks(_request: web.Request) -> web.Response:
    return web.Response(text="".join(sorted(_described(task) for task in asyncio.all_tasks())))


def _described(task: asyncio.Task[Any]) -> str:
    """Its name, and below it the lines that wait, outermost first."""
    lines = [task.get_name()]
    waiting: Any = task.get_coro()
    while waiting is not None:
        # What a coroutine awaits is known to itself alone; the stack that asyncio gives has the outermost only.
        frame = getattr(waiting, "cr_frame", None) or getattr(waiting, "gi_frame", None)
        if frame is None:
            break
        code = frame.f_code
        line = linecache.getline(code.co_filename, frame.f_lineno).strip()
        lines.append(f"    {code.co_filename}:{frame.f_lineno} {code.co_name}: {line}")
        waiting = getattr(waiting, "cr_await", None) or getattr(waiting, "gi_yieldfrom", None)
    return "\n".join(lines) + "\n"


async def _trace_heap(request: web.Request) -> web.Response:
    trace = request.query.get("trace")
    if trace not in ("on", "off"):
        raise web.HTTPBadRequest(text=f"trace is {trace!r}; use on or off\n")
    tracemalloc.stop()
    if trace == "on":
        tracemalloc.start(int(_number(request, "frames", 1.0, 25.0)))
    return web.Response(text=f"tracing is {trace}\n")


async def _heap(request: web.Request) -> web.Response:
    top = int(_number(request, "top", 30.0, 1000.0))
    if not tracemalloc.is_tracing():
        raise web.HTTPConflict(
            text="allocations are not traced; PUT /debug/heap?trace=on, and ask again after a while\n"
        )
    return web.Response(text=await asyncio.to_thread(_snapshot, top))


def _snapshot(top: int) -> str:
    mine = (tracemalloc.Filter(False, tracemalloc.__file__), tracemalloc.Filter(False, linecache.__file__))
    statistics = tracemalloc.take_snapshot().filter_traces(mine).statistics("traceback")
    total = sum(each.size for each in statistics)
    lines = [f"{total / 1024:.0f} KiB in {sum(each.count for each in statistics)} blocks since tracing began\n"]
    for each in statistics[:top]:
        lines.append(f"{each.size / 1024:.1f} KiB in {each.count} blocks\n")
        lines += [f"    {line}\n" for line in each.traceback.format()]
    return "".join(lines)


def _number(request: web.Request, name: str, default: float, most: float) -> float:
    text = request.query.get(name, "")
    value = default
    if text:
        value = -1.0
        with suppress(ValueError):
            value = float(text)
    if not 0 < value <= most:
        raise web.HTTPBadRequest(text=f"{name} is {text!r}; write a number above 0 and up to {most:g}\n")
    return value


def _json(data: Any) -> web.Response:
    return web.Response(
        body=orjson.dumps(data, option=orjson.OPT_INDENT_2, default=str), content_type="application/json"
    )
