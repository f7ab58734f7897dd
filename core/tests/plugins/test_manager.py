"""Plugins are called one by one, with copies, and what goes wrong in one stays there."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from kuberay.api.kinds import RAYJOB, RAYSERVICE, Kind
from kuberay.hooks import (
    FinishContext,
    Problem,
    ServiceSide,
    ServiceUpgradeContext,
    ServiceUpgradeStrategy,
    Share,
    UpgradeContext,
    UpgradeStep,
    UpgradeStrategy,
    Wait,
    Watch,
    hookimpl,
)
from kuberay.hooks.calls import Hooks, NoHooks, PluginFailure
from kuberay.plugins.hook_names import find_hooks
from kuberay.plugins.loader import Plugin
from kuberay.plugins.manager import PluginManager
from pydantic import BaseModel

WIDGET = Kind("example.com", "v1", "widgets", "Widget")


def plugin(name: str, **functions: Any) -> Plugin:
    """A plugin made of the given hook functions."""
    module = SimpleNamespace(__name__=name)
    for hook, function in functions.items():
        function.__name__ = hook
        setattr(module, hook, hookimpl(function))
    return Plugin(name, f"kuberay-{name}", "1.0", module, find_hooks(name, module), (1, 0))


def widget(name: str = "one", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, **more}


def label(key: str) -> Any:
    def mutate(ctx, pod):
        pod["metadata"].setdefault("labels", {})[key] = "yes"
        return pod

    return mutate


def explode(ctx):
    raise RuntimeError("no luck\nat all")


POD = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "ray"}]}}


def test_it_is_what_plans_expect():
    hooks: Hooks = PluginManager()
    assert not hooks.has("volcano")


def test_plugins_answer_in_name_order(make_owner):
    manager = PluginManager(
        [
            plugin("b", validate=lambda ctx: [Problem("y", "second")]),
            plugin("a", validate=lambda ctx: (Problem("x", "first"),)),
            plugin("c", validate=lambda ctx: None),
        ]
    )
    assert manager.has("b")
    assert not manager.has("d")
    assert manager.validate(make_owner()) == ([Problem("x", "first"), Problem("y", "second")], [])


def test_a_failing_plugin_does_not_stop_the_others(make_owner, make_pod_context):
    manager = PluginManager(
        [
            plugin("a", validate=explode, diagnose=explode, pre_create_pods=explode, ray_start_params=explode),
            plugin(
                "b",
                validate=lambda ctx: [Problem("x", "seen")],
                diagnose=lambda ctx: ["waiting for quota"],
                pre_create_pods=lambda ctx: Wait("not yet"),
                ray_start_params=lambda ctx: {"no-monitor": "true"},
            ),
        ]
    )
    problems, failures = manager.validate(make_owner())
    assert problems == [Problem("x", "seen")]
    assert failures == [PluginFailure("a", "validate", "RuntimeError: no luck")]
    assert manager.diagnose(make_owner()) == ["plugin a failed in diagnose: RuntimeError: no luck", "waiting for quota"]
    resources = manager.pre_create_pods(make_owner())
    assert resources.waits == [("b", Wait("not yet"))]
    assert [failure.plugin for failure in resources.failures] == ["a"]
    params, failures = manager.ray_start_params(make_pod_context())
    assert params == {"no-monitor": "true"}
    assert [failure.hook for failure in failures] == ["ray_start_params"]


def test_pods_are_changed_in_order_and_changes_recorded(make_pod_context):
    manager = PluginManager([plugin("b", mutate_pod=label("two")), plugin("a", mutate_pod=label("one"))])
    mutated = manager.mutate_pod(make_pod_context(), POD)
    assert mutated.pod["metadata"]["labels"] == {"one": "yes", "two": "yes"}
    assert mutated.changes == {"a": ["/metadata/labels"], "b": ["/metadata/labels/two"]}
    assert mutated.failures == []
    assert POD == {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "ray"}]}}


def test_the_change_of_a_plugin_that_raises_is_dropped(make_pod_context):
    def half(ctx, pod):
        pod["spec"]["containers"].clear()
        raise KeyError("gone")

    manager = PluginManager([plugin("a", mutate_pod=half), plugin("b", mutate_pod=label("two"))])
    mutated = manager.mutate_pod(make_pod_context(), POD)
    assert mutated.pod["spec"] == POD["spec"]
    assert mutated.pod["metadata"]["labels"] == {"two": "yes"}
    assert mutated.failures == [PluginFailure("a", "mutate_pod", "KeyError: 'gone'")]
    assert list(mutated.changes) == ["b"]


@pytest.mark.parametrize("hook", ["mutate_pod", "mutate_cluster"])
def test_no_change_keeps_the_manifest(make_pod_context, hook):
    functions = {
        "mutate_pod": lambda ctx, pod: None,
        "mutate_cluster": lambda ctx, cluster: cluster,
    }
    manager = PluginManager([plugin("a", **{hook: functions[hook]})])
    mutated = getattr(manager, hook)(make_pod_context(), POD)
    assert mutated.pod is POD
    assert mutated.changes == {}


def test_contexts_are_copies(make_owner):
    def spoil(ctx):
        ctx.spec["workerGroupSpecs"].append("spoilt")
        ctx.cluster_spec["headGroupSpec"]["x"] = 1
        ctx.status.clear()
        ctx.labels.clear()
        ctx.gates["Some"] = False
        ctx.groups[0].requests["cpu"] = "99"
        return [str(len(ctx.spec["workerGroupSpecs"]))]

    manager = PluginManager([plugin("a", diagnose=spoil), plugin("b", diagnose=spoil)])
    ctx = make_owner()
    assert manager.diagnose(ctx) == ["2", "2"], "each plugin has a copy of its own"
    assert ctx == make_owner()
    assert manager.diagnose(make_owner()) == ["2", "2"], "and a new one in the next pass"


@pytest.mark.parametrize(("kind", "key"), [(RAYJOB, "rayClusterSpec"), (RAYSERVICE, "rayClusterConfig")])
def test_the_context_of_a_rayjob_or_rayservice_shares_its_cluster_spec(make_owner, kind, key):
    def check(ctx):
        return [str(ctx.cluster_spec is ctx.spec[key])]

    spec = {key: {"headGroupSpec": {}}}
    ctx = make_owner(kind=kind, spec=spec, cluster_spec=spec[key])
    assert PluginManager([plugin("a", diagnose=check)]).diagnose(ctx) == ["True"]


BAD_ANSWERS = {
    "validate text": ("validate", lambda ctx: "bad", "validate() returned str, a list of Problem is expected"),
    "validate item": ("validate", lambda ctx: ["bad"], "validate() returned a list with str in it"),
    "params list": ("ray_start_params", lambda ctx: ["x"], "ray_start_params() returned list"),
    "params value": ("ray_start_params", lambda ctx: {"num-cpus": 1}, "names and values must be strings"),
    "params dashes": ("ray_start_params", lambda ctx: {"--x": "1"}, "written without dashes"),
    "pod text": ("mutate_pod", lambda ctx, pod: "bad", "mutate_pod() returned str, a manifest (dict)"),
    "pod without spec": ("mutate_pod", lambda ctx, pod: {"metadata": {}}, "returned a manifest without spec"),
    "pod dropped": ("mutate_pod", lambda ctx, pod: pod.pop("spec") and None, "return the changed manifest"),
    "object unnamed": ("extra_resources", lambda ctx: [{"kind": "Widget"}], "Widget without metadata.name"),
    "object unwatched": (
        "extra_resources",
        lambda ctx: [{"apiVersion": "v2", "kind": "Gadget", "metadata": {"name": "g"}}],
        "returned Gadget g of v2, a kind its watches() does not name",
    ),
    "objects wait": ("finish", lambda ctx: Wait("x"), "finish() returned Wait, a list of dict is expected"),
    "wait as text": ("pre_create_pods", lambda ctx: "wait", "pre_create_pods() returned str"),
    "strategy type": ("upgrade_strategy", lambda ctx: True, "returned bool, an UpgradeStrategy or None"),
    "strategy name": (
        "upgrade_strategy",
        lambda ctx: UpgradeStrategy("Other", lambda ctx: True),
        "returned the strategy 'Other' when 'Blue' was asked for",
    ),
    "reasons": ("diagnose", lambda ctx: [1], "diagnose() returned a list with int in it"),
}


@pytest.mark.parametrize("case", BAD_ANSWERS)
def test_answers_of_the_wrong_type_are_failures(make_owner, make_pod_context, caplog, case):
    hook, function, sentence = BAD_ANSWERS[case]
    seen = Calls()
    manager = PluginManager([plugin("bad", **{hook: function})], observer=seen)
    arguments = {
        "mutate_pod": (make_pod_context(), POD),
        "ray_start_params": (make_pod_context(),),
        "finish": (FinishContext(owner=make_owner(), reason="Complete", cluster_alive=False),),
        "upgrade_strategy": (UpgradeContext(owner=make_owner(), type="Blue", head_hash="a", wanted_hash="b"),),
    }.get(hook, (make_owner(),))
    with caplog.at_level(logging.ERROR):
        answer = getattr(manager, hook)(*arguments)
    assert sentence in caplog.text
    assert seen.calls == [("bad", hook, True)]
    failures = getattr(answer, "failures", None) or (answer[1] if isinstance(answer, tuple) else None)
    if hook not in ("diagnose", "upgrade_strategy"):
        (failure,) = failures
        assert (failure.plugin, failure.hook) == ("bad", hook)
        assert sentence in failure.error


def test_objects_of_core_and_watched_kinds_pass(make_owner):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    manager = PluginManager(
        [
            plugin("a", extra_resources=lambda ctx: [service, widget()], watches=lambda: [Watch(WIDGET)]),
            plugin("b", extra_resources=lambda ctx: [widget("two")]),
        ]
    )
    resources = manager.extra_resources(make_owner())
    assert resources.manifests == [service, widget()]
    assert [failure.plugin for failure in resources.failures] == ["b"]


def test_finish_returns_manifests(make_owner):
    manager = PluginManager(
        [plugin("a", finish=lambda ctx: [widget(size=ctx.reason)], watches=lambda: [Watch(WIDGET)])]
    )
    ctx = FinishContext(owner=make_owner(), reason="Suspended", cluster_alive=False)
    assert manager.finish(ctx).manifests == [widget(size="Suspended")]


def test_the_strategy_of_the_asked_name_is_taken(make_owner, caplog):
    def offer(ctx):
        return UpgradeStrategy("Blue", lambda ctx: True) if ctx.type == "Blue" else None

    ctx = UpgradeContext(owner=make_owner(), type="Blue", head_hash="a", wanted_hash="b")
    other = UpgradeContext(owner=make_owner(), type="Green", head_hash="a", wanted_hash="b")
    one = PluginManager([plugin("a", upgrade_strategy=offer)])
    found = one.upgrade_strategy(ctx)
    assert found is not None
    assert found.name == "Blue"
    assert one.upgrade_strategy(other) is None
    two = PluginManager([plugin("a", upgrade_strategy=offer), plugin("b", upgrade_strategy=offer)])
    assert two.upgrade_strategy(ctx) is None
    assert "plugins 'a' and 'b' both offer 'Blue'" in caplog.text


class Green(ServiceUpgradeStrategy):
    """A strategy of a plugin: what its methods do is the test's."""

    name = "Green"

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        return self.answer(ctx) if callable(self.answer) else self.answer

    def problems(self, owner: Any) -> Any:
        return self.answer(owner) if callable(self.answer) else self.answer


