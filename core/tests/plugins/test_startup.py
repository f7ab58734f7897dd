"""What plugins declare at start, and the sentence that ends the start when a declaration is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.kinds import Kind
from kuberay.hooks import FeatureGate, PolicyRule, Watch
from kuberay.plugins.loader import Plugin, PluginError
from kuberay.plugins.manager import PluginManager
from pydantic import BaseModel, Field

WIDGET = Kind("example.com", "v1", "widgets", "Widget")


def plugin(name: str, **hooks: Callable[..., Any]) -> Plugin:
    return Plugin(name, f"kuberay-{name}", "1.0", None, hooks, (1, 0))


class Options(BaseModel):
    limit: int = Field(default=3, ge=1)


class NoDefault(BaseModel):
    limit: int


def test_declarations_by_plugin():
    gate = FeatureGate("Shiny", False, "ALPHA", "shines")
    rule = PolicyRule(("example.com",), ("widgets",), ("get",))
    manager = PluginManager([plugin("a", feature_gates=lambda: [gate]), plugin("b", rbac_rules=lambda: [rule])])
    assert manager.feature_gates() == {"a": [gate]}
    assert manager.rbac_rules() == {"b": [rule]}


def test_commands_are_added_to_the_application():
    app: list[str] = []
    PluginManager(
        [plugin("b", cli=lambda app: app.append("b")), plugin("a", cli=lambda app: app.append("a"))]
    ).add_commands(app)
    assert app == ["a", "b"]


@pytest.mark.parametrize(
    ("first", "second", "merged"),
    [
        (Watch(WIDGET, "a=1"), Watch(WIDGET, "a=1"), Watch(WIDGET, "a=1")),
        (Watch(WIDGET, "a=1"), Watch(WIDGET, "b=2"), Watch(WIDGET, "")),
    ],
)
def test_one_watch_per_kind(first, second, merged):
    manager = PluginManager([plugin("a", watches=lambda: [first]), plugin("b", watches=lambda: [second])])
    assert manager.watches() == [merged]


@pytest.mark.parametrize(
    "second",
    [Watch(WIDGET, prune=True), Watch(WIDGET, create_only=True), Watch(Kind("example.com", "v2", "widgets", "Widget"))],
)
def test_watches_that_disagree_are_refused(second):
    with pytest.raises(PluginError, match=r"plugins 'a' and 'b' watch widgets\.example\.com with different"):
        PluginManager([plugin("a", watches=lambda: [Watch(WIDGET)]), plugin("b", watches=lambda: [second])])


REFUSED = {
    "watches": (lambda: ["pods"], "watches() returned a list with str in it"),
    "feature_gates": (lambda: "Shiny", "feature_gates() returned str"),
    "rbac_rules": (lambda: {"a": 1}, "rbac_rules() returned dict"),
    "settings": (lambda: Options(), "settings() returned Options(limit=3), a pydantic model class is expected"),
    "cli": (lambda app: 1 / 0, "cli() raised ZeroDivisionError"),
}


@pytest.mark.parametrize("hook", REFUSED)
def test_a_wrong_declaration_ends_the_start(hook):
    function, sentence = REFUSED[hook]

    def start() -> None:
        manager = PluginManager([plugin("bad", **{hook: function})])
        manager.feature_gates()
        manager.rbac_rules()
        manager.add_commands(None)

    with pytest.raises(PluginError) as caught:
        start()
    assert str(caught.value).startswith(f"plugin 'bad' (kuberay-bad 1.0) cannot be used: {sentence}")


NONSENSE: dict[str, tuple[str, Any, str]] = {
    "gate without a word": ("feature_gates", FeatureGate("two words", False, "ALPHA", ""), "a word as name"),
    "gate of no text": ("feature_gates", FeatureGate(5, False, "ALPHA", ""), "a word as name"),  # type: ignore[arg-type]
    "gate of no boolean": ("feature_gates", FeatureGate("A", "no", "ALPHA", ""), "a boolean as default"),  # type: ignore[arg-type]
    "gate of no stage": ("feature_gates", FeatureGate("A", True, "GAMMA", ""), "a stage (ALPHA, BETA, GA)"),  # type: ignore[arg-type]
    "rule of one text": ("rbac_rules", PolicyRule("", ("pods",), ("get",)), "lists of texts"),
    "rule of numbers": ("rbac_rules", PolicyRule(("",), (1,), ("get",)), "lists of texts"),  # type: ignore[arg-type]
    "watch of a word": ("watches", Watch("pods"), "a Kind is expected"),  # type: ignore[arg-type]
    "selector of sets": ("watches", Watch(WIDGET, "a in (b, c)"), "terms like key or key=value"),
    "selector of nots": ("watches", Watch(WIDGET, "a!=b"), "terms like key or key=value"),
    "selector of no text": ("watches", Watch(WIDGET, None), "terms like key or key=value"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", NONSENSE)
def test_declarations_that_say_nothing_end_the_start(case):
    hook, item, sentence = NONSENSE[case]

    def start() -> None:
        manager = PluginManager([plugin("bad", **{hook: lambda: [item]})])
        manager.feature_gates()
        manager.rbac_rules()

    with pytest.raises(PluginError) as caught:
        start()
    assert str(caught.value).startswith(f"plugin 'bad' (kuberay-bad 1.0) cannot be used: {hook}() returned ")
    assert sentence in str(caught.value)


@pytest.mark.parametrize("selector", ["", "a", "a=b", "a==b", "a=", "x.io/a=b,c", " a = b , c "])
def test_selectors_that_the_operator_can_compare(selector):
    assert (
        PluginManager([plugin("a", watches=lambda: [Watch(WIDGET, selector)])]).watches()[0].label_selector == selector
    )


def test_a_slow_declaration_holds_the_start_up_and_is_logged(monkeypatch, caplog):
    monkeypatch.setattr("kuberay.plugins.startup.BUDGET", 0.0)
    PluginManager([plugin("idle", watches=list)])
    assert "plugin idle took 0.0 s in watches(), for which the start had to wait" in caplog.text


def test_settings_need_defaults():
    with pytest.raises(PluginError, match="whose fields limit have no valid default"):
        PluginManager([plugin("a", settings=lambda: NoDefault)])


@pytest.mark.parametrize(
    ("sections", "sentence"),
    [
        ({"a": {"limit": 0}}, r"^plugins\.a\.limit: Input should be greater than or equal to 1$"),
        ({"a": {"limits": 5}}, r"^plugins\.a\.limits: Extra inputs are not permitted$"),
        ({"b": {"x": 1}}, r"^plugins\.b: no enabled plugin of that name has settings \(those that have: a\)$"),
    ],
)
def test_wrong_settings_name_the_field(sections, sentence):
    manager = PluginManager([plugin("a", settings=lambda: Options), plugin("b")])
    with pytest.raises(PluginError, match=sentence):
        manager.configure(sections)


class Spans:
    def begin(self, *_: Any) -> None: ...

    def end(self, *_: Any) -> None: ...

    def close(self) -> None: ...


def test_a_tracer_is_made_with_the_plugins_own_settings():
    seen: list[Any] = []

    def tracer(settings: Any) -> Spans:
        seen.append(settings)
        return Spans()

    manager = PluginManager([plugin("a", tracer=tracer, settings=lambda: Options), plugin("b", tracer=lambda _: None)])
    manager.configure({"a": {"limit": 5}})
    assert isinstance(manager.tracer(), Spans)
    assert [settings.limit for settings in seen] == [5]
    assert PluginManager([plugin("a", tracer=lambda settings: settings)]).tracer() is None, "no model, no settings"


@pytest.mark.parametrize(
    ("plugins", "sentence"),
    [
        (
            [plugin("a", tracer=lambda _: Spans()), plugin("b", tracer=lambda _: Spans())],
            "plugins 'a' and 'b' both bring a tracer: enable only one of them",
        ),
        (
            [plugin("a", tracer=lambda _: "jaeger")],
            r"tracer\(\) returned 'jaeger', which has no begin\(\): a Tracer or None",
        ),
        ([plugin("a", tracer=lambda _: 1 / 0)], r"tracer\(\) raised ZeroDivisionError"),
    ],
)
def test_a_tracer_that_cannot_be_used_ends_the_start(plugins: list[Plugin], sentence: str):
    with pytest.raises(PluginError, match=sentence):
        PluginManager(plugins).tracer()
