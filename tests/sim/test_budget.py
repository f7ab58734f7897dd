"""What a RayCluster costs the API server: its children, two status writes, three events, and then nothing at all."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER
from kuberay_testkit.builders import build_group, build_raycluster
from kuberay_testkit.sim.calls import Call
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.users import NAMESPACE

GROUPS: dict[str, list[dict[str, Any]]] = {
    "no workers": [],
    "one group of three": [build_group("workers", 3)],
    "two groups": [build_group("small", 2), build_group("large", 4)],
    "multi-host": [build_group("tpu", 2, numOfHosts=2)],
    "many workers": [build_group("workers", 60, maxReplicas=100)],
}


def pods_of(groups: list[dict[str, Any]]) -> int:
    return 1 + sum(group["replicas"] * group.get("numOfHosts", 1) for group in groups)


def tally(calls: list[Call], cluster: str) -> Counter[str]:
    """Requests about one cluster and its children, lists and watches left out."""
    counted: Counter[str] = Counter()
    for call in calls:
        if call.verb not in ("list", "watch") and (call.name == cluster or call.name.startswith(f"{cluster}-")):
            counted[f"{call.verb} {call.resource}{'/' if call.subresource else ''}{call.subresource}"] += 1
    return counted


@pytest.mark.parametrize("delay", [(0.0, 0.0), (0.5, 2.0), (0.0, 30.0)], ids=str)
@pytest.mark.parametrize("groups", GROUPS)
def test_a_cluster_until_it_is_ready_and_afterwards(groups: str, delay: tuple[float, float]) -> None:
    async def run() -> None:
        async with RayWorld(seed=1, pod_delay=delay) as world:
            operator = SimOperator(world=world)
            operator.start()
            await world.pass_time(1)
            before = len(operator.calls())
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=GROUPS[groups]))
            await world.rest(quiet=60)
            cluster = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
            assert cluster is not None
            assert cluster["status"]["state"] == "ready"
            pods = world.server.objects(POD, NAMESPACE)
            assert len(pods) == pods_of(GROUPS[groups])

            calls = operator.calls()[before:]
            counted = tally(calls, "rc")
            # Progress is told every few seconds while pods take long; a cluster that comes up at once is told of twice.
            allowed = 2 if delay[1] <= 2.0 else 2 + delay[1] // 5
            assert counted.pop("apply rayclusters/status") <= allowed
            assert counted.pop("apply services") == (2 if groups == "multi-host" else 1)
            assert counted == {}, "and nothing else is asked"
            assert sum(call.verb == "create" and call.resource == "pods" for call in calls) == len(pods)
            assert sum(call.resource == "events" for call in calls) == len(world.server.objects(EVENT, NAMESPACE))
            assert sum(call.resource == "events" for call in calls) <= 3
            assert await operator.idle_calls() == []

    run_sim(run)


def test_many_clusters_cost_what_one_costs_each() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            await world.pass_time(1)
            for number in range(30):
                world.server.create(build_raycluster(f"rc{number:02}", namespace=NAMESPACE, groups=3))
            await world.rest(quiet=30)
            assert len(world.server.objects(POD, NAMESPACE)) == 120
            for number in range(30):
                counted = tally(operator.calls(), f"rc{number:02}")
                assert counted["apply rayclusters/status"] <= 2
            assert sum(call.resource == "events" for call in operator.calls()) <= 90
            assert sum(call.verb in ("list", "watch") for call in operator.calls()) < 40, "not one per cluster"
            assert await operator.idle_calls() == []

    run_sim(run)


def test_a_restart_of_the_operator_writes_nothing() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            first = SimOperator(world=world)
            first.start()
            for number in range(5):
                world.server.create(build_raycluster(f"rc{number}", namespace=NAMESPACE, groups=2))
            await world.rest(quiet=30)
            await first.kill()
            second = SimOperator(world=world, name="second")
            second.start()
            assert [str(call) for call in await second.idle_calls()] == []
            assert len(world.server.objects(POD, NAMESPACE)) == 15

    run_sim(run)


def test_one_replica_more_costs_one_pod_two_statuses_and_one_event() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=1))
            await world.rest(quiet=30)
            before = len(operator.calls())
            groups = build_raycluster("rc", groups=2)["spec"]["workerGroupSpecs"]
            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"workerGroupSpecs": groups}})
            await world.rest(quiet=30)
            counted = Counter(
                f"{call.verb} {call.resource}"
                for call in operator.calls()[before:]
                if call.verb not in ("list", "watch")
            )
            assert counted["create pods"] == 1
            assert counted["apply rayclusters"] <= 2
            assert counted["create events"] == 1
            assert counted.total() <= 4

    run_sim(run)
