"""Probes in virtual time: bounded, backing off, one-shot calls asked once, and only changed answers wake the key."""

from __future__ import annotations

import asyncio
import base64
import itertools
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, SERVICE_ACCOUNT
from kuberay.api.kinds import SECRET as SECRET_KIND
from kuberay.kube.client import Client
from kuberay.operator.keys import Key
from kuberay.operator.prober import Prober
from kuberay.operator.turns import AT_ONE_ADDRESS
from kuberay.plan.model import (
    ActivityProbe,
    AuthSecret,
    DrainProbe,
    JobInfoProbe,
    JobLogsProbe,
    LeavingPod,
    ObjectProbe,
    Probe,
    ProbeResult,
    StopJobCall,
)
from kuberay.ray.dashboard import DashboardTarget, DashboardUnreachableError
from kuberay.ray.jobinfo import JobInfo
from kuberay_testkit.dashboard import FakeDashboard
from kuberay_testkit.drain import FakeDrain
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

KEY, OTHER = Key(RAYJOB, "ns", "job"), Key(RAYJOB, "ns", "other")
PROBE = JobInfoProbe("head:8265", "id")
SECRET = AuthSecret("ns", "token")
ACCOUNT = ObjectProbe(SERVICE_ACCOUNT, "ns", "sa")


class World:
    """A server, a dashboard, a prober, and the keys it woke."""

    def __init__(self, **options: Any) -> None:
        self.server = SimServer()
        self.dashboard = FakeDashboard()
        self.woken: list[Key] = []
        self.prober = Prober(
            Client(SimTransport(self.server)), self.dashboard, self.server.clock, self.woken.append, **options
        )

    def outcome(self, probe: Any = PROBE, key: Key = KEY) -> str:
        result = self.prober.results(key).get(probe)
        return result.outcome if result else "none"

    def service_account(self) -> dict[str, Any]:
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "sa", "namespace": "ns"}}


@in_virtual_time
async def test_a_job_is_asked_for_at_the_interval_and_only_changes_wake_the_key() -> None:
    world = World()
    world.prober.want(KEY, [PROBE])
    assert world.outcome() == "none"
    await asyncio.sleep(0.1)
    assert world.outcome() == "absent"
    assert world.woken == [KEY]
    await asyncio.sleep(30)
    assert 9 <= world.dashboard.count("job_info") <= 12
    assert world.woken == [KEY]
    world.dashboard.set_job("head:8265", "id", "RUNNING")
    await asyncio.sleep(4)
    assert world.woken == [KEY, KEY]
    result = world.prober.results(KEY)[PROBE]
    assert (result.outcome, result.value["status"]) == ("found", "RUNNING")
    await asyncio.sleep(30)
    world.dashboard.set_job("head:8265", "id", "SUCCEEDED", message="done")
    await asyncio.sleep(4)
    assert len(world.woken) == 3
    assert world.prober.results(KEY)[PROBE].value["message"] == "done"
    world.prober.stop()


class Observer:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, bool]] = []
        self.seconds: list[float] = []

    def asked(self, probe: Probe, result: ProbeResult, seconds: float) -> None:
        self.told.append((type(probe).__name__, result.outcome, bool(result.error)))
        self.seconds.append(seconds)


@in_virtual_time
async def test_an_observer_is_told_of_every_answer_and_what_runs_can_be_seen() -> None:
    observer = Observer()
    world = World(observer=observer)
    world.prober.want(KEY, [PROBE, ACCOUNT])
    world.prober.want(OTHER, [PROBE])
    assert [result for _, result in world.prober.running()] == [None, None, None]
    await asyncio.sleep(0.1)
    assert sorted(observer.told) == [
        ("JobInfoProbe", "absent", False),
        ("JobInfoProbe", "absent", False),
        ("ObjectProbe", "absent", False),
    ]
    assert all(seconds >= 0 for seconds in observer.seconds)
    assert {result.outcome for _, result in world.prober.running() if result is not None} == {"absent"}
    world.prober.want(KEY, [])
    assert [probe for probe, _ in world.prober.running()] == [PROBE]
    world.prober.stop()
    assert not world.prober.running()