def offering(strategy: Any, name: str = "a", **more: Any) -> Plugin:
    return plugin(name, upgrade_strategy=lambda ctx: strategy, watches=lambda: [Watch(WIDGET)], **more)


def asked(make_owner: Any, type_: str = "Green") -> UpgradeContext:
    return UpgradeContext(owner=make_owner(kind=RAYSERVICE), type=type_)


def upgrading(make_owner: Any) -> ServiceUpgradeContext:
    return ServiceUpgradeContext(owner=make_owner(kind=RAYSERVICE), active=ServiceSide(cluster="one"), pending=None)


def test_a_rayservice_gets_the_strategy_of_the_asked_name(make_owner, caplog):
    strategy = Green()
    manager = PluginManager([offering(strategy), plugin("b", upgrade_strategy=lambda ctx: None)])
    assert manager.service_strategy(asked(make_owner)) is strategy
    two = PluginManager([offering(strategy), offering(Green(), "b")])
    assert two.service_strategy(asked(make_owner)) is None
    assert "plugins 'a' and 'b' both offer 'Green'" in caplog.text


@pytest.mark.parametrize(
    ("answer", "type_", "sentence"),
    [
        (True, "Green", "returned bool, a ServiceUpgradeStrategy or None is expected"),
        (Green, "Green", "returned type, a ServiceUpgradeStrategy or None is expected"),
        (Green(), "Blue", "returned the strategy 'Green' when 'Blue' was asked for"),
    ],
)
def test_strategies_of_the_wrong_type_are_not_taken(make_owner, caplog, answer, type_, sentence):
    assert PluginManager([offering(answer)]).service_strategy(asked(make_owner, type_)) is None
    assert sentence in caplog.text


