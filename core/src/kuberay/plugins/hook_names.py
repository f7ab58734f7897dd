"""Which functions of a plugin are hooks, and whether they are written so that they can work.

Refused are: names no hook has, arguments a hook does not pass, ``async def``, generators and wrappers, and functions
that look like a hook but lack the marker. Each would otherwise fail silently (anchors.md section 1, pluggy's traps).
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import pluggy

from kuberay.hooks import PROJECT, spec

_LOOKS_LIKE = 0.9
"""Similarity above which an unmarked function is taken for a misspelt hook (``mutate_pods``, ``pre_create_pod``)."""


def hook_arguments() -> dict[str, tuple[str, ...]]:
    """Every hook with its argument names, in the order of the spec module."""
    return {
        name: tuple(inspect.signature(function).parameters)
        for name, function in vars(spec).items()
        if inspect.isfunction(function) and function.__module__ == spec.__name__
    }


def find_hooks(name: str, module: Any) -> Mapping[str, Callable[..., Any]]:
    """The hook implementations of *module*, each callable with all arguments of its hook in order.

    Raises ValueError with one sentence when one of them cannot work.
    """
    if inspect.isclass(module):
        raise ValueError(
            f"its entry point names the class {module.__name__}: name a module, or an instance of the class"
        )
    known = hook_arguments()
    registry = pluggy.PluginManager(PROJECT)
    for attribute, function in inspect.getmembers(module):
        if not callable(function) and not hasattr(function, f"{PROJECT}_impl"):
            continue
        options = registry.parse_hookimpl_opts(module, attribute)
        if options is None and hasattr(function, f"{PROJECT}_impl"):
            raise ValueError(f"{attribute} is marked as a hook but is no function: hooks are plain functions")
        if options is None:
            _check_unmarked(module, attribute, function, known)
        elif attribute not in known:
            raise ValueError(f"{attribute}() is no hook{_meant(attribute, known)} (hooks: {', '.join(known)})")
        else:
            _check_marked(attribute, function, options)
            _check_arguments(attribute, function, known[attribute])
    registry.add_hookspecs(spec)
    try:
        registry.register(module, name)
        registry.check_pending()
    except pluggy.PluginValidationError as error:
        raise ValueError(" ".join(str(error).split())) from error
    return {
        caller.name: _with_all_arguments(known[caller.name], implementation)
        for caller in registry.get_hookcallers(registry.get_plugin(name)) or ()
        for implementation in caller.get_hookimpls()
    }


def _check_marked(attribute: str, function: Any, options: Mapping[str, Any]) -> None:
    plain = inspect.unwrap(function)
    if inspect.iscoroutinefunction(plain) or inspect.isasyncgenfunction(plain):
        raise ValueError(f"{attribute}() is async, but hooks are plain functions that do no I/O: make it a plain def")
    if options.get("wrapper") or options.get("hookwrapper"):
        raise ValueError(f"{attribute}() is a wrapper, but plugins are called one by one: make it a plain hook")
    if inspect.isgeneratorfunction(plain):
        raise ValueError(f"{attribute}() is a generator, but hooks return their answer: use return, not yield")
    if options.get("specname"):
        raise ValueError(f"{attribute}() uses specname, but a hook must carry its own name: rename the function")


def _check_arguments(attribute: str, function: Any, given: tuple[str, ...]) -> None:
    """An argument without a default must be one that the hook gives, for it is filled by its name."""
    parameters = list(inspect.signature(function).parameters.values())
    asked = [
        p.name for p in parameters if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    unknown = [name for name in asked if name not in given]
    if unknown:
        signature = ", ".join(asked)
        raise ValueError(f"{attribute}({signature}) asks for {unknown[0]!r}, and is given ({', '.join(given)})")


def _check_unmarked(module: Any, attribute: str, function: Any, known: Mapping[str, Any]) -> None:
    if attribute.startswith("_") or not inspect.isroutine(function):
        return
    home = getattr(module, "__name__", type(module).__module__)
    if getattr(function, "__module__", None) != home:
        return
    if attribute in known:
        raise ValueError(f"{attribute}() is named like a hook but is not marked: put @hookimpl on it or rename it")
    close = difflib.get_close_matches(attribute, known, n=1, cutoff=_LOOKS_LIKE)
    if close:
        raise ValueError(
            f"{attribute}() looks like the hook {close[0]}() misspelt: rename it, or give it a leading underscore"
        )


def _meant(attribute: str, known: Mapping[str, Any]) -> str:
    close = difflib.get_close_matches(attribute, known, n=1)
    return f", did you mean {close[0]}()?" if close else ""


def _with_all_arguments(arguments: tuple[str, ...], implementation: Any) -> Callable[..., Any]:
    """An implementation may take fewer arguments than its hook passes; only their names count."""
    function: Callable[..., Any] = implementation.function
    taken = tuple(arguments.index(name) for name in implementation.argnames)
    if taken == tuple(range(len(arguments))):
        return function

    def call(*values: Any) -> Any:
        return function(*(values[index] for index in taken))

    return call
