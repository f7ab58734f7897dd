"""Two replicas and one Lease: one acts at a time, and whatever happens to it the work goes on.

That they converge while they are killed in turn is shown in `test_converge`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from kuberay.api.kinds import LEASE, POD, RAYCLUSTER
from kuberay.kube.lease import LEASE_NAME
from kuberay.operator.app import LeadershipLostError
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import OPERATOR_NAMESPACE, RayWorld, SimOperator
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.users import NAMESPACE


def replicas(world: RayWorld) -> list[SimOperator]:
    """Two replicas with election, not started; that never both act is watched from now on."""
    both = [
        SimOperator(world=world, name=name, elect=True, may_lose_lease=name == "operator-a")
        for name in ("operator-a", "operator-b")
    ]

    def one_leader(_server: SimServer, _change: Change) -> None:
        leading = [replica.name for replica in both if replica.leading]
        assert len(leading) <= 1, f"{' and '.join(leading)} lead at once"

    world.always(one_leader)
    return both


@asynccontextmanager
async def leader_and_standby() -> AsyncIterator[tuple[RayWorld, SimOperator, SimOperator]]:
    """A world with both started: the first leads, the second has had no time yet."""
    async with RayWorld(seed=1) as world:
        watch_over(world)
        first, second = replicas(world)
        first.start()
        await world.pass_time(1)
        second.start()
        yield world, first, second


def holder(world: RayWorld) -> str:
    lease = world.server.peek(LEASE, OPERATOR_NAMESPACE, LEASE_NAME)
    return str(lease["spec"]["holderIdentity"]) if lease else ""


def writes(replica: SimOperator) -> int:
    return sum(
        call.verb in ("create", "apply", "patch", "delete") and call.resource != "leases" for call in replica.calls()
    )


async def the_cluster_is_ready(world: RayWorld, name: str) -> None:
    def ready() -> bool:
        cluster = world.server.peek(RAYCLUSTER, NAMESPACE, name)
        return cluster is not None and (cluster.get("status") or {}).get("state") == "ready"

    await world.until(ready, within=60, what=f"{name} being ready")


def test_the_standby_only_watches_and_takes_over_at_once_after_a_clean_stop() -> None:
    async def run() -> None:
        async with leader_and_standby() as (world, first, second):
            world.server.create(build_raycluster("one", namespace=NAMESPACE))
            await the_cluster_is_ready(world, "one")
            assert first.leading
            assert not second.leading
            assert writes(second) == 0
            assert second.app is not None
            assert second.app.store.count(POD) == 2, "the standby's store is warm"

            assert await first.stop() < 10
            stopped = world.server.clock.elapsed()
            await world.until(lambda: second.leading, within=10)
            assert world.server.clock.elapsed() - stopped <= 3, "the lease was given up, not left to expire"
            world.server.create(build_raycluster("two", namespace=NAMESPACE))
            await the_cluster_is_ready(world, "two")
            assert await second.stop() < 10
            assert holder(world) == ""

    run_sim(run)


def test_the_standby_takes_over_after_the_lease_expired_when_the_leader_is_killed() -> None:
    async def run() -> None:
        async with leader_and_standby() as (world, first, second):
            await world.pass_time(5)
            await first.kill()
            world.server.create(build_raycluster("one", namespace=NAMESPACE))
            killed = world.server.clock.elapsed()
            await world.until(lambda: second.leading, within=30)
            assert 10 < world.server.clock.elapsed() - killed <= 20
            await the_cluster_is_ready(world, "one")

    run_sim(run)


def test_a_standby_can_be_stopped_and_leaves_the_lease_alone() -> None:
    async def run() -> None:
        async with leader_and_standby() as (world, first, second):
            await world.pass_time(5)
            assert await second.stop() < 5
            await world.pass_time(60)
            assert first.leading
            assert holder(world) == "operator-a"

    run_sim(run)


def test_a_leader_cut_off_from_the_api_server_ends_before_the_other_starts() -> None:
    async def run() -> None:
        async with leader_and_standby() as (world, first, second):
            first.may_lose_lease = False
            await world.pass_time(30)
            process = first.process
            assert process is not None
            world.processes.remove(process)  # its end is expected
            world.server.faults = Faults().add("timeout_before", client="operator-a", seconds=20)
            cut = asyncio.get_running_loop().time()
            with pytest.raises(LeadershipLostError, match="lost"):
                await process.main
            ended = asyncio.get_running_loop().time() - cut
            assert ended <= 20
            assert not second.leading or ended >= 10
            world.server.create(build_raycluster("one", namespace=NAMESPACE))
            await world.until(lambda: second.leading, within=30)
            await the_cluster_is_ready(world, "one")

    run_sim(run)


def test_nothing_is_written_once_the_lease_was_not_renewed_in_time() -> None:
    """Passes under way may finish when a leader stops; one whose time is over has no time left for that."""

    async def run() -> None:
        async with leader_and_standby() as (world, first, second):
            await world.pass_time(30)
            world.server.faults = (
                Faults()
                .add("timeout_before", client="operator-a", resource="leases", seconds=3600)
                .add("slow", client="operator-a", verb="create", seconds=1.5)
            )
            renewed = max(call.at for call in first.calls() if call.verb == "update" and call.resource == "leases")
            for number in range(40):
                world.server.create(build_raycluster(f"rc{number}", namespace=NAMESPACE, groups=3))
                await world.pass_time(0.4)
            await world.until(lambda: second.leading, within=30)
            late = [
                str(call)
                for call in first.calls()
                if call.verb in ("create", "apply", "patch", "delete", "update")
                and call.resource != "leases"
                # A request that was sent in time may arrive a little later.
                and call.at > renewed + 10 + 1.5
            ]
            assert late == []
            assert any(call.resource == "pods" and call.at > renewed + 8 for call in first.calls()), "it was at work"
            world.server.faults = Faults()
            await world.rest()
            for number in range(40):
                pods = [
                    pod
                    for pod in world.server.objects(POD, NAMESPACE)
                    if pod["metadata"]["labels"]["ray.io/cluster"] == f"rc{number}"
                ]
                assert len(pods) == 4

    run_sim(run)


def test_a_standby_that_was_cut_off_looks_again_before_it_acts() -> None:
    """It knew the pods as they are and the cluster as it was: that alone would have told it to delete what the user wants."""

    async def run() -> None:
        async with leader_and_standby() as (world, first, second):
            world.server.create(build_raycluster("one", namespace=NAMESPACE, groups={"g": 1}))
            await the_cluster_is_ready(world, "one")
            world.server.faults = (
                Faults()
                .add("silence_watch", client="operator-b", resource="rayclusters")
                .add("timeout_before", client="operator-b", resource="leases", seconds=1)
            )
            spec = build_raycluster("one", namespace=NAMESPACE, groups={"g": 3})["spec"]
            world.server.patch(RAYCLUSTER, NAMESPACE, "one", {"spec": spec})
            await world.until(lambda: len(world.server.objects(POD, NAMESPACE)) == 4, within=30)
            await world.pass_time(5)
            before = {pod["metadata"]["uid"] for pod in world.server.objects(POD, NAMESPACE)}
            await first.kill()
            await world.pass_time(10)
            world.server.faults = Faults()
            await world.until(lambda: second.leading, within=30)
            await world.pass_time(20)
            assert {pod["metadata"]["uid"] for pod in world.server.objects(POD, NAMESPACE)} == before

    run_sim(run)
