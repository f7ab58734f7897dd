"""PodGroups on a real API server: what batch schedulers are told while a RayCluster scales, is suspended and comes back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from kube_world import COSCHEDULING_PODGROUP, PODGROUP, Operator, World
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, Kind
from kuberay_testkit.builders import build_raycluster, build_rayjob


@dataclass(frozen=True)
class Scheduler:
    """One that has PodGroups."""

    name: str
    kind: Kind
    group: str
    """Name of the PodGroup of a RayCluster ``rc``."""
    idle: int
    """``minMember`` of an owner without pods: the kind of scheduler-plugins allows nothing below 1."""
    scheduler_name: str


VOLCANO = Scheduler("volcano", PODGROUP, "ray-rc-pg", 0, "volcano")
COSCHEDULING = Scheduler("scheduler-plugins", COSCHEDULING_PODGROUP, "rc", 1, "scheduler-plugins-scheduler")
ALL = pytest.mark.parametrize(
    "scheduler",
    [
        pytest.param(each, id=each.name, marks=pytest.mark.xdist_group(f"gangs {each.name}"))
        for each in (VOLCANO, COSCHEDULING)
    ],
)
GANG = {"ray.io/gang-scheduling-enabled": "true"}

Size = tuple[int, Mapping[str, str]]


async def size(world: World, scheduler: Scheduler) -> Size:
    spec = (await world.get(scheduler.kind, scheduler.group))["spec"]
    return spec["minMember"], spec.get("minResources") or {}


async def until(world: World, scheduler: Scheduler, expected: Size) -> None:
    async def check() -> bool:
        return await size(world, scheduler) == expected

    await world.eventually(check, seconds=30, what=f"PodGroup {scheduler.group} says {expected}")


async def ready(world: World, pods: int) -> None:
    async def check() -> bool:
        status = (await world.get(RAYCLUSTER, "rc")).get("status") or {}
        return status.get("state") == "ready" and len(await world.pods(cluster="rc")) == pods

    await world.eventually(check, seconds=60, what=f"RayCluster rc is ready with {pods} pods")


async def scale(world: World, replicas: int, **spec: Any) -> None:
    groups = (await world.get(RAYCLUSTER, "rc"))["spec"]["workerGroupSpecs"]
    groups[0]["replicas"] = replicas
    await world.patch(RAYCLUSTER, "rc", {"spec": {"workerGroupSpecs": groups, **spec}})


def of(count: int) -> Size:
    return count, {"cpu": str(count), "memory": f"{count}Gi"}


@ALL
async def test_the_group_follows_its_cluster(operators: Operator, world: World, scheduler: Scheduler) -> None:
    """SP-01 and VO-04"""
    operators.ensure((f"--batch-scheduler={scheduler.name}",))
    cluster = build_raycluster("rc", groups=5, labels=GANG)
    del cluster["metadata"]["namespace"]
    await world.put(cluster)
    await ready(world, 6)
    assert await size(world, scheduler) == of(6)
    assert {pod["spec"]["schedulerName"] for pod in await world.pods()} == {scheduler.scheduler_name}
    await scale(world, 2)
    await until(world, scheduler, of(3))
    await world.patch(RAYCLUSTER, "rc", {"spec": {"suspend": True}})
    await until(world, scheduler, (scheduler.idle, {}))

    async def gone() -> bool:
        return not await world.pods(cluster="rc")

    await world.eventually(gone, seconds=30)
    await scale(world, 8, suspend=False)
    await ready(world, 9)
    assert await size(world, scheduler) == of(9)
    before = (await world.get(scheduler.kind, scheduler.group))["metadata"]["uid"]
    await world.delete(scheduler.kind, scheduler.group)

    async def another() -> bool:
        return bool((await world.get(scheduler.kind, scheduler.group))["metadata"]["uid"] != before)

    await world.eventually(another, seconds=20, what="a PodGroup that was deleted comes back")
    assert await size(world, scheduler) == of(9)
    version = (await world.get(scheduler.kind, scheduler.group))["metadata"]["resourceVersion"]
    await world.settled()
    assert (await world.get(scheduler.kind, scheduler.group))["metadata"]["resourceVersion"] == version


async def test_a_group_that_kuberay_made_is_taken_over(operators: Operator, world: World) -> None:
    """It has no controller, and is never changed by KubeRay."""
    operators.stop()
    manifest = build_raycluster("rc", groups=2, labels=GANG)
    del manifest["metadata"]["namespace"]
    cluster = await world.put(manifest)
    reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": cluster["metadata"]["uid"]}
    made = await world.put(
        {
            "apiVersion": COSCHEDULING_PODGROUP.api_version,
            "kind": "PodGroup",
            "metadata": {"name": "rc", "ownerReferences": [reference]},
            "spec": {"minMember": 9, "minResources": {"cpu": "9", "nvidia.com/gpu": "1"}},
        }
    )
    operators.ensure(("--batch-scheduler=scheduler-plugins",))
    await ready(world, 3)
    found = await world.get(COSCHEDULING_PODGROUP, "rc")
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    assert [owner["controller"] for owner in found["metadata"]["ownerReferences"]] == [True]
    assert found["spec"]["minMember"] == 3


async def test_a_rayjob_gets_its_gang_and_its_submitter_is_in_none(operators: Operator, world: World) -> None:
    operators.ensure(("--batch-scheduler=scheduler-plugins",))
    manifest = build_rayjob("train", groups=2, labels=GANG)
    del manifest["metadata"]["namespace"]
    await world.put(manifest)

    async def submitter() -> Any:
        return next(
            (pod for pod in await world.pods() if "batch.kubernetes.io/job-name" in pod["metadata"]["labels"]), None
        )

    pod = await world.eventually(submitter, seconds=60, what="the submitter's pod")
    assert pod["spec"]["schedulerName"] == "scheduler-plugins-scheduler"
    assert "scheduling.x-k8s.io/pod-group" not in pod["metadata"]["labels"]
    name = (await world.get(RAYJOB, "train"))["status"]["rayClusterName"]
    group = await world.get(COSCHEDULING_PODGROUP, name)
    assert group["spec"]["minMember"] == 3
    members = await world.pods(cluster=name)
    assert {member["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] for member in members} == {name}
