"""What an ended RayJob deletes stage by stage, and RayJobs that are deleted: on time, never early, whatever dies meanwhile."""

from __future__ import annotations

import functools
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from boundaries import Kills
from kuberay.api.kinds import EVENT, JOB, NAMESPACE, POD, RAYCLUSTER, RAYJOB, SECRET, SERVICE
from kuberay.api.names import LABEL_NODE_TYPE, WORKER
from kuberay.api.times import parse_time
from kuberay.plan.job.deletion import PATIENCE
from kuberay.plan.job.in_flight import WITHDRAWAL
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.heads_world import HeadsWorld
from kuberay_testkit.sim.invariants import one_cluster_per_job, one_head
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change

TEAM = "team"
WORKERS_AFTER, CLUSTER_AFTER, SELF_AFTER = 30, 60, 120
SLACK = 20
"""Seconds a stage may be late: a killed operator starts again, and failing requests are repeated."""


def rules(*stages: tuple[str, int], status: str = "SUCCEEDED") -> dict[str, Any]:
    return {
        "deletionRules": [
            {"policy": policy, "condition": {"jobStatus": status, "ttlSeconds": seconds}} for policy, seconds in stages
        ]
    }


STAGES = rules(("DeleteWorkers", WORKERS_AFTER), ("DeleteCluster", CLUSTER_AFTER), ("DeleteSelf", SELF_AFTER))


def status(world: RayWorld, name: str = "rj") -> dict[str, Any]:
    job = world.server.peek(RAYJOB, TEAM, name)
    return (job or {}).get("status") or {}


def since_the_end(server: SimServer) -> float | None:
    job = server.peek(RAYJOB, TEAM, "rj")
    ended_at = ((job or {}).get("status") or {}).get("endTime")
    return None if ended_at is None else (server.clock.now() - parse_time(ended_at)) / timedelta(seconds=1)


def nothing_is_early(server: SimServer, change: Change) -> None:
    """Nothing goes before its stage is due."""
    kind, body = change.stored.key.kind, change.stored.body
    going = change.type == "DELETED" or "deletionTimestamp" in body["metadata"]
    elapsed = since_the_end(server)
    if kind == RAYJOB and going:
        ended_at = parse_time(body["status"]["endTime"])
        assert server.clock.now() - ended_at >= timedelta(seconds=SELF_AFTER)
    elif kind == RAYCLUSTER and going:
        assert elapsed is None or elapsed >= CLUSTER_AFTER
    elif kind == RAYCLUSTER and any(group.get("suspend") for group in body["spec"]["workerGroupSpecs"]):
        assert elapsed is not None
        assert elapsed >= WORKERS_AFTER


def workers(world: RayWorld) -> int:
    return len(world.server.objects(POD, TEAM, labels=f"{LABEL_NODE_TYPE}={WORKER}"))


def left(world: RayWorld) -> list[str]:
    kinds = (RAYJOB, RAYCLUSTER, JOB, POD, SERVICE)
    return [kind.kind for kind in kinds if world.server.objects(kind, TEAM)]


def open_team(world: RayWorld) -> None:
    world.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TEAM}})


async def stages(world: RayWorld, operator: SimOperator) -> None:
    """Let a job with three stages end, and look at what is there between them."""

    async def pass_until(seconds: float) -> None:
        """Until so long after the end; a crashed operator is started again."""
        while (elapsed := since_the_end(world.server)) is None or elapsed < seconds:
            process = operator.process
            assert process is not None
            if process.transport.crashed.is_set():
                await operator.kill()
                operator.start()
            await world.pass_time(1)
            if not world.server.objects(RAYJOB, TEAM):
                return

    world.always(one_head)
    world.always(one_cluster_per_job)
    world.always(nothing_is_early)
    open_team(world)
    world.server.create(build_rayjob("rj", namespace=TEAM, groups={"a": 2, "b": 1}, deletionStrategy=STAGES))
    await pass_until(WORKERS_AFTER - 2)
    assert (workers(world), status(world)["jobDeploymentStatus"]) == (3, "Complete")
    await pass_until(WORKERS_AFTER + SLACK)
    assert workers(world) == 0
    assert len(world.server.objects(RAYCLUSTER, TEAM)) == 1
    await pass_until(CLUSTER_AFTER + SLACK)
    assert left(world) == ["RayJob", "Job", "Pod", "Service"], "with the submitter's pod and the job's own service"
    await pass_until(SELF_AFTER + SLACK)
    await world.rest(quiet=10)
    assert left(world) == []


