"""Tokens of the operator's service account that are no longer good: a file that was replaced is read again at once, and who has no good
one says so and leaves the work to another replica.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from uuid import uuid4

import pytest
from crowd import all_ready, expect_exact, make, names
from kube_world import World
from kuberay.kube.client import Client
from pod_history import pod_history
from replicas import Account, Replica, start_both, until

log = logging.getLogger(__name__)
pytestmark = pytest.mark.xdist_group("replicas")

CACHED = 10.0
"""Seconds for which an API server may go on taking a token that was revoked."""


def secret() -> str:
    return f"bound-{uuid4().hex[:8]}"


async def test_a_token_that_was_replaced_is_read_again_when_the_old_one_is_refused(
    replicas: list[Replica], account: Account, world: World, client: Client
) -> None:
    first = replicas[0]
    old, new = secret(), secret()
    first.connect(account.token(old))
    await asyncio.to_thread(first.start)
    await asyncio.to_thread(until, lambda: first.leads, 60, "it leads", replicas)
    async with pod_history(client, world.namespace) as history:
        await make(world, names(5))
        await all_ready(world, names(5), 60)
        first.write_token(account.token(new))
        account.revoke(old)
        # Until the old one is refused, and then some renewals of the lease.
        started = time.monotonic()
        found = "the API server refused the credentials; newer ones were found"
        await asyncio.to_thread(until, lambda: found in first.said(), CACHED + 15, "it read the file again", replicas)
        seconds = time.monotonic() - started
        await make(world, names(5, "later"))
        await all_ready(world, names(5, "later"), 30)
        await expect_exact(world, history, [*names(5), *names(5, "later")])
    assert first.exit_code is None
    assert first.leads
    assert "Unauthorized" not in first.said(), "nothing came to nothing"
    first.signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait, 15) == 0
    log.info("a newer token was read %.1f s after the old one was revoked", seconds)


@pytest.mark.long
async def test_without_a_good_token_another_replica_goes_on(
    replicas: list[Replica], account: Account, world: World, client: Client
) -> None:
    bound = secret()
    replicas[0].connect(account.token(bound))
    first, second = await asyncio.to_thread(start_both, replicas)
    async with pod_history(client, world.namespace) as history:
        await make(world, names(5))
        await all_ready(world, names(5), 60)
        account.revoke(bound)
        assert await asyncio.to_thread(first.wait, CACHED + 30) == 1
        assert "could not be renewed in time: Unauthorized" in first.said()
        await asyncio.to_thread(first.start)
        assert await asyncio.to_thread(first.wait, 30) == 1
        assert "refuses the operator's credentials: Unauthorized" in first.said().splitlines()[-1]
        await asyncio.to_thread(until, lambda: second.leads, 30, "the other one leads", replicas)
        await make(world, names(5, "later"))
        await all_ready(world, names(5, "later"), 30)
        first.write_token(account.token())
        await asyncio.to_thread(first.start)
        await asyncio.to_thread(until, lambda: first.page() and first.probe("readyz")[0] == 200, 30, "is ready")
        await expect_exact(world, history, [*names(5), *names(5, "later")])


@pytest.mark.long
async def test_a_standby_without_a_good_token_waits_for_one(
    replicas: list[Replica], account: Account, world: World, client: Client
) -> None:
    """Its watches end, and its event source must not end it: the file may be replaced at any moment."""
    bound = secret()
    replicas[1].connect(account.token(bound))
    first, second = await asyncio.to_thread(start_both, replicas)
    account.revoke(bound)
    await asyncio.to_thread(
        until, lambda: "cannot ask for the lease" in second.said(), CACHED + 30, "it says so", replicas
    )
    assert "Unauthorized" in second.said()
    second.write_token(account.token())
    first.signal(signal.SIGKILL)
    await asyncio.to_thread(until, lambda: second.leads, 40, "the second leads", replicas)
    async with pod_history(client, world.namespace) as history:
        await make(world, names(5))
        await all_ready(world, names(5), 60)
        await expect_exact(world, history, names(5))
    assert second.exit_code is None