@in_virtual_time
async def test_wanting_the_same_again_neither_restarts_nor_doubles_a_probe() -> None:
    world = World()
    for _ in range(20):
        world.prober.want(KEY, [PROBE])
        await asyncio.sleep(0.5)
    assert world.dashboard.count("job_info") <= 5
    world.prober.stop()


@in_virtual_time
async def test_a_probe_no_longer_wanted_ends_and_its_answer_is_forgotten() -> None:
    world = World()
    world.prober.want(KEY, [PROBE, ACCOUNT])
    world.prober.want(OTHER, [PROBE])
    await asyncio.sleep(1)
    world.prober.want(KEY, [ACCOUNT])
    assert world.outcome() == "none"
    assert world.outcome(ACCOUNT) == "absent"
    assert world.outcome(key=OTHER) == "absent"
    world.prober.want(KEY, [])
    world.prober.want(OTHER, [])
    assert not world.prober.results(KEY)
    asked = len(world.dashboard.calls)
    await asyncio.sleep(60)
    assert len(world.dashboard.calls) == asked


@in_virtual_time
async def test_errors_keep_the_last_value_tell_since_when_and_back_off() -> None:
    world = World()
    world.dashboard.set_job("head:8265", "id", "RUNNING")
    world.prober.want(KEY, [PROBE])
    await asyncio.sleep(1)
    world.dashboard.fail("refuse")
    await asyncio.sleep(4)
    assert len(world.woken) == 2
    first = world.prober.results(KEY)[PROBE]
    assert (first.outcome, first.value["status"]) == ("error", "RUNNING")
    assert "connection refused" in first.error
    assert first.failing_since == first.at
    asked = world.dashboard.count("job_info")
    await asyncio.sleep(300)
    assert 8 <= world.dashboard.count("job_info") - asked <= 14, "from three seconds to thirty"
    later = world.prober.results(KEY)[PROBE]
    assert later.failing_since == first.at
    assert later.at > first.at
    assert len(world.woken) == 2, "an error that goes on is no news"
    world.dashboard.fail("ok")
    await asyncio.sleep(31)
    assert world.outcome() == "found"
    assert world.prober.results(KEY)[PROBE].failing_since is None
    asked = world.dashboard.count("job_info")
    await asyncio.sleep(30)
    assert world.dashboard.count("job_info") - asked >= 9, "at the usual pace again"
    world.prober.stop()


