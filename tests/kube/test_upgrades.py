"""Rolling upgrades on a real API server: pods of one group are replaced, or get another size while they run."""

from __future__ import annotations

from typing import Any

from kube_world import Operator, World
from kuberay.api.kinds import POD, RAYCLUSTER

NO_DRAINING = {"ray.io/drain-timeout-seconds": "0"}


def template(image: str, cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "memory": "64Mi"}
    container = {"name": "ray", "image": image, "resources": {"limits": dict(amounts), "requests": dict(amounts)}}
    return {"spec": {"containers": [container]}}


def groups(image: str = "rayproject/ray:2.54.0", cpu: str = "100m") -> list[dict[str, Any]]:
    """Two groups, of which only the first one is what the arguments say."""
    pinned = {"num-cpus": "1", "memory": "100000000"}
    sizes = {"minReplicas": 0, "maxReplicas": 9, "rayStartParams": pinned}
    return [
        {"groupName": "small", "replicas": 3, "template": template(image, cpu), **sizes},
        {"groupName": "rest", "replicas": 1, "template": template("rayproject/ray:2.54.0", "100m"), **sizes},
    ]


async def make(world: World) -> None:
    spec = {
        "rayVersion": "2.54.0",
        "upgradeStrategy": {"type": "Rolling"},
        "headGroupSpec": {"template": template("rayproject/ray:2.54.0", "100m")},
        "workerGroupSpecs": groups(),
    }
    metadata = {"name": "ray", "annotations": NO_DRAINING}
    await world.put({"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": spec})
    await settled(world)


async def settled(world: World) -> None:
    async def check() -> bool:
        body = await world.get(RAYCLUSTER, "ray")
        status = body.get("status", {})
        types = {condition["type"] for condition in status.get("conditions", [])}
        seen = status.get("observedGeneration") == body["metadata"]["generation"]
        return seen and status.get("readyWorkerReplicas") == 4 and "RollingUpgrade" not in types

    await world.eventually(check, what="the cluster is ready and no upgrade is under way")


async def edit(world: World, **change: str) -> None:
    await world.patch(RAYCLUSTER, "ray", {"spec": {"workerGroupSpecs": groups(**change)}})

    async def done() -> bool:
        pods = await world.pods(group="small")
        found = {
            (pod["spec"]["containers"][0]["image"], pod["spec"]["containers"][0]["resources"]["limits"]["cpu"])
            for pod in pods
        }
        wanted = {"image": "rayproject/ray:2.54.0", "cpu": "100m", **change}
        return len(pods) == 3 and found == {(wanted["image"], wanted["cpu"])}

    await world.eventually(done, what="all workers of the group are as the edit says")
    await settled(world)


async def uids(world: World) -> dict[str, str]:
    return {pod["metadata"]["uid"]: pod["metadata"]["labels"]["ray.io/group"] for pod in await world.pods()}


async def test_a_new_image_replaces_one_group(operators: Operator, world: World) -> None:
    operators.ensure()
    await make(world)
    before = await uids(world)
    await edit(world, image="rayproject/ray:new")
    after = await uids(world)
    assert sorted(group for uid, group in before.items() if uid in after) == ["headgroup", "rest"]


async def tell_sizes(world: World) -> None:
    """As a kubelet that can change them: without this the API server refuses to change a running pod."""
    for pod in await world.pods(group="small"):
        statuses = [{**each, "resources": {"limits": {"cpu": "100m"}}} for each in pod["status"]["containerStatuses"]]
        await world.patch(POD, pod["metadata"]["name"], {"status": {"containerStatuses": statuses}}, "status")


async def test_another_size_replaces_nothing(operators: Operator, world: World) -> None:
    operators.ensure()
    await make(world)
    await tell_sizes(world)
    before = await uids(world)
    await edit(world, cpu="150m")
    assert await uids(world) == before
    hashes = {pod["metadata"]["annotations"]["ray.io/group-spec-hash"] for pod in await world.pods(group="small")}
    assert len(hashes) == 1
    assert not any("resizing" in text for text in hashes)


async def test_a_node_that_cannot_resize_gets_new_pods(operators: Operator, world: World) -> None:
    operators.ensure()
    await make(world)
    before = await uids(world)
    await edit(world, cpu="150m")
    after = await uids(world)
    assert sorted(group for uid, group in before.items() if uid in after) == ["headgroup", "rest"]
    reasons = {event["reason"] for event in await world.events()}
    assert {"FailedToResizePod", "RollingUpgradeStarted", "RollingUpgradeCompleted"} <= reasons
