"""What authors of plugins use: managers of their own, the lab, metric deltas, the RBAC recorder, gangs, and the watch on hooks."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.kinds import POD, RAYCLUSTER, RAYCRONJOB, RAYSERVICE, Kind
from kuberay.hooks import PolicyRule, Watch, hookimpl
from kuberay.plugins.loader import PluginError
from kuberay_testkit.hook_watch import HookWatch
from kuberay_testkit.lab import Lab, Setup, play
from kuberay_testkit.metrics import MetricDeltas
from kuberay_testkit.plugins import manager_of, plugin_from, plugin_of
from kuberay_testkit.rbac import RbacRecorder
from kuberay_testkit.sim.gangs import GangRules
from prometheus_client import CollectorRegistry, Counter

pytest_plugins = ["pytester"]

GANG = Kind("batch.example.com", "v1", "gangs", "Gang")


def label(ctx: Any, pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"].setdefault("labels", {})["touched"] = "yes"
    return pod


# Plugins


def test_a_manager_has_the_given_plugins_and_no_others(plugin_manager: Callable[..., Any]) -> None:
    manager = plugin_manager("volcano", plugin_from("team", mutate_pod=label))
    assert [plugin.name for plugin in manager.plugins] == ["team", "volcano"]
    assert plugin_manager().plugins == ()


def test_settings_reach_the_plugin_and_unknown_ones_are_refused(plugin_manager: Callable[..., Any]) -> None:
    plugin_manager("volcano", settings={"volcano": {"autoscaling_reserve": "desired"}})
    with pytest.raises(PluginError, match="no_such"):
        plugin_manager("volcano", settings={"volcano": {"no_such": 1}})


def test_a_module_is_checked_as_the_operator_checks_it() -> None:
    module = types.ModuleType("example_team")
    vars(module)["mutate_pod"] = hookimpl(label_as_hook)
    assert plugin_of(module).name == "example_team"
    assert plugin_of(module, "team").name == "team"
    with pytest.raises(PluginError, match="mutate_pods"):
        plugin_from("team", mutate_pods=label)
    with pytest.raises(PluginError, match="namespace"):
        plugin_from("team", mutate_pod=lambda ctx, pod, namespace: pod)


def label_as_hook(ctx: Any, pod: dict[str, Any]) -> dict[str, Any]:
    return label(ctx, pod)


label_as_hook.__name__ = "mutate_pod"

# The lab


def test_the_lab_runs_the_operator_with_a_plugin(
    simulate: Callable[..., Any], build_raycluster: Callable[..., Any]
) -> None:
    async def story(lab: Lab) -> int:
        deltas = lab.metric_deltas()
        lab.create(build_raycluster("demo", groups={"small": 2}))
        await lab.until_ready("demo")
        assert {pod["metadata"]["labels"]["touched"] for pod in lab.pods("demo")} == {"yes"}
        assert deltas.value("kuberay_plugin_hook_duration_seconds_count", plugin="team", hook="mutate_pod") == 3
        assert await lab.idle() == []
        return len(lab.pods("demo", group="small"))

    assert simulate(story, plugins=[plugin_from("team", mutate_pod=label)]) == 2


def test_all_four_kinds_have_builders(
    simulate: Callable[..., Any],
    build_raycluster: Callable[..., Any],
    build_rayjob: Callable[..., Any],
    build_rayservice: Callable[..., Any],
    build_raycronjob: Callable[..., Any],
) -> None:
    async def story(lab: Lab) -> None:
        for build in (build_raycluster, build_rayjob, build_rayservice, build_raycronjob):
            lab.create(build("demo"))
        await lab.until_ready("demo")
        await lab.until_job("demo")
        await lab.until(lambda: bool(lab.status(RAYSERVICE, "demo").get("activeServiceStatus")), "an active RayCluster")
        await lab.until(lambda: bool(lab.status(RAYCRONJOB, "demo").get("lastScheduleTime")), "a tick", within=900)
        assert len(lab.clusters_of("demo")) >= 2

    simulate(story, serve=True)


def test_a_crash_is_taken_over_and_permissions_are_checked(simulate: Callable[..., Any]) -> None:
    from kuberay_testkit.builders import build_raycluster

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("demo"))
        await lab.until_ready("demo")
        assert len(lab.world.processes) == 2

    simulate(story, crash_at=30)


def test_a_plugin_that_asks_for_more_than_it_declares_fails_the_story(simulate: Callable[..., Any]) -> None:
    async def story(lab: Lab) -> None:
        await lab.world.pass_time(5)

    greedy = plugin_from("greedy", watches=lambda: [Watch(GANG)])
    with pytest.raises(AssertionError, match=r"without a rule in rbac_rules\(\): list gangs.batch.example.com"):
        simulate(story, plugins=[greedy], kinds=[GANG])


def test_an_operator_that_writes_without_end_is_stopped(simulate: Callable[..., Any]) -> None:
    from kuberay_testkit.builders import build_raycluster

    def clock(ctx: Any) -> list[dict[str, Any]]:
        metadata = {"name": ctx.name, "namespace": ctx.namespace}
        return [
            {"apiVersion": GANG.api_version, "kind": GANG.kind, "metadata": metadata, "spec": {"now": str(ctx.now)}}
        ]

    rules = [PolicyRule([GANG.group], [GANG.plural], ["create", "get", "list", "patch", "watch"])]
    fidget = plugin_from("fidget", watches=lambda: [Watch(GANG)], rbac_rules=lambda: rules, extra_resources=clock)

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("demo"))
        await lab.rest()

    with pytest.raises(AssertionError, match=r"writes again and again: apply gangs.batch.example.com lab/demo"):
        simulate(story, plugins=[fidget], kinds=[GANG])


def test_turning_a_plugin_off_and_on(simulate: Callable[..., Any]) -> None:
    from kuberay_testkit.builders import build_raycluster

    team = plugin_from("team", mutate_pod=label)

    async def story(lab: Lab) -> list[bool]:
        found = []
        for number, plugins in enumerate(([team], [], [team])):
            await lab.restart(plugins)
            lab.create(build_raycluster(f"demo-{number}", groups=0))
            await lab.until_ready(f"demo-{number}")
            found.append("touched" in lab.pods(f"demo-{number}")[0]["metadata"]["labels"])
        return found

    assert simulate(story, start=False) == [True, False, True]


# Tools


def test_metric_deltas_count_from_their_start_and_refuse_unknown_names() -> None:
    registry = CollectorRegistry()
    counter = Counter("moves", "Moves", ["who"], registry=registry)
    counter.labels("a").inc(5)
    deltas = MetricDeltas(registry)
    counter.labels("a").inc(2)
    counter.labels("b").inc(3)
    assert (deltas("moves_total"), deltas("moves_total", who="a"), deltas("moves_total", who="b")) == (5, 2, 3)
    assert deltas.moved()['moves_total{who="a"}'] == 2
    with pytest.raises(KeyError, match="no series move"):
        deltas("move_total")
    deltas.restart()
    assert deltas("moves_total") == 0
    assert deltas.value("moves_total", who="a") == 7


def test_the_rbac_recorder_refuses_and_tells(rbac_recorder: type[RbacRecorder], sim_server: Any) -> None:
    recorder = rbac_recorder(sim_server, manager_of())
    sim_server.handle("GET", POD.path("lab"), client="operator")
    recorder.check()
    answer = sim_server.handle("GET", GANG.path("lab"), client="operator")
    assert answer.status == 403
    assert recorder.undeclared() == {("list", GANG.group, GANG.plural)}
    with pytest.raises(AssertionError, match=r"list gangs.batch.example.com"):
        recorder.check()


def test_pods_of_a_gang_start_together() -> None:
    """And one that can never be complete says why."""
    from kuberay_testkit.builders import build_raycluster

    def mark(ctx: Any, pod: dict[str, Any]) -> dict[str, Any]:
        pod["spec"]["schedulerName"] = "gangs"
        pod["metadata"]["annotations"] = {"gang": ctx.owner.name, "size": ctx.owner.annotations["size"]}
        return pod

    rules = GangRules(
        scheduler_name="gangs",
        gang_of=lambda pod: pod["metadata"].get("annotations", {}).get("gang", ""),
        gang_size=lambda pod: int(pod["metadata"]["annotations"]["size"]),
    )

    async def story(lab: Lab) -> str:
        lab.create(build_raycluster("fits", groups=2, annotations={"size": "3"}))
        lab.create(build_raycluster("never", groups=2, annotations={"size": "4"}))
        await lab.until_ready("fits")
        await lab.world.pass_time(60)
        assert not lab.ready("never")
        return lab.describe()

    told = play(story, Setup(plugins=[plugin_from("gangs", mutate_pod=mark)], gangs=rules))
    assert "(gang never needs 4 pods at once and 3 are there)" in told


WATCHED: dict[str, tuple[Callable[..., Any], str, str]] = {
    "a counter": (lambda ctx: [str(_next())], "unsteady", "asked the same"),
    "an argument changed": (lambda ctx: ctx.labels.update(x="1"), "meddling", "changed the context"),
    "a file": (lambda ctx: [Path("/proc/version").read_text()[:3]], "outside", "/proc/version"),
    "a sleep": (lambda ctx: __import__("time").sleep(0.5), "outside", "time.sleep(0.5)"),
    "no JSON": (lambda ctx: {"a": {1, 2}}, "odd", "a set"),
}
_numbers = iter(range(1000))


def _next() -> int:
    return next(_numbers)


@pytest.mark.parametrize("case", WATCHED)
def test_the_watch_on_hooks_sees(case: str) -> None:
    hook, where, words = WATCHED[case]
    watch = HookWatch()
    plugin = watch.wrap(plugin_from("odd", diagnose=hook))
    plugin.hooks["diagnose"](_context())
    assert words in str(getattr(watch, where))
    others = {"unsteady", "meddling", "outside", "odd"} - {where}
    assert not [each for each in others if getattr(watch, each)]


def _context() -> Any:
    from datetime import UTC, datetime

    from kuberay.hooks import OwnerContext

    return OwnerContext(
        kind=RAYCLUSTER,
        name="demo",
        namespace="lab",
        uid="u",
        labels={},
        annotations={},
        spec={},
        status={},
        cluster_spec=None,
        groups=(),
        now=datetime(2026, 1, 1, tzinfo=UTC),
        gates={},
    )


# Under pytest


def test_a_suite_is_collected_without_the_cases_that_do_not_apply(pytester: pytest.Pytester) -> None:
    """KAI has no gang objects, so nothing about them is collected, and nothing is skipped."""
    pytester.makepyfile(
        """
        from kuberay_testkit.conformance import GangSchedulerConformance, SchedulerUnderTest

        class TestMine(GangSchedulerConformance):
            def scheduler(self):
                return SchedulerUnderTest(plugin="volcano", scheduler_name="volcano")
        """
    )
    result = pytester.runpytest_subprocess("--collect-only", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio")
    assert "test_every_pod_names_the_scheduler" in result.stdout.str()
    assert "test_no_pod_is_made_before_its_gang" not in result.stdout.str()
    assert "deselected" in result.stdout.str()
