"""A plugin that raises, gives back nonsense or is slow, in each hook of a pass: its object says so, and all others go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.kinds import EVENT, RAYCLUSTER, RAYJOB, RAYSERVICE, Kind
from kuberay.hooks import Problem, Wait
from kuberay.operator.metrics import Metrics
from kuberay.plugins import pace
from kuberay.plugins.hook_names import find_hooks, hook_arguments
from kuberay.plugins.loader import Plugin
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.builders import build_raycluster, build_rayjob, build_rayservice
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.users import NAMESPACE

from bench import noop

AT_START = {"feature_gates", "settings", "rbac_rules", "watches", "batch_scheduler", "tracer", "cli"}
"""Hooks that are called before any object is known: core/tests/plugins/test_startup.py."""

MESSAGE = "this plugin is broken"
INCREMENTAL = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": {"gatewayClassName": "gate"}}


def service(name: str, namespace: str = NAMESPACE, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace}, **more}


def renamed(_ctx: Any, cluster: dict[str, Any]) -> dict[str, Any]:
    cluster["metadata"]["name"] = "mine"
    return cluster


def unserialisable(_ctx: Any, pod: dict[str, Any]) -> dict[str, Any]:
    pod["spec"]["odd"] = object()
    return pod


def forgotten(_ctx: Any, pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"]["labels"] = {}
    return pod


NONSENSE: dict[str, tuple[Callable[..., Any], str]] = {
    "validate": (lambda _ctx: [Problem(5, 6)], "a Problem whose path is 5, no text"),  # type: ignore[arg-type]
    "warn": (lambda _ctx: 5, "returned int, a list of Problem is expected"),
    "ray_start_params": (lambda _ctx: {"a b": "1"}, "returned the parameter 'a b'"),
    "mutate_pod": (unserialisable, "returned a manifest that is no JSON"),
    "mutate_cluster": (renamed, "changed metadata.name"),
    "pre_create_pods": (lambda _ctx: [service("x", "elsewhere")], "returned Service x in namespace 'elsewhere'"),
    "extra_resources": (lambda _ctx: [service("x", spec={1, 2})], "returned Service x that is no JSON"),
    "upgrade_strategy": (lambda _ctx: "yes", "returned str, a ServiceUpgradeStrategy or None is expected"),
    "finish": (lambda _ctx: "done", "returned str, a list of dict is expected"),
    "diagnose": (lambda _ctx: [5], "returned a list with int in it, a list of str is expected"),
}
FINE: dict[str, Callable[..., Any]] = dict.fromkeys(NONSENSE, lambda *_: None)
"""What the plugin answers for everybody else."""


def victim(hook: str, name: str = "bad") -> tuple[Kind, dict[str, Any]]:
    """An object that *hook* is called for."""
    if hook == "mutate_cluster":
        return RAYJOB, build_rayjob(name, namespace=NAMESPACE)
    if hook == "upgrade_strategy":
        return RAYSERVICE, build_rayservice(name, namespace=NAMESPACE, upgradeStrategy=INCREMENTAL)
    suspended = {"suspend": True} if hook == "finish" else {}
    return RAYCLUSTER, build_raycluster(name, namespace=NAMESPACE, **suspended)


def name_of(ctx: Any) -> str:
    name: str = getattr(ctx, "owner", ctx).name
    return name


def plugin(hook: str, does: Callable[..., Any]) -> Plugin:
    """Does that for the victim in one hook, and nothing elsewhere."""

    def call(ctx: Any, *more: Any) -> Any:
        return does(ctx, *more) if name_of(ctx).startswith("bad") else FINE[hook](ctx, *more)

    hooks: dict[str, Callable[..., Any]] = {hook: call}
    if hook == "diagnose":
        # It is asked when something holds pods back.
        hooks["pre_create_pods"] = lambda ctx: Wait("not yet") if ctx.name.startswith("bad") else None
    return Plugin("odd-one", "kuberay-odd-one", "1", None, hooks, (1, 0))


def conditions(world: RayWorld, kind: Kind) -> dict[str, dict[str, Any]]:
    body = world.server.peek(kind, NAMESPACE, "bad")
    assert body is not None
    return {found["type"]: found for found in (body.get("status") or {}).get("conditions") or ()}


def told(world: RayWorld, reason: str) -> list[dict[str, Any]]:
    return [event for event in world.server.objects(EVENT, NAMESPACE) if event["reason"] == reason]


class Player:
    """An operator with that plugin, and the metrics of its calls."""

    def __init__(self, world: RayWorld, hook: str, does: Callable[..., Any]) -> None:
        self.metrics = Metrics()
        hooks = PluginManager([plugin(hook, does)], observer=self.metrics)
        self.operator = SimOperator(world=world, hooks=hooks)
        self.operator.start()

    def series(self, name: str, hook: str) -> float:
        return self.metrics.registry.get_sample_value(name, {"plugin": "odd-one", "hook": hook}) or 0.0


async def play(world: RayWorld, hook: str, does: Callable[..., Any], *names: str) -> Player:
    """Three good RayClusters and some objects that the plugin is bad for, until nothing happens any more."""
    player = Player(world, hook, does)
    for name in names or ("bad",):
        world.server.create(victim(hook, name)[1])
    for number in range(3):
        world.server.create(build_raycluster(f"good-{number}", namespace=NAMESPACE))
    await world.rest(quiet=30)
    for number in range(3):
        status = (world.server.peek(RAYCLUSTER, NAMESPACE, f"good-{number}") or {}).get("status") or {}
        assert status.get("state") == "ready"
        types = {condition["type"] for condition in status["conditions"]}
        assert not types & {"PluginFailed", "PluginSlow", "PodsWaiting", "PodsNotReady"}
    return player


def check_told(world: RayWorld, player: Player, hook: str, sentence: str) -> None:
    """Plugin, hook and reason stand in a condition and an event of the object, and the metric counts."""
    kind, _ = victim(hook)
    found = conditions(world, kind)
    if hook == "diagnose":
        # Its own failure is what it has to say about why pods are not ready.
        assert "plugin odd-one failed in diagnose: " in found["PodsNotReady"]["message"]
        assert sentence in found["PodsNotReady"]["message"]
    else:
        failed = found["PluginFailed"]
        assert failed["status"] == "True"
        assert f"plugin odd-one failed in {hook}: " in failed["message"]
        assert sentence in failed["message"]
        (event, *_) = told(world, "PluginFailed")
        assert (event["type"], event["regarding"]["name"]) == ("Warning", "bad")
        assert hook in event["note"]
    assert player.series("kuberay_plugin_failures_total", hook) > 0


def test_every_hook_of_a_pass_is_here_and_in_the_benchmarks_plugin() -> None:
    assert NONSENSE.keys() | AT_START == hook_arguments().keys()
    assert find_hooks("noop", noop).keys() >= NONSENSE.keys()


@pytest.mark.parametrize("hook", NONSENSE)
def test_a_plugin_that_raises_is_told_on_its_object(hook: str) -> None:
    def explode(*_: Any) -> Any:
        raise RuntimeError(MESSAGE)

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            player = await play(world, hook, explode)
            check_told(world, player, hook, f"RuntimeError: {MESSAGE}")
            assert await player.operator.idle_calls() == [], "nothing is tried again and again"

    run_sim(run)


@pytest.mark.parametrize("hook", NONSENSE)
def test_a_plugin_that_gives_back_nonsense_is_told_on_its_object(hook: str) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            answer, sentence = NONSENSE[hook]
            player = await play(world, hook, answer)
            check_told(world, player, hook, sentence)
            assert await player.operator.idle_calls() == []

    run_sim(run)


def test_a_plugin_that_ends_the_process_does_not() -> None:
    def leave(*_: Any) -> Any:
        raise SystemExit(3)

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            player = await play(world, "extra_resources", leave)
            check_told(world, player, "extra_resources", "SystemExit: 3")

    run_sim(run)


def test_a_plugin_that_takes_labels_away_makes_no_pods_without_end() -> None:
    """The operator would not see them, and would make others."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            player = await play(world, "mutate_pod", forgotten)
            check_told(world, player, "mutate_pod", "changed the label ray.io/")

    run_sim(run)


