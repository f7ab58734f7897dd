"""The work queue: coalescing, one worker per key, delays and priorities, back-off, closing."""

from __future__ import annotations

import asyncio

import pytest
from kuberay.kube.queue import LOW, NORMAL, QueueClosedError, WorkQueue
from kuberay_testkit.sim.virtual import in_virtual_time


def ready(queue: WorkQueue[str]) -> list[str]:
    """Take everything that is ready now, in order."""
    taken = []
    while len(queue):
        getting = queue.get()
        try:
            getting.send(None)
        except StopIteration as stop:
            taken.append(stop.value)
    return taken


@in_virtual_time
async def test_adds_of_a_waiting_key_coalesce() -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert sorted(queue.waiting()) == ["a", "b"]
    assert ready(queue) == ["a", "b"]


@in_virtual_time
async def test_a_key_added_while_it_is_handled_is_handled_once_more_and_never_twice_at_once() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0
    assert queue.processing == 1
    assert not queue.idle
    queue.done("a")
    assert ready(queue) == ["a"]
    queue.done("a")
    assert queue.idle


@in_virtual_time
async def test_a_key_not_added_meanwhile_is_not_handled_again() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.done("a")
    assert queue.idle


@in_virtual_time
async def test_many_workers_never_hold_the_same_key() -> None:
    queue: WorkQueue[str] = WorkQueue()
    held: set[str] = set()
    passes: dict[str, int] = {}

    async def work() -> None:
        while True:
            try:
                key = await queue.get()
            except QueueClosedError:
                return
            assert key not in held
            held.add(key)
            await asyncio.sleep(0.01)
            passes[key] = passes.get(key, 0) + 1
            held.discard(key)
            queue.done(key)

    workers = [asyncio.create_task(work()) for _ in range(5)]
    for _ in range(20):
        for key in "abc":
            queue.add(key)
        await asyncio.sleep(0.004)
    await asyncio.sleep(1)
    queue.close()
    await asyncio.gather(*workers)
    assert passes.keys() == set("abc")
    assert all(1 < count < 20 for count in passes.values())


@pytest.mark.parametrize(
    ("adds", "expected"),
    [
        ([("a", LOW), ("b", NORMAL), ("c", LOW)], ["b", "a", "c"]),
        # A second add raises the priority and never lowers it.
        ([("a", LOW), ("b", LOW), ("b", NORMAL)], ["b", "a"]),
        ([("a", LOW), ("b", NORMAL), ("b", LOW)], ["b", "a"]),
        ([("a", NORMAL), ("b", 10)], ["b", "a"]),
    ],
)
def test_priorities(adds: list[tuple[str, int]], expected: list[str]) -> None:
    queue: WorkQueue[str] = WorkQueue()
    for key, priority in adds:
        queue.add(key, priority=priority)
    assert ready(queue) == expected


@in_virtual_time
async def test_a_raised_priority_holds_while_the_key_is_handled() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a", priority=10)
    queue.add("a", priority=LOW)
    queue.add("b")
    queue.done("a")
    assert ready(queue) == ["a", "b"]


@pytest.mark.parametrize(
    ("delays", "due"), [((5.0,), 5.0), ((5.0, 2.0), 2.0), ((2.0, 5.0), 2.0), ((2.0, 0.0), 0.0), ((0.0, 2.0), 0.0)]
)
def test_the_shortest_delay_wins(delays: tuple[float, ...], due: float) -> None:
    @in_virtual_time
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        for delay in delays:
            queue.add("a", delay=delay)
        assert await queue.get() == "a"
        assert asyncio.get_running_loop().time() == pytest.approx(due)
        queue.done("a")
        await asyncio.sleep(10)
        assert queue.idle, "the longer delay was dropped"

    scenario()


