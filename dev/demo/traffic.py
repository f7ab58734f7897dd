"""Sends requests at a steady rate and counts what becomes of each: for the demo and for end-to-end tests.

``python -m dev.demo.traffic URL`` prints the count so far again and again, as lines of JSON, until it is told to end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Self

import aiohttp

PRINT_EVERY = 0.2
FIRST_PAUSE = 0.05
"""Seconds until a request is sent a second time; each further pause is twice as long."""
MOST_AT_ONCE = 100
"""Requests on their way; with more the next one waits."""


@dataclass
class Count:
    """What became of the requests that were sent."""

    ok: int = 0
    failed: int = 0
    again: int = 0
    """How often a request was sent once more, its connection having been refused or lost."""
    first_error: str = ""
    slowest: float = 0.0
    """Seconds."""
    versions: Counter[str] = field(default_factory=Counter)
    """How many answers had which ``version``."""
    clusters: Counter[str] = field(default_factory=Counter)

    @property
    def sent(self) -> int:
        return self.ok + self.failed

    def __str__(self) -> str:
        words = [f"{self.ok} answered, {self.failed} failed, slowest {self.slowest:.2f} s"]
        words += [f"{self.again} sent again"] if self.again else []
        words += [f"by version {dict(self.versions)}"] if self.versions else []
        words += [f"first error: {self.first_error}"] if self.first_error else []
        return "; ".join(words)


class Traffic:
    """Requests to *url* from a thread of their own, as long as the context is open.

    A request is ok when it is answered with 200 and JSON. Without *keep_alive* each has a connection of its own, so that a
    Kubernetes Service chooses a pod for each. *again* is how often one is repeated whose connection was refused or lost, as
    proxies and clients do with what may be repeated."""

    def __init__(
        self, url: str, *, rate: float = 40.0, keep_alive: bool = False, again: int = 0, seconds: float = 30.0
    ) -> None:
        self._url, self._rate, self._keep_alive, self._again, self._seconds = url, rate, keep_alive, again, seconds
        self._count = Count()
        self._lock = threading.Lock()
        self._end = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send_all()), name="traffic", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> Count:
        """No more requests; gives the count once all that are on their way have an end."""
        self._end.set()
        self._thread.join(self._seconds * (self._again + 1) + 10)
        return self.count()

    def count(self) -> Count:
        """A copy of the count so far."""
        with self._lock:
            copy = Count(**(self._count.__dict__ | {"versions": Counter(), "clusters": Counter()}))
            copy.versions.update(self._count.versions)
            copy.clusters.update(self._count.clusters)
            return copy

    def wait_for(self, requests: int, seconds: float = 300.0) -> None:
        """Return once so many requests have an end."""
        deadline = time.monotonic() + seconds
        while self.count().sent < requests:
            if time.monotonic() > deadline:
                raise TimeoutError(f"not {requests} requests within {seconds:.0f} s: {self.count()}")
            time.sleep(0.2)

    async def _send_all(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, force_close=not self._keep_alive)
        timeout = aiohttp.ClientTimeout(total=self._seconds)
        running: set[asyncio.Task[None]] = set()
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            # It would silently send a request again whose connection was lost. There is no public setting for that.
            session._retry_connection = False
            due = time.monotonic()
            while not self._end.is_set():
                task = asyncio.create_task(self._send(session))
                running.add(task)
                task.add_done_callback(running.discard)
                due = max(due + 1 / self._rate, time.monotonic() - 1)
                await asyncio.sleep(max(0.0, due - time.monotonic()))
                if len(running) >= MOST_AT_ONCE:
                    await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            if running:
                await asyncio.wait(running)

    async def _send(self, session: aiohttp.ClientSession) -> None:
        began = time.monotonic()
        error, answer, tries = "", None, 0
        while True:
            tries += 1
            try:
                async with session.get(self._url) as response:
                    text = await response.text()
                    if response.status == 200:
                        answer, error = json.loads(text), ""
                    else:
                        error = f"{response.status} {text.strip()[:200]}"
                break
            except (aiohttp.ClientConnectionError, ConnectionError) as lost:
                error = f"{type(lost).__name__}: {lost}"
                if tries > self._again:
                    break
                await asyncio.sleep(FIRST_PAUSE * 2 ** (tries - 1))
            except (aiohttp.ClientError, TimeoutError, ValueError) as failure:
                error = f"{type(failure).__name__}: {failure}"
                break
        self._note(answer, error, tries, time.monotonic() - began)

    def _note(self, answer: Any, error: str, tries: int, seconds: float) -> None:
        with self._lock:
            self._count.again += tries - 1
            self._count.slowest = max(self._count.slowest, seconds)
            if error:
                self._count.failed += 1
                self._count.first_error = self._count.first_error or f"{error} ({time.strftime('%H:%M:%S')})"
                return
            self._count.ok += 1
            if isinstance(answer, dict):
                for counter, key in ((self._count.versions, "version"), (self._count.clusters, "cluster")):
                    if key in answer:
                        counter[str(answer[key])] += 1


def main() -> None:
    parser = argparse.ArgumentParser(prog="dev.demo.traffic", description=__doc__)
    parser.add_argument("url")
    parser.add_argument("--rate", type=float, default=40.0, help="requests per second")
    arguments = parser.parse_args()
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with Traffic(arguments.url, rate=arguments.rate, keep_alive=True) as traffic:
        while not ended.wait(PRINT_EVERY):
            _print(traffic.count())
        _print(traffic.stop())


def _print(count: Count) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(vars(count)), flush=True)


if __name__ == "__main__":
    main()