def story(crash_at: int | None) -> int:
    async def run() -> int:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            process = operator.start(crash_at=crash_at)
            await stages(world, operator)
            return process.transport.boundaries

    return run_sim(run, seed=1)


@functools.cache
def boundaries() -> int:
    return story(None)


def test_killed_at_any_request_every_stage_comes_in_time(kills: Kills) -> None:
    """By default only a part of all of them."""
    for boundary in kills(boundaries()):
        try:
            story(boundary)
        except AssertionError as error:
            error.add_note(f"killed at boundary {boundary}")
            raise


def test_while_requests_fail_no_stage_is_early_or_lost(seed: int) -> None:
    async def run() -> None:
        faults = Faults.mixture(seed, intensity=0.1, client="operator")
        async with RayWorld(seed=seed, faults=faults, pod_grace=2.0) as world:
            world.always(nothing_is_early)
            open_team(world)
            operator = SimOperator(world=world)
            operator.start()
            world.server.create(build_rayjob("rj", namespace=TEAM, groups={"a": 2, "b": 1}, deletionStrategy=STAGES))
            await world.until(lambda: since_the_end(world.server) is not None, within=900)
            await world.pass_time(SELF_AFTER + 60)
            world.server.faults.stop()
            await world.rest(quiet=100)
            assert left(world) == []
            assert await operator.idle_calls() == []

    run_sim(run, seed=seed)


@pytest.mark.parametrize(
    "groups",
    [
        [build_group("a", 2), build_group("b", 1)],
        [build_group("a", 2, fallback={"groupName": "b"}), build_group("b", 0)],
        [build_group("a", 2, numOfHosts=2)],
        [],
    ],
    ids=["two groups", "a fallback", "several hosts", "none"],
)
def test_workers_that_were_deleted_stay_away_and_cost_nothing(groups: list[dict[str, Any]]) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            open_team(world)
            operator = SimOperator(world=world)
            operator.start()
            strategy = {"onSuccess": {"policy": "DeleteWorkers"}, "onFailure": {"policy": "DeleteNone"}}
            world.server.create(build_rayjob("rj", namespace=TEAM, groups=groups, deletionStrategy=strategy))
            await world.until(lambda: status(world).get("jobDeploymentStatus") == "Complete", within=120)
            await world.rest(quiet=60)
            assert workers(world) == 0
            (cluster,) = world.server.objects(RAYCLUSTER, TEAM)
            assert cluster["status"]["state"] == "ready"
            assert [group.get("suspend") for group in cluster["spec"]["workerGroupSpecs"]] == [True] * len(groups)
            assert await operator.idle_calls(3600) == []
            await operator.kill()
            operator.start()
            await world.pass_time(30)
            assert await operator.idle_calls() == []
            assert workers(world) == 0

    run_sim(run)


# Deletion


async def running_job(world: RayWorld, **spec: Any) -> SimOperator:
    operator = SimOperator(world=world)
    operator.start()
    world.server.create(build_rayjob("rj", namespace=TEAM, **spec))
    await world.until(lambda: status(world).get("jobStatus") == "RUNNING", within=120)
    return operator


def hang(world: RayWorld) -> None:
    """A dashboard takes requests and never answers, and nobody gives up on it."""
    world.dashboard.slow_seconds = world.dashboard.timeout = 1e9
    world.dashboard.fail("slow")


@pytest.mark.parametrize("restart", [False, True], ids=["steady", "restarted"])
def test_a_hanging_dashboard_holds_it_no_longer_than_the_deadline(restart: bool) -> None:
    async def run() -> None:
        async with RayWorld(seed=1, outcome=lambda _job: "RUNNING") as world:
            open_team(world)
            operator = await running_job(world)
            hang(world)
            world.server.delete(RAYJOB, TEAM, "rj")
            patience = PATIENCE.total_seconds()
            await world.pass_time(patience / 2)
            if restart:
                await operator.kill()
                operator.start()
            await world.pass_time(patience / 2 - 2)
            assert world.server.objects(RAYJOB, TEAM)
            await world.pass_time(4)
            assert not world.server.objects(RAYJOB, TEAM)
            assert "FailedToStopRayJob" in [event["reason"] for event in world.server.objects(EVENT, TEAM)]

    run_sim(run)


