"""What cannot go on says so in its status and through ``kuberay why``, on a real API server; and ``kuberay diff`` of RayJobs."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from kube_world import Operator, World, kuberay
from kuberay.api.kinds import POD, RAYCLUSTER, RAYJOB, Kind

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


def why(world: World, *words: str, what: str = "raycluster/ray") -> subprocess.CompletedProcess[str]:
    return kuberay(world, "why", what, *words)


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


def job(name: str, mode: str, **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": {"name": name},
        "spec": {
            "entrypoint": "python a.py",
            "submissionMode": mode,
            "preRunningDeadlineSeconds": 3600,
            "rayClusterSpec": cluster(1, **annotations)["spec"],
        },
    }


async def in_state(world: World, name: str, state: str) -> dict[str, Any]:
    async def check() -> Any:
        status = (await world.get(RAYJOB, name)).get("status") or {}
        return status if status.get("jobDeploymentStatus") == state else None

    found: dict[str, Any] = await world.eventually(check, seconds=60)
    return found


async def test_why_a_job_waits_for_its_cluster(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(job("held", "K8sJobMode", **{HOLD: "true"}))
    name = (await in_state(world, "held", "Initializing"))["rayClusterName"]

    async def made() -> Any:
        return await world.pods(group="small")

    (pod,) = await world.eventually(made)
    message = "0/5 nodes are available: 5 Insufficient memory."
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    scheduled["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]
    await world.patch(POD, pod["metadata"]["name"], {"status": {"conditions": [scheduled]}}, subresource="status")

    async def told_by_cluster() -> bool:
        status = (await world.get(RAYCLUSTER, name))["status"]
        return any(condition["type"] == "PodsNotReady" for condition in status["conditions"])

    await world.eventually(told_by_cluster, seconds=30)
    report = json.loads(why(world, "-o", "json", what="rayjob/held").stdout)
    assert report["state"] == "starting"
    assert f"it waits for RayCluster {name} to become ready" in report["summary"]
    assert [finding["reason"] for finding in report["findings"]] == ["Unschedulable"]
    assert report["findings"][0]["what"].startswith(f"RayCluster {name}: pod {pod['metadata']['name']} of group small")
    assert report["ahead"][0]["what"] == "the RayJob fails: PreRunningDeadlineExceeded"
    assert report["notes"] == []


async def test_why_and_diff_of_a_job_that_waits_for_its_id(operators: Operator, world: World) -> None:
    """RJ-22."""
    operators.ensure()
    wanted = job("ask", "InteractiveMode")
    await world.put(wanted)
    name = (await in_state(world, "ask", "Waiting"))["rayClusterName"]
    told = why(world, what="rayjob/ask")
    assert told.stdout.startswith(f"RayJob {world.namespace}/ask: waiting for a job id\n"), told.stderr
    assert f"kubectl patch rayjob ask -n {world.namespace} --type merge" in told.stdout
    wanted["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] = 2
    wanted["spec"]["preRunningDeadlineSeconds"] = 1
    answer = kuberay(world, "diff", "-f", "-", "-o", "json", stdin=json.dumps(wanted))
    assert answer.returncode == 0, answer.stderr
    (edit,) = json.loads(answer.stdout)
    (deadline,) = [change for change in edit["changes"] if change["field"] == "spec.preRunningDeadlineSeconds"]
    assert "the RayJob fails: PreRunningDeadlineExceeded (not at " in deadline["sentence"]
    del wanted["spec"]["preRunningDeadlineSeconds"]
    (edit,) = json.loads(kuberay(world, "diff", "-f", "-", "-o", "json", stdin=json.dumps(wanted)).stdout)
    assert f"RayCluster {name}: spec.workerGroupSpecs[small].replicas 1 -> 2" in edit["atOnce"]


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
