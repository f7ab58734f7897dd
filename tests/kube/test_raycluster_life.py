"""A RayCluster's life on a real API server: created, scaled, suspended, resumed, broken, deleted."""

from __future__ import annotations

from typing import Any

import pytest
from kube_world import Operator, World
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE


def cluster(name: str = "ray", *, replicas: int = 2, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.54.0"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": name},
        "spec": {
            "rayVersion": "2.54.0",
            "headGroupSpec": {"template": template},
            "workerGroupSpecs": [
                {"groupName": "small", "replicas": replicas, "minReplicas": 0, "maxReplicas": 9, "template": template}
            ],
            **spec,
        },
    }


async def ready(world: World, name: str = "ray", workers: int = 2) -> dict[str, Any]:
    async def check() -> Any:
        status = (await world.get(RAYCLUSTER, name)).get("status", {})
        return status if status.get("state") == "ready" and status.get("readyWorkerReplicas", 0) == workers else None

    return await world.eventually(check, what=f"{name} ready with {workers} workers")


async def test_scales_up_and_down(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster())
    await ready(world)
    group = {"spec": {"workerGroupSpecs": [{**cluster()["spec"]["workerGroupSpecs"][0], "replicas": 4}]}}
    await world.patch(RAYCLUSTER, "ray", group)
    await ready(world, workers=4)
    group["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    await world.patch(RAYCLUSTER, "ray", group)
    await world.eventually(lambda: _count(world, 1, group="small"))
    assert len(await world.pods(node_type="head")) == 1


async def test_named_workers_go_and_are_replaced(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster(replicas=3))
    await ready(world, workers=3)
    before = {pod["metadata"]["name"] for pod in await world.pods(group="small")}
    victim = sorted(before)[1]
    group = {**cluster(replicas=2)["spec"]["workerGroupSpecs"][0], "scaleStrategy": {"workersToDelete": [victim]}}
    await world.patch(RAYCLUSTER, "ray", {"spec": {"workerGroupSpecs": [group]}})
    await world.eventually(lambda: _count(world, 2, group="small"))
    assert {pod["metadata"]["name"] for pod in await world.pods(group="small")} == before - {victim}


async def test_suspends_and_resumes(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster())
    await ready(world)
    await world.patch(RAYCLUSTER, "ray", {"spec": {"suspend": True}})

    async def suspended() -> bool:
        status = (await world.get(RAYCLUSTER, "ray"))["status"]
        return status.get("state") == "suspended" and not await world.list(POD)

    await world.eventually(suspended)
    assert [svc["metadata"]["name"] for svc in await world.list(SERVICE)] == ["ray-head-svc"]
    await world.patch(RAYCLUSTER, "ray", {"spec": {"suspend": False}})
    await ready(world)


async def test_a_lost_worker_and_a_lost_head_are_replaced(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster())
    await ready(world)
    head = (await world.pods(node_type="head"))[0]["metadata"]["name"]
    worker = (await world.pods(group="small"))[0]["metadata"]["name"]
    await world.delete(POD, head)
    await world.delete(POD, worker)

    async def replaced() -> bool:
        heads = [pod["metadata"]["name"] for pod in await world.pods(node_type="head")]
        return len(heads) == 1 and heads[0] != head and len(await world.pods(group="small")) == 2

    await world.eventually(replaced)


async def test_a_settled_cluster_costs_no_request(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster())
    await ready(world)
    await world.settled()
    before = operators.requests()
    # An edit of metadata that asks for nothing new makes a pass, and that pass finds nothing to do.
    await world.patch(RAYCLUSTER, "ray", {"metadata": {"annotations": {"note": "nothing to do"}}})
    await world.settled()
    assert operators.requests() == before


async def test_until_ready_two_status_writes_and_three_events(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster(replicas=3))
    await ready(world, workers=3)
    await world.settled()
    live = await world.get(RAYCLUSTER, "ray")
    assert live["metadata"]["generation"] == 1
    assert len([e for e in await world.events() if e["regarding"]["kind"] == "RayCluster"]) <= 3


@pytest.mark.parametrize("owner", ["nobody", "another cluster"])
async def test_a_foreign_service_is_left_alone(operators: Operator, world: World, owner: str) -> None:
    """Its name is that of the head service, and none of our labels shows it to the operator beforehand."""
    operators.ensure()
    theirs: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ray-head-svc"}}
    theirs["spec"] = {"selector": {"app": "theirs"}, "ports": [{"port": 80}]}
    if owner != "nobody":
        theirs["metadata"]["ownerReferences"] = [
            {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "other", "uid": "u-1", "controller": True}
        ]
    await world.put({**cluster("other"), "spec": {**cluster("other")["spec"], "suspend": True}})
    if owner != "nobody":
        theirs["metadata"]["ownerReferences"][0]["uid"] = (await world.get(RAYCLUSTER, "other"))["metadata"]["uid"]
    await world.put(theirs)
    before = await world.get(SERVICE, "ray-head-svc")
    await world.put(cluster())

    async def told() -> Any:
        conditions = (await world.get(RAYCLUSTER, "ray")).get("status", {}).get("conditions", [])
        return next((c["message"] for c in conditions if c["type"] == "PodsWaiting"), None)

    message = await world.eventually(told, what="a condition about the service")
    assert "already exists and is not owned by this RayCluster" in message
    assert await world.get(SERVICE, "ray-head-svc") == before
    assert await world.pods(node_type="head") == []


async def test_an_invalid_edit_touches_nothing_and_says_why(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster())
    await ready(world)
    pods = {pod["metadata"]["uid"] for pod in await world.list(POD)}
    group = {**cluster()["spec"]["workerGroupSpecs"][0], "minReplicas": 5, "maxReplicas": 3}
    await world.patch(RAYCLUSTER, "ray", {"spec": {"workerGroupSpecs": [group]}})

    async def told() -> Any:
        conditions = (await world.get(RAYCLUSTER, "ray"))["status"]["conditions"]
        return next((c for c in conditions if c["type"] == "RayClusterSpecValid" and c["status"] == "False"), None)

    condition = await world.eventually(told)
    assert "spec.workerGroupSpecs[0]" in condition["message"]
    assert "minReplicas 5 greater than maxReplicas 3" in condition["message"]

    async def noted() -> list[dict[str, Any]]:
        return [e for e in await world.events() if e["reason"] == "InvalidRayClusterSpec"]

    events = await world.eventually(noted)
    assert [e["regarding"].get("fieldPath", "").startswith("spec.workerGroupSpecs[0]") for e in events] == [True]
    assert {pod["metadata"]["uid"] for pod in await world.list(POD)} == pods


async def test_delete_leaves_nothing(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster())
    await ready(world)
    await world.delete(RAYCLUSTER, "ray")

    async def empty() -> bool:
        return not await world.list(POD) and not await world.list(SERVICE) and not await world.list(RAYCLUSTER)

    await world.eventually(empty)


async def test_killed_in_the_middle_ends_in_the_same_children(operators: Operator, world: World) -> None:
    operators.ensure()
    names = [f"ray-{n}" for n in range(10)]
    for name in names:
        await world.put(cluster(name, replicas=3))
    operators.kill()
    operators.ensure()
    for name in names:
        await ready(world, name, workers=3)
    await world.settled()
    pods = await world.list(POD)
    assert len(pods) == 40
    assert (
        len({(p["metadata"]["labels"]["ray.io/cluster"], p["metadata"]["labels"]["ray.io/node-type"]) for p in pods})
        == 20
    )


async def test_stops_cleanly_within_ten_seconds(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster())
    assert operators.stop() < 10
    operators.ensure()
    await ready(world)


async def _count(world: World, wanted: int, **labels: str) -> bool:
    return len(await world.pods(**labels)) == wanted