@pytest.mark.parametrize("hook", NONSENSE)
def test_a_slow_plugin_is_told_on_its_object_and_leaves_the_event_loop(
    hook: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "BUDGET", 0.1)
    threads: list[threading.Thread] = []

    def sleep(ctx: Any, *more: Any) -> Any:
        threads.append(threading.current_thread())
        time.sleep(0.11)
        return FINE[hook](ctx, *more)

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            player = await play(world, hook, sleep, "bad", "bad-too")
            kind, _ = victim(hook)
            slow = conditions(world, kind)["PluginSlow"]
            assert (slow["status"], slow["reason"]) == ("True", "OddOne")
            assert slow["message"].startswith(f"plugin odd-one takes long in {hook}: ")
            notes = {event["regarding"]["name"]: event["type"] for event in told(world, "PluginSlow")}
            assert notes == {"bad": "Warning", "bad-too": "Warning"}
            assert player.series("kuberay_plugin_hook_duration_seconds_sum", hook) > 0.1
            world.server.create(victim(hook, "bad-later")[1])
            await world.rest(quiet=30)
            on_loop = [thread for thread in threads if thread is threading.main_thread()]
            assert len(on_loop) == pace.STRIKES, "it is known after its second slow call"
            assert threads[-1].name.startswith("slow-plugins-")
            assert await player.operator.idle_calls() == []

    run_sim(run)