@pytest.mark.parametrize(
    ("first", "second"), [((5.0, LOW), (2.0, NORMAL)), ((2.0, NORMAL), (5.0, LOW)), ((2.0, LOW), (5.0, NORMAL))]
)
def test_of_two_delayed_adds_the_shorter_delay_and_the_higher_priority_count(
    first: tuple[float, int], second: tuple[float, int]
) -> None:
    @in_virtual_time
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        queue.add("a", delay=first[0], priority=first[1])
        queue.add("a", delay=second[0], priority=second[1])
        await asyncio.sleep(1.999)
        queue.add("b", priority=LOW)
        await asyncio.sleep(0.002)
        assert ready(queue) == ["a", "b"]

    scenario()


@in_virtual_time
async def test_a_delay_asked_for_by_a_pass_starts_after_it_and_yields_to_a_change() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    await queue.get()
    queue.add("a", delay=300)
    queue.done("a")
    assert len(queue) == 0
    queue.add("a")
    assert ready(queue) == ["a"]
    queue.done("a")
    await asyncio.sleep(301)
    assert queue.idle


@in_virtual_time
async def test_retries_back_off_exponentially_with_jitter_up_to_a_limit_and_forget_starts_over() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff_first=0.1, backoff_most=2.0)
    nominal = [0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    for expected in nominal:
        before = asyncio.get_running_loop().time()
        delay = queue.retry("a")
        assert 0.75 * expected <= delay <= 1.25 * expected
        await queue.get()
        assert asyncio.get_running_loop().time() - before == pytest.approx(delay, abs=1e-4)
        queue.done("a")
    queue.forget("a")
    assert queue.retry("a") <= 0.125


@in_virtual_time
async def test_keys_back_off_separately() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff_first=0.1)
    for _ in range(5):
        queue.retry("a")
    assert queue.retry("b") <= 0.125


@in_virtual_time
async def test_close_wakes_waiting_workers_and_drops_what_is_queued() -> None:
    queue: WorkQueue[str] = WorkQueue()
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await asyncio.sleep(0)
    queue.close()
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(result) for result in results] == [QueueClosedError] * 3
    queue.add("a")
    queue.add("b", delay=1)
    with pytest.raises(QueueClosedError):
        await queue.get()


@in_virtual_time
async def test_close_drops_ready_and_delayed_keys() -> None:
    queue: WorkQueue[str] = WorkQueue()
    queue.add("a")
    queue.add("b", delay=1)
    queue.close()
    with pytest.raises(QueueClosedError):
        await queue.get()
    await asyncio.sleep(2)
    assert len(queue) == 0


class Observer:
    """Writes down what it is told, and when."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str, float]] = []

    def added(self, key: str) -> None:
        self.told.append(("added", key, asyncio.get_running_loop().time()))

    def retried(self, key: str) -> None:
        self.told.append(("retried", key, 0.0))

    def taken(self, key: str, seconds: float) -> None:
        self.told.append(("taken", key, seconds))

    def done(self, key: str, seconds: float) -> None:
        self.told.append(("done", key, seconds))


@in_virtual_time
async def test_an_observer_is_told_once_that_a_key_is_due_how_long_it_waited_and_how_long_it_took() -> None:
    queue: WorkQueue[str] = WorkQueue(backoff_first=1.0)
    observer = queue.observer = Observer()
    began = asyncio.get_running_loop().time()
    queue.add("a", delay=2.0)
    await asyncio.sleep(5.0)
    queue.add("a", delay=1.0)
    queue.add("a")
    assert await queue.get() == "a"
    await asyncio.sleep(3.0)
    assert [(key, asyncio.get_running_loop().time() - at) for key, at in queue.taken_at().items()] == [("a", 3.0)]
    queue.add("a")
    queue.add("a")
    queue.done("a")
    await asyncio.sleep(0.5)
    assert await queue.get() == "a"
    queue.retry("a")
    queue.done("a")
    assert not queue.taken_at()
    assert [(what, key, round(at, 6)) for what, key, at in observer.told] == [
        ("added", "a", round(began + 2.0, 6)),
        ("taken", "a", 3.0),
        ("added", "a", round(began + 8.0, 6)),
        ("done", "a", 3.0),
        ("taken", "a", 0.5),
        ("retried", "a", 0.0),
        ("done", "a", 0.0),
    ]
