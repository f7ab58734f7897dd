"""Which plugin is the batch scheduler: the one that ``batchScheduler`` names, of all that declare `batch_scheduler`.

Whatever is wrong with the choice is one sentence (`PluginError`). Source: spec plugins.md 3.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path

from kuberay.api.shipped import PACKAGES, SCHEDULERS
from kuberay.plugins.answers import AnswerError
from kuberay.plugins.loader import Installed, Plugin, PluginError, in_one_line, list_installed

HOOK = "batch_scheduler"

_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


@dataclass(frozen=True, slots=True)
class BatchScheduler:
    """The enabled plugin that is the batch scheduler."""

    plugin: str
    scheduler_name: str
    """``schedulerName`` of the pods."""


def check_choice(name: str) -> None:
    """Raises `PluginError` when no plugin called *name* is installed. Imports no plugin."""
    installed = list_installed()
    if name in {found.name for found in installed}:
        return
    others = f"installed batch schedulers: {', '.join(_declaring(installed)) or 'none'}"
    if name in SCHEDULERS:
        raise PluginError(
            f"batchScheduler is {name!r}, which is not installed: pip install {PACKAGES[name]} ({others})"
        )
    raise PluginError(
        f"batchScheduler is {name!r}, and no installed plugin has that name: name another one, or install its package "
        f"({others})"
    )


def find_scheduler(plugins: Sequence[Plugin], chosen: str = "") -> BatchScheduler | None:
    """The one batch scheduler among the enabled *plugins*; *chosen* is what ``batchScheduler`` says.

    Raises `PluginError` when there are two, or when the chosen one is none.
    """
    found = [BatchScheduler(plugin.name, _ask(plugin)) for plugin in plugins if HOOK in plugin.hooks]
    names = [scheduler.plugin for scheduler in found]
    if chosen and chosen not in names:
        others = ", ".join(_declaring(list_installed())) or "none"
        raise PluginError(
            f"batchScheduler is {chosen!r}, a plugin that is no batch scheduler (installed batch schedulers: {others})"
        )
    if len(found) > 1:
        together = " and ".join(map(repr, names))
        raise PluginError(
            f"the plugins {together} are all batch schedulers, and pods can go to one only: keep one of them in "
            "batchScheduler and plugins.enabled"
        )
    return found[0] if found else None


def _ask(plugin: Plugin) -> str:
    try:
        name = plugin.hooks[HOOK]()
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise AnswerError(f"returned {name!r}, the schedulerName of pods is expected")
    except AnswerError as error:
        raise PluginError(f"plugin {plugin.title} cannot be used: {HOOK}() {error}") from error
    except Exception as error:
        raise PluginError(f"plugin {plugin.title} cannot be used: {HOOK}() raised {in_one_line(error)}") from error
    return name


def _declaring(installed: Sequence[Installed]) -> list[str]:
    """Names of the installed plugins that declare themselves batch schedulers, as their source text says it.

    They are not imported: plugins that are not enabled never are. One that hides its hooks deeper than in the module of
    its entry point is missed, which costs it a mention in a message.
    """
    return sorted({found.name for found in installed if _says_so(found.target.partition(":")[0])})


def _says_so(module: str) -> bool:
    try:
        spec = _find_without_import(module)
        if spec is None or not spec.origin:
            return False
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    except Exception:  # noqa: BLE001  whatever is wrong with a plugin that is not enabled is no concern here
        return False
    return any(
        (isinstance(node, ast.FunctionDef) and node.name == HOOK)
        or (isinstance(node, ast.ImportFrom) and any((alias.asname or alias.name) == HOOK for alias in node.names))
        for node in ast.walk(tree)
    )


def _find_without_import(module: str) -> ModuleSpec | None:
    """The spec of *module*; ``importlib.util.find_spec`` would import the packages it is in."""
    places = None
    found: ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(1, len(parts) + 1):
        name = ".".join(parts[:depth])
        specs = (finder.find_spec(name, places) for finder in sys.meta_path)
        found = next((spec for spec in specs if spec is not None), None)
        if found is None:
            return None
        places = found.submodule_search_locations
    return found
