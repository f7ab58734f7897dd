"""Virtual time jumps, wall clock and loop agree, runs can be replayed."""

import asyncio
import random
import time
from datetime import timedelta

import pytest
from kuberay_testkit.sim.clock import EPOCH, VirtualClock, run_sim


def test_an_hour_passes_at_once():
    clock = VirtualClock()

    async def main():
        await asyncio.sleep(3600)
        return clock.now()

    begun = time.monotonic()
    assert run_sim(main) == EPOCH + timedelta(hours=1)
    assert time.monotonic() - begun < 5


def test_timers_fire_in_order():
    async def main():
        order = []

        async def wait(seconds):
            await asyncio.sleep(seconds)
            order.append(seconds)

        await asyncio.gather(*(wait(seconds) for seconds in (3, 1, 2)))
        return order

    assert run_sim(main) == [1, 2, 3]


def test_same_seed_same_run():
    async def main():
        return [random.random() for _ in range(3)]

    assert run_sim(main, seed=7) == run_sim(main, seed=7) != run_sim(main, seed=8)


def test_the_callers_random_state_is_kept():
    async def main():
        return random.random()

    random.seed(1)
    expected = [random.random() for _ in range(2)]
    random.seed(1)
    first = random.random()
    run_sim(main, seed=99)
    assert [first, random.random()] == expected


def test_a_failure_names_the_seed(capsys):
    async def main():
        raise LookupError("boom")

    with pytest.raises(LookupError) as caught:
        run_sim(main, seed=41)
    assert caught.value.__notes__ == ["simulation seed: 41"]
    assert "seed 41" in capsys.readouterr().err


def test_waiting_for_nothing_ends_at_the_limit():
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(TimeoutError, match="not over after 60 virtual seconds"):
        run_sim(main, limit=60)


def test_a_timeout_of_the_code_under_test_is_its_own():
    async def main():
        async with asyncio.timeout(1):
            await asyncio.sleep(5)

    with pytest.raises(TimeoutError) as caught:
        run_sim(main)
    assert "not over" not in str(caught.value)


def test_threads_are_waited_for():
    async def main():
        return await asyncio.to_thread(lambda: 5)

    assert run_sim(main) == 5


def test_the_clock_works_without_a_loop():
    clock = VirtualClock()
    assert clock.now() == EPOCH
    clock.advance(90)
    assert clock.now() == EPOCH + timedelta(seconds=90)


async def test_the_clock_works_on_an_ordinary_loop():
    clock = VirtualClock()
    first = clock.now()
    await asyncio.sleep(0.01)
    assert timedelta(milliseconds=5) < clock.now() - first < timedelta(seconds=5)
