"""A node that is full: pods that find no room and pods that are evicted, in the scheduler's and the kubelet's own words, until there is
room again.
"""

from __future__ import annotations

from typing import Any

from kube_world import Operator, World, kuberay
from kuberay.api.kinds import POD, RAYCLUSTER

HOLD = "fake-kubelet.kuberay.dev/hold"
NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found."
)
TAINTED = "0/1 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }."
EVICTED = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 10681812377, available: 9985360Ki. Container ray "
    "was using 1208Ki, request is 0, has larger consumption of ephemeral-storage. "
)


def cluster() -> dict[str, Any]:
    """Pods of group `held` are the test's to run."""
    containers = [{"name": "ray", "image": "rayproject/ray:2.54.0"}]
    group = {
        "groupName": "held",
        "replicas": 2,
        "minReplicas": 0,
        "maxReplicas": 9,
        "template": {"metadata": {"annotations": {HOLD: "true"}}, "spec": {"containers": containers}},
    }
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ray"},
        "spec": {
            "headGroupSpec": {"template": {"spec": {"containers": containers}}},
            "workerGroupSpecs": [group],
        },
    }


async def held(world: World, count: int) -> list[dict[str, Any]]:
    """The workers, oldest first, once there are so many that have not ended."""

    async def check() -> list[dict[str, Any]]:
        pods = [pod for pod in await world.pods(group="held") if pod["status"].get("phase") != "Failed"]
        return sorted(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"])) if len(pods) == count else []

    found: list[dict[str, Any]] = await world.eventually(check, what=f"{count} workers")
    return found


async def no_node(world: World, pod: dict[str, Any], message: str) -> None:
    """The scheduler's answer."""
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    scheduled["lastTransitionTime"] = pod["metadata"]["creationTimestamp"]
    status = {"phase": "Pending", "conditions": [scheduled]}
    await world.patch(POD, pod["metadata"]["name"], {"status": status}, subresource="status")


async def run(world: World, pod: dict[str, Any]) -> None:
    """Leave it to the fake kubelet."""
    await world.patch(POD, pod["metadata"]["name"], {"metadata": {"annotations": {HOLD: None}}})


async def not_ready(world: World, text: str) -> str:
    async def check() -> str:
        conditions = (await world.get(RAYCLUSTER, "ray"))["status"].get("conditions") or ()
        return next((c["message"] for c in conditions if c["type"] == "PodsNotReady" and text in c["message"]), "")

    found: str = await world.eventually(check, seconds=30, what=f"PodsNotReady says: {text}")
    return found


async def ready(world: World) -> None:
    async def check() -> bool:
        status = (await world.get(RAYCLUSTER, "ray")).get("status") or {}
        kinds = {condition["type"] for condition in status.get("conditions") or ()}
        return status.get("readyWorkerReplicas") == 2 and "PodsNotReady" not in kinds

    await world.eventually(check, seconds=30, what="the cluster is ready")


async def test_pods_without_room_and_evicted_ones_say_why(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster())
    fits, waits = await held(world, 2)
    await run(world, fits)
    await no_node(world, waits, NO_ROOM)
    name = waits["metadata"]["name"]
    assert await not_ready(world, "Unschedulable") == f"pod {name} of group held: Unschedulable: {NO_ROOM}"
    assert NO_ROOM in kuberay(world, "why", "raycluster/ray").stdout

    # There is room now.
    await run(world, waits)
    await ready(world)

    # The disk fills up: the kubelet ends a pod and taints the node, so that the pod in its place waits.
    gone = fits["metadata"]["name"]
    target = {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": EVICTED}
    status = {"phase": "Failed", "reason": "Evicted", "message": EVICTED, "conditions": [target]}
    await world.patch(POD, gone, {"status": status}, subresource="status")

    async def told() -> str:
        notes = [event["note"] for event in await world.events() if event["reason"] == "DeletedWorkerPod"]
        return next((note for note in notes if gone in note), "")

    note = await world.eventually(told, what="an event about the evicted pod")
    assert "(Evicted: The node was low on resource: ephemeral-storage." in note
    left, new = await held(world, 2)
    assert left["metadata"]["name"] == name, "the other one is left alone"
    assert new["metadata"]["name"] != gone
    await no_node(world, new, TAINTED)
    assert "node.kubernetes.io/disk-pressure" in await not_ready(world, "Unschedulable")
    why = kuberay(world, "why", "raycluster/ray").stdout
    assert TAINTED in why
    await run(world, new)
    await ready(world)


async def test_an_evicted_head_is_replaced_and_says_why(operators: Operator, world: World) -> None:
    """RC-07: the kubelet never starts it again, whatever its restart policy says."""
    operators.ensure()
    await world.put(cluster())
    for pod in await held(world, 2):
        await run(world, pod)
    await ready(world)
    (head,) = await world.pods(node_type="head")
    uid, name = head["metadata"]["uid"], head["metadata"]["name"]
    status = {"phase": "Failed", "reason": "Evicted", "message": EVICTED}
    await world.patch(POD, name, {"status": status}, subresource="status")

    async def another() -> bool:
        return any(pod["metadata"]["uid"] != uid for pod in await world.pods(node_type="head"))

    await world.eventually(another, what="another head")

    async def told() -> bool:
        return any("(Evicted: The node was low" in event["note"] for event in await world.events())

    await world.eventually(told, what="an event with the kubelet's words")
    await ready(world)
