"""The hook `warn`: answers of all plugins with their names, and failures that stay theirs."""

from __future__ import annotations

from typing import Any

from kuberay.hooks.calls import PluginFailure, PluginWarning
from kuberay.hooks.types import Problem
from kuberay.plugins.loader import Plugin
from kuberay.plugins.manager import PluginManager


def plugin(name: str, **hooks: Any) -> Plugin:
    return Plugin(name=name, distribution=f"kuberay-{name}", version="1", module=None, hooks=hooks, api=(1, 0))


def explode(ctx: Any) -> Any:
    raise RuntimeError("no luck")


def test_warnings_come_with_the_name_of_their_plugin(make_owner):
    manager = PluginManager(
        [
            plugin("b", warn=lambda ctx: [Problem("y", "second")]),
            plugin("a", warn=lambda ctx: (Problem("x", "first"),)),
            plugin("c", warn=explode),
            plugin("d", warn=lambda ctx: ["a sentence"]),
            plugin("e", warn=lambda ctx: None),
        ]
    )
    warnings, failures = manager.warn(make_owner())
    assert warnings == [PluginWarning("a", Problem("x", "first")), PluginWarning("b", Problem("y", "second"))]
    assert failures == [
        PluginFailure("c", "warn", "RuntimeError: no luck"),
        PluginFailure("d", "warn", "warn() returned a list with str in it, a list of Problem is expected"),
    ]
