"""Workers that leave, and budgets against evictions, on a real API server; Ray is not there to drain anything."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from kube_world import Operator, World
from kuberay.api.kinds import POD, POD_DISRUPTION_BUDGET, RAYCLUSTER
from kuberay.kube.errors import ApiError


def cluster(replicas: int, *, head: dict[str, Any] | None = None, **group: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.54.0"}]}}
    crew = {"groupName": "crew", "replicas": replicas, "minReplicas": 0, "maxReplicas": 9, "template": template}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {
            "rayVersion": "2.54.0",
            "headGroupSpec": {"template": template, **(head or {})},
            "workerGroupSpecs": [{**crew, **group}],
        },
    }


async def ready(world: World, workers: int) -> None:
    async def check() -> bool:
        status = (await world.get(RAYCLUSTER, "ray")).get("status", {})
        return (status.get("state"), status.get("readyWorkerReplicas", 0)) == ("ready", workers)

    await world.eventually(check, what=f"ready with {workers} workers")


async def scale(world: World, replicas: int, **group: Any) -> None:
    groups = cluster(replicas, **group)["spec"]["workerGroupSpecs"]
    await world.patch(RAYCLUSTER, "ray", {"spec": {"workerGroupSpecs": groups}})


async def test_a_surplus_worker_is_marked_and_goes_although_nobody_drains_it(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster(3))
    await ready(world, 3)
    await scale(world, 2)
    marked: set[str] = set()

    async def gone() -> bool:
        pods = await world.pods(group="crew")
        marked.update(
            pod["metadata"]["name"] for pod in pods if "ray.io/draining-since" in pod["metadata"].get("annotations", {})
        )
        return len(pods) == 2

    before = {pod["metadata"]["name"] for pod in await world.pods(group="crew")}
    await world.eventually(gone)
    assert marked == before - {pod["metadata"]["name"] for pod in await world.pods(group="crew")}


async def test_a_patch_that_names_another_uid_is_refused(operators: Operator, world: World) -> None:
    """What keeps a mark from reaching a later pod of the same name."""
    operators.ensure()
    await world.put(cluster(1))
    await ready(world, 1)
    (pod,) = await world.pods(group="crew")
    mark = {"metadata": {"uid": "0a1b2c3d-0000-4000-8000-000000000001", "annotations": {"mark": "yes"}}}
    with pytest.raises(ApiError) as error:
        await world.patch(POD, pod["metadata"]["name"], mark)
    assert error.value.status in (409, 422)


def evict(namespace: str, pod: dict[str, Any]) -> str:
    """Empty when the pod may go, else what the API server says."""
    name = pod["metadata"]["name"]
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    done = subprocess.run(
        ["kubectl", "create", "--raw", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", "-f", "-"],
        input=json.dumps(body),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stderr if done.returncode else ""


async def test_budgets_hold_evictions_back_and_follow_the_replicas(operators: Operator, world: World) -> None:
    """Kubernetes does not know RayClusters: it counts with a number, never with maxUnavailable or a percentage."""
    operators.ensure()
    budget = {"disruptionBudget": {"maxUnavailable": "34%"}}
    await world.put(cluster(3, head={"disruptionBudget": {"maxUnavailable": 0}}, **budget))
    await ready(world, 3)

    async def counted(name: str, allowed: int) -> dict[str, Any] | None:
        found: dict[str, Any] = await world.get(POD_DISRUPTION_BUDGET, name)
        status = found.get("status", {})
        seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return found if seen and status["currentHealthy"] and status["disruptionsAllowed"] == allowed else None

    await world.eventually(lambda: counted("ray-headgroup", 0))
    await world.eventually(lambda: counted("ray-crew", 2))
    (head,) = await world.pods(node_type="head")
    assert "disruption budget" in evict(world.namespace, head)
    await scale(world, 1, **budget)
    budget_of_one = await world.eventually(lambda: counted("ray-crew", 1))
    assert budget_of_one["spec"]["minAvailable"] == 0
    (worker,) = await world.pods(group="crew")
    assert evict(world.namespace, worker) == ""
    await ready(world, 1)
    await scale(world, 1)

    async def only_the_heads() -> bool:
        return [b["metadata"]["name"] for b in await world.list(POD_DISRUPTION_BUDGET)] == ["ray-headgroup"]

    await world.eventually(only_the_heads)
