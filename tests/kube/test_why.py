"""A cluster that cannot become ready says so in its status and through ``kuberay why``, on a real API server."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from kube_world import Operator, World
from kuberay.api.kinds import POD, RAYCLUSTER, Kind

QUOTA = Kind("", "v1", "resourcequotas", "ResourceQuota")
HOLD = "fake-kubelet.kuberay.dev/hold"


def cluster(replicas: int, **annotations: str) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.54.0"}]},
    }
    group = {"groupName": "small", "replicas": replicas, "minReplicas": 0, "maxReplicas": 9, "template": template}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {
            "headGroupSpec": {"template": {"spec": template["spec"]}},
            "workerGroupSpecs": [group],
        },
    }


def why(world: World, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kuberay.cli.main", "why", "raycluster/ray", "-n", world.namespace, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


async def not_ready(world: World, reason: str) -> dict[str, Any]:
    async def check() -> Any:
        conditions = (await world.get(RAYCLUSTER, "ray"))["status"]["conditions"]
        return next((c for c in conditions if (c["type"], c["reason"]) == ("PodsNotReady", reason)), None)

    found: dict[str, Any] = await world.eventually(check, seconds=30)
    return found


async def ready(world: World) -> Any:
    async def check() -> bool:
        status = (await world.get(RAYCLUSTER, "ray"))["status"]
        kinds = {condition["type"] for condition in status["conditions"]}
        return status.get("state") == "ready" and not kinds & {"PodsNotReady", "ReplicaFailure"}

    return await world.eventually(check, seconds=60)


async def test_why_a_quota_keeps_workers_away(operators: Operator, world: World) -> None:
    """RC-09: in the API server's words, and gone when the quota is."""
    operators.ensure()
    await world.put(
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "tight"},
            "spec": {"hard": {"pods": "2"}},
        }
    )
    await world.eventually(lambda: _hard(world))
    await world.put(cluster(3))
    condition = await not_ready(world, "QuotaExceeded")
    assert condition["message"].startswith("2 pods of group small: QuotaExceeded: exceeded quota: tight")
    status = (await world.get(RAYCLUSTER, "ray"))["status"]
    assert status.get("state", "") == ""
    assert status["workerGroups"][0]["desired"] == 3
    (failure,) = [c for c in status["conditions"] if c["type"] == "ReplicaFailure"]
    assert "exceeded quota: tight" in failure["message"]

    async def noted() -> bool:
        return any(e["reason"] == "FailedToCreateWorkerPod" for e in await world.events())

    await world.eventually(noted)
    told = why(world)
    assert told.returncode == 0, told.stderr
    assert f"RayCluster {world.namespace}/ray: not ready\n2 of 4 pods are ready.\n" in told.stdout
    assert "exceeded quota: tight" in told.stdout
    assert "kubectl describe resourcequota" in told.stdout
    assert "RayCluster ray: FailedToCreateWorkerPod" in told.stdout, "events are found by what they are about"
    report = json.loads(why(world, "-o", "json").stdout)
    assert [finding["reason"] for finding in report["findings"]] == ["QuotaExceeded"]
    assert report["notes"] == []

    await world.patch(QUOTA, "tight", {"spec": {"hard": {"pods": "9"}}})
    await ready(world)
    assert "Nothing is wrong: all 4 pods are ready" in why(world).stdout


async def test_why_a_worker_finds_no_node(operators: Operator, world: World) -> None:
    """Told without any event after the scheduler's first word, and once."""
    operators.ensure()
    await world.put(cluster(1, **{HOLD: "true"}))

    async def made() -> Any:
        return await world.pods(group="small")

    (pod,) = await world.eventually(made)
    message = "0/5 nodes are available: 5 Insufficient memory."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    scheduled["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]
    await world.patch(POD, pod["metadata"]["name"], {"status": {"conditions": [scheduled]}}, subresource="status")
    condition = await not_ready(world, "Unschedulable")
    name = pod["metadata"]["name"]
    assert condition["message"] == f"pod {name} of group small: Unschedulable: {message}"
    told = why(world)
    assert f"1. {condition['message']}\n" in told.stdout
    version = (await world.get(RAYCLUSTER, "ray"))["metadata"]["resourceVersion"]
    await world.settled()
    assert (await world.get(RAYCLUSTER, "ray"))["metadata"]["resourceVersion"] == version


async def test_why_of_nothing(operators: Operator, world: World) -> None:
    missing = why(world)
    assert missing.returncode == 1
    assert missing.stderr == f"kuberay: There is no RayCluster ray in namespace {world.namespace}.\n"
    operators.stop()
    await world.put(cluster(1))
    alone = why(world)
    assert alone.returncode == 0
    assert "No operator has looked at this object yet." in alone.stdout


async def _hard(world: World) -> bool:
    quota = await world.get(QUOTA, "tight")
    return bool(quota.get("status", {}).get("hard"))
