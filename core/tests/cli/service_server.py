"""A RayService as its plan left it, shown by the reading half of an API server: for tests of ``kuberay why`` and ``diff``."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, RAYCLUSTER
from kuberay.kube.transport import Response
from why_server import Manifest, Server

from core.tests.plan.service.worlds import World


class ServiceServer(Server):
    """Shows what is in a `World`; only ever reads."""

    def __init__(self) -> None:
        super().__init__()
        self.now = datetime.min
        self.connection = SimpleNamespace(namespace="default")

    def show(self, world: World) -> ServiceServer:
        """Take over all objects, with the status that plans of RayClusters would have written."""
        self.now = world.now
        self.objects = {plural: [] for plural in ("rayclusters", "rayservices", "pods", "services", "events")}
        for (kind, _), body in world.objects.items():
            body = copy.deepcopy(body)
            if kind == RAYCLUSTER and body.get("status"):
                conditions = body["status"].get("conditions") or ()
                ready = any(each["type"] == "HeadPodReady" and each["status"] == "True" for each in conditions)
                body["status"] |= {"observedGeneration": body["metadata"]["generation"]}
                body["status"] |= {"state": "ready"} if ready else {}
            self.objects.setdefault(kind.plural, []).append(body)
        return self

    async def request(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, **more: object
    ) -> Response:
        path = path.replace("/namespaces/default/", "/namespaces/lab/")
        return await super().request(method, path, params=params, **more)

    async def close(self) -> None:
        """There is nothing to close."""


def edit_image(world: World, image: str = "other:2") -> Manifest:
    """Another image for the workers: what needs another RayCluster, or other pods."""
    config: Manifest = copy.deepcopy(world.service["spec"]["rayClusterConfig"])
    config["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = image
    world.edit(rayClusterConfig=config)
    return config


def accept_gateways(world: World) -> None:
    """Play a gateway controller that takes everything."""
    for (kind, _), body in world.objects.items():
        conditions = [{"type": type_, "status": "True"} for type_ in ("Accepted", "Programmed", "ResolvedRefs")]
        if kind == GATEWAY:
            body["status"] = {"conditions": conditions}
        elif kind == HTTP_ROUTE:
            parents: list[Any] = [{"parentRef": each, "conditions": conditions} for each in body["spec"]["parentRefs"]]
            body["status"] = {"parents": parents}
