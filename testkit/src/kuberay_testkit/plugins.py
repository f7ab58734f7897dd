"""Plugins for a test: loaded by name, from a module, or from functions, in a manager of their own and no other plugin.

Whatever a plugin is given as, the operator's own loader checks it, so a test refuses what a start would refuse.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

from kuberay.hooks import hookimpl
from kuberay.plugins.loader import Installed, Plugin, accept, load
from kuberay.plugins.manager import NoObserver, Observer, PluginManager

DISTRIBUTION = "a module"
"""What messages name as the distribution of a plugin that was given as a module."""


def plugin_of(source: Any, name: str = "") -> Plugin:
    """The plugin that *source* is: an entry point name, a module (or what an entry point may name), or a `Plugin`.

    *name* is the entry point name of a module. Raises `kuberay.plugins.loader.PluginError` for what the operator would
    not start with.
    """
    if isinstance(source, Plugin):
        return source
    if isinstance(source, str):
        (found,) = load([source])
        return found
    target = getattr(source, "__name__", type(source).__name__)
    return accept(Installed(name or target.rpartition(".")[2], DISTRIBUTION, "in a test", target), source)


def plugin_from(name: str, **hooks: Callable[..., Any]) -> Plugin:
    """A plugin made of functions, each named like its hook: ``plugin_from("team", mutate_pod=label)``."""
    module = types.ModuleType(name)
    vars(module).update({hook: _marked(hook, function) for hook, function in hooks.items()})
    return plugin_of(module, name)


def manager_of(
    *sources: Any, settings: Mapping[str, Mapping[str, Any]] | None = None, observer: Observer | None = None
) -> PluginManager:
    """A manager with these plugins and no others, whatever is installed. *settings* are the ``plugins.<name>`` sections."""
    manager = PluginManager([plugin_of(source) for source in sources], observer=observer or NoObserver())
    manager.configure(settings or {})
    return manager


def _marked(hook: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """*function* as the hook *hook*, in a copy; one that is marked already stays as it is."""
    if hasattr(function, "kuberay_impl") or not isinstance(function, types.FunctionType):
        return function
    copied = types.FunctionType(
        function.__code__, function.__globals__, hook, function.__defaults__, function.__closure__
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    return hookimpl(copied)
