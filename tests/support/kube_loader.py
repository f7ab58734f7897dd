"""Puts a recorded cluster of KubeRay into a namespace of a real API server, as KubeRay itself would have written it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from kube_world import World, kind_of
from kuberay.kube.client import Client
from kuberay_testkit.golden import Manifest


class KubeLoader:
    """Creates recorded objects in a namespace, by KubeRay's field manager."""

    def __init__(self, client: Client, world: World) -> None:
        self.client = Client(client.transport, field_manager="kuberay-operator")
        self.world = World(self.client, world.namespace)

    async def create(self, manifest: Manifest) -> Manifest:
        found: Manifest = orjson.loads(await self.client.create(kind_of(manifest), self.world.namespace, manifest))
        return found

    async def running(self) -> dict[str, str]:
        async def ready() -> dict[str, str]:
            pods = await self.world.pods()
            told = {pod["metadata"]["name"]: (pod.get("status") or {}).get("podIP", "") for pod in pods}
            return told if all(told.values()) and all(map(_is_ready, pods)) else {}

        found: dict[str, str] = await self.world.eventually(ready, seconds=60, what="all pods run and are ready")
        return found

    async def set_status(self, manifest: Manifest, status: Mapping[str, Any]) -> None:
        name = manifest["metadata"]["name"]
        await self.world.patch(kind_of(manifest), name, {"status": dict(status)}, subresource="status")


def _is_ready(pod: Manifest) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
