"""The profiling listener over real sockets: what it tells, what it refuses, and that it can be moved and closed."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from kuberay.operator.log_levels import QUIET, LogLevels
from kuberay.operator.profiling import INDEX, Profiling
from ports import free_port


class Client:
    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.port, self._session = port, session

    async def __call__(self, path: str, method: str = "GET") -> tuple[int, str]:
        async with self._session.request(method, f"http://127.0.0.1:{self.port}{path}") as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Client, Profiling]]:
    profiling, port = Profiling(LogLevels(), lambda: {"store": {"pods": 3}}), free_port()
    await profiling.listen(f"127.0.0.1:{port}")
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(port, session), profiling
    finally:
        await profiling.stop()


async def test_the_index_names_every_page() -> None:
    async with serving() as (get, _):
        assert await get("/") == (200, INDEX)
        for line in INDEX.splitlines():
            method, path = line.split()[:2]
            status, _ = await get(path.split("?")[0] + ("?seconds=0.01" if "profile" in path else ""), method)
            assert status in (200, 400, 409), line


async def test_a_profile_of_the_event_loop() -> None:
    async with serving() as (get, _):
        status, text = await get("/debug/profile?seconds=0.1&rate=200")
        assert status == 200
        stack, count = text.splitlines()[0].rsplit(" ", 1)
        assert stack.startswith("MainThread;")
        assert int(count) > 0
        status, text = await get("/debug/profile?seconds=0.05&format=speedscope&thread=all")
        assert [each["name"] for each in json.loads(text)["profiles"]].count("MainThread") == 1


async def test_one_profile_at_a_time() -> None:
    async with serving() as (get, profiling):
        both = [asyncio.create_task(get("/debug/profile?seconds=600")) for _ in range(2)]
        async with asyncio.timeout(10):
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            assert [task.result() for task in done] == [(409, "another profile is being taken; wait for its end\n")]
            # The end of the operator does not wait for the other one.
            await profiling.stop()
            await asyncio.wait(both)


@pytest.mark.parametrize(
    ("method", "path", "sentence"),
    [
        ("GET", "/debug/profile?seconds=0", "seconds is '0'; write a number above 0 and up to 600"),
        ("GET", "/debug/profile?seconds=nan", "seconds is 'nan'; write a number above 0 and up to 600"),
        ("GET", "/debug/profile?rate=5000", "rate is '5000'; write a number above 0 and up to 1000"),
        ("GET", "/debug/profile?format=xml", "format is 'xml'; use collapsed or speedscope"),
        ("GET", "/debug/heap?top=all", "top is 'all'; write a number above 0 and up to 1000"),
        ("PUT", "/debug/heap", "trace is None; use on or off"),
        ("PUT", "/debug/log-levels?level=loud", "'loud' is no level: use debug, info, warning or error"),
    ],
)
async def test_what_makes_no_sense_is_refused_in_one_sentence(method: str, path: str, sentence: str) -> None:
    async with serving() as (get, _):
        assert await get(path, method) == (400, sentence + "\n")


async def waits_for_ever() -> None:
    await asyncio.Event().wait()


async def outer() -> None:
    await waits_for_ever()


async def test_tasks_and_where_they_wait() -> None:
    task = asyncio.create_task(outer(), name="worker 7")
    try:
        async with serving() as (get, _):
            _, text = await get("/debug/tasks")
    finally:
        task.cancel()
    _, _, rest = text.partition("worker 7\n")
    first, second = rest.splitlines()[:2]
    assert first.endswith("outer: await waits_for_ever()")
    assert second.endswith("waits_for_ever: await asyncio.Event().wait()")


async def test_memory_by_line_once_it_is_traced() -> None:
    async with serving() as (get, _):
        status, text = await get("/debug/heap")
        assert (status, text.split(";")[0]) == (409, "allocations are not traced")
        try:
            assert await get("/debug/heap?trace=on&frames=2", "PUT") == (200, "tracing is on\n")
            kept = [bytes(100_000) for _ in range(10)]
            status, text = await get("/debug/heap?top=3")
            assert status == 200
            assert "\n977." in text
            assert "kept = [bytes(100_000) for _ in range(10)]" in text
            del kept
            assert await get("/debug/heap?trace=off", "PUT") == (200, "tracing is off\n")
            assert not tracemalloc.is_tracing()
        finally:
            tracemalloc.stop()


async def test_levels_are_told_and_changed() -> None:
    before = logging.getLogger().level
    try:
        async with serving() as (get, _):
            status, text = await get("/debug/log-levels?logger=kuberay.kube&level=debug", "PUT")
            assert (status, json.loads(text)["kuberay.kube"]) == (200, "debug")
            assert logging.getLogger("kuberay.kube.lease").isEnabledFor(logging.DEBUG)
            assert json.loads((await get("/debug/log-levels"))[1])["kuberay.kube"] == "debug"
            assert json.loads((await get("/debug/summary"))[1]) == {"store": {"pods": 3}}
    finally:
        for name in ("kuberay.kube", *QUIET):
            logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger().setLevel(before)


async def test_it_moves_and_ends_and_stays_where_it_was_if_it_cannot() -> None:
    async with serving() as (get, profiling):
        old, new = get.port, free_port()
        await profiling.listen(f"127.0.0.1:{new}")
        with pytest.raises(aiohttp.ClientConnectorError):
            await get("/")
        get.port = new
        assert (await get("/"))[0] == 200
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", old))
            taken.listen()
            with pytest.raises(OSError, match=str(old)):
                await profiling.listen(f"127.0.0.1:{old}")
        assert (await get("/"))[0] == 200
        await profiling.listen("0")
        with pytest.raises(aiohttp.ClientConnectorError):
            await get("/")
