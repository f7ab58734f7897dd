"""What is measured once all RayClusters are ready: edits of a few while the others exist, and the deletion of all.

Deletion is measured for the floor too, where nobody but Kubernetes' own garbage collector works.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import orjson
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE, Kind
from kuberay.api.names import LABEL_CLUSTER
from kuberay.kube.client import Client

from bench.workload import NAMESPACE, WORKERS, raycluster

_CONFIG_MAP = Kind("", "v1", "configmaps", "ConfigMap")
EDITS = 10
"""Edits in flight at once."""
EDIT_ROUNDS = 10
DEADLINE = 900.0


async def edits(client: Client, clusters: int) -> dict[str, Any]:
    """Seconds from an edit of ``replicas`` to the running pods it asks for, and to the status that counts them ready.

    `EDITS` RayClusters are scaled at a time, up and down in turn; each round has other clusters.
    """
    up: list[tuple[float, float]] = []
    down: list[tuple[float, float]] = []
    for round_number in range(EDIT_ROUNDS):
        numbers = {(round_number * EDITS + n) * 7 % clusters for n in range(EDITS)}
        up += await asyncio.gather(*(_edit(client, number, WORKERS + 1) for number in numbers))
        down += await asyncio.gather(*(_edit(client, number, WORKERS) for number in numbers))
    return {
        "edits": len(up) + len(down),
        "edit_pods_p99": _p99([pods for pods, _ in up + down]),
        "edit_status_p99": _p99([status for _, status in up + down]),
        "edit_up_p99": _p99([max(both) for both in up]),
        "edit_down_p99": _p99([max(both) for both in down]),
    }


async def deletion(client: Client) -> dict[str, Any]:
    """Seconds from one delete of all RayClusters to the last of them, their pods and services being gone."""
    await _collector_knows_rayclusters(client)
    started = time.monotonic()
    # One request for all of them takes the API server long when there are thousands.
    path, params = RAYCLUSTER.path(NAMESPACE), {"propagationPolicy": "Background"}
    await client.transport.request("DELETE", path, params=params, timeout=DEADLINE)
    deadline = started + DEADLINE
    while any([await _any_left(client, kind) for kind in (RAYCLUSTER, POD, SERVICE)]):
        if time.monotonic() > deadline:
            raise SystemExit("not everything was deleted in time")
        await asyncio.sleep(0.25)
    return {"deletion_seconds": time.monotonic() - started}


async def _collector_knows_rayclusters(client: Client) -> None:
    """The garbage collector looks for new kinds every half minute; before that it would not notice the deletion."""
    body = raycluster(0)
    body["metadata"]["name"] = "collected"
    body["spec"]["managedBy"] = "kueue.x-k8s.io/multikueue"  # no operator acts on it
    owner = orjson.loads(await client.create(RAYCLUSTER, NAMESPACE, body))
    reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "collected", "uid": owner["metadata"]["uid"]}
    metadata = {"name": "collected", "ownerReferences": [reference]}
    await client.create(_CONFIG_MAP, NAMESPACE, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    await client.transport.request(
        "DELETE", RAYCLUSTER.path(NAMESPACE, "collected"), params={"propagationPolicy": "Background"}
    )
    deadline = time.monotonic() + 120
    while (await client.transport.request("GET", _CONFIG_MAP.path(NAMESPACE, "collected"))).status != 404:
        if time.monotonic() > deadline:
            raise SystemExit("the garbage collector does not notice the deletion of RayClusters")
        await asyncio.sleep(0.25)


async def _edit(client: Client, number: int, replicas: int) -> tuple[float, float]:
    name = raycluster(number)["metadata"]["name"]
    groups = raycluster(number)["spec"]["workerGroupSpecs"]
    groups[0]["replicas"] = replicas
    of_pods, of_status = {"labelSelector": f"{LABEL_CLUSTER}={name}"}, {"fieldSelector": f"metadata.name={name}"}
    pods = asyncio.create_task(_reached(client, POD, of_pods, _Pods(replicas + 1)))
    status = asyncio.create_task(_reached(client, RAYCLUSTER, of_status, _Ready(replicas)))
    await asyncio.sleep(0.1)  # what is there is known and both watches begin there
    started = time.monotonic()
    await client.merge_patch(RAYCLUSTER, NAMESPACE, name, {"spec": {"workerGroupSpecs": groups}})
    return await pods - started, await status - started


class _Pods:
    """Whether so many pods run and none other is there."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._phases: dict[str, str] = {}

    def __call__(self, event: dict[str, Any]) -> bool:
        name = event["object"]["metadata"]["name"]
        if event["type"] == "DELETED":
            self._phases.pop(name, None)
        else:
            self._phases[name] = event["object"].get("status", {}).get("phase", "")
        return len(self._phases) == self._count and set(self._phases.values()) == {"Running"}


class _Ready:
    """Whether the status speaks of so many ready workers."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas

    def __call__(self, event: dict[str, Any]) -> bool:
        status = event["object"].get("status", {})
        wanted = (self._replicas, self._replicas)
        return (status.get("desiredWorkerReplicas"), status.get("readyWorkerReplicas")) == wanted


async def _reached(client: Client, kind: Kind, selector: dict[str, str], reached: _Pods | _Ready) -> float:
    """When *reached* became true by a change after this call."""
    path = kind.path(NAMESPACE)
    listed = orjson.loads((await client.transport.request("GET", path, params=selector)).body)
    for item in listed["items"]:
        reached({"type": "ADDED", "object": item})
    params = {**selector, "watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
    async with asyncio.timeout(60), client.transport.stream(path, params=params, idle_timeout=60) as (_, lines):
        async for line in lines:
            if reached(orjson.loads(line)):
                return time.monotonic()
    raise SystemExit(f"the watch of {kind} ended before the edit was done")


async def _any_left(client: Client, kind: Kind) -> bool:
    selector = {"labelSelector": LABEL_CLUSTER} if kind == SERVICE else {}
    response = await client.transport.request("GET", kind.path(NAMESPACE), params={"limit": "1", **selector})
    return bool(orjson.loads(response.body)["items"])


def _p99(values: list[float]) -> float:
    return sorted(values)[max(0, int(len(values) * 0.99) - 1)]
