"""Keeps a copy of every object of some kinds by watching them, and tells of each change in the order it is seen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Literal

import orjson
from kuberay.api.kinds import Kind
from kuberay.kube.client import Client
from kuberay.kube.errors import NotFoundError
from kuberay.kube.transport import TransportError

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Tell = Callable[[Kind, ChangeType, dict[str, Any]], None]


class Follower:
    """One watch per kind over all namespaces; call `stop` at the end."""

    def __init__(self, client: Client, kinds: Sequence[Kind]) -> None:
        self._client = client
        self._kinds = kinds
        self._tell: dict[str, Tell] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self.failed: BaseException | None = None

    async def start(self) -> None:
        """Returns when all kinds that are served are being watched."""
        for kind in self._kinds:
            version = ""
            try:
                async for page in self._client.list_pages(kind, None):
                    version = page.metadata.resource_version
            except NotFoundError:
                continue
            task = asyncio.create_task(self._follow(kind, version), name=f"follow {kind}")
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.failed = task.exception()

    def subscribe(self, namespace: str, tell: Tell) -> None:
        """Call *tell* with every change in *namespace* from now on."""
        self._tell[namespace] = tell

    def unsubscribe(self, namespace: str) -> None:
        self._tell.pop(namespace, None)

    async def _follow(self, kind: Kind, version: str) -> None:
        while True:
            params = {"watch": "1", "resourceVersion": version, "timeoutSeconds": "600"}
            try:
                async with self._client.transport.stream(kind.path(None), params=params, idle_timeout=700.0) as opened:
                    status, lines = opened
                    if status != 200:
                        raise RuntimeError(f"watch of {kind} answered {status}")
                    async for line in lines:
                        event = orjson.loads(line)
                        if event["type"] == "ERROR":
                            raise RuntimeError(f"watch of {kind}: {event['object'].get('message')}")
                        obj = event["object"]
                        version = obj["metadata"]["resourceVersion"]
                        tell = self._tell.get(obj["metadata"].get("namespace", ""))
                        if tell is not None:
                            tell(kind, event["type"], obj)
            except TransportError:
                await asyncio.sleep(0.2)
