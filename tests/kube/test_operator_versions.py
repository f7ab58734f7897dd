"""Two versions of the operator that build pods and services differently, in turn on the same objects, among them what KubeRay made:
no pod is touched; who takes over brings each service to its own form once, and after that writes nothing.
"""

from __future__ import annotations

import asyncio
import logging
import re
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import next_version
import pytest
from former_operator import Recorded
from kube_loader import KubeLoader
from kube_world import RAY_KINDS, World
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE
from kuberay.kube.client import Client
from kuberay.kube.errors import NotFoundError
from kuberay_testkit.builders import build_raycluster
from pod_history import PodHistory, pod_history
from replicas import Replica, until

log = logging.getLogger(__name__)
pytestmark = pytest.mark.xdist_group("replicas")

OURS = ("-m", "kuberay.cli.main")
NEXT = (str(Path(next_version.__file__)),)
RUNNING = {"jobStatus": "RUNNING", "jobStatusCheckFailureStartTime": None}
OF_KUBERAY: dict[str, dict[str, Any]] = {
    "raycluster/one-group": {},
    "raycluster/template-change-recreate": {},
    "rayjob/job-minimal": RUNNING,
    "rayservice/svc-minimal": {},
}
"""Recorded cases, and what their status says other than recorded."""
HEADS = 3
"""Those of clusters with an upgrade strategy: they note the version that made their hash."""


async def load(world: World, client: Client) -> None:
    """What KubeRay made, and clusters for an operator of ours to make."""
    for name, status in OF_KUBERAY.items():
        await Recorded(name, namespace=world.namespace).load(KubeLoader(client, world), **status)
    for name, more in {
        "plain": {},
        "recreate": {"upgradeStrategy": {"type": "Recreate"}},
        "rolling": {"upgradeStrategy": {"type": "Rolling"}},
    }.items():
        await world.client.create(
            RAYCLUSTER, world.namespace, build_raycluster(name, namespace=world.namespace, groups={"g": 2}, **more)
        )


async def settled(world: World, replica: Replica, objects: int) -> dict[str, float]:
    """Once *replica* has looked at everything and nothing changes any more: what it has written so far."""

    def looked() -> bool:
        lines = [line.rsplit(" ", 1) for line in replica.page().splitlines() if not line.startswith("#")]
        passes = sum(float(v) for n, v in lines if n.startswith("controller_runtime_reconcile_total{"))
        return passes >= objects and all(float(v) == 0 for n, v in lines if re.match(r"workqueue_depth\b", n))

    await asyncio.to_thread(until, looked, 60, "it has looked at everything", [replica])
    await world.settled(quiet=2.0, most=40.0)
    return replica.writes()


async def pods(world: World) -> dict[str, Any]:
    """All that says whether a pod was touched: everything but annotations, versions and who managed what."""
    found = {}
    for pod in await world.list(POD):
        metadata = {k: v for k, v in pod["metadata"].items() if k in ("uid", "labels", "ownerReferences", "finalizers")}
        found[pod["metadata"]["name"]] = (metadata, pod["spec"], pod["status"].get("containerStatuses"))
    return found


async def hand_over(old: Replica, new: Replica, program: tuple[str, ...]) -> None:
    """As a rolling update of the Deployment: the new one is ready before the old one is asked to go."""

    def both() -> None:
        new.start(program=program)
        until(lambda: new.page() and new.probe("readyz")[0] == 200, 60, "the next one is ready", [new])
        old.signal(signal.SIGTERM)
        assert old.wait(15) == 0
        until(lambda: new.leads, 20, "the next one leads", [new])

    await asyncio.to_thread(both)


@pytest.mark.parametrize("turns", [1, pytest.param(3, marks=pytest.mark.long)])
async def test_an_old_and_a_new_version_in_turn_do_not_fight(
    replicas: list[Replica], world: World, client: Client, turns: int
) -> None:
    first, second = replicas
    await load(world, client)
    await asyncio.to_thread(first.start, program=OURS)
    await asyncio.to_thread(until, lambda: first.leads, 60, "it leads", [first])
    objects = sum([len(await world.list(kind)) for kind in RAY_KINDS])
    await settled(world, first, objects)
    before = await pods(world)
    assert len(before) > 12
    async with pod_history(client, world.namespace) as history:
        leader, standby = first, second
        services = len(await world.list(SERVICE))
        allowed = {"patch pods": HEADS, "patch rayclusters": 1, "patch services": services}
        for turn in range(2 * turns):
            later = standby is second
            await hand_over(leader, standby, NEXT if later else OURS)
            leader, standby = standby, leader
            writes = await settled(world, leader, objects)
            log.info("turn %d of the %s version wrote %s", turn, "later" if later else "present", writes)
            assert all(count <= allowed.get(what, 0) for what, count in writes.items()), writes
            # And nothing more, however often it looks.
            assert await settled(world, leader, objects) == writes
            await expect_untouched(world, history, before)
            assert await marked(world) == (services if later else 0), "each builds as it does"
        # Between replicas of one version nothing is written at all.
        await hand_over(leader, standby, OURS)
        assert await settled(world, standby, objects) == {}
        await expect_untouched(world, history, before)
    await remove_all(world)


async def remove_all(world: World) -> None:
    """While somebody is there who takes finalizers off."""
    for kind in RAY_KINDS:
        for each in await world.list(kind):
            with suppress(NotFoundError):
                await world.delete(kind, each["metadata"]["name"])

    async def gone() -> bool:
        return not [each for kind in RAY_KINDS for each in await world.list(kind)]

    await world.eventually(gone, seconds=60, what="all Ray objects are gone")


async def marked(world: World) -> int:
    """Services that are as the later version makes them."""
    found = [each["metadata"].get("annotations") or {} for each in await world.list(SERVICE)]
    return sum(next_version.MARK in annotations for annotations in found)


async def expect_untouched(world: World, history: PodHistory, before: dict[str, Any]) -> None:
    assert history.made == []
    assert not history.deleting
    assert await pods(world) == before
