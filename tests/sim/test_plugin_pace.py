"""On a real clock: while a plugin takes a second in every hook for one RayCluster, twenty others get ready as fast as ever."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.plugins import pace
from kuberay.plugins.loader import Plugin
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.users import NAMESPACE

SECONDS = 1.0
GOOD = 20
HOOKS = ("validate", "warn", "ray_start_params", "mutate_pod", "pre_create_pods", "extra_resources", "diagnose")


def busy() -> None:
    """As slow, and computing all the time."""
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        sum(range(1000))


SLOWNESS: dict[str, Callable[[], None]] = {"sleeping": lambda: time.sleep(SECONDS), "computing": busy}


def plugin(slow: Callable[[], None], threads: list[threading.Thread]) -> Plugin:
    """Every hook is slow for the RayCluster ``bad``."""

    def hook(ctx: Any, *_: Any) -> None:
        if getattr(ctx, "owner", ctx).name == "bad":
            threads.append(threading.current_thread())
            slow()

    return Plugin("gang", "kuberay-gang", "1", None, dict.fromkeys(HOOKS, hook), (1, 0))


def state(world: RayWorld, name: str) -> str:
    body = world.server.peek(RAYCLUSTER, NAMESPACE, name) or {}
    return str((body.get("status") or {}).get("state"))


def conditions(world: RayWorld, name: str) -> set[str]:
    body = world.server.peek(RAYCLUSTER, NAMESPACE, name) or {}
    return {condition["type"] for condition in (body.get("status") or {}).get("conditions") or ()}


async def until(holds: Callable[[], bool], within: float = 120.0) -> None:
    async with asyncio.timeout(within):
        while not holds():
            await asyncio.sleep(0.01)


async def keep_editing(world: RayWorld) -> None:
    """The bad one always has a pass to be made."""
    for number in range(100_000):
        world.server.patch(RAYCLUSTER, NAMESPACE, "bad", {"metadata": {"annotations": {"n": str(number)}}})
        await asyncio.sleep(0.05)


async def seconds_until_ready(slow: Callable[[], None], threads: list[threading.Thread], *, waits: bool) -> float:
    """From the creation of the good ones until all are ready. With *waits* they are created once the plugin is known."""
    async with RayWorld(seed=1) as world:
        operator = SimOperator(world=world, hooks=PluginManager([plugin(slow, threads)]))
        operator.start()
        world.server.create(build_raycluster("bad", namespace=NAMESPACE))
        if waits:
            await until(lambda: len(threads) > pace.STRIKES)
        editing = asyncio.create_task(keep_editing(world))
        try:
            begun = time.perf_counter()
            names = [f"good-{number}" for number in range(GOOD)]
            for name in names:
                world.server.create(build_raycluster(name, namespace=NAMESPACE))
            await until(lambda: all(state(world, name) == "ready" for name in names))
            took = time.perf_counter() - begun
            assert not any(conditions(world, name) & {"PluginSlow", "PluginFailed"} for name in names)
            return took
        finally:
            editing.cancel()
            with suppress(asyncio.CancelledError):
                await editing


@pytest.mark.parametrize("kind", SLOWNESS)
def test_the_operator_keeps_its_pace_for_everybody_else(kind: str) -> None:
    threads: list[threading.Thread] = []

    async def run() -> tuple[float, float]:
        alone, beside = [], []
        for _ in range(2):
            alone.append(await seconds_until_ready(lambda: None, [], waits=False))
            beside.append(await seconds_until_ready(SLOWNESS[kind], threads, waits=True))
        return min(alone), min(beside)

    alone, beside = asyncio.run(run())
    assert beside / alone < 2, f"{GOOD} RayClusters took {beside:.2f} s instead of {alone:.2f} s"
    on_loop = [thread for thread in threads if thread is threading.main_thread()]
    assert len(on_loop) == 2 * pace.STRIKES, "each of the two operators was held up by two calls and no more"