def test_strategies_of_rayclusters_and_rayservices_are_not_mixed_up(make_owner, caplog):
    """A plugin that asks for the type only, whatever the owner is, does nothing wrong."""
    ctx = UpgradeContext(owner=make_owner(), type="Green", head_hash="a", wanted_hash="b")
    assert PluginManager([offering(Green())]).upgrade_strategy(ctx) is None
    for_clusters = UpgradeStrategy("Green", lambda ctx: True)
    assert PluginManager([offering(for_clusters)]).service_strategy(asked(make_owner)) is None
    assert caplog.text == ""


def test_a_step_is_decided_by_the_strategy_with_a_copy_and_its_settings(make_owner):
    def step(ctx):
        ctx.owner.spec.clear()
        return UpgradeStep(promote=True, message=str(ctx.owner.settings.limit), manifests=[widget()])

    strategy = Green(step)
    manager = PluginManager([offering(strategy, settings=lambda: Options)], observer=(seen := Calls()))
    manager.service_strategy(asked(make_owner))
    ctx = upgrading(make_owner)
    step, failures = manager.service_step(strategy, ctx)
    assert (step.promote, step.message, step.manifests) == (True, "3", [widget()])
    assert failures == []
    assert ctx.owner.spec, "the plugin had a copy"
    assert seen.calls == [("a", "upgrade_strategy", False)] * 2


