"""Where events of the Ray kinds come from: kopf, in a thread and loop of its own, reduced to a thin event source.

kopf watches, reconnects and re-authenticates; it keeps no state, writes nothing, and its handler only hands the object
over. If it ends for any reason, the operator ends (Kubernetes restarts it): a silent watcher would be worse.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, Protocol, cast

import kopf
import uvloop

from kuberay.api.kinds import Kind
from kuberay.kube.connection import Connection

log = logging.getLogger("kuberay.operator.source")

RENEW_EVERY = 1.0
"""Seconds between two looks for other credentials while those that are known are refused."""

Sink = Callable[[Kind, str | None, dict[str, Any]], None]
"""Called in the operator's loop with (kind, event type, object); type None is the first list."""


class EventSource(Protocol):
    """Delivers objects of the Ray kinds. `failed` completes only when the source can deliver no more."""

    failed: asyncio.Future[None]

    async def start(self, sink: Sink) -> None: ...
    async def stop(self) -> None: ...


class KopfSource:
    """An `EventSource` for a real cluster."""

    def __init__(self, connection: Connection, kinds: list[Kind], namespaces: list[str]) -> None:
        self._connection = connection
        self._kinds = kinds
        self._namespaces = namespaces
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def start(self, sink: Sink) -> None:
        """Start watching; returns when the watchers run, raises what kept them from running."""
        loop = asyncio.get_running_loop()
        logging.getLogger("kopf._cogs.clients.watching").addFilter(_SELDOM)
        ready = threading.Event()
        registry = self._registry(loop, sink)

        def fail(error: BaseException | None) -> None:
            if not self.failed.done() and not self._stop.is_set():
                self.failed.set_exception(error or RuntimeError("the event source ended"))

        def run() -> None:
            error: BaseException | None = None
            try:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    runner.run(
                        kopf.operator(
                            registry=registry,
                            settings=_settings(),
                            # Else kopf asks who the user is, which fails where the image has no name for its number.
                            identity=cast(Any, "kuberay-operator"),
                            standalone=True,
                            clusterwide=not self._namespaces,
                            namespaces=self._namespaces,
                            stop_flag=self._stop,
                            ready_flag=ready,
                        )
                    )
            except BaseException as caught:  # noqa: BLE001 - told to the operator's loop, which ends the process
                error = caught
            if not loop.is_closed():
                loop.call_soon_threadsafe(fail, error)

        self._thread = threading.Thread(target=run, name="kopf", daemon=True)
        self._thread.start()
        while not ready.is_set() and not self.failed.done():
            await asyncio.sleep(0.02)
        if self.failed.done():
            self.failed.result()

    async def stop(self) -> None:
        """End the watchers; waits at most three seconds, the thread is a daemon."""
        self._stop.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 3.0)

    def _registry(self, loop: asyncio.AbstractEventLoop, sink: Sink) -> kopf.OperatorRegistry:
        registry = kopf.OperatorRegistry()
        connection = self._connection
        logins = itertools.count()
        given: list[str | None] = [None]

        @kopf.on.login(registry=registry)
        async def login(**_: Any) -> kopf.ConnectionInfo:
            number = next(logins)
            # Asked again when the API server refuses what was given, or when a connection broke in an odd way.
            authorization = await (connection.renew() if number else connection.authorization())
            if number and authorization == given[0]:
                await asyncio.sleep(RENEW_EVERY)
                authorization = await connection.renew()
            given[0] = authorization
            scheme, token = (authorization or " ").split(" ", 1)
            return kopf.ConnectionInfo(
                # Means nothing among one; but kopf ends when it is given again what was refused, and that may be all there is
                # until a file is replaced.
                priority=number,
                server=connection.server,
                ca_path=connection.ca_path,
                insecure=connection.insecure,
                certificate_path=connection.cert_path,
                private_key_path=connection.key_path,
                scheme=scheme or None,
                token=token or None,
            )

        for kind in self._kinds:
            kopf.on.event(kind.group, kind.version, kind.plural, registry=registry, id=kind.plural)(
                _handler(loop, sink, kind)
            )
        return registry


def _handler(loop: asyncio.AbstractEventLoop, sink: Sink, kind: Kind) -> Callable[..., Awaitable[None]]:
    async def handle(event: kopf.RawEvent, **_: Any) -> None:
        # Runs in kopf's thread: hand over, decide nothing. Not a plain function: kopf would start threads for those.
        loop.call_soon_threadsafe(sink, kind, event["type"], dict(event["object"]))

    return handle


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.networking.request_timeout = 30
    settings.networking.error_backoffs = _Backoffs()
    settings.watching.chunk_size = 500
    settings.queueing.exit_timeout = 0.5
    settings.process.ultimate_exiting_timeout = None
    settings.persistence.finalizer = "ray.io/kuberay-operator"  # never used; named in case kopf ever adds one
    settings.persistence.progress_storage = _NoProgress()
    settings.persistence.diffbase_storage = _NoDiffBase()
    return settings


class _Seldom(logging.Filter):
    """kopf tells of every attempt as an error; while a server is away for minutes that is a line a second. It is a warning, told
    as often as informers tell of theirs."""

    TOLD = frozenset((3, 10, 100, 1000))
    _ATTEMPT = re.compile(r"Request attempt #(\d+)/?\d* failed; will retry")

    def filter(self, record: logging.LogRecord) -> bool:
        found = self._ATTEMPT.match(record.getMessage())
        if found is None:
            return True
        record.levelno, record.levelname = logging.WARNING, logging.getLevelName(logging.WARNING)
        return int(found[1]) in self.TOLD


_SELDOM = _Seldom()


class _Backoffs:
    """Seconds between two tries of a request that fails for what may pass: no answer, 403, 429, 5xx. Without end, as informers
    do, and never long: so soon after the API server is back everything goes on."""

    def __iter__(self) -> Iterator[float]:
        return itertools.chain((0.2, 0.5, 1.0, 2.0), itertools.repeat(3.0))


class _NoDiffBase(kopf.DiffBaseStorage):
    """kopf keeps no last state: nothing here compares one."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return cast("kopf.BodyEssence", {})

    def fetch(self, **_: Any) -> kopf.BodyEssence | None:
        return None

    def store(self, **_: Any) -> None:
        return None


class _NoProgress(kopf.ProgressStorage):
    """kopf keeps no progress: its one handler has none."""

    def fetch(self, **_: Any) -> kopf.ProgressRecord | None:
        return None

    def store(self, **_: Any) -> None:
        return None

    def purge(self, **_: Any) -> None:
        return None

    def touch(self, **_: Any) -> None:
        return None

    def clear(self, *, essence: kopf.BodyEssence) -> kopf.BodyEssence:
        return essence
