"""Edits of a RayJob's ``rayClusterSpec`` while its cluster runs: who wrote what is read from real managedFields (RJ-33)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kube_world import Operator, World
from kuberay.api.conditions import find_condition
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay_testkit.builders import build_rayjob

IGNORED = "RayClusterSpecEditIgnored"


def manifest() -> dict[str, Any]:
    body = build_rayjob("rj", groups={"a": 1})
    del body["metadata"]["namespace"]
    return body


async def running(world: World) -> None:
    async def check() -> bool:
        status = (await world.get(RAYJOB, "rj")).get("status", {})
        return bool(status.get("jobDeploymentStatus") == "Running" and await replicas(world) == 1)

    await world.eventually(check, seconds=60)


async def replicas(world: World) -> int:
    (cluster,) = await world.list(RAYCLUSTER)
    return int(cluster["spec"]["workerGroupSpecs"][0]["replicas"])


async def told(world: World) -> str:
    conditions = (await world.get(RAYJOB, "rj"))["status"].get("conditions") or []
    condition = find_condition(conditions, IGNORED)
    return condition["message"] if condition is not None else ""


async def has(world: World, count: int, text: str = "") -> None:
    async def check() -> bool:
        now = await told(world)
        return await replicas(world) == count and (text in now if text else not now)

    await world.eventually(check, what=f"{count} replicas, told {text!r}")


def edited(body: dict[str, Any], **counts: int) -> dict[str, Any]:
    changed = copy.deepcopy(body)
    changed["spec"]["rayClusterSpec"]["workerGroupSpecs"][0].update(counts)
    return changed


async def edit(world: World, **counts: int) -> None:
    groups = (await world.get(RAYJOB, "rj"))["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    change = {"rayClusterSpec": {"workerGroupSpecs": [{**groups[0], **counts}]}}
    await world.patch(RAYJOB, "rj", {"spec": change})


async def test_raised_replicas_reach_the_cluster_whatever_becomes_of_the_operator(
    operators: Operator, world: World
) -> None:
    """RJ-33"""
    operators.ensure()
    await world.put(manifest())
    await running(world)
    await edit(world, replicas=2)
    await has(world, 2)
    operators.kill()
    await edit(world, replicas=3)
    operators.ensure()
    await has(world, 3)
    await edit(world, replicas=1)
    await has(world, 3, "workerGroupSpecs[a].replicas: not applied to the running cluster")
    await edit(world, replicas=3)
    await has(world, 3)
    reasons = [event["reason"] for event in await world.events() if event["regarding"]["kind"] == "RayJob"]
    assert reasons.count(IGNORED) == 1
    assert "UpdatedRayCluster" in reasons


async def test_an_applied_edit_reaches_the_cluster(operators: Operator, world: World) -> None:
    """RJ-33: as ``kubectl apply --server-side`` writes it, where one manager owns all of the spec."""
    operators.ensure()

    async def apply(body: dict[str, Any]) -> None:
        whole = {**body, "metadata": {**body["metadata"], "namespace": world.namespace}}
        await world.client.apply(RAYJOB, world.namespace, "rj", whole)

    await apply(manifest())
    await running(world)
    await apply(edited(manifest(), replicas=2))
    await has(world, 2)


async def test_a_cluster_that_somebody_edited_is_left_alone(operators: Operator, world: World) -> None:
    """RJ-33: direct edits of the RayCluster are never reverted."""
    operators.ensure()
    await world.put(manifest())
    await running(world)
    (cluster,) = await world.list(RAYCLUSTER)
    group = {**cluster["spec"]["workerGroupSpecs"][0], "replicas": 0}
    await world.patch(RAYCLUSTER, cluster["metadata"]["name"], {"spec": {"workerGroupSpecs": [group]}})
    await world.settled()
    await has(world, 0)
    await edit(world, replicas=2)
    await has(world, 0, "has been changed there by others (tests)")


@pytest.mark.parametrize("mode", ["SidecarMode", "HTTPMode"])
async def test_what_the_operator_adds_to_the_cluster_is_no_edit(operators: Operator, world: World, mode: str) -> None:
    operators.ensure()
    body = manifest()
    body["spec"]["submissionMode"] = mode
    await world.put(body)

    async def made() -> bool:
        return bool(await world.list(RAYCLUSTER))

    await world.eventually(made)
    # Its writer owns all of the spec, so all of it may have been edited by now.
    await edit(world, replicas=2)
    await has(world, 2)
