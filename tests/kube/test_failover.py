"""Two replicas while many RayClusters are made: whatever happens to the one that leads, the other acts within 20 seconds, nothing is
lost or made twice, and a leader that was away for longer than its lease writes nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time

import pytest
from crowd import all_ready, expect_exact, make, names
from kube_world import World
from kuberay.api.kinds import RAYCLUSTER
from kuberay.kube.client import Client
from link import link
from pod_history import PodHistory, pod_history
from replicas import Account, Replica, api_address, holder, start_both, until

WITHIN = 20.0
"""Seconds until the other replica acts: 15 until the lease has expired, 2 since it was looked at last."""
CROWD = 120

log = logging.getLogger(__name__)
pytestmark = pytest.mark.xdist_group("replicas")


async def under_way(history: PodHistory, pods: int) -> None:
    """Until so many pods were made."""
    deadline = time.monotonic() + 60
    while len(history.made) < pods:
        assert time.monotonic() < deadline, "pods are being made"
        await asyncio.sleep(0.02)


async def takes_over(second: Replica, first: Replica) -> float:
    """Seconds until *second* has written something; *first* never leads at the same time."""
    started = time.monotonic()
    # In threads: whoever follows pods meanwhile is not held up, or the API server would end its watch.
    while not await asyncio.to_thread(second.writes):
        both = await asyncio.to_thread(lambda: (first.leads, second.leads))
        assert both != (True, True), "both lead at once"
        assert time.monotonic() - started < WITHIN, second.said()[-3000:]
        await asyncio.sleep(0.05)
    return time.monotonic() - started


async def test_the_leader_is_killed(replicas: list[Replica], world: World, client: Client) -> None:
    first, second = await asyncio.to_thread(start_both, replicas)
    async with pod_history(client, world.namespace) as history:
        making = asyncio.create_task(make(world, names(CROWD)))
        await under_way(history, CROWD // 3)
        first.signal(signal.SIGKILL)
        seconds = await takes_over(second, first)
        await making
        await all_ready(world, names(CROWD), 120)
        await expect_exact(world, history, names(CROWD))
    log.info("failover after SIGKILL: %.1f s", seconds)
    assert second.exit_code is None


async def test_the_leader_is_asked_to_stop(replicas: list[Replica], world: World, client: Client) -> None:
    first, second = await asyncio.to_thread(start_both, replicas)
    async with pod_history(client, world.namespace) as history:
        making = asyncio.create_task(make(world, names(CROWD)))
        await under_way(history, CROWD // 3)
        started = time.monotonic()
        first.signal(signal.SIGTERM)
        seconds = await takes_over(second, first)
        assert await asyncio.to_thread(first.wait, 15) == 0
        ended = time.monotonic() - started
        await making
        await all_ready(world, names(CROWD), 120)
        await expect_exact(world, history, names(CROWD))
    log.info("failover after SIGTERM: %.1f s; the first ended after %.1f s", seconds, ended)
    assert "stopped" in [record["msg"] for record in first.records()]


@pytest.mark.long
async def test_a_leader_that_was_frozen_writes_nothing_and_ends(
    replicas: list[Replica], world: World, client: Client
) -> None:
    """It wakes up in the midst of its work, with a view that is long outdated."""
    first, second = await asyncio.to_thread(start_both, replicas)
    crowd = names(60)
    async with pod_history(client, world.namespace) as history:
        making = asyncio.create_task(make(world, crowd))
        await under_way(history, 20)
        first.signal(signal.SIGSTOP)
        await takes_over(second, first)
        await making
        await all_ready(world, crowd, 120)
        await expect_exact(world, history, crowd)
        for name in crowd[::2]:
            await world.delete(RAYCLUSTER, name)
        await world.eventually(lambda: len(history.gone) == len(crowd), seconds=60, what="half of the pods are gone")
        await world.settled(quiet=2.0)
        before, made = await world.fingerprint(), len(history.made)
        led = await asyncio.to_thread(holder)
        first.signal(signal.SIGCONT)
        assert await asyncio.to_thread(first.wait, 20) == 1
        await world.settled(quiet=2.0)
        assert len(history.made) == made, "no pod was made for a cluster that is gone"
        assert await world.fingerprint() == before
        assert await asyncio.to_thread(holder) == led
    said = first.said()
    assert "the leader lease was lost; another replica may act now" in said
    assert "could not be renewed in time" in said


@pytest.mark.long
async def test_the_leader_is_cut_off_from_the_api_server(
    replicas: list[Replica], account: Account, world: World, client: Client
) -> None:
    """It ends, though nobody tells it anything, and before the other one starts."""
    address, port = api_address()
    crowd = names(30)
    with link((address, 17443), (address, port)) as its_link:
        replicas[0].connect(account.token(), (address, 17443))
        first, second = await asyncio.to_thread(start_both, replicas)
        async with pod_history(client, world.namespace) as history:
            making = asyncio.create_task(make(world, crowd))
            await under_way(history, 10)
            its_link.cut()
            seconds = await takes_over(second, first)
            assert await asyncio.to_thread(first.wait, 10) == 1
            assert "the leader lease was lost" in first.said()
            its_link.heal()
            await making
            await all_ready(world, crowd, 120)
            await expect_exact(world, history, crowd)
    log.info("failover after a partition: %.1f s", seconds)


@pytest.mark.long
async def test_a_standby_was_cut_off_from_the_api_server(
    replicas: list[Replica], account: Account, world: World, client: Client
) -> None:
    """It goes on, and looks at everything anew before it acts: its watches may be dead without knowing."""
    address, port = api_address()
    with link((address, 17444), (address, port)) as its_link:
        replicas[1].connect(account.token(), (address, 17444))
        first, second = await asyncio.to_thread(start_both, replicas)
        async with pod_history(client, world.namespace) as history:
            await make(world, names(10))
            await all_ready(world, names(10), 60)
            its_link.cut()
            await asyncio.to_thread(until, lambda: "cannot ask for the lease" in second.said(), 60, "notices", replicas)
            await make(world, names(10, "later"))
            await all_ready(world, names(10, "later"), 60)
            first.signal(signal.SIGKILL)
            its_link.heal()
            seconds = await asyncio.to_thread(until, lambda: second.leads, WITHIN + 5, "the second leads", replicas)
            assert "everything is listed again first" in second.said()
            await make(world, names(5, "last"))
            await all_ready(world, names(5, "last"), 90)
            await expect_exact(world, history, [*names(10), *names(10, "later"), *names(5, "last")])
    log.info("a standby that had been cut off led after %.1f s", seconds)
