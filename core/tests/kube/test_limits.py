"""The token bucket, in virtual time."""

from __future__ import annotations

import asyncio

import pytest
from kuberay.kube.limits import RateLimit
from kuberay_testkit.sim.virtual import in_virtual_time


async def times_of(limit: RateLimit, requests: int) -> list[float]:
    """Seconds from now at which each of *requests* simultaneous requests may go."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    went: list[tuple[int, float]] = []

    async def take(number: int) -> None:
        await limit.take()
        went.append((number, round(loop.time() - start, 3)))

    await asyncio.gather(*(take(number) for number in range(requests)))
    assert [number for number, _ in went] == list(range(requests)), "in order"
    return [at for _, at in went]


@pytest.mark.parametrize(
    ("rate", "burst", "expected"),
    [
        (2.0, 3, [0, 0, 0, 0.5, 1.0, 1.5]),
        (10.0, 1, [0, 0.1, 0.2, 0.3, 0.4, 0.5]),
        (0.5, 2, [0, 0, 2, 4, 6, 8]),
        # A burst of none would never let anything through.
        (1.0, 0, [0, 1, 2, 3, 4, 5]),
    ],
)
def test_a_burst_goes_at_once_and_the_rest_at_the_rate(rate: float, burst: int, expected: list[float]) -> None:
    @in_virtual_time
    async def scenario() -> None:
        assert await times_of(RateLimit(rate, burst), len(expected)) == pytest.approx(expected, abs=0.002)

    scenario()


@in_virtual_time
async def test_idle_time_fills_the_bucket_up_to_the_burst_only() -> None:
    limit = RateLimit(2.0, 3)
    await times_of(limit, 3)
    await asyncio.sleep(0.5)
    assert await times_of(limit, 2) == pytest.approx([0, 0.5], abs=0.002)
    await asyncio.sleep(3600)
    assert await times_of(limit, 4) == pytest.approx([0, 0, 0, 0.5], abs=0.002)