class Slow(FakeDashboard):
    """Takes its time for each answer, and notes when it was asked and how many are waiting at once."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        self.now = self.most = 0
        self.asked: dict[str, list[float]] = {}
        self.hung: set[str] = set()
        """Addresses that never answer; their callers give up after two seconds."""

    async def job_info(self, target: DashboardTarget, job_id: str) -> JobInfo | None:
        self.now += 1
        self.most = max(self.most, self.now)
        self.asked.setdefault(target.address, []).append(asyncio.get_running_loop().time())
        try:
            if target.address in self.hung:
                await asyncio.sleep(2)
                raise DashboardUnreachableError("not answered within 2 s")
            await asyncio.sleep(self.seconds)
            return await super().job_info(target, job_id)
        finally:
            self.now -= 1

    def longest_pause(self, addresses: Iterable[str], since: float) -> float:
        """The longest time between two questions to one of *addresses*."""
        times = [[at for at in self.asked[address] if at >= since] for address in addresses]
        return max(later - earlier for asked in times for earlier, later in itertools.pairwise(asked))


def probing(dashboard: Slow, concurrency: int, addresses: Sequence[str]) -> tuple[World, Prober]:
    """A prober with one job at each of *addresses*."""
    world = World()
    client = Client(SimTransport(world.server))
    prober = Prober(client, dashboard, world.server.clock, world.woken.append, concurrency=concurrency)
    for number, address in enumerate(addresses):
        prober.want(Key(RAYJOB, "ns", f"j{number}"), [JobInfoProbe(address, "id")])
    return world, prober


@in_virtual_time
async def test_only_so_many_are_asked_at_once() -> None:
    slow = Slow(0.2)
    world, prober = probing(slow, 5, [f"head{number}" for number in range(30)])
    await asyncio.sleep(7)
    assert slow.most == 5
    assert len(world.woken) == 30, "all have been answered"
    prober.stop()


@in_virtual_time
async def test_one_address_is_asked_by_few_at_once_however_many_jobs_use_it() -> None:
    slow = Slow(0.2)
    world, prober = probing(slow, 64, ["shared"] * 40)
    await asyncio.sleep(7)
    assert slow.most == AT_ONE_ADDRESS
    assert len(world.woken) == 40
    prober.stop()


@in_virtual_time
async def test_questions_of_one_moment_are_spread_over_the_interval() -> None:
    addresses = [f"head{number}" for number in range(300)]
    slow = Slow(0.0)
    _, prober = probing(slow, 64, addresses)
    await asyncio.sleep(30)
    start = min(times[0] for times in slow.asked.values())
    assert all(times[0] < start + 0.1 for times in slow.asked.values()), "a first answer is waited for"
    busiest = Counter(int(at) for times in slow.asked.values() for at in times if at > start + 6).most_common(1)
    assert 100 <= busiest[0][1] <= 150, "about a third in each second"
    assert slow.longest_pause(addresses, 0) <= 3.0 + slow.latency, "not less often than KubeRay asks"
    prober.stop()


@in_virtual_time
async def test_dashboards_that_hang_delay_no_other() -> None:
    """RJ-08: 500 of 1,000 dashboards hang from one moment on; there are 64 places, and each is waited for two seconds."""
    healthy, others = [f"ok{number}" for number in range(500)], [f"hung{number}" for number in range(500)]
    slow = Slow(0.01)
    world, prober = probing(slow, 64, [name for pair in zip(healthy, others, strict=True) for name in pair])
    await asyncio.sleep(10)
    slow.hung = set(others)
    began = asyncio.get_running_loop().time()
    world.woken.clear()
    await asyncio.sleep(120)
    # Two seconds is what finding out about 500 costs the others: 500 / 64 × 0.25 s.
    assert slow.longest_pause(healthy, began) <= 3.0 + 2.0
    assert slow.longest_pause(healthy, began + 10) <= 3.1
    assert len(world.woken) == 500, "all that hang were told of, once"
    asked = sum(at > began + 60 for name in others for at in slow.asked[name])
    assert asked >= 500, "each is asked again, to notice its return"
    slow.hung.clear()
    await asyncio.sleep(40)
    assert all(next(iter(prober.results(key).values())).outcome == "absent" for key in set(world.woken))
    again = asyncio.get_running_loop().time()
    await asyncio.sleep(20)
    assert slow.longest_pause(others, again) <= 3.1, "at the usual pace again"
    prober.stop()


@in_virtual_time
async def test_dashboards_that_hung_from_the_start_do_not_keep_a_new_one_waiting() -> None:
    """RJ-08"""
    slow = Slow(0.01)
    slow.hung = {f"hung{number}" for number in range(500)}
    world, prober = probing(slow, 64, sorted(slow.hung))
    await asyncio.sleep(20)
    world.woken.clear()
    prober.want(KEY, [JobInfoProbe("new:8265", "id")])
    await asyncio.sleep(0.1)
    assert world.woken == [KEY]
    prober.stop()


@in_virtual_time
async def test_what_is_known_of_an_address_is_forgotten_with_the_last_who_asks_there() -> None:
    slow = Slow(0.0)
    slow.hung = {"head"}
    _, prober = probing(slow, 64, ["head", "head"])
    await asyncio.sleep(10)
    prober.want(Key(RAYJOB, "ns", "j0"), [])
    await asyncio.sleep(1)
    assert list(prober._turns._addresses) == ["head"]
    prober.want(Key(RAYJOB, "ns", "j1"), [])
    await asyncio.sleep(1)
    assert not prober._turns._addresses


@in_virtual_time
async def test_a_stop_call_is_made_once_and_its_result_stays() -> None:
    world = World()
    world.dashboard.set_job("head:8265", "id", "RUNNING")
    stop = StopJobCall("head:8265", "id")
    for _ in range(5):
        world.prober.want(KEY, [stop])
        await asyncio.sleep(10)
    assert world.dashboard.count("stop_job") == 1
    result = world.prober.results(KEY)[stop]
    assert (result.outcome, result.value) == ("found", {"stopped": True})
    assert world.woken == [KEY]


@in_virtual_time
async def test_a_failed_stop_call_is_an_answer_too() -> None:
    world = World()
    world.dashboard.fail("500", address="head:8265")
    stop = StopJobCall("head:8265", "id")
    world.prober.want(KEY, [stop])
    await asyncio.sleep(60)
    assert world.outcome(stop) == "error"
    assert world.woken == [KEY]
    assert world.dashboard.count("stop_job") == 1


class Odd(FakeDashboard):
    """Its first answer is one that nobody thought of."""

    async def job_info(self, target: DashboardTarget, job_id: str) -> JobInfo | None:
        if not self.count("job_info"):
            await super().job_info(target, job_id)
            raise OverflowError("year 292278994 is out of range")
        return await super().job_info(target, job_id)


@in_virtual_time
async def test_an_unexpected_error_is_an_answer_and_the_question_goes_on() -> None:
    world = World()
    prober = Prober(Client(SimTransport(world.server)), Odd(), world.server.clock, world.woken.append)
    prober.want(KEY, [PROBE])
    await asyncio.sleep(1)
    result = prober.results(KEY)[PROBE]
    assert (result.outcome, result.error) == ("error", "unexpected answer (OverflowError)")
    await asyncio.sleep(30)
    assert prober.results(KEY)[PROBE].outcome == "absent"
    prober.stop()


@in_virtual_time
async def test_tokens_of_former_clusters_are_not_kept() -> None:
    world = World()
    for name in ("one", "two", "three"):
        body = secret({"auth_token": base64.b64encode(b"sesame").decode()})
        world.server.create({**body, "metadata": {"name": name, "namespace": "ns"}})
        world.prober.want(KEY, [replace(PROBE, auth=AuthSecret("ns", name))])
        await asyncio.sleep(60)
        world.prober.forget_old()
    assert [held.name for held in world.prober._tokens] == ["three"]
    world.prober.stop()


@in_virtual_time
async def test_objects_are_looked_up_until_they_exist() -> None:
    world = World()
    world.prober.want(KEY, [ACCOUNT])
    await asyncio.sleep(1)
    assert world.outcome(ACCOUNT) == "absent"
    world.server.create(world.service_account())
    await asyncio.sleep(31)
    assert world.outcome(ACCOUNT) == "found"
    assert len(world.woken) == 2
    assert world.server.count(verb="get", resource="serviceaccounts") <= 3
    world.prober.stop()


@pytest.mark.parametrize("fault", ["error_before", "timeout_before"])
def test_a_look_up_that_fails_is_an_error_and_not_absence(fault: Any) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        world.server.create(world.service_account())
        world.server.faults = Faults().add(fault, times=1, seconds=0.1)
        world.prober.want(KEY, [ObjectProbe(SERVICE_ACCOUNT, "ns", "sa", interval=timedelta(seconds=1))])
        await asyncio.sleep(0.5)
        (result,) = world.prober.results(KEY).values()
        assert result.outcome == "error"
        await asyncio.sleep(30)
        (result,) = world.prober.results(KEY).values()
        assert result.outcome == "found"
        world.prober.stop()

    scenario()


def secret(data: dict[str, str]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": "ns"}, "data": data}


@in_virtual_time
async def test_the_token_is_read_from_the_secret_now_and_then() -> None:
    world = World()
    world.dashboard.token = "sesame"
    world.server.create(secret({"auth_token": base64.b64encode(b"sesame\n").decode()}))
    probe = JobInfoProbe("head:8265", "id", auth=SECRET)
    world.prober.want(KEY, [probe])
    await asyncio.sleep(60)
    assert world.outcome(probe) == "absent", "the token was good"
    assert world.dashboard.count("job_info") >= 18
    assert world.server.count(verb="get", resource="secrets") <= 4
    world.dashboard.token = "changed"
    changed = {"data": {"auth_token": base64.b64encode(b"changed").decode()}}
    world.server.patch(SECRET_KIND, "ns", "token", changed)
    await asyncio.sleep(120)
    assert world.outcome(probe) == "absent", "a new token is picked up"
    world.prober.stop()


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, "not found"),
        ({}, "has no key auth_token"),
        ({"other": "eA=="}, "has no key auth_token"),
        ({"auth_token": "!"}, "Secret ns/token"),
        ({"auth_token": base64.b64encode(b"\xff\xfe").decode()}, "Secret ns/token"),
    ],
)
def test_a_token_that_cannot_be_read_is_an_error_that_is_tried_again(data: dict[str, str] | None, error: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        if data is not None:
            world.server.create(secret(data))
        probe = JobInfoProbe("head:8265", "id", auth=SECRET)
        world.prober.want(KEY, [probe])
        await asyncio.sleep(30)
        result = world.prober.results(KEY)[probe]
        assert result.outcome == "error"
        assert error in result.error
        assert world.dashboard.calls == []
        assert world.server.count(verb="get", resource="secrets") > 1
        world.prober.stop()

    scenario()


@in_virtual_time
async def test_stop_ends_everything() -> None:
    world = World()
    world.prober.want(KEY, [PROBE])
    world.prober.want(Key(RAYCLUSTER, "ns", "rc"), [ACCOUNT])
    await asyncio.sleep(1)
    world.prober.stop()
    asked = len(world.dashboard.calls) + len(world.server.calls)
    await asyncio.sleep(100)
    assert len(world.dashboard.calls) + len(world.server.calls) == asked


@in_virtual_time
async def test_activity_is_asked_at_the_interval_and_at_once_for_another_end() -> None:
    world = World()
    world.dashboard.use("head:8265")
    probe = ActivityProbe("head:8265", interval=timedelta(seconds=60))
    world.prober.want(KEY, [probe])
    await asyncio.sleep(300)
    assert world.woken == [KEY]
    assert world.prober.results(KEY)[probe].value == {"active": True, "reason": "a driver is connected"}
    assert 5 <= world.dashboard.count("activity") <= 6
    world.dashboard.leave("head:8265")
    last = ActivityProbe("head:8265", interval=timedelta(seconds=60), asked_for="now")
    world.prober.want(KEY, [last])
    await asyncio.sleep(0.1)
    assert world.woken == [KEY, KEY]
    result = world.prober.results(KEY)[last]
    assert result.value["active"] is False
    assert result.value["lastEnd"]
    world.dashboard.fail("500")
    await asyncio.sleep(120)
    assert world.outcome(last) == "error"
    world.prober.stop()


HEAD, NODE = Key(RAYCLUSTER, "ns", "rc"), LeavingPod("worker", "uid", "10.0.0.9", datetime(2026, 1, 1, tzinfo=UTC))
DRAIN = DrainProbe("10.0.0.1", 6379, (NODE,))


def draining_world() -> tuple[World, FakeDrain]:
    world, drain = World(), FakeDrain()
    world.prober = Prober(
        Client(SimTransport(world.server)), world.dashboard, world.server.clock, world.woken.append, drain=drain
    )
    return world, drain


@in_virtual_time
async def test_draining_is_followed_and_told_by_uid() -> None:
    world, drain = draining_world()
    drain.busy_seconds = 20.0
    world.prober.want(HEAD, [DRAIN])
    await asyncio.sleep(10)
    assert world.prober.results(HEAD)[DRAIN].value == {"uid": "draining"}
    assert len(world.woken) == 1
    await asyncio.sleep(11)
    assert world.prober.results(HEAD)[DRAIN].value == {"uid": "drained"}
    assert len(world.woken) == 2
    assert 35 <= drain.calls <= 45, "twice a second"
    world.prober.stop()


@pytest.mark.parametrize("mode", ["unreachable", "hang"])
@in_virtual_time
async def test_a_head_that_cannot_be_asked_wakes_the_key_at_the_second_try(mode: Any) -> None:
    world, drain = draining_world()
    drain.fail(mode)
    world.prober.want(HEAD, [DRAIN])
    await asyncio.sleep(5.5)
    assert len(world.woken) == 2
    result = world.prober.results(HEAD)[DRAIN]
    assert result.outcome == "error"
    assert result.failing_since is not None
    assert result.at > result.failing_since
    await asyncio.sleep(60)
    assert len(world.woken) == 2
    world.prober.stop()


@in_virtual_time
async def test_dashboards_that_hang_do_not_delay_the_second_try_to_drain() -> None:
    world, drain = draining_world()
    slow = Slow(0.01)
    slow.hung = {f"hung{number}" for number in range(500)}
    client = Client(SimTransport(world.server))
    prober = Prober(client, slow, world.server.clock, world.woken.append, drain=drain)
    for number, address in enumerate(sorted(slow.hung)):
        prober.want(Key(RAYJOB, "ns", f"j{number}"), [JobInfoProbe(address, "id")])
    await asyncio.sleep(9)
    world.woken.clear()
    drain.fail("unreachable")
    prober.want(HEAD, [DRAIN])
    await asyncio.sleep(0.5)
    assert world.woken == [HEAD, HEAD]
    prober.stop()


@in_virtual_time
async def test_what_was_known_of_draining_outlives_a_failure() -> None:
    world, drain = draining_world()
    drain.busy_seconds = 60.0
    world.prober.want(HEAD, [DRAIN])
    await asyncio.sleep(1)
    drain.fail("unreachable")
    await asyncio.sleep(5)
    result = world.prober.results(HEAD)[DRAIN]
    assert (result.outcome, result.value) == ("error", {"uid": "draining"})
    world.prober.stop()


@in_virtual_time
async def test_draining_shows_the_token() -> None:
    world, drain = draining_world()
    drain.token = "right"
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token", "namespace": "ns"}}
    world.server.create({**body, "data": {"auth_token": base64.b64encode(b"right").decode()}})
    probe = replace(DRAIN, auth=SECRET)
    world.prober.want(HEAD, [probe])
    await asyncio.sleep(1)
    assert world.prober.results(HEAD)[probe].value == {"uid": "drained"}
    world.prober.stop()


@pytest.mark.parametrize(
    ("log", "mode", "outcome"), [("a\nb", "ok", "found"), ("", "ok", "absent"), ("a", "500", "error")]
)
@in_virtual_time
async def test_the_end_of_a_log_is_asked_for_once(log: str, mode: Any, outcome: str) -> None:
    world = World()
    world.dashboard.up("head:8265").logs["id"] = log
    world.dashboard.fail(mode, address="head:8265")
    probe = JobLogsProbe("head:8265", "id")
    world.prober.want(KEY, [probe])
    await asyncio.sleep(600)
    result = world.prober.results(KEY)[probe]
    assert (result.outcome, result.value) == (outcome, {"lines": log} if outcome == "found" else {})
    assert world.dashboard.count("job_logs") == 1
    assert world.woken == [KEY]
    world.prober.stop()
