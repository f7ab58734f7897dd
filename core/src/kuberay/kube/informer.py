"""Keeps the store in step with one kind: list, watch, watch again, and a periodic full comparison that repairs gaps.

Any way a watch can end (410 in the stream or as a status, silence, a broken connection) leads to the same two moves:
watch again from the last version seen, or, when that is too old, list again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import orjson

from kuberay.api.kinds import Kind
from kuberay.api.objects import Object, decode
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, ExpiredError, ForbiddenError, NotFoundError
from kuberay.kube.store import Store
from kuberay.kube.store import version as store_version
from kuberay.kube.transport import TransportError

log = logging.getLogger("kuberay.kube.informer")


class _WatchEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


_LASTING = 3
"""Failures in a row from which on a refusal is told."""
_SHORT_WATCH = 1.0
"""Seconds a watch must last, or one event it must bring, to count as a success."""

_EVENT = msgspec.json.Decoder(_WatchEvent)


@dataclass(frozen=True, slots=True)
class Scope:
    """What one informer covers. ``namespace`` None means all."""

    kind: Kind
    namespace: str | None = None
    label_selector: str = ""
    matches: Callable[[Object], bool] = lambda _obj: True
    """The selector as a function, so that a full list only removes what this informer would have listed."""

    def __str__(self) -> str:
        where = f" in {self.namespace}" if self.namespace else ""
        return f"{self.kind}{where}" + (f" ({self.label_selector})" if self.label_selector else "")


@dataclass(frozen=True, slots=True)
class InformerTimes:
    """Delays of an informer, all in seconds."""

    watch: float = 300.0
    """How long the server keeps one watch; actual values vary by half to spread reconnects."""
    idle: float = 70.0
    """A watch silent for longer (servers send bookmarks about once a minute) is cut and opened again."""
    resync: float = 600.0
    """How often a full list is compared with the store."""
    """In steady state the only request an unchanged cluster costs."""
    backoff_first: float = 0.2
    backoff_most: float = 5.0
    """Between two tries of a list or watch that fails: so soon after the API server is back everything goes on."""
    absent: float = 30.0
    """Between two looks for a kind that the cluster does not serve."""


class Informer:
    """Run `run()` as a task; it never returns and never raises except when cancelled."""

    def __init__(
        self, client: Client, store: Store, scope: Scope, times: InformerTimes | None = None, *, watch: bool = True
    ) -> None:
        self.scope = scope
        self.synced = asyncio.Event()
        """Set after the first full list; for a kind the cluster does not serve, once that is known."""
        self.served = False
        self.last_list: float | None = None
        """Loop time of the last completed list."""
        self.refused: ForbiddenError | None = None
        """What the API server says while it refuses to list or watch, once that has gone on for a few tries."""
        self.repairs = 0
        """Differences that full lists found after the first one."""
        self.failures = 0
        """Lists and watches that failed, or ended at once."""
        self._client = client
        self._store = store
        self._times = times or InformerTimes()
        self._version = ""
        """Where the next watch starts; empty: list first."""
        self._failures = 0
        self._watching = watch
        """Off where another source delivers the changes and only the periodic comparison is wanted."""

    def start_over(self) -> None:
        """Begin with a list when `run` is called anew; `synced` is set when that is done."""
        self._version = ""
        self._failures = 0
        self.synced.clear()

    async def run(self) -> None:
        """List and watch for ever."""
        while True:
            try:
                if not self._version or self._resync_due():
                    self._version = await self._list()
                if self._watching:
                    await self._watch()
                else:
                    self._failures = 0
                    await asyncio.sleep(self._times.resync)
                    self._version = ""
            except ExpiredError as error:
                self._version = ""
                await self._back_off(str(error), first=0.0)
            except NotFoundError:
                # The kind is not served (yet): plugins may be installed before their CRDs.
                if self.served or not self.synced.is_set():
                    log.warning("%s is not served by this cluster; its CRD is waited for", self.scope)
                self.served = False
                self._store.note_served(self.scope.kind, False)
                self.synced.set()
                self._version = ""
                await self._back_off("is not served by this cluster", told=True, most=self._times.absent)
            except (ApiError, TransportError, msgspec.DecodeError) as error:
                # An API server that has just started may refuse what it will allow in a moment.
                lasting = isinstance(error, ForbiddenError) and self._failures >= _LASTING
                self.refused = error if isinstance(error, ForbiddenError) and lasting else None
                await self._back_off(str(error))

    def _resync_due(self) -> bool:
        return self.last_list is None or asyncio.get_running_loop().time() - self.last_list > self._times.resync

    async def _list(self) -> str:
        """One full list into the store; returns its resourceVersion."""
        scope = self.scope
        objects: list[Object] = []
        version = "0"
        async for page in self._client.list_pages(scope.kind, scope.namespace, label_selector=scope.label_selector):
            objects.extend(decode(scope.kind, raw) for raw in page.items)
            version = page.metadata.resource_version
        differences = self._store.replace(
            scope.kind,
            objects,
            int(version) if version.isdigit() else 0,
            lambda obj: (scope.namespace is None or obj.namespace == scope.namespace) and scope.matches(obj),
        )
        if self.synced.is_set() and differences:
            self.repairs += differences
            log.info("%s: the full list found %d differences", scope, differences)
        self.served = True
        self._store.note_served(scope.kind, True)
        self.last_list = asyncio.get_running_loop().time()
        self.refused = None
        self.synced.set()
        return version

    async def _watch(self) -> None:
        """Follow changes after the last version seen until the server ends the stream."""
        scope = self.scope
        seconds = self._times.watch * (1 + random.random() / 2)  # noqa: S311 - spreads reconnects, not a secret
        params = {
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(int(seconds)),
        }
        if scope.label_selector:
            params["labelSelector"] = scope.label_selector
        loop = asyncio.get_running_loop()
        path = scope.kind.path(scope.namespace)
        async with self._client.transport.stream(path, params=params, idle_timeout=self._times.idle) as (status, lines):
            if status != 200:
                body = b"".join([line async for line in lines])
                _raise_watch_status(status, body)
            opened = loop.time()
            self.refused = None
            try:
                async for line in lines:
                    self._take(_EVENT.decode(line))
            finally:
                if loop.time() - opened >= _SHORT_WATCH:
                    self._failures = 0
        # A server (or proxy) that ends every stream at once is not asked in a tight loop.
        if loop.time() - opened < _SHORT_WATCH:
            await self._back_off("the watch ended at once")

    def _take(self, event: _WatchEvent) -> None:
        """One event of the watch into the store."""
        if event.type == "ERROR":
            _raise_watch_status(0, bytes(event.object))
        if event.type == "BOOKMARK":
            self._version = _bookmark_version(event.object) or self._version
            self._failures = 0
            return
        kind = self.scope.kind
        obj = decode(kind, event.object)
        if event.type == "DELETED":
            self._store.remove(kind, obj.namespace, obj.name, obj.uid, at=store_version(obj))
        else:
            self._store.upsert(kind, obj)
        self._version = obj.metadata.resource_version
        self._failures = 0

    async def _back_off(
        self, why: str, first: float | None = None, *, told: bool = False, most: float | None = None
    ) -> None:
        """Wait longer each time until something succeeds, at *most* so long; *first* is the delay after a success. Failures that
        go on are logged, unless that was *told* already."""
        delay = min(most or self._times.backoff_most, self._times.backoff_first * 2 ** min(self._failures, 16))
        if first is not None and not self._failures:
            delay = first
        self._failures += 1
        self.failures += not told
        log.log(
            logging.WARNING if self._failures in (3, 10) and not told else logging.DEBUG,
            "%s: %s; trying again in %.1f s",
            self.scope,
            why,
            delay,
        )
        await asyncio.sleep(delay * (0.5 + random.random() / 2))  # noqa: S311


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


def _bookmark_version(raw: msgspec.Raw) -> str:
    return msgspec.json.decode(raw, type=_Bookmark).metadata.resource_version


def _raise_watch_status(status: int, body: bytes) -> None:
    """Raise what a failed watch means; in-stream errors carry their code in the Status object."""
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = {}
    code = int(parsed.get("code") or status or 500) if isinstance(parsed, dict) else status
    reason = str(parsed.get("reason", "")) if isinstance(parsed, dict) else ""
    message = str(parsed.get("message", "watch failed")) if isinstance(parsed, dict) else "watch failed"
    if code == 410 or reason in ("Expired", "Gone"):
        raise ExpiredError(410, reason or "Expired", message)
    if code == 404:
        raise NotFoundError(404, reason or "NotFound", message)
    raise ApiError(code, reason, message)
