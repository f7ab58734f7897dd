"""How an operator ends: within ten seconds whatever is under way, the Lease last; and what it does when a part fails."""

from __future__ import annotations

import asyncio

import pytest
from kuberay.api.kinds import LEASE, POD
from kuberay.kube.lease import LEASE_NAME
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.heads_world import HeadsWorld
from kuberay_testkit.sim.operator import OPERATOR_NAMESPACE, RayWorld, SimOperator
from kuberay_testkit.sim.play import expect_outcome
from kuberay_testkit.sim.users import NAMESPACE, write_script

BUSY: dict[str, Faults] = {
    "at rest": Faults(),
    "writes that take long": Faults().add("slow", verb="create", seconds=30),
    "writes that hang": Faults().add("timeout_before", verb="create", seconds=3600),
    "everything hangs": Faults().add("timeout_before", seconds=3600),
    "errors": Faults().add("error_after", chance=0.5),
}


@pytest.mark.parametrize("trouble", BUSY)
@pytest.mark.parametrize("after", [0.0, 0.004, 0.02, 0.1, 1.0])
def test_stops_within_ten_seconds_with_work_under_way(trouble: str, after: float) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, elect=True)
            operator.start()
            await world.pass_time(1)
            world.server.faults = BUSY[trouble]
            for number in range(20):
                world.server.create(build_raycluster(f"rc{number}", namespace=NAMESPACE, groups=3))
            await world.pass_time(after)
            assert await operator.stop() <= 10
            world.server.faults.stop()
            before = len(world.server.calls)
            await world.pass_time(120)
            assert world.server.calls[before:] == [], "nothing is done after the end"
            if trouble != "everything hangs":
                lease = world.server.peek(LEASE, OPERATOR_NAMESPACE, LEASE_NAME)
                assert lease is not None
                assert lease["spec"]["holderIdentity"] == ""

    run_sim(run)


def test_the_lease_is_given_up_only_after_the_last_write() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, elect=True)
            operator.start()
            await world.pass_time(1)
            world.server.faults = Faults().add("slow", verb="create", resource="pods", seconds=3)
            for number in range(5):
                world.server.create(build_raycluster(f"rc{number}", namespace=NAMESPACE, groups=3))
            await world.pass_time(0.05)
            await operator.stop()
            calls = [call for call in operator.calls() if call.verb not in ("get", "list", "watch")]
            assert (calls[-1].verb, calls[-1].resource) == ("update", "leases")
            assert world.server.count(verb="create", resource="pods") > 0

    run_sim(run)


def test_work_goes_on_after_a_stop_and_a_start_in_its_midst() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, elect=True)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=3))
            for _ in range(6):
                operator.start()
                await world.pass_time(0.03)
                await operator.stop()
            operator.start()
            await world.rest()
            assert len(world.server.objects(POD, NAMESPACE)) == 4

    run_sim(run)


def test_stopping_twice_and_before_the_start_is_harmless() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, elect=True)
            process = operator.start()
            await asyncio.sleep(0)
            assert operator.app is not None
            operator.app.stop()
            operator.app.stop()
            await asyncio.wait_for(process.main, 10)
            assert not operator.leading

    run_sim(run)


def test_stops_while_waiting_for_the_first_lists() -> None:
    async def run() -> None:
        async with RayWorld(seed=1, faults=Faults().add("refuse", resource="pods")) as world:
            operator = SimOperator(world=world)
            operator.start()
            await world.pass_time(30)
            assert operator.app is not None
            assert "pods" in operator.app.why_not_ready()
            assert not operator.leading
            assert await operator.stop() < 10

    run_sim(run)


def test_the_end_of_the_event_source_ends_the_operator() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, elect=True)
            process = operator.start()
            await world.pass_time(5)
            world.processes.remove(process)  # its end is expected
            assert operator.source is not None
            operator.source.fail(RuntimeError("kopf ended"))
            with pytest.raises(RuntimeError, match="kopf ended"):
                await asyncio.wait_for(process.main, 10)
            lease = world.server.peek(LEASE, OPERATOR_NAMESPACE, LEASE_NAME)
            assert lease is not None
            assert lease["spec"]["holderIdentity"] == ""

    run_sim(run)


def test_says_when_it_is_ready_and_alive() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            await world.pass_time(0)
            app = operator.app
            assert app is not None
            assert app.why_not_ready() != ""
            await world.pass_time(1)
            assert app.why_not_ready() == ""
            assert app.why_not_live() == ""
            world.server.faults = Faults().add("timeout_before", seconds=1)
            await world.pass_time(500)
            assert app.why_not_live() != "", "nothing was listed for too long"
            world.server.faults.stop()
            await world.pass_time(100)
            assert app.why_not_live() == ""

    run_sim(run)


def test_only_the_namespaces_it_is_told_are_served() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, namespaces=["mine", "also-mine"])
            operator.start()
            for namespace in ("mine", "also-mine", "others"):
                world.server.create(build_raycluster("rc", namespace=namespace))
            await world.rest()
            counts = {
                namespace: len(world.server.objects(POD, namespace)) for namespace in ("mine", "also-mine", "others")
            }
            assert counts == {"mine": 2, "also-mine": 2, "others": 0}
            assert {call.namespace for call in operator.calls() if call.verb in ("list", "watch")} == {
                "mine",
                "also-mine",
            }

    run_sim(run)


@pytest.mark.parametrize("workers", [1, 32])
def test_the_number_of_workers_changes_nothing_but_the_time(workers: int) -> None:
    async def run() -> None:
        script = write_script(3)
        async with HeadsWorld(seed=3) as world:
            SimOperator(world=world, workers=workers).start()
            await script.play(world)
            await world.rest(quiet=100)
            expect_outcome(world, script)

    run_sim(run, seed=3)
