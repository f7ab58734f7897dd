"""What Serve is asked and told, in virtual time: since when an answer is so, retries, and proxies that nobody can reach."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import orjson
import pytest
from kuberay.api.kinds import RAYSERVICE
from kuberay.kube.client import Client
from kuberay.operator.keys import Key
from kuberay.operator.prober import Prober
from kuberay.plan.model import Probe, ProbeResult, ProxyHealthProbe, ServeConfigCall, ServeProbe
from kuberay_testkit.dashboard import FakeDashboard
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

KEY, HEAD, POD = Key(RAYSERVICE, "ns", "rs"), "rc-head-svc:8265", "10.0.0.1:8000"
ASK, HEALTH = ServeProbe(HEAD), ProxyHealthProbe(POD, "ns", "rc-head")
CONFIG = {"applications": [{"name": "a", "deployments": [{"name": "d"}]}]}
PUT = ServeConfigCall(HEAD, orjson.dumps(CONFIG).decode())


class World:
    """A dashboard, a prober, and when it woke the key."""

    def __init__(self, dashboard: FakeDashboard | None = None) -> None:
        self.server = SimServer()
        self.dashboard = dashboard or FakeDashboard(clock=self.server.clock)
        self.asked_at: dict[str, list[float]] = {}
        self.woken: list[float] = []
        client = Client(SimTransport(self.server))
        self.prober = Prober(
            client, self.dashboard, self.server.clock, lambda _key: self.woken.append(asyncio.get_running_loop().time())
        )

    def want(self, *probes: Probe) -> None:
        self.prober.want(KEY, probes)

    def result(self, probe: Probe) -> ProbeResult:
        return self.prober.results(KEY)[probe]

    def status(self, name: str = "a") -> str:
        return str(self.result(ASK).value["applications"][name]["status"])


class Noting(FakeDashboard):
    """Notes when it is asked; its proxies may raise what nobody thought of."""

    def __init__(self) -> None:
        super().__init__()
        self.at: list[float] = []
        self.odd = False

    async def proxy_healthy(self, address: str, namespace: str, pod: str) -> bool:
        self.at.append(asyncio.get_running_loop().time())
        if self.odd:
            raise OverflowError("odd")
        return await super().proxy_healthy(address, namespace, pod)

    def pauses(self, since: float) -> list[float]:
        return [later - earlier for earlier, later in itertools.pairwise(self.at) if earlier >= since]


@in_virtual_time
async def test_applications_are_followed_and_only_changes_wake() -> None:
    world = World()
    serve = world.dashboard.serve(HEAD)
    world.want(ASK)
    await asyncio.sleep(60)
    assert world.result(ASK).value == {"applications": {}}
    assert len(world.woken) == 1
    assert 28 <= world.dashboard.count("serve_applications") <= 36, "every two seconds"
    serve.set("a", "DEPLOYING")
    await asyncio.sleep(3)
    assert (world.status(), len(world.woken)) == ("DEPLOYING", 2)
    serve.set("a", "DEPLOYING", "another message")
    await asyncio.sleep(3)
    assert len(world.woken) == 3
    world.prober.stop()


@in_virtual_time
async def test_since_is_when_this_answer_came_first() -> None:
    world = World()
    serve = world.dashboard.serve(HEAD)
    world.want(ASK)
    await asyncio.sleep(30)
    first = world.result(ASK)
    assert first.since is not None
    assert (first.at - first.since).total_seconds() > 20
    serve.set("a", "RUNNING")
    await asyncio.sleep(10)
    second = world.result(ASK)
    assert second.since is not None
    assert first.at < second.since < second.at
    serve.lose()
    await asyncio.sleep(10)
    third = world.result(ASK)
    assert third.value == first.value
    assert third.since is not None
    assert third.since > second.at, "what was lost is not what was never there"
    world.prober.stop()


@in_virtual_time
async def test_an_error_keeps_what_was_known_and_since_when() -> None:
    world = World()
    world.dashboard.serve(HEAD).set("a", "RUNNING")
    world.want(ASK)
    await asyncio.sleep(10)
    known = world.result(ASK)
    world.dashboard.fail("refuse")
    await asyncio.sleep(20)
    failing = world.result(ASK)
    assert (failing.outcome, failing.value, failing.since) == ("error", known.value, known.since)
    assert failing.failing_since is not None
    assert failing.failing_since > known.at
    world.dashboard.fail("ok")
    await asyncio.sleep(11)
    again = world.result(ASK)
    assert (again.outcome, again.value, again.failing_since) == ("found", known.value, None)
    assert again.since is not None
    assert again.since > failing.failing_since, "nobody knows what it was in between"
    world.prober.stop()


@in_virtual_time
async def test_a_first_error_is_so_since_it_came() -> None:
    world = World()
    world.dashboard.up(HEAD)
    world.dashboard.fail("500")
    world.want(ASK)
    await asyncio.sleep(30)
    result = world.result(ASK)
    assert (result.outcome, result.value, result.since) == ("error", {}, None)
    assert result.failing_since is not None
    world.prober.stop()


@in_virtual_time
async def test_a_head_that_serves_is_noticed_within_ten_seconds_of_its_return() -> None:
    world = World()
    world.dashboard.up(HEAD)
    world.dashboard.fail("refuse")
    world.want(ASK)
    await asyncio.sleep(300)
    asked = world.dashboard.count("serve_applications")
    assert asked < 50, "asked less often"
    world.dashboard.fail("ok")
    await asyncio.sleep(10.1)
    assert world.result(ASK).outcome == "found"
    world.prober.stop()


@in_virtual_time
async def test_a_configuration_is_given_once_it_is_taken() -> None:
    world = World()
    serve = world.dashboard.serve(HEAD)
    serve.seconds = 5.0
    for _ in range(30):
        world.want(PUT, ASK)
        await asyncio.sleep(1)
    assert serve.configs == [CONFIG]
    assert world.result(PUT).outcome == "found"
    assert world.status() == "RUNNING"
    world.want(replace(PUT, occasion="the head lost it"), ASK)
    await asyncio.sleep(1)
    assert serve.configs == [CONFIG, CONFIG]
    world.prober.stop()


class Late(FakeDashboard):
    """Takes configurations in its own time."""

    async def put_serve_config(self, target: Any, body: bytes) -> None:
        await asyncio.sleep(5)
        await super().put_serve_config(target, body)


@in_virtual_time
async def test_a_configuration_was_taken_when_the_answer_came() -> None:
    """What was asked before it knows nothing of the configuration."""
    world = World(Late())
    world.want(PUT)
    began = world.server.clock.now()
    await asyncio.sleep(10)
    assert (world.result(PUT).at - began).total_seconds() >= 5
    world.prober.stop()


@pytest.mark.parametrize(
    ("mode", "refusal", "fragment"),
    [
        ("refuse", "", "connection refused"),
        ("500", "", "HTTP 500"),
        (
            "ok",
            "route_prefix: must start with /",
            "UpdateDeployments fail: 400 Bad Request route_prefix: must start with /",
        ),
    ],
)
@in_virtual_time
async def test_a_configuration_that_is_not_taken_is_given_again(mode: Any, refusal: str, fragment: str) -> None:
    world = World()
    serve = world.dashboard.serve(HEAD)
    serve.refusal = refusal
    world.dashboard.fail(mode)
    world.want(PUT)
    await asyncio.sleep(60)
    assert world.result(PUT).outcome == "error"
    assert fragment in world.result(PUT).error
    assert 5 <= world.dashboard.count("put_serve_config") <= 12, "less and less often"
    assert len(world.woken) == 1
    serve.refusal = ""
    world.dashboard.fail("ok")
    await asyncio.sleep(10.1)
    assert world.result(PUT).outcome == "found"
    assert len(world.woken) == 2
    world.prober.stop()


@in_virtual_time
async def test_another_reason_why_a_configuration_is_not_taken_is_news() -> None:
    """At first Serve may only not be there; then it says what is wrong with the configuration."""
    world = World()
    serve = world.dashboard.serve(HEAD)
    serve.refusal = "no such module"
    world.dashboard.fail("refuse")
    world.want(PUT)
    await asyncio.sleep(20)
    world.dashboard.fail("ok")
    await asyncio.sleep(20)
    assert "no such module" in world.result(PUT).error
    assert len(world.woken) == 2
    world.prober.stop()


@pytest.mark.parametrize("healthy", [True, False])
@in_virtual_time
async def test_a_proxys_health_is_followed(healthy: bool) -> None:
    world = World(Noting())
    world.dashboard.proxies[POD] = healthy
    world.want(HEALTH)
    await asyncio.sleep(30)
    assert (world.result(HEALTH).outcome, world.result(HEALTH).value) == ("found", {"healthy": healthy})
    assert len(world.woken) == 1
    assert 14 <= world.dashboard.count("proxy_healthy") <= 18
    world.dashboard.proxies[POD] = not healthy
    await asyncio.sleep(2.1)
    assert world.result(HEALTH).value == {"healthy": not healthy}
    assert len(world.woken) == 2
    world.prober.stop()


@pytest.mark.parametrize("odd", [False, True], ids=["unreachable", "odd"])
@in_virtual_time
async def test_a_proxy_that_cannot_be_asked_is_not_healthy_and_that_is_no_error(odd: bool) -> None:
    """Asked calmly, and noticed soon when it returns."""
    dashboard = Noting()
    world = World(dashboard)
    dashboard.proxies[POD], dashboard.odd = None, odd
    world.want(HEALTH)
    await asyncio.sleep(120)
    result = world.result(HEALTH)
    assert (result.outcome, result.value) == ("found", {"healthy": False})
    assert result.error
    assert result.since is not None
    assert (result.at - result.since).total_seconds() > 100
    assert len(world.woken) == 1
    began = asyncio.get_running_loop().time() - 100
    assert all(3.5 <= pause <= 4.1 for pause in dashboard.pauses(began))
    dashboard.proxies[POD], dashboard.odd = True, False
    await asyncio.sleep(4.1)
    assert world.result(HEALTH).value == {"healthy": True}
    assert not world.result(HEALTH).error
    began = asyncio.get_running_loop().time()
    await asyncio.sleep(20)
    assert all(1.7 <= pause <= 2.1 for pause in dashboard.pauses(began)), "at the usual pace again"
    world.prober.stop()


class Hanging(Noting):
    """Some proxies do not even refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.hung: set[str] = set()
        self.healthy_at: list[float] = []

    async def proxy_healthy(self, address: str, namespace: str, pod: str) -> bool:
        if address in self.hung:
            await asyncio.sleep(2)
            self.proxies[address] = None
        else:
            self.healthy_at.append(asyncio.get_running_loop().time())
        return await super().proxy_healthy(address, namespace, pod)


