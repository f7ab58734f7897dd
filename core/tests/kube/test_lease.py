"""Leader election on the simulated API server: who may lead, when one must stop, and whose lease is given up."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kuberay.api.kinds import LEASE
from kuberay.kube.client import Client
from kuberay.kube.errors import NotLeadingError
from kuberay.kube.lease import LEASE_NAME, Lease
from kuberay.kube.transport import Response
from kuberay_testkit.sim.clock import VirtualClock
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time


def candidate(server: SimServer, name: str, clock: VirtualClock | None = None) -> Lease:
    client = Client(SimTransport(server, client=name))
    return Lease(client, clock or VirtualClock(), namespace="ns", identity=name)


async def holder(server: SimServer, seconds: float) -> tuple[Lease, asyncio.Task[None]]:
    """``a`` has held the lease for so long, and goes on in the task."""
    lease = candidate(server, "a")
    await lease.acquire()
    holding = asyncio.create_task(lease.hold())
    await asyncio.sleep(seconds)
    return lease, holding


def take_over(server: SimServer) -> None:
    """As if ``b`` had not seen that the lease is held."""
    taken = {"holderIdentity": "b", "renewTime": "2026-01-01T00:00:05.000000Z"}
    server.patch(LEASE, "ns", LEASE_NAME, {"spec": taken})


def now() -> float:
    return asyncio.get_running_loop().time()


def spec(server: SimServer) -> dict[str, Any]:
    lease = server.peek(LEASE, "ns", LEASE_NAME)
    assert lease is not None
    found: dict[str, Any] = lease["spec"]
    return found


@in_virtual_time
async def test_an_absent_lease_is_created() -> None:
    server = SimServer()
    await candidate(server, "a").acquire()
    assert LEASE_NAME == "ray-operator-leader"
    made = spec(server)
    assert made["holderIdentity"] == "a"
    assert made["leaseDurationSeconds"] == 15
    assert made["leaseTransitions"] == 0
    assert made["renewTime"] == made["acquireTime"]
    assert now() < 1


@in_virtual_time
async def test_a_lease_that_is_renewed_is_not_taken() -> None:
    server = SimServer()
    first, second = candidate(server, "a"), candidate(server, "b")
    await first.acquire()
    holding = asyncio.create_task(first.hold())
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(600)
    assert not waiting.done()
    assert not holding.done()
    assert spec(server)["holderIdentity"] == "a"
    for task in (holding, waiting):
        task.cancel()


@in_virtual_time
async def test_a_lease_not_renewed_for_its_duration_by_the_local_clock_is_taken() -> None:
    server = SimServer()
    await candidate(server, "a").acquire()
    await candidate(server, "b").acquire()
    assert 15 < now() < 15.5, "as soon as it has expired, whenever the next look would have been"
    taken = spec(server)
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("b", 1)


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_clocks_that_disagree_neither_steal_nor_block(skew: float) -> None:
    @in_virtual_time
    async def scenario() -> None:
        server = SimServer()
        wrong = VirtualClock()
        wrong.advance(skew)
        first = candidate(server, "a", wrong)
        await first.acquire()
        holding = asyncio.create_task(first.hold())
        waiting = asyncio.create_task(candidate(server, "b").acquire())
        await asyncio.sleep(60)
        assert not waiting.done()
        holding.cancel()
        stopped = now()
        await waiting
        assert now() - stopped < 20

    scenario()


@in_virtual_time
async def test_the_duration_is_the_one_its_holder_promised() -> None:
    server = SimServer()
    await candidate(server, "a").acquire()
    server.patch(LEASE, "ns", LEASE_NAME, {"spec": {"leaseDurationSeconds": 60}})
    await candidate(server, "b").acquire()
    assert 60 < now() < 63


@in_virtual_time
async def test_of_two_candidates_exactly_one_takes_an_expired_lease() -> None:
    server = SimServer()
    await candidate(server, "old").acquire()
    both = [asyncio.create_task(candidate(server, name).acquire(), name=name) for name in ("a", "b")]
    await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    await asyncio.sleep(0.5)
    won = [task.get_name() for task in both if task.done()]
    assert won == [spec(server)["holderIdentity"]]
    for task in both:
        task.cancel()


@in_virtual_time
async def test_the_same_identity_takes_its_own_lease_at_once() -> None:
    server = SimServer()
    await candidate(server, "a").acquire()
    before = now()
    await candidate(server, "a").acquire()
    assert now() - before < 1
    assert spec(server)["leaseTransitions"] == 0


@in_virtual_time
async def test_conflicts_and_errors_only_delay() -> None:
    server = SimServer(faults=Faults().add("error_before", times=2).add("timeout_before", times=2))
    lease = candidate(server, "a")
    await lease.acquire()
    server.faults = Faults().add("conflict", verb="update", times=2)
    holding = asyncio.create_task(lease.hold())
    await asyncio.sleep(30)
    assert not holding.done()
    holding.cancel()


@pytest.mark.parametrize("fault", ["error_before", "conflict", "timeout_before"])
def test_a_holder_that_cannot_renew_stops_before_others_may_start(fault: Any) -> None:
    @in_virtual_time
    async def scenario() -> None:
        server = SimServer()
        _, holding = await holder(server, 20)
        renewed = now()
        # Each attempt hangs, so that attempts do not add up to more than the deadline.
        server.faults = Faults().add(fault, seconds=8.0)
        await holding
        assert 8 <= now() - renewed <= 10.5

    scenario()


@in_virtual_time
async def test_a_holder_whose_requests_hang_stops_in_time() -> None:
    server = SimServer()
    _, holding = await holder(server, 20)
    server.faults = Faults().add("timeout_before", seconds=3600)
    renewed = now()
    await holding
    assert now() - renewed <= 10.5


@in_virtual_time
async def test_a_released_lease_is_free_at_once() -> None:
    server = SimServer()
    first = candidate(server, "a")
    await first.acquire()
    await first.release()
    assert spec(server)["holderIdentity"] == ""
    before = now()
    await candidate(server, "b").acquire()
    assert now() - before < 1


@in_virtual_time
async def test_only_ones_own_lease_is_released() -> None:
    server = SimServer()
    await candidate(server, "a").acquire()
    await candidate(server, "b").release()
    assert spec(server)["holderIdentity"] == "a"


@pytest.mark.parametrize("fault", ["error_before", "conflict", "timeout_before"])
def test_a_release_that_fails_is_no_error(fault: Any) -> None:
    @in_virtual_time
    async def scenario() -> None:
        server = SimServer()
        lease = candidate(server, "a")
        await lease.acquire()
        server.faults = Faults().add(fault)
        await lease.release()
        assert spec(server)["holderIdentity"] == "a"

    scenario()


@in_virtual_time
async def test_who_holds_the_lease_knows_by_the_clock_alone_when_that_is_over() -> None:
    server = SimServer()
    lease = candidate(server, "a")
    assert not lease.may_act()
    await lease.acquire()
    assert lease.may_act()
    lease.gate()
    await asyncio.sleep(9.9)
    assert lease.may_act()
    await asyncio.sleep(0.2)
    assert not lease.may_act()
    with pytest.raises(NotLeadingError):
        lease.gate()


@in_virtual_time
async def test_a_process_that_was_frozen_knows_at_once_that_it_leads_no_more() -> None:
    """The event loop's time stands still while a callback runs; the monotonic clock does not."""
    server, frozen = SimServer(), [0.0]
    client = Client(SimTransport(server, client="a"))
    lease = Lease(client, VirtualClock(), namespace="ns", identity="a", monotonic=lambda: now() + frozen[0])
    await lease.acquire()
    holding = asyncio.create_task(lease.hold())
    await asyncio.sleep(1)
    renewed = spec(server)["renewTime"]
    frozen[0] = 60.0
    assert not lease.may_act()
    await asyncio.wait_for(holding, 3)
    assert spec(server)["renewTime"] == renewed, "it does not take its own lease again"


