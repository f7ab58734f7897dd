"""The prober hands a job in once: refused or unanswered tries are repeated, and an id that is known counts as done (RJ-07)."""

from __future__ import annotations

import asyncio
import json

from kuberay.api.kinds import RAYJOB
from kuberay.kube.client import Client
from kuberay.operator.keys import Key
from kuberay.operator.prober import Prober
from kuberay.plan.model import SubmitJobCall
from kuberay_testkit.dashboard import FakeDashboard
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

KEY = Key(RAYJOB, "ns", "job")
CALL = SubmitJobCall("head:8265", "id-1", json.dumps({"entrypoint": "python a.py", "submission_id": "id-1"}))


class World:
    def __init__(self) -> None:
        server = SimServer()
        self.leads = True
        self.dashboard = FakeDashboard()
        self.dashboard.up("head:8265")
        self.woken: list[Key] = []
        self.prober = Prober(
            Client(SimTransport(server)),
            self.dashboard,
            server.clock,
            self.woken.append,
            may_act=lambda: self.leads,
        )

    @property
    def outcome(self) -> str:
        result = self.prober.results(KEY).get(CALL)
        return result.outcome if result else "none"

    @property
    def calls(self) -> list[str]:
        return [call[0] for call in self.dashboard.calls]


@in_virtual_time
async def test_an_accepted_job_is_handed_in_once() -> None:
    world = World()
    world.prober.want(KEY, [CALL])
    await asyncio.sleep(60)
    assert world.outcome == "found"
    assert world.woken == [KEY]
    assert world.calls == ["submit_job"]
    info = world.dashboard.job("head:8265", "id-1")
    assert info is not None
    assert info.entrypoint == "python a.py"
    world.prober.stop()


@in_virtual_time
async def test_a_refused_job_is_handed_in_again_after_a_look() -> None:
    world = World()
    world.dashboard.fail("500", times=2)
    world.prober.want(KEY, [CALL])
    await asyncio.sleep(60)
    assert world.outcome == "found"
    assert world.calls == ["submit_job", "job_info", "job_info", "submit_job"]
    world.prober.stop()


@in_virtual_time
async def test_a_job_that_arrived_although_nobody_said_so_is_not_handed_in_again() -> None:
    world = World()
    world.dashboard.fail("refuse", times=1)
    world.prober.want(KEY, [CALL])
    await asyncio.sleep(1)
    assert world.outcome == "error"
    world.dashboard.set_job("head:8265", "id-1", "RUNNING")
    await asyncio.sleep(60)
    assert world.outcome == "found"
    assert world.calls == ["submit_job", "job_info"]
    world.prober.stop()


@in_virtual_time
async def test_an_id_that_is_taken_is_success() -> None:
    world = World()
    world.dashboard.set_job("head:8265", "id-1", "RUNNING")
    world.prober.want(KEY, [CALL])
    await asyncio.sleep(10)
    assert world.outcome == "found"
    world.prober.stop()


@in_virtual_time
async def test_nothing_is_handed_in_by_a_replica_that_leads_no_more() -> None:
    """It may have been frozen between its plan and this."""
    world = World()
    world.leads = False
    world.prober.want(KEY, [CALL])
    await asyncio.sleep(60)
    assert world.outcome == "error"
    assert world.calls == []
    world.prober.stop()