BAD_STEPS: dict[str, tuple[Any, str]] = {
    "none": (None, "returned None, an UpgradeStep is expected"),
    "a dictionary": ({"promote": True}, "returned dict, an UpgradeStep is expected"),
    "two endings": (UpgradeStep(promote=True, give_up=True), "returned a step with both promote and give_up"),
    "a share that is none": (UpgradeStep(active=5), "returned a step with int where a Share or None is expected"),  # type: ignore[arg-type]
    "more than all": (
        UpgradeStep(pending=Share(capacity=101)),
        "returned a share of 101, a whole number from 0 to 100",
    ),
    "less than nothing": (UpgradeStep(active=Share(traffic=-1)), "returned a share of -1"),
    "a part": (UpgradeStep(active=Share(traffic=0.5)), "returned a share of 0.5"),  # type: ignore[arg-type]
    "a boolean": (UpgradeStep(active=Share(capacity=True)), "returned a share of True"),
    "a time without a zone": (
        UpgradeStep(active=Share(moved=datetime(2026, 1, 1))),
        "returned a share moved at datetime.datetime(2026, 1, 1, 0, 0), a time with a time zone",
    ),
    "no sentence": (UpgradeStep(waiting=None), "returned a step whose waiting is None"),  # type: ignore[arg-type]
    "seconds": (UpgradeStep(look_after=5), "returned a step whose look_after is 5"),  # type: ignore[arg-type]
    "maybe": (UpgradeStep(replace=1), "returned a step whose replace is 1"),  # type: ignore[arg-type]
    "unwatched": (
        UpgradeStep(manifests=[{"apiVersion": "v2", "kind": "Gadget", "metadata": {"name": "g"}}]),
        "returned Gadget g of v2, a kind its watches() does not name",
    ),
    "unnamed": (UpgradeStep(manifests=[{"kind": "Widget"}]), "returned a Widget without metadata.name"),
}


@pytest.mark.parametrize(("answer", "sentence"), BAD_STEPS.values(), ids=BAD_STEPS)
def test_steps_that_cannot_be_performed_are_failures(make_owner, caplog, answer, sentence):
    strategy = Green(answer)
    manager = PluginManager([offering(strategy)])
    manager.service_strategy(asked(make_owner))
    step, (failure,) = manager.service_step(strategy, upgrading(make_owner))
    assert step is None
    assert (failure.plugin, failure.hook) == ("a", "upgrade_strategy")
    assert failure.error.startswith(f"step() {sentence}")
    assert sentence in caplog.text


def test_steps_that_can_be_performed(make_owner):
    moved = datetime(2026, 1, 1, tzinfo=UTC)
    for step in (
        UpgradeStep(),
        UpgradeStep(active=Share(0, 100, moved), pending=Share(), look_after=timedelta(seconds=1)),
        UpgradeStep(rolling_back=True, message="back", waiting="for a pod"),
        UpgradeStep(replace=True, manifests=({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}},)),
    ):
        strategy = Green(step)
        manager = PluginManager([offering(strategy)])
        manager.service_strategy(asked(make_owner))
        assert manager.service_step(strategy, upgrading(make_owner)) == (step, [])


