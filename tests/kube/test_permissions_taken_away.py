"""A permission that somebody takes from the operator's role while it runs: the object says which one, nothing that runs is touched,
and seconds after it is given back the work goes on.

What happens after twenty minutes, and with many objects, is played in `tests/sim/test_permissions.py`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator

import pytest
from crowd import all_ready, expect_exact, make, names
from kube_world import World, kuberay
from kuberay.api.kinds import RAYCLUSTER
from kuberay.kube.client import Client
from pod_history import pod_history
from replicas import NAMESPACE, Account, Replica, until

log = logging.getLogger(__name__)
pytestmark = pytest.mark.xdist_group("replicas")

SOON = 15.0
"""Seconds after which all is well again: three until it is noticed, and what a slow machine takes."""
USER = f"system:serviceaccount:{NAMESPACE}:kuberay-operator"


@pytest.fixture
def leader(replicas: list[Replica], account: Account) -> Iterator[Replica]:
    first = replicas[0]
    first.start()
    until(lambda: first.leads, 60, "it leads", replicas)
    yield first
    account.give_back()


async def told(world: World, name: str, reason: str) -> str:
    """The note of such an event about the RayCluster."""

    async def check() -> str:
        found = [e for e in await world.events() if e["regarding"]["name"] == name and e["reason"] == reason]
        return str(found[0]["note"]) if found else ""

    note: str = await world.eventually(check, seconds=30, what=f"an event {reason} about {name}")
    return note


async def test_creating_pods(leader: Replica, account: Account, world: World, client: Client) -> None:
    async with pod_history(client, world.namespace) as history:
        await make(world, names(3))
        await all_ready(world, names(3), 60)
        account.take_away("pods", "create")
        await make(world, names(1, "new"))
        missing = f'cannot create resource "pods" in API group "" in the namespace "{world.namespace}"'
        assert missing in await told(world, "new-000", "FailedToCreateHeadPod")

        async def condition() -> str:
            found = (await world.get(RAYCLUSTER, "new-000"))["status"]["conditions"]
            return next((each["message"] for each in found if each["reason"] == "NotPermitted"), "")

        assert missing in await world.eventually(condition, seconds=30)
        why = kuberay(world, "why", "raycluster/new-000").stdout
        assert "NotPermitted" in why
        assert 'cannot create resource "pods"' in why
        assert f"the operator may not create pods in namespace {world.namespace}" in leader.said()
        account.give_back()
        started = time.monotonic()
        await all_ready(world, names(1, "new"), SOON)
        seconds = time.monotonic() - started
        await expect_exact(world, history, [*names(3), "new-000"])
    log.info("ready %.1f s after the permission was given back", seconds)


async def test_writing_statuses(leader: Replica, account: Account, world: World, client: Client) -> None:
    async with pod_history(client, world.namespace) as history:
        await make(world, names(3))
        await all_ready(world, names(3), 60)
        account.take_away("rayclusters/status", "patch")
        await make(world, names(1, "new"))
        note = await told(world, "new-000", "NotPermitted")
        assert f"the operator may not patch rayclusters/status in namespace {world.namespace}" in note
        account.give_back()
        await all_ready(world, names(1, "new"), SOON)
        await expect_exact(world, history, [*names(3), "new-000"])


@pytest.mark.long
async def test_the_lease(leader: Replica, account: Account, world: World) -> None:
    account.take_away("leases", "update")
    assert await asyncio.to_thread(leader.wait, 30) == 1
    missing = f'User "{USER}" cannot update resource "leases"'
    assert any("could not be renewed in time" in r["msg"] and missing in r["msg"] for r in leader.records())
    await asyncio.to_thread(leader.start)

    def waits() -> bool:
        return any("cannot ask for the lease" in r["msg"] and missing in r["msg"] for r in leader.records())

    await asyncio.to_thread(until, waits, 60, "it says why it does nothing", [leader])
    assert leader.running
    assert not leader.leads
    account.give_back()
    await asyncio.to_thread(until, lambda: leader.leads, SOON, "it leads", [leader])
    await make(world, names(1))
    await all_ready(world, names(1), 30)


async def test_listing_pods(leader: Replica, replicas: list[Replica], account: Account, world: World) -> None:
    """The API server lets a watch go on that was allowed when it began; who starts anew is refused with one sentence."""
    await make(world, names(2))
    await all_ready(world, names(2), 60)
    account.take_away("pods", "list", "watch")
    second = replicas[1]
    await asyncio.to_thread(second.start)
    assert await asyncio.to_thread(second.wait, 30) == 1
    assert "The operator may not list pods in all namespaces" in second.said().splitlines()[-1]
    assert leader.leads
    await make(world, names(1, "new"))
    await all_ready(world, names(1, "new"), 30)