def test_an_operator_that_was_away_for_long_lets_go_at_once() -> None:
    async def run() -> None:
        async with RayWorld(seed=1, outcome=lambda _job: "RUNNING") as world:
            open_team(world)
            operator = await running_job(world)
            await operator.kill()
            hang(world)
            world.server.delete(RAYJOB, TEAM, "rj")
            await world.pass_time(600)
            operator.start()
            await world.pass_time(3)
            assert not world.server.objects(RAYJOB, TEAM)

    run_sim(run)


def test_without_its_token_secret_it_goes_and_says_that_the_job_was_not_stopped() -> None:
    """RJ-29: the token is needed to stop the job, not to go."""

    async def run() -> None:
        async with RayWorld(seed=1, outcome=lambda _job: "RUNNING") as world:
            token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "team-token", "namespace": TEAM}}
            open_team(world)
            world.server.create({**token, "data": {"auth_token": "c2VjcmV0"}})
            options = {"mode": "token", "secretName": "team-token"}
            await running_job(world, cluster={"authOptions": options, "rayVersion": "2.53.0"})
            await world.pass_time(60)
            world.server.delete(SECRET, TEAM, "team-token")
            await world.pass_time(60)
            world.server.delete(RAYJOB, TEAM, "rj")
            await world.pass_time(10)
            assert left(world) == []
            (note,) = [
                each["note"] for each in world.server.objects(EVENT, TEAM) if each["reason"] == "FailedToStopRayJob"
            ]
            assert "team-token" in note

    run_sim(run)


@pytest.mark.parametrize("mode", ["ok", "refuse", "500", "garbage", "hang"])
def test_a_namespace_is_gone_within_the_deadline(mode: str, seed: int) -> None:
    """With its RayJobs, own and shared clusters, whatever the dashboards do; nothing can be created in it any more."""

    async def run() -> None:
        async with RayWorld(seed=seed, outcome=lambda _job: "RUNNING", pod_grace=2.0) as world:
            open_team(world)
            await running_job(world)
            world.server.create(build_raycluster("shared", namespace=TEAM))
            shared = build_rayjob("other", namespace=TEAM, clusterSelector={"ray.io/cluster": "shared"})
            world.server.create(shared)
            await world.until(lambda: status(world, "other").get("jobStatus") == "RUNNING", within=120)
            if mode == "hang":
                hang(world)
            else:
                world.dashboard.fail(mode)  # type: ignore[arg-type]
            world.server.delete(NAMESPACE, "", TEAM)
            await world.pass_time(PATIENCE.total_seconds() + 5)
            assert world.server.peek(NAMESPACE, "", TEAM) is None

    run_sim(run, seed=seed)


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
@pytest.mark.parametrize("moment", [1, 2, 3, 4, 5, 6, 8, 10])
def test_nothing_runs_on_a_shared_cluster_once_its_rayjob_is_gone(moment: float, mode: str, seed: int) -> None:
    """Deleted while its submitter is about to hand the job in; submitters end only when they are killed, and so does the
    operator, in every second seed."""

    async def run() -> None:
        fate = ("RUNNING", 0.0)
        async with HeadsWorld(seed=seed, fate=lambda *_: fate, pod_grace=30.0) as world:  # type: ignore[arg-type,return-value]
            open_team(world)
            operator = SimOperator(world=world)
            operator.start()
            world.server.create(build_raycluster("shared", namespace=TEAM))
            await world.pass_time(20)
            selector = {"ray.io/cluster": "shared"}
            world.server.create(build_rayjob("rj", namespace=TEAM, clusterSelector=selector, submissionMode=mode))
            await world.pass_time(moment)
            world.server.delete(RAYJOB, TEAM, "rj")
            longest = (WITHDRAWAL + PATIENCE).total_seconds()
            if seed % 2:
                killed_after = Random(f"shared {seed}").uniform(0, 30)
                await world.pass_time(killed_after)
                await operator.kill()
                operator.start()
                longest -= killed_after
            await world.pass_time(longest)
            assert not world.server.objects(RAYJOB, TEAM)
            await world.pass_time(60)
            assert left(world) == ["RayCluster", "Pod", "Service"]
            assert [str(each) for each in world.heads.runs if world.heads.alive(each)] == []

    run_sim(run, seed=seed)
