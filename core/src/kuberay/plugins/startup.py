"""What plugins declare at start: gates, settings, RBAC rules, watches and sub-commands.

Unlike the hooks of a pass, a failure here ends the start, with one sentence that names the plugin (`PluginError`).
"""

from __future__ import annotations

import logging
import re
import time
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kuberay.api.kinds import Kind
from kuberay.hooks.tracing import Tracer
from kuberay.hooks.types import FeatureGate, PolicyRule, Watch
from kuberay.plugins.answers import AnswerError, list_of
from kuberay.plugins.loader import Plugin, PluginError, in_one_line
from kuberay.plugins.pace import BUDGET

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")
Kinds = set[tuple[str, str]]

_SELECTOR = re.compile(r"(\s*[\w./-]+\s*(==?\s*[\w.-]*\s*)?(,|$))*")
"""What the operator can compare itself, as it does for lists that are older than a watch."""


def feature_gates(plugins: Sequence[Plugin]) -> dict[str, list[FeatureGate]]:
    """Gates by plugin name."""
    return _ask_all(plugins, "feature_gates", _check_gates)


def rbac_rules(plugins: Sequence[Plugin]) -> dict[str, list[PolicyRule]]:
    """Rules by plugin name."""
    return _ask_all(plugins, "rbac_rules", _check_rules)


def add_commands(plugins: Sequence[Plugin], app: Any) -> None:
    """Let each plugin add its sub-commands."""
    _ask_all(plugins, "cli", lambda answer: None, app)


def watches(plugins: Sequence[Plugin]) -> tuple[list[Watch], dict[str, Kinds]]:
    """One watch per kind over all plugins, and per plugin the kinds (apiVersion, kind) it named.

    Plugins that watch one kind by different labels share a watch of all of it; different rules about who may change or
    delete such objects cannot be shared, and are refused.
    """
    merged: dict[str, tuple[str, Watch]] = {}
    kinds: dict[str, Kinds] = {plugin.name: set() for plugin in plugins}
    for name, answer in _ask_all(plugins, "watches", _check_watches).items():
        for watch in answer:
            kinds[name].add((watch.kind.api_version, watch.kind.kind))
            other, known = merged.setdefault(str(watch.kind), (name, watch))
            if (known.kind, known.prune, known.create_only) != (watch.kind, watch.prune, watch.create_only):
                raise PluginError(
                    f"plugins {other!r} and {name!r} watch {watch.kind} with different version, prune or create_only: "
                    "enable only one of them"
                )
            if known.label_selector != watch.label_selector:
                merged[str(watch.kind)] = (other, replace(known, label_selector=""))
    return [watch for _, watch in merged.values()], kinds


def settings_models(plugins: Sequence[Plugin]) -> dict[str, type[BaseModel]]:
    """The settings model of each plugin that has one, made to refuse unknown fields."""
    return _ask_all(plugins, "settings", _check_model)


def read_settings(
    models: Mapping[str, type[BaseModel]], sections: Mapping[str, Mapping[str, Any]]
) -> dict[str, BaseModel]:
    """The settings of every plugin from the ``plugins.<name>`` sections; what is not there has its default."""
    for name in sections:
        if name not in models:
            with_settings = ", ".join(sorted(models)) or "none"
            raise PluginError(
                f"plugins.{name}: no enabled plugin of that name has settings (those that have: {with_settings})"
            )
    settings = {}
    for name, model in models.items():
        try:
            settings[name] = model.model_validate(sections.get(name) or {})
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in ("plugins", name, *first["loc"]))
            raise PluginError(f"{place}: {first['msg']}") from error
    return settings


def tracer(plugins: Sequence[Plugin], settings: Mapping[str, Any]) -> Tracer | None:
    """The tracer that one of *plugins* brings with its *settings*. Two cannot both be asked which span is inside which."""
    found: dict[str, Tracer] = {}
    for plugin in plugins:
        answers = _ask_all([plugin], "tracer", _check_tracer, settings.get(plugin.name))
        found |= {name: answer for name, answer in answers.items() if answer is not None}
    if len(found) > 1:
        raise PluginError(f"plugins {' and '.join(map(repr, found))} both bring a tracer: enable only one of them")
    return next(iter(found.values()), None)


def _check_tracer(answer: Any) -> Tracer | None:
    missing = [name for name in ("begin", "end", "close") if not callable(getattr(answer, name, None))]
    if answer is not None and missing:
        raise AnswerError(f"returned {answer!r}, which has no {missing[0]}(): a Tracer or None is expected")
    tracer: Tracer | None = answer
    return tracer


def _check_gates(answer: Any) -> list[FeatureGate]:
    gates = list_of(FeatureGate, answer)
    for gate in gates:
        right = (
            _is_word(gate.name)
            and isinstance(gate.default, bool)
            and gate.stage in ("ALPHA", "BETA", "GA")
            and isinstance(gate.description, str)
        )
        if not right:
            raise AnswerError(
                f"returned {gate!r}: a word as name, a boolean as default, a stage (ALPHA, BETA, GA) and a text are expected"
            )
    return gates


def _check_rules(answer: Any) -> list[PolicyRule]:
    rules = list_of(PolicyRule, answer)
    for rule in rules:
        for texts in (rule.api_groups, rule.resources, rule.verbs):
            if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
                raise AnswerError(f"returned {rule!r}: lists of texts are expected")
    return rules


def _check_watches(answer: Any) -> list[Watch]:
    watched = list_of(Watch, answer)
    for watch in watched:
        if not isinstance(watch.kind, Kind):
            raise AnswerError(f"returned {watch!r}: a Kind is expected as its kind")
        if not isinstance(watch.label_selector, str) or not _SELECTOR.fullmatch(watch.label_selector):
            raise AnswerError(
                f"returned {watch!r}: its label_selector must be terms like key or key=value, separated by commas"
            )
    return watched


def _is_word(name: Any) -> bool:
    return isinstance(name, str) and name.isidentifier()


def _check_model(answer: Any) -> type[BaseModel]:
    if not (isinstance(answer, type) and issubclass(answer, BaseModel)):
        raise AnswerError(f"returned {answer!r}, a pydantic model class is expected")
    strict: type[BaseModel] = types.new_class(answer.__name__, (answer,), {"extra": "forbid"})
    strict.__module__, strict.__doc__ = answer.__module__, answer.__doc__
    try:
        strict()
    except ValidationError as error:
        places = ", ".join(".".join(map(str, item["loc"])) for item in error.errors())
        raise AnswerError(f"returned {answer.__name__}, whose fields {places} have no valid default") from error
    return strict


def _ask_all(
    plugins: Sequence[Plugin], hook: str, check: Callable[[Any], Answer], *arguments: Any
) -> dict[str, Answer]:
    found: dict[str, Answer] = {}
    for plugin in plugins:
        if hook not in plugin.hooks:
            continue
        started = time.perf_counter()
        try:
            found[plugin.name] = check(plugin.hooks[hook](*arguments))
        except AnswerError as error:
            raise PluginError(f"plugin {plugin.title} cannot be used: {hook}() {error}") from error
        except Exception as error:
            raise PluginError(f"plugin {plugin.title} cannot be used: {hook}() raised {in_one_line(error)}") from error
        seconds = time.perf_counter() - started
        if seconds > BUDGET:
            log.warning("plugin %s took %.1f s in %s(), for which the start had to wait", plugin.name, seconds, hook)
    return found
