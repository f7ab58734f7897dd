"""Idle and old clusters are ended once, announced, and never while they are in use: with faults, kills and restarts."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from random import Random
from typing import Any

import pytest
from boundaries import Kills
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.users import NAMESPACE

ADDRESS = f"rc-head-svc.{NAMESPACE}.svc.cluster.local:8265"
TIMEOUT, WARNING = 120, 30
LIFECYCLE = {"idleTimeoutSeconds": TIMEOUT, "warningSeconds": WARNING}
SLACK = 40.0
"""Seconds from the last answer to a stored end, when every request on the way fails a few times."""


def condition(body: dict[str, Any], type_: str) -> dict[str, Any] | None:
    conditions = (body.get("status") or {}).get("conditions") or ()
    return next((found for found in conditions if found["type"] == type_), None)


def cluster(world: RayWorld) -> dict[str, Any]:
    return world.server.peek(RAYCLUSTER, NAMESPACE, "rc") or {}


def told(world: RayWorld) -> Counter[tuple[str, str]]:
    """Events of the lifecycle by (reason, note), with how often each was told."""
    found: Counter[tuple[str, str]] = Counter()
    for event in world.server.objects(EVENT, NAMESPACE):
        if event["reason"].startswith("Lifecycle"):
            found[event["reason"], event["note"]] += (event.get("series") or {}).get("count", 1)
    return found


class Use:
    """Who uses the cluster and since when; checks at each commit that a stored end is one."""

    def __init__(self, world: RayWorld) -> None:
        self.world = world
        self.began: float | None = None
        self.ended = world.server.clock.elapsed()
        self.announced: datetime | None = None
        self.ends: list[str] = []
        """Messages of stored ends."""
        watch_over(world, memory=60.0)
        world.always(self.check)

    def begin(self) -> None:
        self.world.dashboard.use(ADDRESS)
        self.began = self.world.server.clock.elapsed()

    def end(self) -> None:
        self.world.dashboard.leave(ADDRESS)
        self.began, self.ended = None, self.world.server.clock.elapsed()

    def check(self, server: SimServer, change: Change) -> None:
        if change.stored.key.kind != RAYCLUSTER or change.type == "DELETED":
            return
        ending, found = (condition(change.stored.body, name) for name in ("LifecycleEnding", "LifecycleEnded"))
        if found is None or found["status"] != "True":
            announced = ending is not None and ending["status"] == "True"
            self.announced = datetime.fromisoformat(ending["lastTransitionTime"]) if ending and announced else None
            return
        if found["message"] in self.ends:
            return
        self.ends.append(found["message"])
        assert self.announced is not None, "ended without a warning"
        assert (server.clock.now() - self.announced).total_seconds() >= WARNING
        if found["reason"] != "Idle":
            return
        now = server.clock.elapsed()
        if self.began is not None:
            assert now - self.began <= SLACK, f"ended although in use for {now - self.began:.1f} s"
            now = self.began
        assert now - self.ended >= TIMEOUT - 1, f"ended after {now - self.ended:.1f} s without use"


def faults_of(seed: int) -> Faults:
    return Faults.mixture(seed, intensity=0.15, client="operator")


def test_never_ended_while_in_use_and_ended_once(seed: int) -> None:
    async def run() -> None:
        random = Random(f"lifecycle {seed}")
        async with RayWorld(seed=seed, faults=faults_of(seed), pod_grace=2.0) as world:
            operator = SimOperator(world=world)
            operator.start()
            world.dashboard.up(ADDRESS)
            use = Use(world)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, lifecycle=LIFECYCLE))
            for _ in range(12):
                await world.pass_time(random.choice((1.0, 20.0, 70.0, 115.0, 121.0)) + random.random())
                match random.choice(("use", "use", "kill", "silence", "nothing")):
                    case "use":
                        use.begin()
                        await world.pass_time(random.uniform(0.1, 200.0))
                        use.end()
                    case "kill":
                        await operator.kill()
                        await world.pass_time(random.uniform(0.0, 300.0))
                        operator.start()
                    case "silence":
                        world.dashboard.fail(random.choice(("refuse", "500", "garbage", "slow")))
                        await world.pass_time(random.uniform(1.0, 400.0))
                        world.dashboard.fail("ok")
            world.server.faults.stop()
            await world.rest(quiet=400, within=3600)
            assert world.server.objects(POD, NAMESPACE) == []
            assert cluster(world)["status"]["state"] == "suspended"
            assert len(use.ends) == 1, "suspended, it stays so"
            counted = told(world)
            assert all(count == 1 for count in counted.values()), counted
            assert await operator.idle_calls() == []

    run_sim(run, seed=seed)


def test_extended_and_edited_clusters_come_back(seed: int) -> None:
    async def run() -> None:
        random = Random(f"extended {seed}")
        async with RayWorld(seed=seed, faults=faults_of(seed), pod_grace=5.0) as world:
            operator = SimOperator(world=world)
            operator.start()
            watch_over(world, memory=60.0)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, lifecycle=LIFECYCLE, groups=2))
            await world.until(
                lambda: (condition(cluster(world), "LifecycleEnded") or {}).get("status") == "True", within=900
            )
            await world.pass_time(random.uniform(0.0, 10.0))
            if random.random() < 0.5:
                until = world.server.clock.now().timestamp() + 1000
                text = datetime.fromtimestamp(until, world.server.clock.now().tzinfo).strftime("%Y-%m-%dT%H:%M:%SZ")
                world.server.patch(
                    RAYCLUSTER, NAMESPACE, "rc", {"metadata": {"annotations": {"ray.io/extend-until": text}}}
                )
            else:
                until = world.server.clock.now().timestamp() + TIMEOUT
                world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"lifecycle": {"warningSeconds": 20}}})
            if random.random() < 0.5:
                await operator.kill()
                await world.pass_time(random.uniform(0.0, 20.0))
                operator.start()
            world.server.faults.stop()
            # As long as a lost watch event may stay unnoticed (`BRISK`), and some time to start pods.
            await world.until(
                lambda: len(world.server.objects(POD, NAMESPACE)) == 3 and cluster(world)["status"]["state"] == "ready",
                within=110,
            )
            await world.pass_time(until - world.server.clock.now().timestamp() - 1)
            assert len(world.server.objects(POD, NAMESPACE)) == 3
            await world.pass_time(200)
            assert world.server.objects(POD, NAMESPACE) == []
            assert await operator.idle_calls() == []

    run_sim(run, seed=seed)


@pytest.mark.parametrize("limit", ["idleTimeoutSeconds", "maxAgeSeconds"])
def test_deleted_with_everything_of_it(seed: int, limit: str) -> None:
    async def run() -> None:
        async with RayWorld(seed=seed, faults=faults_of(seed), pod_grace=2.0) as world:
            operator = SimOperator(world=world)
            operator.start()
            lifecycle = {limit: TIMEOUT, "warningSeconds": WARNING, "action": "Delete"}
            use = Use(world)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, lifecycle=lifecycle))
            await world.pass_time(TIMEOUT - 1)
            assert cluster(world)
            await world.pass_time(100)
            world.server.faults.stop()
            await world.rest(quiet=60)
            assert cluster(world) == {}
            assert world.server.objects(POD, NAMESPACE) == []
            assert len(use.ends) == 1
            assert all(count == 1 for count in told(world).values()), "events may be lost, and are never told twice"
            assert await operator.idle_calls() == []

    run_sim(run, seed=seed)


def boundaries_of_an_end(crash_at: int | None) -> int:
    """An idle cluster is suspended although the operator is killed at *crash_at*. Returns the boundaries passed."""

    async def run() -> int:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            world.dashboard.up(ADDRESS)
            use = Use(world)
            process = operator.start(crash_at=crash_at)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, lifecycle=LIFECYCLE))
            for _ in range(2):
                await world.rest(quiet=200)
                if process.transport.crashed.is_set() and operator.process is process:
                    await operator.kill()
                    operator.start()
            assert world.server.objects(POD, NAMESPACE) == []
            assert cluster(world)["status"]["state"] == "suspended"
            assert len(use.ends) == 1
            assert all(count == 1 for count in told(world).values())
            return process.transport.boundaries

    return run_sim(run, seed=1)


def test_killed_at_any_boundary_it_is_ended_once(kills: Kills) -> None:
    boundaries = boundaries_of_an_end(None)
    for boundary in kills(boundaries):
        boundaries_of_an_end(boundary)


def test_watching_a_busy_cluster_costs_the_api_server_nothing() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            world.dashboard.use(ADDRESS)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, lifecycle=LIFECYCLE))
            await world.rest(quiet=60)
            asked = world.dashboard.count("activity")
            assert await operator.idle_calls(1000) == []
            assert world.dashboard.count("activity") - asked >= 80
            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"lifecycle": None}})
            await world.rest(quiet=60)
            asked = world.dashboard.count("activity")
            await world.pass_time(1000)
            assert world.dashboard.count("activity") == asked

    run_sim(run)