@in_virtual_time
async def test_time_counts_from_before_the_answer() -> None:
    """A candidate that was frozen while it asked has an answer that may be outdated."""
    server = SimServer(faults=Faults().add("timeout_before", verb="get", times=1, seconds=0.1))
    frozen = [0.0]

    class Freezing(SimTransport):
        async def request(self, method: str, path: str, **more: Any) -> Response:
            answer = await super().request(method, path, **more)
            if method == "POST":
                frozen[0] += 30.0
            return answer

    client = Client(Freezing(server, client="a"))
    lease = Lease(client, VirtualClock(), namespace="ns", identity="a", monotonic=lambda: now() + frozen[0])
    await lease.acquire()
    assert spec(server)["holderIdentity"] == "a"
    assert not lease.may_act()
    await asyncio.wait_for(lease.hold(), 1)


@in_virtual_time
async def test_a_holder_that_sees_another_one_stops_at_once() -> None:
    server = SimServer()
    lease, holding = await holder(server, 5)
    take_over(server)
    await asyncio.wait_for(holding, 2.5)
    assert not lease.may_act()
    assert spec(server)["holderIdentity"] == "b"


@in_virtual_time
async def test_nobody_acts_after_a_release() -> None:
    lease = candidate(SimServer(), "a")
    await lease.acquire()
    await lease.release()
    assert not lease.may_act()


@in_virtual_time
async def test_who_waits_remembers_that_it_was_cut_off() -> None:
    server = SimServer()
    await candidate(server, "a").acquire()
    second = candidate(server, "b")
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(5)
    assert not second.was_cut_off(60)
    server.faults = Faults().add("timeout_before", client="b", times=1)
    await asyncio.sleep(5)
    assert second.was_cut_off(60)
    await asyncio.sleep(60)
    assert not second.was_cut_off(60)
    await waiting


@in_virtual_time
async def test_a_server_that_is_silent_is_not_waited_for() -> None:
    """Two attempts fit into the deadline; and who waits for the lease may find it free at another server soon."""
    server = SimServer()
    first = candidate(server, "a")
    await first.acquire()
    second = candidate(server, "b")
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(1)
    server.faults = Faults().add("timeout_before", times=1, client="b", seconds=3600)
    started = now()
    await waiting
    assert now() - started < 17
    assert second.was_cut_off(60)
