"""Everything that ever happened to the pods of a namespace, as a watch of the API server tells it: what is there in the end says
nothing of a pod that was made twice and deleted again.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
from kuberay.api.kinds import POD
from kuberay.kube.client import Client


class PodHistory:
    """Names of pods in the order in which they came and went."""

    def __init__(self) -> None:
        self.ended: BaseException | None = None
        """Why the watch is over before its time, and the history not whole."""
        self._told: list[str] = []
        self.made: list[str] = []
        self.gone: list[str] = []
        self.deleting: set[str] = set()
        """Pods that somebody deleted."""
        self.clusters: Counter[str] = Counter()
        """How many were ever made, by RayCluster."""

    def _take(self, event: dict[str, Any]) -> None:
        metadata = event["object"].get("metadata") or {}
        name = metadata.get("name", "")
        phase = (event["object"].get("status") or {}).get("phase")
        self._told.append(
            f"{event['type']} {name} phase={phase} resourceVersion={metadata.get('resourceVersion')}"
            f" deletionTimestamp={metadata.get('deletionTimestamp')} by={_managers(metadata)}"
        )
        match event["type"]:
            case "ADDED":
                self.made.append(name)
                self.clusters[metadata["labels"]["ray.io/cluster"]] += 1
            case "DELETED":
                self.gone.append(name)
                self.deleting.add(name)
            case "MODIFIED" if metadata.get("deletionTimestamp"):
                self.deleting.add(name)
            case "ERROR":
                raise AssertionError(f"the watch of the test itself failed: {event}")

    async def expect(self, clusters: Iterable[str], pods: int, seconds: float = 10.0) -> None:
        """So many pods, and none more, were ever made for each of *clusters*, and none for others. What the watch has not
        delivered yet is waited for."""
        wanted = dict.fromkeys(clusters, pods)
        deadline = time.monotonic() + seconds
        while True:
            assert self.ended is None, self.ended
            if self.clusters == wanted:
                return
            others = {name: self.told(name) for name in {*wanted, *self.clusters} if self.clusters[name] != pods}
            many = [name for name in others if self.clusters[name] > wanted.get(name, 0)]
            assert not many, f"more than {pods} pods were made for {many}: {others}"
            assert time.monotonic() < deadline, f"these did not have {pods} pods in all: {others}"
            await asyncio.sleep(0.05)

    def told(self, cluster: str) -> list[str]:
        """What the watch said of the pods of a RayCluster, in order; for the message of a test that fails."""
        return [line for line in self._told if f" {cluster}-" in line]


def _managers(metadata: dict[str, Any]) -> str:
    return ",".join(str(each.get("manager")) for each in metadata.get("managedFields") or ())


@asynccontextmanager
async def pod_history(client: Client, namespace: str) -> AsyncIterator[PodHistory]:
    """From now to the end of the block. A watch that ends before fails the test."""
    history = PodHistory()
    listed = orjson.loads((await client.transport.request("GET", POD.path(namespace))).body)
    params = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"], "timeoutSeconds": "1800"}

    async def follow() -> None:
        async with client.transport.stream(POD.path(namespace), params=params, idle_timeout=1800) as (status, lines):
            assert status == 200
            async for line in lines:
                history._take(orjson.loads(line))
        raise AssertionError("the watch of the test itself has ended")

    def note(task: asyncio.Task[None]) -> None:
        history.ended = None if task.cancelled() else task.exception()

    following = asyncio.create_task(follow())
    following.add_done_callback(note)
    try:
        yield history
        assert not following.done(), following.exception()
    finally:
        following.cancel()
        with suppress(asyncio.CancelledError, AssertionError):
            await following
