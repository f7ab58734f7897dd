"""What a watch delivers: changes after a resourceVersion that match, bookmarks, and 410 when history is gone.

One `Watch` is one stream. It ends at ``timeoutSeconds``; faults that cut or delay it are the transport's business.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from random import Random

import orjson
from kuberay.api.kinds import Kind
from kuberay.kube.transport import TransportError

from kuberay_testkit.sim.reads import select
from kuberay_testkit.sim.selectors import Match
from kuberay_testkit.sim.status import APIError, bad_request, too_old
from kuberay_testkit.sim.store import Change, Store, Stored

BOOKMARK = b'{"type":"BOOKMARK"'
"""How a line begins that tells of no change."""
BOOKMARK_EVERY = 60.0
BOOKMARK_BEFORE_END = 2.0
"""Seconds, as the real server does it."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Query parameters of one watch, checked."""

    kind: Kind
    namespace: str | None
    version: int | None
    """None: start with the objects there are, as ``ADDED``."""
    bookmarks: bool
    initial_end: bool
    seconds: float
    matches: Match | None


def read_options(kind: Kind, namespace: str | None, params: Mapping[str, str], random: Random) -> WatchOptions:
    """Raises a 400 `APIError` for parameters that make no sense."""
    version = params.get("resourceVersion", "")
    if version and not version.isdigit():
        raise bad_request(f"invalid resource version: {version}")
    seconds = params.get("timeoutSeconds", "")
    initial = _true(params.get("sendInitialEvents", ""))
    start = int(version) if version not in ("", "0") and not initial else None
    return WatchOptions(
        kind=kind,
        namespace=namespace,
        version=start,
        bookmarks=_true(params.get("allowWatchBookmarks", "")),
        initial_end=initial,
        # Without a timeout the real server chooses one between 30 and 60 minutes.
        seconds=float(seconds) if seconds else 1800.0 * (1.0 + random.random()),
        matches=select(kind, params),
    )


def _true(value: str) -> bool:
    return value.lower() in ("1", "true")


class Watch:
    """One watch stream."""

    def __init__(self, store: Store, options: WatchOptions) -> None:
        self._store = store
        self._options = options
        self._history = store.history(options.kind)
        self._cut = ""

    @property
    def kind(self) -> Kind:
        return self._options.kind

    def _in_scope(self, stored: Stored) -> bool:
        namespace = self._options.namespace
        return namespace is None or stored.key.namespace == namespace

    def _line(self, change: Change) -> bytes | None:
        """What this watch says about *change*; None when it is none of its business."""
        if not self._in_scope(change.stored):
            return None
        matches = self._options.matches
        if matches is None:
            return change.line()
        now = change.type != "DELETED" and matches(change.stored)
        before = change.previous is not None and matches(change.previous)
        if change.type == "DELETED":
            return change.line() if before else None
        if now:
            return change.line("MODIFIED" if before else "ADDED")
        return change.left_line() if before else None

    def _bookmark(self, *, initial_end: bool = False) -> bytes:
        kind = self._options.kind
        metadata: dict[str, object] = {"resourceVersion": str(self._store.rv), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        body = {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        return orjson.dumps({"type": "BOOKMARK", "object": body})

    @staticmethod
    def _error(error: APIError) -> bytes:
        return orjson.dumps({"type": "ERROR", "object": error.status()})

    def _initial(self) -> list[bytes]:
        matches = self._options.matches
        found = self._store.all_of(self._options.kind, self._options.namespace)
        return [b'{"type":"ADDED","object":%s}' % stored.raw for stored in found if matches is None or matches(stored)]

    def cut(self, *, cleanly: bool = False) -> None:
        """End the stream now: with an error as a broken connection, or *cleanly* as a restarting server does."""
        self._cut = "end" if cleanly else "break"
        for waiter in list(self._history.waiters):
            _wake(waiter)

    async def lines(self, idle_timeout: float = math.inf) -> AsyncGenerator[bytes, None]:
        """Ends at the timeout; after an in-stream ``ERROR`` nothing more comes. Raises `TransportError` when nothing was
        sent for *idle_timeout* seconds or the stream was cut."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._options.seconds
        history = self._history
        position = history.end
        if self._options.version is None:
            for line in self._initial():
                yield line
            if self._options.initial_end and self._options.bookmarks:
                yield self._bookmark(initial_end=True)
        elif self._options.version < history.forgotten:
            yield self._error(too_old(self._options.version, history.forgotten))
            return
        else:
            position = history.position(self._options.version)
        # Bookmarks come about once a minute and once more shortly before the end.
        last_bookmark = max(loop.time(), deadline - BOOKMARK_BEFORE_END)
        next_bookmark = min(last_bookmark, loop.time() + BOOKMARK_EVERY) if self._options.bookmarks else math.inf
        last = loop.time()
        while True:
            if position < history.base:
                # The reader was so slow that what it has not read is forgotten.
                yield self._error(too_old(history.forgotten - 1, history.forgotten))
                return
            while history.base <= position < history.end and not self._cut:
                change = history.changes[position - history.base]
                position += 1
                told = self._line(change)
                if told is not None:
                    yield told
                    last = loop.time()
            if position < history.base:
                continue
            if self._cut == "break":
                raise TransportError("connection reset by peer")
            now = loop.time()
            if now >= deadline or self._cut:
                return
            if now >= next_bookmark:
                yield self._bookmark()
                last = now
                next_bookmark = min(last_bookmark, now + BOOKMARK_EVERY) if now < last_bookmark else math.inf
            elif now >= last + idle_timeout:
                raise TransportError(f"the watch was silent for {idle_timeout:g} s")
            else:
                await self._wait(min(deadline, next_bookmark, last + idle_timeout))

    async def _wait(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._history.waiters[waiter] = None
        timer = loop.call_at(until, _wake, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._history.waiters.pop(waiter, None)


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
