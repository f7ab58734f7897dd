"""Many small RayClusters in one namespace, and whether each of them has exactly what it should have."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from kube_world import World
from kuberay.api.kinds import RAYCLUSTER, SERVICE
from kuberay_testkit.builders import build_raycluster
from pod_history import PodHistory

AT_ONCE = 8
"""Creations under way."""


def names(count: int, prefix: str = "rc") -> list[str]:
    return [f"{prefix}-{number:03d}" for number in range(count)]


async def make(world: World, wanted: Iterable[str]) -> None:
    """Create them, a head and a worker each; one that exists is left alone."""
    turns = asyncio.Semaphore(AT_ONCE)

    async def one(name: str) -> None:
        async with turns:
            await world.client.create(RAYCLUSTER, world.namespace, build_raycluster(name, namespace=world.namespace))

    await asyncio.gather(*(one(name) for name in wanted))


async def ready(world: World) -> set[str]:
    """Names of those that are."""
    return {
        body["metadata"]["name"]
        for body in await world.list(RAYCLUSTER)
        if (body.get("status") or {}).get("state") == "ready"
    }


async def all_ready(world: World, wanted: Iterable[str], seconds: float) -> None:
    missing = set(wanted)

    async def check() -> bool:
        missing.difference_update(await ready(world))
        return not missing

    await world.eventually(check, seconds=seconds, what=f"{len(missing)} RayClusters are ready")


async def expect_exact(world: World, history: PodHistory, wanted: Iterable[str]) -> None:
    """Of each one head, one worker and one service; no pod was ever made beside those, or deleted; and none was told twice."""
    wanted = sorted(wanted)
    pods = Counter((pod["metadata"]["labels"]["ray.io/cluster"], _type(pod)) for pod in await world.pods())
    assert pods == {(name, kind): 1 for name in wanted for kind in ("head", "worker")}
    await history.expect(wanted, 2)
    assert len(history.made) == len(set(history.made)) == 2 * len(wanted)
    assert not history.deleting
    services = Counter(each["metadata"]["labels"]["ray.io/cluster"] for each in await world.list(SERVICE))
    assert services == dict.fromkeys(wanted, 1)
    told: Counter[tuple[str, str]] = Counter()
    for event in await world.events():
        if event["reason"] in ("CreatedHeadPod", "CreatedWorkerPod"):
            told[event["regarding"]["name"], event["reason"]] += (event.get("series") or {}).get("count", 1)
    assert not {key: count for key, count in told.items() if count > 1}, "told more than once"


def _type(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["ray.io/node-type"])
