"""Where a simulated operator's events of the Ray kinds come from: list and watch, with the manners of kopf.

Like kopf it tells listed objects with type None, lists again after a 410, and never notices a deletion it slept through.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import orjson
from kuberay.api.kinds import Kind
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, ExpiredError
from kuberay.kube.transport import Transport, TransportError
from kuberay.operator.source import Sink

_RETRY = 1.0


class SimSource:
    """A `kuberay.operator.source.EventSource` over any transport. Create it inside the running event loop."""

    def __init__(self, transport: Transport, kinds: Sequence[Kind], namespaces: Sequence[str] = ()) -> None:
        """*namespaces* empty: all."""
        self.failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._client = Client(transport)
        everywhere: list[str | None] = [None]
        self._scopes = [(kind, namespace) for kind in kinds for namespace in (list(namespaces) or everywhere)]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, sink: Sink) -> None:
        """Begin to watch; *sink* is called from tasks of this loop."""
        for kind, namespace in self._scopes:
            self._tasks.append(asyncio.create_task(self._follow(kind, namespace, sink), name=f"source {kind}"))

    async def stop(self) -> None:
        """End all watches; nothing is told afterwards."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def fail(self, error: Exception) -> None:
        """As when kopf ends by itself."""
        if not self.failed.done():
            self.failed.set_exception(error)

    async def _follow(self, kind: Kind, namespace: str | None, sink: Sink) -> None:
        version = ""
        while True:
            try:
                if not version:
                    version = await self._list(kind, namespace, sink)
                version = await self._watch(kind, namespace, version, sink)
            except ExpiredError:
                version = ""
            except (ApiError, TransportError):
                await asyncio.sleep(_RETRY)

    async def _list(self, kind: Kind, namespace: str | None, sink: Sink) -> str:
        version = ""
        bodies: list[msgspec.Raw] = []
        async for page in self._client.list_pages(kind, namespace):
            bodies += page.items
            version = page.metadata.resource_version
        for body in bodies:
            sink(kind, None, orjson.loads(bytes(body)))
        return version

    async def _watch(self, kind: Kind, namespace: str | None, version: str, sink: Sink) -> str:
        params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "600"}
        async with self._client.transport.stream(kind.path(namespace), params=params) as (status, lines):
            if status == 410:
                raise ExpiredError(410, "Expired", "the watch is too old")
            if status != 200:
                raise ApiError(status, "", "the watch was refused")
            async for line in lines:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise ExpiredError(410, "Expired", str(event["object"].get("message")))
                version = event["object"]["metadata"]["resourceVersion"]
                sink(kind, event["type"], event["object"])
        return version
