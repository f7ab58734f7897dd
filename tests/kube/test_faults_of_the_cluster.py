"""An API server that dies and comes back, and an etcd that answers half a second late: the operator goes on or starts again cleanly,
nothing is made twice, and what it says of it can be read.

Both happen to another API server on the same etcd, which only the operators under test ask.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from pathlib import Path
from typing import Any

import orjson
import pytest
from crowd import all_ready, expect_exact, make, names, ready
from kube_world import World
from kuberay.api.kinds import LEASE
from kuberay.kube.client import Client
from kuberay.kube.lease import LEASE_NAME
from link import link
from other_api_server import ETCD, OtherApiServer, other_api_server
from pod_history import pod_history
from replicas import NAMESPACE, Account, Replica, kubectl, start_both, until

log = logging.getLogger(__name__)
pytestmark = pytest.mark.xdist_group("replicas")

LATE_ETCD = ("127.0.0.1", 12379)
ROUND_TRIP = 0.5
"""Seconds that etcd's answers are late."""


async def lease(client: Client) -> dict[str, Any]:
    spec: dict[str, Any] = orjson.loads(await client.get(LEASE, NAMESPACE, LEASE_NAME))["spec"]
    return spec


async def start_on(server: OtherApiServer, replicas: list[Replica], account: Account) -> tuple[Replica, Replica]:
    """Both as clients of that API server: the one that leads, and the other."""
    for each in replicas:
        each.connect(account.token(), server.address)
    return await asyncio.to_thread(start_both, replicas)


def start_again(replicas: list[Replica]) -> None:
    """As the kubelet does with a container that has ended."""
    for each in replicas:
        if not each.running:
            each.start()


async def test_the_api_server_dies_and_starts_again(
    replicas: list[Replica], account: Account, world: World, client: Client, tmp_path: Path
) -> None:
    with other_api_server(tmp_path) as server:
        first, second = await start_on(server, replicas, account)
        async with pod_history(client, world.namespace) as history:
            making = asyncio.create_task(make(world, names(40)))
            while len(history.made) < 10:
                await asyncio.sleep(0.02)
            down = time.monotonic()
            server.kill()
            server.start()
            await asyncio.to_thread(server.wait)
            outage = time.monotonic() - down
            await making
            # A leader that could not renew its lease for ten seconds has ended or is about to.
            assert first.exit_code in (None, 1)
            assert second.exit_code is None
            await asyncio.to_thread(until, lambda: first.leads or second.leads, 30, "one leads again", replicas)
            await all_ready(world, names(40), 60)
            caught_up = time.monotonic() - down - outage
            await make(world, names(5, "later"))
            await all_ready(world, names(5, "later"), 30)
            await expect_exact(world, history, [*names(40), *names(5, "later")])
            assert (first.leads, second.leads) != (True, True)
    log.info("API server away for %.1f s; all was made %.1f s after; exit code %s", outage, caught_up, first.exit_code)


async def test_the_api_server_is_away_for_longer_than_the_lease(
    replicas: list[Replica], account: Account, world: World, client: Client, tmp_path: Path
) -> None:
    with other_api_server(tmp_path) as server:
        first, second = await start_on(server, replicas, account)
        async with pod_history(client, world.namespace) as history:
            await make(world, names(10))
            await all_ready(world, names(10), 60)
            server.kill()
            assert await asyncio.to_thread(first.wait, 30) == 1, "the leader does not know whether it still leads"
            assert "the leader lease was lost; another replica may act now" in first.said()
            await asyncio.to_thread(first.start)
            assert await asyncio.to_thread(first.wait, 30) == 1
            assert f"The API server at {server.url} cannot be reached" in first.said().splitlines()[-1]
            assert second.exit_code is None, "a standby waits"
            assert "cannot ask for the lease" in second.said()
            await make(world, names(10, "meanwhile"))
            server.start()
            await asyncio.to_thread(server.wait)
            back = time.monotonic()
            await all_ready(world, names(10, "meanwhile"), 60)
            caught_up = time.monotonic() - back
            assert second.leads
            await asyncio.to_thread(start_again, replicas)
            await asyncio.to_thread(until, lambda: first.page() and first.probe("readyz")[0] == 200, 30, "is ready")
            await expect_exact(world, history, [*names(10), *names(10, "meanwhile")])
    log.info("all was made %.1f s after the API server was back", caught_up)


@pytest.mark.long
async def test_etcd_answers_half_a_second_late(
    replicas: list[Replica], account: Account, world: World, client: Client, tmp_path: Path
) -> None:
    with link(LATE_ETCD, ETCD) as etcd, other_api_server(tmp_path, LATE_ETCD) as server:
        first, second = await start_on(server, replicas, account)
        etcd.delay(ROUND_TRIP / 2)
        before = await lease(client)
        started = time.monotonic()
        await asyncio.to_thread(kubectl, f"--server={server.url}", "create", "configmap", "late", "-n", world.namespace)
        assert time.monotonic() - started > ROUND_TRIP, "it is late"
        started = time.monotonic()
        async with pod_history(client, world.namespace) as history:
            await make(world, names(30))
            await all_ready(world, names(30), 180)
            seconds = time.monotonic() - started
            # Longer than a lease lasts: it is renewed as ever.
            await asyncio.sleep(max(0.0, 40 - seconds))
            after = await lease(client)
            assert after["holderIdentity"] == before["holderIdentity"]
            assert after.get("leaseTransitions") == before.get("leaseTransitions")
            assert first.leads
            assert (first.exit_code, second.exit_code) == (None, None)
            assert (first.probe("livez")[0], first.probe("readyz")[0]) == (200, 200)
            await expect_exact(world, history, names(30))
            assert await ready(world) == set(names(30))
        serious = [record["msg"] for record in first.records() if record["level"] in ("error", "critical")]
        assert serious == []
        first.signal(signal.SIGTERM)
        assert await asyncio.to_thread(first.wait, 20) == 0
        await asyncio.to_thread(until, lambda: second.leads, 20, "the second leads", replicas)
    log.info("30 RayClusters were ready after %.1f s with an etcd that is %s s late", seconds, ROUND_TRIP)