def test_a_strategy_that_raises_is_a_failure_of_its_plugin(make_owner, caplog):
    strategy = Green(explode)
    manager = PluginManager([offering(strategy)])
    manager.service_strategy(asked(make_owner))
    expected = [PluginFailure("a", "upgrade_strategy", "RuntimeError: no luck")]
    assert manager.service_step(strategy, upgrading(make_owner)) == (None, expected)
    assert manager.service_problems(strategy, make_owner(kind=RAYSERVICE)) == ([], expected)
    assert len(caplog.records) == 1, "told once, with its traceback"
    assert caplog.records[0].exc_info


def test_problems_of_a_strategys_options(make_owner):
    strategy = Green([Problem("spec.upgradeStrategy", "too fast")])
    manager = PluginManager([offering(strategy)])
    manager.service_strategy(asked(make_owner))
    owner = make_owner(kind=RAYSERVICE)
    assert manager.service_problems(strategy, owner) == ([Problem("spec.upgradeStrategy", "too fast")], [])
    strategy.answer = ["too fast"]
    problems, (failure,) = manager.service_problems(strategy, owner)
    assert problems == []
    assert failure.error == "problems() returned a list with str in it, a list of Problem is expected"


@pytest.mark.parametrize("hooks", [NoHooks(), PluginManager()], ids=["none", "manager"])
def test_a_strategy_of_the_core_is_asked_directly(make_owner, hooks: Hooks):
    ctx = upgrading(make_owner)
    given = []
    step, failures = hooks.service_step(Green(lambda ctx: given.append(ctx) or UpgradeStep(give_up=True)), ctx)
    assert (step, list(failures)) == (UpgradeStep(give_up=True), [])
    assert given[0] is ctx
    assert hooks.service_problems(Green((Problem("x", "y"),)), ctx.owner) == ([Problem("x", "y")], ())
    assert hooks.service_strategy(asked(make_owner)) is None
    failure = PluginFailure("Green", "upgrade_strategy", "RuntimeError: no luck")
    assert hooks.service_step(Green(explode), ctx) == (None, [failure])
    assert hooks.service_problems(Green(explode), ctx.owner) == ((), [failure])


class Calls:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, bool]] = []
        self.seconds: list[float] = []

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        self.calls.append((plugin, hook, failed))
        self.seconds.append(seconds)


def test_calls_are_timed_and_counted_per_plugin(make_owner):
    ticks = iter([10.0, 10.5, 20.0, 21.0])
    seen = Calls()
    manager = PluginManager(
        [plugin("a", validate=explode), plugin("b", validate=lambda ctx: [])], observer=seen, clock=lambda: next(ticks)
    )
    manager.validate(make_owner())
    manager.diagnose(make_owner())
    assert seen.calls == [("a", "validate", True), ("b", "validate", False)]
    assert seen.seconds == [0.5, 1.0]


def test_a_failure_is_logged_once_with_its_traceback(make_owner, caplog):
    manager = PluginManager([plugin("a", validate=explode)])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            manager.validate(make_owner())
    (record,) = caplog.records
    assert record.getMessage() == "plugin a failed in validate: RuntimeError: no luck"
    assert record.exc_info
    assert (record.plugin, record.hook) == ("a", "validate")  # type: ignore[attr-defined]


def test_a_failure_that_goes_on_is_logged_again_after_an_hour_and_others_are_forgotten(make_owner, caplog):
    now = 1000.0
    number = 0

    def fail(ctx):
        raise RuntimeError(f"no luck {number % 2}")

    manager = PluginManager([plugin("a", validate=fail)], clock=lambda: now)
    with caplog.at_level(logging.ERROR):
        for seconds in (0, 1800, 1799):
            now += seconds
            manager.validate(make_owner())
        number, now = 1, now + 1
        manager.validate(make_owner())
        assert [key[2] for key in manager._logged] == ["RuntimeError: no luck 1"]
        number = 2
        manager.validate(make_owner())
    assert [record.getMessage()[-1] for record in caplog.records] == ["0", "1", "0"]


def test_exit_requests_are_not_swallowed(make_owner):
    def leave(ctx):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        PluginManager([plugin("a", validate=leave)]).validate(make_owner())


class Options(BaseModel):
    limit: int = 3


def test_settings_reach_their_own_plugin(make_owner):
    manager = PluginManager(
        [
            plugin("a", settings=lambda: Options, diagnose=lambda ctx: [str(ctx.settings.limit)]),
            plugin("b", diagnose=lambda ctx: [str(ctx.settings)]),
        ]
    )
    assert manager.diagnose(make_owner()) == ["3", "None"]
    manager.configure({"a": {"limit": "7"}})
    assert manager.diagnose(make_owner()) == ["7", "None"]
    assert list(manager.settings_models()) == ["a"]
