"""RayClusters with Redis fault tolerance are deleted on a real API server, with its Job controller and garbage collector."""

from __future__ import annotations

from typing import Any

import pytest
from kube_world import Operator, World
from kuberay.api.kinds import JOB, NAMESPACE, POD, RAYCLUSTER
from kuberay.api.names import REDIS_CLEANUP, REDIS_FINALIZER
from kuberay.kube.errors import NotFoundError

JOB_NAME = "ft-redis-cleanup"


def cluster(**annotations: str) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "ray", "image": "rayproject/ray:2.54.0"}]}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "ft", "annotations": annotations},
        "spec": {
            "rayVersion": "2.54.0",
            "headGroupSpec": {"template": template},
            "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
        },
    }


async def ready(world: World) -> None:
    async def check() -> bool:
        return bool((await world.get(RAYCLUSTER, "ft")).get("status", {}).get("state") == "ready")

    await world.eventually(check, what="the cluster is ready")
    assert (await world.get(RAYCLUSTER, "ft"))["metadata"]["finalizers"] == [REDIS_FINALIZER]


async def delete(world: World, propagation: str = "Background") -> None:
    uid = (await world.get(RAYCLUSTER, "ft"))["metadata"]["uid"]
    await world.client.delete(RAYCLUSTER, world.namespace, "ft", uid=uid, propagation=propagation)


async def end_job(world: World, phase: str) -> None:
    """The cleanup pod ends; the fake kubelet does what the annotation says."""
    (pod,) = await world.eventually(lambda: world.pods(node_type=REDIS_CLEANUP), what="a cleanup pod")
    assert not await world.pods(node_type="head")
    wish = {"fake-kubelet.kuberay.dev/phase": phase, "fake-kubelet.kuberay.dev/delay": "0"}
    await world.patch(POD, pod["metadata"]["name"], {"metadata": {"annotations": wish}})


async def gone(world: World, seconds: float = 20.0) -> None:
    async def check() -> bool:
        return not await world.list(RAYCLUSTER)

    await world.eventually(check, seconds=seconds, what="the cluster is gone")


async def warnings(world: World) -> set[str]:
    return {event["reason"] for event in await world.events() if event["type"] == "Warning"}


@pytest.mark.parametrize(
    ("phase", "propagation", "told"),
    [
        ("Succeeded", "Background", set()),
        ("Failed", "Background", {"RedisCleanupFailed"}),
        ("Succeeded", "Foreground", set()),
    ],
)
async def test_the_cluster_goes_with_its_job(
    operators: Operator, world: World, phase: str, propagation: str, told: set[str]
) -> None:
    operators.ensure()
    await world.put(cluster())
    await ready(world)
    await delete(world, propagation)
    await end_job(world, phase)
    await gone(world)
    assert {reason for reason in await warnings(world) if "Redis" in reason or "Stuck" in reason} == told

    async def no_job() -> bool:
        return not await world.list(JOB)

    await world.eventually(no_job, what="the Job is gone too")


async def test_a_job_that_does_not_end_is_given_up(operators: Operator, world: World) -> None:
    operators.ensure()
    await world.put(cluster(**{"ray.io/gcs-ft-deletion-timeout": "4"}))
    await ready(world)
    await delete(world)
    await world.eventually(lambda: world.pods(node_type=REDIS_CLEANUP), what="a cleanup pod")
    await gone(world)

    async def forced() -> bool:
        return "ForceDeletedStuckCluster" in await warnings(world)

    await world.eventually(forced)


async def test_a_namespace_that_goes_is_not_held_up(operators: Operator, world: World) -> None:
    """RC-25: no Job can be made there any more."""
    operators.ensure()
    await world.put(cluster())
    await ready(world)
    await world.client.transport.request("DELETE", NAMESPACE.path(None, world.namespace))

    async def no_namespace() -> bool:
        try:
            await world.client.get(NAMESPACE, "", world.namespace)
        except NotFoundError:
            return True
        return False

    await world.eventually(no_namespace, seconds=60, what="the namespace is gone")
