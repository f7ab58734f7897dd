"""Informers on the simulated API server: every way a list or watch can go wrong ends in a correct store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.kube.client import Client
from kuberay.kube.informer import Informer, InformerTimes, Scope
from kuberay.kube.store import Store
from kuberay.kube.transport import TransportError
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time


def pod(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ns", "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }


class Recording(SimTransport):
    """Notes the versions watches start from."""

    def __init__(self, server: SimServer) -> None:
        super().__init__(server)
        self.versions: list[str] = []

    def stream(self, path: str, *, params: Mapping[str, str] | None = None, idle_timeout: float = 70.0) -> Any:
        self.versions.append((params or {})["resourceVersion"])
        return super().stream(path, params=params, idle_timeout=idle_timeout)


class World:
    """A server with one informer of its pods."""

    def __init__(self, *, times: InformerTimes | None = None, scope: Scope | None = None, watch: bool = True) -> None:
        self.server = SimServer()
        self.transport = Recording(self.server)
        self.store = Store()
        self.informer = Informer(Client(self.transport), self.store, scope or Scope(POD), times, watch=watch)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self.informer.run())
        await asyncio.sleep(1)

    async def names(self, after: float = 1.0) -> list[str]:
        """Names in the store, *after* seconds from now."""
        await asyncio.sleep(after)
        assert self._task is not None
        assert not self._task.done(), "an informer never ends"
        return sorted(obj.name for obj in self.store.all(self.informer.scope.kind))

    def asked(self, verb: str) -> int:
        return self.server.count(verb=verb)


@in_virtual_time
async def test_lists_then_follows_changes_with_one_list_and_one_watch() -> None:
    world = World()
    world.server.create(pod("a"))
    world.server.create(pod("b"))
    assert not world.informer.synced.is_set()
    await world.start()
    assert world.informer.synced.is_set()
    assert world.informer.served
    assert await world.names() == ["a", "b"]
    world.server.create(pod("c"))
    world.server.delete(POD, "ns", "a")
    world.server.patch(POD, "ns", "b", {"metadata": {"labels": {"x": "y"}}})
    assert await world.names() == ["b", "c"]
    changed = world.store.get(POD, "ns", "b")
    assert changed is not None
    assert changed.metadata.labels == {"x": "y"}
    assert (world.asked("list"), world.asked("watch")) == (1, 1)


@in_virtual_time
async def test_lists_in_chunks() -> None:
    world = World()
    for number in range(1201):
        world.server.create(pod(f"p{number:04}"))
    await world.start()
    assert len(await world.names()) == 1201
    assert world.asked("list") == 3


@in_virtual_time
async def test_namespace_and_selector_bound_what_is_seen() -> None:
    scope = Scope(POD, "ns", "app=ray", lambda obj: obj.metadata.labels.get("app") == "ray")
    world = World(scope=scope)
    world.server.create(pod("a", app="ray"))
    world.server.create(pod("b", app="other"))
    elsewhere = pod("c", app="ray")
    elsewhere["metadata"]["namespace"] = "elsewhere"
    world.server.create(elsewhere)
    await world.start()
    assert await world.names() == ["a"]
    world.server.patch(POD, "ns", "b", {"metadata": {"labels": {"app": "ray"}}})
    assert await world.names() == ["a", "b"]
    world.server.patch(POD, "ns", "b", {"metadata": {"labels": {"app": "other"}}})
    assert await world.names() == ["a"], "it stopped matching"
    world.server.patch(POD, "ns", "b", {"metadata": {"labels": {"app": "ray"}}})
    assert await world.names() == ["a", "b"], "it matches again"


@in_virtual_time
async def test_bookmarks_move_the_start_of_the_next_watch() -> None:
    world = World()
    world.server.create(pod("a"))
    await world.start()
    world.server.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}})
    await asyncio.sleep(61)
    world.server.cut_watches()
    await asyncio.sleep(2)
    first, second = map(int, world.transport.versions)
    assert second > first, "no pod changed, but the server told how far it is"
    assert world.asked("list") == 1


@in_virtual_time
async def test_a_broken_watch_goes_on_where_it_was() -> None:
    world = World()
    await world.start()
    created = world.server.create(pod("a"))
    await asyncio.sleep(1)
    world.server.cut_watches()
    world.server.create(pod("b"))
    assert await world.names(2) == ["a", "b"]
    assert world.transport.versions[1] == created["metadata"]["resourceVersion"]
    assert world.asked("list") == 1


@pytest.mark.parametrize("how", ["in the stream", "as a status"])
def test_410_leads_to_a_new_list(how: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        world.server.create(pod("a"))
        await world.start()
        if how == "as a status":
            world.server.faults = Faults().add("refuse", code=410, reason="Expired", verb="watch", times=1)
        world.server.cut_watches()
        world.server.create(pod("b"))
        world.server.delete(POD, "ns", "a")
        if how == "in the stream":
            world.server.compact()
        assert await world.names(3) == ["b"]
        assert world.asked("list") == 2
        world.server.create(pod("c"))
        assert await world.names() == ["b", "c"]

    scenario()


@in_virtual_time
async def test_an_expired_continue_token_starts_the_list_again() -> None:
    world = World()
    for number in range(600):
        world.server.create(pod(f"p{number}"))
    world.server.faults = Faults().add("refuse", code=410, reason="Expired", verb="list", skip=1, times=1)
    await world.start()
    assert len(await world.names()) == 600
    assert world.asked("list") == 4


@in_virtual_time
async def test_a_silent_watch_is_cut_and_nothing_is_missed() -> None:
    world = World()
    await world.start()
    world.server.faults = Faults().add("silence_watch", times=1)
    world.server.create(pod("a"))
    assert await world.names(60) == []
    assert await world.names(20) == ["a"]
    assert world.asked("watch") == 2


@in_virtual_time
async def test_a_kind_that_is_not_served_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """VO-06: and that is told once."""
    world = World(scope=Scope(RAYCLUSTER))
    world.server.unregister(RAYCLUSTER)
    await world.start()
    assert world.informer.synced.is_set(), "nothing waits for it"
    assert not world.informer.served
    await asyncio.sleep(600)
    assert world.asked("list") < 60, "backing off"
    assert not world.store.serves(RAYCLUSTER)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == ["rayclusters.ray.io is not served by this cluster; its CRD is waited for"]
    assert world.informer.failures == 0, "that is no failure"
    world.server.register(RAYCLUSTER)
    world.server.create(
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "rc"}, "spec": {}},
    )
    assert await world.names(31) == ["rc"]
    assert world.informer.served


@in_virtual_time
async def test_a_kind_that_is_removed_and_comes_back_is_served_again() -> None:
    world = World(scope=Scope(RAYCLUSTER))
    await world.start()
    world.server.unregister(RAYCLUSTER)
    world.server.cut_watches()
    await asyncio.sleep(10)
    assert not world.informer.served
    world.server.register(RAYCLUSTER)
    await asyncio.sleep(31)
    assert world.informer.served


@in_virtual_time
async def test_a_missed_delete_is_repaired_by_the_periodic_list() -> None:
    times = InformerTimes(resync=100)
    world = World(times=times, watch=False)
    world.server.create(pod("a"))
    world.server.create(pod("b"))
    await world.start()
    heard: list[str] = []
    world.store.subscribe(lambda _kind, before, after: heard.append(f"{before and before.name}>{after and after.name}"))
    world.server.delete(POD, "ns", "a")
    assert await world.names(50) == ["a", "b"]
    assert await world.names(60) == ["b"]
    assert heard == ["a>None"]
    assert world.informer.repairs == 1
    assert world.asked("watch") == 0


@in_virtual_time
async def test_the_periodic_list_also_happens_beside_a_healthy_watch() -> None:
    world = World(times=InformerTimes(watch=50, resync=100))
    await world.start()
    await asyncio.sleep(1000)
    assert 5 <= world.asked("list") <= 11


@in_virtual_time
async def test_an_unreachable_server_is_asked_every_few_seconds_and_then_caught_up_with() -> None:
    world = World()
    await world.start()
    world.server.faults = Faults().add("timeout_before", seconds=0.1)
    world.server.cut_watches()
    world.server.create(pod("a"))
    await asyncio.sleep(600)
    assert 100 < world.asked("watch") < 200
    assert 100 < world.informer.failures < 200
    world.server.faults.stop()
    assert await world.names(6) == ["a"]


@pytest.mark.parametrize(("code", "reason"), [(403, "Forbidden"), (500, "InternalError"), (429, "TooManyRequests")])
def test_a_refused_first_list_is_tried_until_it_works(code: int, reason: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        world.server.create(pod("a"))
        world.server.faults = Faults().add("refuse", code=code, reason=reason, verb="list", times=5)
        await world.start()
        assert not world.informer.synced.is_set()
        assert await world.names(30) == ["a"]
        assert world.informer.synced.is_set()

    scenario()


class Endless(SimTransport):
    """Its watches end as soon as they are opened, as behind a broken proxy."""

    @asynccontextmanager
    async def _nothing(self, path: str) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        self.opened = getattr(self, "opened", 0) + 1

        async def lines() -> AsyncIterator[bytes]:
            if path == "never":
                yield b""

        yield 200, lines()

    def stream(self, path: str, *, params: Mapping[str, str] | None = None, idle_timeout: float = 70.0) -> Any:
        return self._nothing(path)


@in_virtual_time
async def test_watches_that_end_at_once_do_not_make_a_tight_loop() -> None:
    transport = Endless(SimServer())
    informer = Informer(Client(transport), Store(), Scope(POD))
    task = asyncio.create_task(informer.run())
    await asyncio.sleep(300)
    assert 50 < transport.opened < 120
    task.cancel()


class Garbled(SimTransport):
    """Its watches bring something that is no watch event."""

    @asynccontextmanager
    async def _garbage(self, line: bytes) -> AsyncIterator[tuple[int, AsyncIterator[bytes]]]:
        async def lines() -> AsyncIterator[bytes]:
            yield line
            raise TransportError("reset")

        yield 200, lines()

    def stream(self, path: str, *, params: Mapping[str, str] | None = None, idle_timeout: float = 70.0) -> Any:
        self.tries = getattr(self, "tries", 0) + 1
        if self.tries == 1:
            return self._garbage(b"<html>")
        if self.tries == 2:
            return self._garbage(b'{"type":"ADDED","object":{"metadata":{"name":7}}}')
        return super().stream(path, params=params, idle_timeout=idle_timeout)


@in_virtual_time
async def test_garbage_in_a_watch_is_survived() -> None:
    server = SimServer()
    transport = Garbled(server)
    store = Store()
    task = asyncio.create_task(Informer(Client(transport), store, Scope(POD)).run())
    await asyncio.sleep(1)
    server.create(pod("a"))
    await asyncio.sleep(10)
    assert [obj.name for obj in store.all(POD)] == ["a"]
    task.cancel()


def test_scopes_are_named_for_people() -> None:
    assert str(Scope(POD)) == "pods"
    assert str(Scope(RAYCLUSTER, "ns", "a=b")) == "rayclusters.ray.io in ns (a=b)"