@in_virtual_time
async def test_pods_that_hang_delay_neither_other_pods_nor_dashboards() -> None:
    """Addresses of pods that are gone answer nothing at all, each for two seconds; there are 64 places."""
    dashboard = Hanging()
    world = World(dashboard)
    dashboard.hung = {f"10.1.{number // 250}.{number % 250}:8000" for number in range(500)}
    for number, address in enumerate(sorted(dashboard.hung)):
        world.prober.want(Key(RAYSERVICE, "ns", f"s{number}"), [ProxyHealthProbe(address, "ns", f"p{number}")])
    await asyncio.sleep(20)
    began = asyncio.get_running_loop().time()
    world.want(HEALTH, ASK)
    await asyncio.sleep(0.1)
    assert set(world.prober.results(KEY)) == {HEALTH, ASK}
    await asyncio.sleep(30)
    pauses = [later - earlier for earlier, later in itertools.pairwise(dashboard.healthy_at) if earlier >= began]
    assert max(pauses) <= 2.1
    world.prober.stop()


@in_virtual_time
async def test_many_services_are_asked_spread_over_the_interval() -> None:
    world = World()
    for number in range(200):
        world.prober.want(
            Key(RAYSERVICE, "ns", f"s{number}"),
            [ServeProbe(f"h{number}:8265"), ProxyHealthProbe(f"10.0.0.{number}:8000", "ns", f"p{number}")],
        )
    await asyncio.sleep(20)
    counts = []
    for _ in range(10):
        before = len(world.dashboard.calls)
        await asyncio.sleep(0.2)
        counts.append(len(world.dashboard.calls) - before)
    assert max(counts) <= 90, f"400 probes every two seconds are 40 in each 0.2 s: {counts}"
    world.prober.stop()
