"""Which lane a pass is made in, how many at once, and that slow objects do not take the place of others."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.objects import RayObject, from_dict
from kuberay.hooks.calls import Lane, NoHooks, SlowPluginError
from kuberay.kube.store import Store
from kuberay.operator.beside import NEXT, THREAD_PREFIX, THREADS, Beside
from kuberay.operator.keys import Key
from kuberay.plan.model import Plan
from kuberay.plan.observed import Observed
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import EPOCH


def key(number: int) -> Key:
    return Key(RAYCLUSTER, "lab", str(number))


def observed(store: Store) -> Observed:
    body = build_raycluster("rc", namespace="lab")
    body["metadata"] |= {"uid": "u", "resourceVersion": "1"}
    obj = from_dict(RAYCLUSTER, body)
    assert isinstance(obj, RayObject)
    store.upsert(RAYCLUSTER, obj)
    return Observed(obj=obj, now=EPOCH, view=store)


@pytest.mark.parametrize("lane", THREADS)
def test_a_lane_works_on_so_many_at_once_and_on_all_in_turn(lane: Lane) -> None:
    async def run() -> None:
        at_work, most, done = 0, 0, []

        async def handle(taken: Key, where: Lane) -> None:
            nonlocal at_work, most
            at_work += 1
            most = max(most, at_work)
            await asyncio.sleep(0.001)
            at_work -= 1
            done.append((taken, where))

        beside = Beside(NoHooks(), Store(), handle)
        assert beside.tasks == []
        for number in range(50):
            beside.take(key(number), lane)
        await asyncio.gather(*beside.tasks)
        assert most == THREADS[lane]
        assert sorted(taken.name for taken, _ in done) == sorted(str(number) for number in range(50))
        assert {where for _, where in done} == {lane}
        await asyncio.sleep(0)
        assert beside.tasks == [], "nothing is left over"

    asyncio.run(run())


def test_lanes_follow_each_other_and_end() -> None:
    assert NEXT == {Lane.LOOP: Lane.BESIDE, Lane.BESIDE: Lane.LAST}
    assert THREADS.keys() == set(NEXT.values())


def test_a_plan_is_made_in_a_thread_on_what_was_there_when_it_began() -> None:
    async def run() -> None:
        store = Store()
        given = observed(store)
        began, go_on = threading.Event(), threading.Event()
        seen: list[Any] = []

        def plan_for(observed: Observed) -> Plan:
            seen.append(threading.current_thread().name)
            began.set()
            assert go_on.wait(10)
            seen.append(observed.view.get(RAYCLUSTER, "lab", "rc"))
            return Plan(waiting="made")

        beside = Beside(NoHooks(), store, lambda *_: asyncio.sleep(0))
        planning = asyncio.create_task(beside.plan(plan_for, given, Lane.BESIDE))
        async with asyncio.timeout(10):
            while not began.is_set():
                await asyncio.sleep(0.001)
            store.remove(RAYCLUSTER, "lab", "rc", "u")
            go_on.set()
            assert (await planning).waiting == "made"
        beside.end()
        assert seen[0].startswith(THREAD_PREFIX)
        assert seen[1] is given.obj
        assert store.get(RAYCLUSTER, "lab", "rc") is None

    asyncio.run(run())


def test_a_plan_that_belongs_into_the_next_lane_says_so() -> None:
    async def run() -> None:
        store = Store()

        def plan_for(_observed: Observed) -> Plan:
            raise SlowPluginError("gang")

        beside = Beside(NoHooks(), store, lambda *_: asyncio.sleep(0))
        with pytest.raises(SlowPluginError):
            await beside.plan(plan_for, observed(store), Lane.BESIDE)
        beside.end()

    asyncio.run(run())


def test_what_waits_is_dropped_when_the_operator_ends() -> None:
    async def run() -> None:
        handled = []

        async def handle(taken: Key, _lane: Lane) -> None:
            handled.append(taken)
            await asyncio.sleep(0)

        beside = Beside(NoHooks(), Store(), handle)
        for number in range(10):
            beside.take(key(number), Lane.LAST)
        beside.close()
        beside.take(key(11), Lane.BESIDE)
        await asyncio.gather(*beside.tasks)
        assert handled == []
        assert beside.tasks == []

    asyncio.run(run())


def test_what_is_logged_and_traced_in_a_thread_belongs_to_the_pass() -> None:
    seen: list[tuple[str, Any]] = []

    def plan(_observed: Observed) -> Plan:
        seen.append((threading.current_thread().name, place.get()))
        return Plan()

    place: contextvars.ContextVar[str] = contextvars.ContextVar("place", default="nowhere")

    async def run() -> None:
        store = Store()
        beside = Beside(NoHooks(), store, lambda *_: asyncio.sleep(0))
        place.set("in the pass")
        await beside.plan(plan, observed(store), Lane.BESIDE)
        beside.end()

    asyncio.run(run())
    ((thread, where),) = seen
    assert thread.startswith(THREAD_PREFIX)
    assert where == "in the pass"
