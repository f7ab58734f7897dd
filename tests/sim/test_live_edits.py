"""A RayJob's ``rayClusterSpec`` is edited while its cluster runs, and the operator is killed in between (RJ-33)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.conditions import find_condition
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER, RAYJOB
from kuberay_testkit.builders import build_rayjob
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import one_cluster_per_job, one_head
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.users import NAMESPACE

IGNORED = "RayClusterSpecEditIgnored"


def the_job(world: RayWorld) -> dict[str, Any]:
    job = world.server.peek(RAYJOB, NAMESPACE, "rj")
    assert job is not None
    return job


def the_cluster(world: RayWorld) -> dict[str, Any]:
    (cluster,) = world.server.objects(RAYCLUSTER, NAMESPACE)
    return cluster


def told(world: RayWorld) -> str:
    condition = find_condition((the_job(world).get("status") or {}).get("conditions") or [], IGNORED)
    return condition["message"] if condition is not None else ""


def noted(world: RayWorld, reason: str) -> int:
    return sum(each["reason"] == reason for each in world.server.objects(EVENT, NAMESPACE))


def replicas(world: RayWorld) -> int:
    return int(the_cluster(world)["spec"]["workerGroupSpecs"][0]["replicas"])


def workers(world: RayWorld) -> int:
    return sum(
        pod["metadata"]["labels"].get("ray.io/node-type") == "worker" for pod in world.server.objects(POD, NAMESPACE)
    )


def edit_job(world: RayWorld, **counts: int) -> None:
    groups = the_job(world)["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    change = {"spec": {"rayClusterSpec": {"workerGroupSpecs": [{**groups[0], **counts}]}}}
    world.server.patch(RAYJOB, NAMESPACE, "rj", change)


def edit_cluster(world: RayWorld, **counts: int) -> None:
    cluster = the_cluster(world)
    change = {"spec": {"workerGroupSpecs": [{**cluster["spec"]["workerGroupSpecs"][0], **counts}]}}
    world.server.patch(RAYCLUSTER, NAMESPACE, cluster["metadata"]["name"], change)


async def running(world: RayWorld) -> SimOperator:
    world.always(one_head)
    world.always(one_cluster_per_job)
    operator = SimOperator(world=world)
    operator.start()
    world.server.create(build_rayjob("rj", namespace=NAMESPACE))
    await world.pass_time(40)
    assert the_job(world)["status"]["jobDeploymentStatus"] == "Running"
    assert (replicas(world), workers(world)) == (1, 1)
    return operator


def test_raised_replicas_reach_the_cluster(seed: int) -> None:
    """RJ-33"""

    async def run() -> None:
        faults = Faults.mixture(seed, intensity=0.15, client="operator")
        async with RayWorld(seed=seed, faults=faults, outcome=lambda _: "RUNNING") as world:
            operator = await running(world)
            edit_job(world, replicas=3)
            await world.pass_time(30)
            world.server.faults.stop()
            await world.pass_time(90)
            assert (replicas(world), workers(world)) == (3, 3)
            assert told(world) == ""
            assert await operator.idle_calls() == []
            # What the raise wrote is the operator's own, so the next one is followed, too.
            edit_job(world, replicas=4)
            await world.pass_time(90)
            assert (replicas(world), workers(world)) == (4, 4)
            edit_job(world, replicas=2)
            await world.pass_time(90)
            assert (replicas(world), workers(world)) == (4, 4)
            assert "].replicas: not applied to the running cluster" in told(world)
            assert await operator.idle_calls() == []
            assert noted(world, IGNORED) == 1
            edit_job(world, replicas=4)
            await world.pass_time(30)
            assert told(world) == ""

    run_sim(run, seed=seed)


@pytest.mark.parametrize("downtime", [0.0, 60.0])
def test_killed_between_edit_and_raise_the_next_operator_raises(seed: int, downtime: float) -> None:
    """RJ-33"""

    async def run() -> None:
        async with RayWorld(seed=seed, outcome=lambda _: "RUNNING") as world:
            operator = await running(world)
            await operator.kill()
            edit_job(world, replicas=3)
            await world.pass_time(downtime)
            process = operator.start(crash_at=10 + seed)
            await world.pass_time(60)
            if process.transport.crashed.is_set():
                await operator.kill()
                operator.start()
                await world.pass_time(60)
            assert (replicas(world), workers(world)) == (3, 3)
            assert told(world) == ""
            assert noted(world, IGNORED) == 0

    run_sim(run, seed=seed)


def test_what_somebody_did_to_the_cluster_is_not_undone(seed: int) -> None:
    """RJ-33: direct edits of the RayCluster are never reverted, also not by an operator that has seen neither edit."""

    async def run() -> None:
        async with RayWorld(seed=seed, outcome=lambda _: "RUNNING") as world:
            operator = await running(world)
            edit_cluster(world, replicas=2)
            await world.pass_time(30)
            assert (replicas(world), told(world)) == (2, "")
            await operator.kill()
            edit_job(world, replicas=5)
            operator.start()
            await world.pass_time(60)
            assert (replicas(world), workers(world)) == (2, 2)
            assert "has been changed there by others" in told(world)
            assert await operator.idle_calls() == []

    run_sim(run, seed=seed)


def test_the_next_cluster_is_made_as_the_spec_says(seed: int) -> None:
    """Spec rayjob.md 4.1: what a running cluster does not follow applies after resume."""

    async def run() -> None:
        async with RayWorld(seed=seed, outcome=lambda _: "RUNNING") as world:
            await running(world)
            edit_job(world, replicas=0)
            await world.pass_time(30)
            assert "after suspend and resume" in told(world)
            change: dict[str, Any] = {"spec": {"suspend": True, "shutdownAfterJobFinishes": True}}
            world.server.patch(RAYJOB, NAMESPACE, "rj", change)
            await world.pass_time(120)
            assert world.server.objects(RAYCLUSTER, NAMESPACE) == []
            assert told(world) == ""
            world.server.patch(RAYJOB, NAMESPACE, "rj", {"spec": {"suspend": False}})
            await world.pass_time(120)
            assert (replicas(world), workers(world), told(world)) == (0, 0, "")

    run_sim(run, seed=seed)
