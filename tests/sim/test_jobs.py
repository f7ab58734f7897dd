"""RayJobs whose users interfere: suspend, resume, delete the cluster, the submitter or the job, while requests fail."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE
from kuberay_testkit.builders import build_rayjob
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import one_cluster_per_job, one_head
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.users import NAMESPACE


def status(world: RayWorld, name: str = "rj") -> dict[str, Any]:
    job = world.server.peek(RAYJOB, NAMESPACE, name)
    assert job is not None
    return job.get("status") or {}


def state(world: RayWorld) -> str:
    return str(status(world).get("jobDeploymentStatus"))


def set_suspend(world: RayWorld, value: bool) -> None:
    world.server.patch(RAYJOB, NAMESPACE, "rj", {"spec": {"suspend": value}})


def delete_all(world: RayWorld, kind: Any) -> None:
    for obj in world.server.objects(kind, NAMESPACE):
        world.server.delete(kind, NAMESPACE, obj["metadata"]["name"])


def end_ray_job(world: RayWorld) -> None:
    """A Ray job goes on without its submitter: let it end, if it has begun."""
    address, job_id = str(status(world).get("dashboardURL")), str(status(world).get("jobId"))
    if world.dashboard.job(address, job_id) is not None:
        world.dashboard.set_job(address, job_id, "SUCCEEDED")


def nothing_left(world: RayWorld) -> bool:
    return not any(world.server.objects(kind, NAMESPACE) for kind in (RAYJOB, RAYCLUSTER, JOB, POD, SERVICE))


async def start(world: RayWorld, **spec: Any) -> SimOperator:
    world.always(one_head)
    world.always(one_cluster_per_job)
    operator = SimOperator(world=world)
    operator.start()
    world.server.create(build_rayjob("rj", namespace=NAMESPACE, **{"shutdownAfterJobFinishes": True, **spec}))
    return operator


def faults_of(seed: int) -> Faults:
    return Faults.mixture(seed, intensity=0.15, client="operator")


def test_suspended_and_resumed_it_completes(seed: int) -> None:
    async def run() -> None:
        random = Random(f"suspend {seed}")
        async with RayWorld(seed=seed, faults=faults_of(seed), pod_grace=2.0) as world:
            operator = await start(world)
            await world.pass_time(random.uniform(0, 12))
            set_suspend(world, True)
            await world.pass_time(random.choice((1.0, 5.0, 120.0)))
            world.server.faults.stop()
            await world.pass_time(120)
            if state(world) != "Complete":
                assert state(world) == "Suspended"
                assert world.server.objects(RAYCLUSTER, NAMESPACE) == []
                assert world.server.objects(JOB, NAMESPACE) == []
                assert world.server.objects(POD, NAMESPACE) == []
            set_suspend(world, False)
            await world.rest(quiet=100)
            assert (state(world), status(world)["jobStatus"]) == ("Complete", "SUCCEEDED")
            assert await operator.idle_calls() == []
            world.server.delete(RAYJOB, NAMESPACE, "rj")
            await world.rest(quiet=100)
            assert nothing_left(world)

    run_sim(run, seed=seed)


@pytest.mark.parametrize("victim", [RAYCLUSTER, JOB, POD], ids=lambda kind: kind.kind)
def test_whatever_is_deleted_under_it_the_job_comes_to_an_end(victim: Any, seed: int) -> None:
    async def run() -> None:
        random = Random(f"delete {seed}")
        async with RayWorld(seed=seed, faults=faults_of(seed), pod_grace=2.0) as world:
            operator = await start(world, backoffLimit=2)
            for _ in range(2):
                await world.pass_time(random.uniform(0, 10))
                delete_all(world, victim)
            await world.pass_time(60)
            world.server.faults.stop()
            end_ray_job(world)
            await world.rest(quiet=400, within=7200)
            assert state(world) in ("Complete", "Failed")
            assert world.server.objects(RAYCLUSTER, NAMESPACE) == []
            assert await operator.idle_calls() == []

    run_sim(run, seed=seed)


def test_deleted_at_any_moment_nothing_of_it_is_left(seed: int) -> None:
    async def run() -> None:
        random = Random(f"gone {seed}")
        async with RayWorld(seed=seed, faults=faults_of(seed), pod_grace=2.0) as world:
            operator = await start(world)
            await world.pass_time(random.uniform(0, 30))
            world.server.delete(RAYJOB, NAMESPACE, "rj")
            await world.pass_time(random.uniform(0, 10))
            world.server.faults.stop()
            await world.rest(quiet=100)
            assert nothing_left(world)
            assert await operator.idle_calls() == []

    run_sim(run, seed=seed)


def test_it_goes_when_its_time_to_live_is_over() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            await start(world, ttlSecondsAfterFinished=60)
            await world.until(lambda: state(world) == "Complete", within=120)
            await world.pass_time(50)
            assert len(world.server.objects(RAYCLUSTER, NAMESPACE)) == 1
            await world.pass_time(20)
            assert world.server.objects(RAYCLUSTER, NAMESPACE) == []
            assert state(world) == "Complete"

    run_sim(run)


def test_a_deadline_ends_a_job_that_hangs() -> None:
    async def run() -> None:
        async with RayWorld(seed=1, outcome=lambda _job: "RUNNING") as world:
            operator = await start(world, activeDeadlineSeconds=100)
            await world.pass_time(90)
            assert state(world) == "Running"
            await world.pass_time(30)
            assert (state(world), status(world)["reason"]) == ("Failed", "DeadlineExceeded")
            await world.rest(quiet=60)
            assert world.server.objects(RAYCLUSTER, NAMESPACE) == []
            assert await operator.idle_calls() == []

    run_sim(run)


def test_an_operator_that_was_away_finds_out_that_the_job_has_ended() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = await start(world)
            await world.until(lambda: state(world) == "Running", within=60)
            await operator.kill()
            await world.pass_time(1800)
            operator.start()
            await world.rest(quiet=60)
            assert (state(world), status(world)["jobStatus"]) == ("Complete", "SUCCEEDED")
            assert world.server.count(verb="create", resource="jobs") == 1

    run_sim(run)


def test_a_dashboard_that_answers_late_or_not_at_all_for_a_while_is_waited_for() -> None:
    async def run() -> None:
        done: list[str] = []
        async with RayWorld(seed=1, outcome=lambda _job: "SUCCEEDED" if done else "RUNNING") as world:
            await start(world)
            await world.until(lambda: state(world) == "Running", within=60)
            for mode in ("refuse", "500", "garbage", "slow"):
                world.dashboard.fail(mode)  # type: ignore[arg-type]
                await world.pass_time(40)
                assert state(world) == "Running"
            world.dashboard.fail("ok")
            done.append("now")
            await world.rest(quiet=100)
            assert state(world) == "Complete"

    run_sim(run)
