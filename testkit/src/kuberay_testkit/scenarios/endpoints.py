"""Plays the endpoints of serve services on a server whose own controller has none: pods here have no node, and it leaves
such pods out.

The slices stand beside those of the server's controller, as slices of another manager do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kuberay.api.kinds import ENDPOINT_SLICE
from kuberay.api.names import LABEL_SERVE
from kuberay.kube.client import Client
from kuberay.kube.errors import NotFoundError

from kuberay_testkit.scenarios.pods import is_ready, phase_of, terminating
from kuberay_testkit.sim.endpoints import MANAGED_BY, SERVICE_NAME, selects

Body = dict[str, Any]
MANAGER = "played-endpoints"
REACTION = 0.2
"""Seconds until a change is acted on, together with others that come meanwhile."""


class PlayedEndpoints:
    """Those of one namespace. `changed` tells of services and pods; `run` writes until it is cancelled."""

    def __init__(
        self, client: Client, namespace: str, services: Callable[[], Iterable[Body]], pods: Callable[[], Iterable[Body]]
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._services = services
        self._pods = pods
        self._changed = asyncio.Event()
        self._written: dict[str, Body] = {}

    def changed(self) -> None:
        """A service or a pod is another one than before."""
        self._changed.set()

    async def run(self) -> None:
        while True:
            await self._changed.wait()
            await asyncio.sleep(REACTION)
            self._changed.clear()
            for service in list(self._services()):
                await self._write(service)

    async def _write(self, service: Body) -> None:
        wanted = endpoint_slice(service, self._pods())
        uid = service["metadata"]["uid"]
        if wanted is None or self._written.get(uid) == wanted:
            return
        name = wanted["metadata"]["name"]
        try:
            await self._client.apply(ENDPOINT_SLICE, self._namespace, name, wanted)
        except NotFoundError:
            return  # the namespace is going
        self._written[uid] = wanted


def endpoint_slice(service: Mapping[str, Any], pods: Iterable[Mapping[str, Any]]) -> Body | None:
    """The slice of a serve service, with those of *pods* that it selects; None for other services."""
    metadata, selector = service["metadata"], service["spec"].get("selector") or {}
    if LABEL_SERVE not in selector or terminating(service):
        return None
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    ports = service["spec"].get("ports") or ()
    return {
        "apiVersion": ENDPOINT_SLICE.api_version,
        "kind": ENDPOINT_SLICE.kind,
        "metadata": {
            # Named after the very service: one of the same name that comes later has a slice of its own.
            "name": f"{metadata['name']}-{metadata['uid'][:8]}",
            "namespace": metadata["namespace"],
            "labels": {**(metadata.get("labels") or {}), SERVICE_NAME: metadata["name"], MANAGED_BY: MANAGER},
            "ownerReferences": [owner],
        },
        "addressType": "IPv4",
        "endpoints": [_endpoint(pod) for pod in pods if _stands_behind(pod, selector)],
        "ports": [{"name": port.get("name", ""), "port": port["port"], "protocol": "TCP"} for port in ports],
    }


def _stands_behind(pod: Mapping[str, Any], selector: Mapping[str, str]) -> bool:
    alive = phase_of(pod) == "Running" and bool(pod["status"].get("podIP")) and not terminating(pod)
    return alive and selects(selector, pod["metadata"].get("labels") or {})


def _endpoint(pod: Mapping[str, Any]) -> Body:
    metadata, ready = pod["metadata"], is_ready(pod)
    return {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": ready, "serving": ready, "terminating": False},
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
