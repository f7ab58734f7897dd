"""The least the same objects can cost: a bare client that makes them with one status apply and one event each.

It knows every manifest beforehand, looks at nothing and decides nothing; whatever an operator costs beyond it is the
operator's own.
"""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import orjson
from kuberay.api.kinds import EVENT, RAYCLUSTER, Kind
from kuberay.kube.client import Client
from kuberay.operator.offline import render
from kuberay.operator.settings import Settings
from kuberay.operator.start import PLANS, assemble_plugins
from kuberay.plan.config import PlanConfig

from bench.workload import NAMESPACE, raycluster


def children_of_one() -> list[dict[str, Any]]:
    """The children of the first RayCluster, as the operator would make them."""
    hooks, gates = assemble_plugins(Settings())
    return render(raycluster(0), plans=PLANS, hooks=hooks, gates=gates, config=PlanConfig()).children


def retarget(template: bytes, number: int, uid: str, old_uid: str) -> dict[str, Any]:
    """One of those children for another RayCluster."""
    text = template.replace(b"load-00000", f"load-{number:05d}".encode()).replace(old_uid.encode(), uid.encode())
    body: dict[str, Any] = orjson.loads(text)
    return body


async def make_all(client: Client, count: int, concurrency: int, kinds: dict[str, Kind]) -> None:
    """Create *count* RayClusters with their children, status and event."""
    children = children_of_one()
    old_uid = children[0]["metadata"]["ownerReferences"][0]["uid"]
    templates = [(kinds[child["kind"]], orjson.dumps(child)) for child in children]
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await _make_one(client, number, templates, old_uid)

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())


async def _make_one(client: Client, number: int, templates: list[tuple[Kind, bytes]], old_uid: str) -> None:
    created = orjson.loads(await client.create(RAYCLUSTER, NAMESPACE, raycluster(number)))
    name, uid = created["metadata"]["name"], created["metadata"]["uid"]
    for kind, template in templates:
        body = retarget(template, number, uid, old_uid)
        body["metadata"].pop("namespace", None)
        await client.create(kind, NAMESPACE, body)
    status = {
        "apiVersion": RAYCLUSTER.api_version,
        "kind": RAYCLUSTER.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "status": copy.deepcopy(_READY),
    }
    await client.apply(RAYCLUSTER, NAMESPACE, name, status, subresource="status")
    await client.create(
        EVENT,
        NAMESPACE,
        {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": f"{name}.floor", "namespace": NAMESPACE},
            "eventTime": "2026-01-01T00:00:00.000000Z",
            "reportingController": "floor",
            "reportingInstance": "floor",
            "type": "Normal",
            "reason": "CreatedHeadPod",
            "action": "Create",
            "note": f"Created head Pod {NAMESPACE}/{name}-head",
            "regarding": {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "namespace": NAMESPACE,
                "name": name,
                "uid": uid,
            },
        },
    )


_READY = {
    "state": "ready",
    "desiredCPU": "4",
    "desiredMemory": "8Gi",
    "desiredGPU": "0",
    "desiredTPU": "0",
    "desiredWorkerReplicas": 3,
    "availableWorkerReplicas": 3,
    "readyWorkerReplicas": 3,
    "maxWorkerReplicas": 10,
    "observedGeneration": 1,
    "endpoints": {"client": "10001", "dashboard": "8265", "gcs-server": "6379", "metrics": "8080", "serve": "8000"},
    "head": {"podIP": "10.0.0.1", "podName": "head", "serviceIP": "10.0.0.1", "serviceName": "head-svc"},
    "conditions": [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }
        for kind in ("HeadPodReady", "RayClusterProvisioned")
    ],
}
