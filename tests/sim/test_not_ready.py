"""Trouble with pods is told once, when it has lasted long enough, although no event comes at that moment (RC-34)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay_testkit.builders import build_group, build_pod_template, build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.podstatus import HOLD
from kuberay_testkit.sim.users import NAMESPACE


def told(world: RayWorld) -> tuple[str, str] | None:
    cluster = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
    assert cluster is not None
    conditions = cluster.get("status", {}).get("conditions", [])
    return next(((c["reason"], c["message"]) for c in conditions if c["type"] == "PodsNotReady"), None)


def status_writes(operator: SimOperator) -> int:
    return sum(
        call.verb == "apply" and call.resource == "rayclusters" and call.subresource == "status"
        for call in operator.calls()
    )


@pytest.mark.parametrize(
    ("scheduled", "reason", "seconds"), [(True, "Unschedulable", 10), (False, "NotScheduled", 120)]
)
def test_pods_that_find_no_node(scheduled: bool, reason: str, seconds: int) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            template = build_pod_template(annotations={HOLD: "true"})
            group = build_group("held", 2, template=template)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=[group]))
            await world.pass_time(3)
            held: list[dict[str, Any]] = [
                pod for pod in world.server.objects(POD, NAMESPACE) if HOLD in pod["metadata"].get("annotations", {})
            ]
            assert len(held) == 2
            for pod in held if scheduled else ():
                world.kubelet.set_unschedulable(NAMESPACE, pod["metadata"]["name"], message="no node")
            await world.pass_time(seconds - 4)
            assert told(world) is None
            before = status_writes(operator)
            await world.pass_time(10)
            found = told(world)
            assert found is not None
            assert found[0] == reason
            assert found[1].startswith("2 pods of group held (")
            assert status_writes(operator) == before + 1
            assert await operator.idle_calls() == [], "and then there is peace"
            for pod in held:
                world.kubelet.start(NAMESPACE, pod["metadata"]["name"])
            await world.pass_time(15)
            assert told(world) is None

    run_sim(run)


def test_a_lost_node_is_told_and_its_pod_counts_until_it_is_gone() -> None:
    async def run() -> None:
        async with RayWorld(seed=1, pod_grace=5.0) as world:
            operator = SimOperator(world=world)
            operator.start()
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=1))
            await world.rest(quiet=30)
            (worker,) = [pod for pod in world.server.objects(POD, NAMESPACE) if "-worker-" in pod["metadata"]["name"]]
            world.kubelet.lose(NAMESPACE, worker["metadata"]["name"])
            await world.pass_time(60)
            found = told(world)
            assert found is not None
            assert found[0] == "NodeLost"
            assert found[1].endswith("does not answer; it counts until it is gone")
            assert len(world.server.objects(POD, NAMESPACE)) == 2, "none is made in its place"
            assert await operator.idle_calls() == []
            world.kubelet.give_up(worker["metadata"]["uid"])
            await world.rest(quiet=30)
            assert told(world) is None
            assert len(world.server.objects(POD, NAMESPACE)) == 2

    run_sim(run)
