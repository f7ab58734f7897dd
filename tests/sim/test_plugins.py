"""Plugins at work in the running operator: the shipped ones under their own RBAC, and broken ones that hurt only theirs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER, ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from kuberay.hooks.types import Watch
from kuberay.plugins.loader import Plugin, load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.builders import build_raycluster, build_rayjob
from kuberay_testkit.sim.calls import missing_permissions
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.registry import POD_GROUP
from kuberay_testkit.sim.users import NAMESPACE

MESSAGE = "this plugin is broken"


def plugin(name: str, **hooks: Callable[..., Any]) -> Plugin:
    return Plugin(name=name, distribution=f"kuberay-{name}", version="1", module=None, hooks=hooks, api=(1, 0))


def breaks_for(victim: str, answer: Callable[..., Any]) -> Callable[..., Any]:
    """A hook that raises for owners of that name, and otherwise answers."""

    def hook(ctx: Any, *more: Any) -> Any:
        owner = getattr(ctx, "owner", ctx)
        if owner.name == victim:
            raise RuntimeError(MESSAGE)
        return answer(ctx, *more)

    return hook


def label(_ctx: Any, pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"].setdefault("labels", {})["touched"] = "yes"
    return pod


HOOKS = {"mutate_pod": label, "extra_resources": lambda _ctx: [], "pre_create_pods": lambda _ctx: None}


def conditions(world: RayWorld, name: str) -> dict[str, dict[str, Any]]:
    cluster = world.server.peek(RAYCLUSTER, NAMESPACE, name)
    assert cluster is not None
    return {condition["type"]: condition for condition in (cluster.get("status") or {}).get("conditions") or ()}


def state(world: RayWorld, name: str) -> str:
    cluster = world.server.peek(RAYCLUSTER, NAMESPACE, name)
    assert cluster is not None
    return str((cluster.get("status") or {}).get("state"))


@pytest.mark.parametrize("hook", HOOKS)
def test_a_plugin_that_raises_harms_only_its_own_object_and_shows_there(hook: str) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            hooks = PluginManager([plugin("broken", **{hook: breaks_for("bad", HOOKS[hook])})])
            operator = SimOperator(world=world, hooks=hooks)
            operator.start()
            for name in ("good", "bad", "fine"):
                world.server.create(build_raycluster(name, namespace=NAMESPACE, groups=2))
            await world.rest(quiet=30)
            for name in ("good", "fine"):
                assert state(world, name) == "ready"
                assert "PluginFailed" not in conditions(world, name)
            failed = conditions(world, "bad")["PluginFailed"]
            assert failed["status"] == "True"
            assert failed["reason"] == "Broken"
            assert hook in failed["message"]
            assert MESSAGE in failed["message"]
            told = [e for e in world.server.objects(EVENT, NAMESPACE) if e["reason"] == "PluginFailed"]
            assert [event["regarding"]["name"] for event in told] == ["bad"]
            assert await operator.idle_calls() == [], "it is not tried again and again at the API server's expense"

    run_sim(run)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_cluster_recovers_with_the_next_operator_that_has_a_repaired_plugin(hook: str) -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            broken = SimOperator(
                world=world, hooks=PluginManager([plugin("broken", **{hook: breaks_for("bad", HOOKS[hook])})])
            )
            broken.start()
            world.server.create(build_raycluster("bad", namespace=NAMESPACE, groups=2))
            await world.rest(quiet=30)
            await broken.stop()
            repaired = SimOperator(world=world, hooks=PluginManager([plugin("broken", **{hook: HOOKS[hook]})]))
            repaired.start()
            await world.rest(quiet=30)
            assert state(world, "bad") == "ready"
            assert "PluginFailed" not in conditions(world, "bad")
            assert len(world.server.objects(POD, NAMESPACE)) == 3

    run_sim(run)


def test_a_plugin_may_watch_a_kind_the_cluster_does_not_serve_yet() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            world.server.unregister(POD_GROUP)
            operator = SimOperator(
                world=world, hooks=PluginManager([plugin("gang", watches=lambda: [Watch(POD_GROUP)])])
            )
            operator.start()
            world.server.create(build_raycluster("rc", namespace=NAMESPACE))
            await world.rest(quiet=30)
            assert state(world, "rc") == "ready"

    run_sim(run)


def test_the_shipped_plugins_work_with_exactly_the_permissions_they_ask_for() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            manager = PluginManager(load(["autoscaler-v2", "volcano"]))
            rules = operator_rules([rule for found in manager.rbac_rules().values() for rule in found])
            world.server.restrict("operator", rules)
            operator = SimOperator(world=world, hooks=manager)
            operator.start()
            world.server.create(build_raycluster("scaled", namespace=NAMESPACE, groups=2, enableInTreeAutoscaling=True))
            world.server.create(build_raycluster("plain", namespace=NAMESPACE, groups=1))
            world.server.create(build_rayjob("job", namespace=NAMESPACE))
            await world.rest(quiet=60)
            assert state(world, "scaled") == state(world, "plain") == "ready"
            for kind in (SERVICE_ACCOUNT, ROLE, ROLE_BINDING):
                owners = [
                    obj["metadata"]["ownerReferences"][0]["name"] for obj in world.server.objects(kind, NAMESPACE)
                ]
                assert owners == ["scaled"]
            head = next(
                p for p in world.server.objects(POD, NAMESPACE) if p["metadata"]["name"].startswith("scaled-head")
            )
            assert [c["name"] for c in head["spec"]["containers"]][1:] == ["autoscaler"]
            gangs = {
                obj["metadata"]["ownerReferences"][0]["name"] for obj in world.server.objects(POD_GROUP, NAMESPACE)
            }
            assert gangs == {"scaled", "plain", "job"}
            assert {p["spec"]["schedulerName"] for p in world.server.objects(POD, NAMESPACE)} == {"volcano"}
            assert missing_permissions(operator.calls(), rules) == set()
            assert [str(call) for call in await operator.idle_calls()] == []

    run_sim(run)


def test_a_plugin_whose_kind_may_not_be_listed_shows_as_not_ready() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            world.server.restrict("operator", operator_rules())
            operator = SimOperator(world=world, hooks=PluginManager(load(["autoscaler-v2"])))
            operator.start()
            await world.pass_time(60)
            assert operator.app is not None
            assert "serviceaccounts" in operator.app.why_not_ready()

    run_sim(run)
