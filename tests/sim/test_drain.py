"""Workers that the operator chose are drained before their pods go: bounded, whatever fails, and never two for one."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from kuberay.api.kinds import POD, POD_DISRUPTION_BUDGET, RAYCLUSTER
from kuberay.api.names import ANNOTATION_DRAINING_SINCE, LABEL_NODE_TYPE, WORKER
from kuberay.api.times import parse_time
from kuberay_testkit.builders import build_group, build_raycluster
from kuberay_testkit.sim.calls import missing_permissions
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.users import NAMESPACE

TIMEOUT = 30.0


class Leavings:
    """Notes when each worker was marked and when it had to go, and that it was drained in between."""

    def __init__(self, world: RayWorld, *, strict: bool) -> None:
        """*strict*: nothing fails, so each pod must be drained or have had its time."""
        self.marked: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self._drain = world.drain
        self._strict = strict
        world.always(self)

    def __call__(self, server: SimServer, change: Change) -> None:
        pod, now = change.stored, server.clock.elapsed()
        if pod.key.kind != POD or (pod.metadata.get("labels") or {}).get(LABEL_NODE_TYPE) != WORKER:
            return
        name = pod.key.name
        since = (pod.metadata.get("annotations") or {}).get(ANNOTATION_DRAINING_SINCE)
        if since is not None and name not in self.marked:
            assert not pod.deleting
            self.marked[name] = now
            assert abs((parse_time(since) - server.now()).total_seconds()) < 5
        if (change.type == "DELETED" or pod.deleting) and name not in self.gone:
            self.gone[name] = now
            if self._strict and name in self.marked:
                assert name in self._drain.drained or now - self.marked[name] > TIMEOUT - 2, f"{name} was not drained"


def workers(world: RayWorld) -> list[str]:
    pods = world.server.objects(POD, NAMESPACE, f"{LABEL_NODE_TYPE}={WORKER}")
    return sorted(pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"])


def scale(world: RayWorld, replicas: int, **fields: Any) -> None:
    groups = [build_group("crew", replicas, **fields)]
    world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"workerGroupSpecs": groups}})


async def up(world: RayWorld, operator: SimOperator, replicas: int, **fields: Any) -> None:
    operator.start()
    groups = [build_group("crew", replicas, **fields)]
    world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=groups))
    await world.rest(quiet=60)


def busy_for(seconds: float) -> Callable[[RayWorld], None]:
    return lambda world: setattr(world.drain, "busy_seconds", seconds)


@pytest.mark.parametrize(
    ("prepare", "least", "most"),
    [
        (busy_for(0), 0.0, 2.0),
        (busy_for(12), 12.0, 14.0),
        (busy_for(100), TIMEOUT - 1, TIMEOUT + 1),
        (lambda world: world.drain.fail("refuse"), 0.0, 2.0),
        (lambda world: world.drain.fail("unreachable"), 0.1, 2.0),
        (lambda world: world.drain.fail("hang"), 4.0, 6.0),
        (lambda world: world.drain.fail("unreachable", times=1), 0.1, 2.0),
    ],
    ids=["idle", "busy", "too busy", "refused", "unreachable", "hangs", "fails once"],
)
@pytest.mark.parametrize("hosts", [1, 2])
def test_how_long_a_worker_stays(prepare: Callable[[RayWorld], None], least: float, most: float, hosts: int) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            watch_over(world)
            seen = Leavings(world, strict=world.drain.mode == "ok" and most > TIMEOUT)
            operator = SimOperator(world=world)
            await up(world, operator, 3, numOfHosts=hosts)
            before = workers(world)
            prepare(world)
            begun = world.server.clock.elapsed()
            scale(world, 2, numOfHosts=hosts)
            await world.rest(quiet=60)
            assert len(workers(world)) == 2 * hosts
            assert set(workers(world)) < set(before)
            assert set(seen.marked) == set(seen.gone)
            assert len(seen.gone) == hosts
            for at in seen.gone.values():
                assert least <= at - begun <= most
            assert max(seen.gone.values()) - min(seen.gone.values()) < 0.5, "hosts leave together"

    run_sim(run, seed=1)


def test_a_worker_that_is_drained_stays_chosen_when_more_are_wanted_again() -> None:
    async def run() -> None:
        async with RayWorld(seed=2) as world:
            watch_over(world)
            seen = Leavings(world, strict=True)
            operator = SimOperator(world=world)
            await up(world, operator, 3)
            world.drain.busy_seconds = 20
            scale(world, 2)
            await world.pass_time(5)
            (victim,) = seen.marked
            await operator.kill()
            operator.start()
            scale(world, 3)
            await world.pass_time(10)
            assert len(workers(world)) == 4
            await world.rest(quiet=60)
            assert list(seen.gone) == [victim]
            assert len(workers(world)) == 3

    run_sim(run, seed=2)


@pytest.mark.parametrize("kill", [False, True])
def test_scaling_up_and_down_with_faults_and_kills(seed: int, kill: bool) -> None:
    """Whatever fails, each scale-down costs exactly as many workers as it asks for (`watch_over`), within bounds."""

    async def run() -> None:
        random = Random(f"drain {seed}")
        hosts = random.choice((1, 1, 2))
        faults = Faults.mixture(seed, intensity=0.2, client="operator")
        async with RayWorld(seed=seed, faults=faults, pod_grace=2.0) as world:
            watch_over(world, memory=3600.0)
            seen = Leavings(world, strict=False)
            rules = operator_rules()
            world.server.restrict("operator", rules)
            operator = SimOperator(world=world)
            world.server.faults = Faults()
            await up(world, operator, 4, numOfHosts=hosts)
            world.server.faults = faults
            replicas = 4
            for _ in range(6):
                world.drain.fail(random.choice(("ok", "ok", "ok", "refuse", "unreachable", "hang")))
                world.drain.busy_seconds = random.choice((0, 5, 100))
                replicas = random.randint(0, 5)
                scale(world, replicas, numOfHosts=hosts)
                await world.pass_time(random.uniform(0, 40))
                if kill:
                    await operator.kill()
                    await world.pass_time(random.uniform(0, 5))
                    operator.start()
            world.server.faults.stop()
            world.drain.fail("ok")
            await world.rest(quiet=150)
            assert len(workers(world)) == replicas * hosts
            assert set(seen.marked) <= set(seen.gone)
            assert missing_permissions(operator.calls(), rules) == set()
            assert [str(call) for call in await operator.idle_calls()] == []

    run_sim(run, seed=seed)


def test_drained_workers_of_a_group_that_lost_only_some_are_never_more_than_asked(seed: int) -> None:
    """Without faults and with a short memory: what goes is what was one too many at that very time."""

    async def run() -> None:
        random = Random(f"steps {seed}")
        async with RayWorld(seed=seed, pod_grace=5.0) as world:
            watch_over(world, memory=1.0)
            seen = Leavings(world, strict=True)
            operator = SimOperator(world=world)
            await up(world, operator, 6)
            replicas, least = 6, 6
            for _ in range(5):
                replicas = max(0, replicas - random.randint(0, 2))
                least = min(least, replicas)
                world.drain.busy_seconds = random.choice((0, 3, 20))
                scale(world, replicas)
                await world.pass_time(random.uniform(1.5, 25))
            await world.rest(quiet=60)
            assert len(seen.gone) == 6 - least
            assert len(workers(world)) == least

    run_sim(run, seed=seed)


def test_budgets_come_follow_and_go() -> None:
    async def run() -> None:
        async with RayWorld(seed=3) as world:
            watch_over(world)
            rules = operator_rules()
            world.server.restrict("operator", rules)
            operator = SimOperator(world=world)
            await up(world, operator, 4, disruptionBudget={"maxUnavailable": "50%"})
            (budget,) = world.server.objects(POD_DISRUPTION_BUDGET, NAMESPACE)
            assert (budget["metadata"]["name"], budget["spec"]["minAvailable"]) == ("rc-crew", 2)
            assert [str(call) for call in await operator.idle_calls()] == []
            scale(world, 2, disruptionBudget={"maxUnavailable": "50%"})
            await world.rest(quiet=60)
            (budget,) = world.server.objects(POD_DISRUPTION_BUDGET, NAMESPACE)
            assert budget["spec"]["minAvailable"] == 1
            scale(world, 2)
            await world.rest(quiet=60)
            assert world.server.objects(POD_DISRUPTION_BUDGET, NAMESPACE) == []
            assert missing_permissions(operator.calls(), rules) == set()

    run_sim(run, seed=3)
