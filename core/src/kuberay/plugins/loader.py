"""Which plugins are installed and which of them run: entry points are read, checked and imported here.

Plugins are entry points of the group ``kuberay.plugins``. Only enabled ones are imported; whatever is wrong with an
enabled one ends the start with one sentence (`PluginError`). Source: anchors.md section 5, items 12 to 14.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import importlib_metadata

from kuberay.api.shipped import PACKAGES
from kuberay.hooks import HOOK_API, PROJECT
from kuberay.plugins.hook_names import find_hooks

GROUP = f"{PROJECT}.plugins"


class PluginError(Exception):
    """The operator cannot start with these plugins. The text is one sentence that says what to do."""


@dataclass(frozen=True, slots=True)
class Installed:
    """An entry point as its distribution declares it; nothing was imported to learn this."""

    name: str
    distribution: str
    version: str
    target: str
    """``package.module``, or ``package.module:attribute``."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """An enabled plugin, imported and checked."""

    name: str
    distribution: str
    version: str
    module: Any
    """The imported module (or the object the entry point names)."""
    hooks: Mapping[str, Callable[..., Any]]
    """Hook name to its implementation, to be called with all arguments of the hook in order."""
    api: tuple[int, int]
    """The hook API it says it was made for; the present one when it says nothing."""

    @property
    def title(self) -> str:
        """How messages name it: ``'volcano' (kuberay-volcano 0.1.0)``."""
        return f"{self.name!r} ({self.distribution} {self.version})"


def list_installed() -> list[Installed]:
    """All installed plugins by name, enabled or not, without importing any. Doubles are listed next to each other."""
    return sorted((_describe(point) for point in _entry_points()), key=lambda found: (found.name, found.distribution))


def load(enabled: Iterable[str], *, optional: Collection[str] = ()) -> list[Plugin]:
    """The enabled plugins in name order.

    *optional* names of *enabled* may be missing from the installation; they are left out then. Raises `PluginError`
    for a name that is not installed, that two distributions provide, or whose plugin is broken or made for another
    hook API.
    """
    points: dict[str, list[Any]] = {}
    for point in _entry_points():
        points.setdefault(point.name, []).append(point)
    loaded = []
    for name in sorted(set(enabled)):
        found = points.get(name, [])
        if not found and name in optional:
            continue
        if not found:
            raise PluginError(_unknown(name, points))
        if len(found) > 1:
            owners = sorted(f"{item.distribution} {item.version}" for item in map(_describe, found))
            raise PluginError(
                f"plugin {name!r} is provided by {' and by '.join(owners)}: uninstall all but one of them"
            )
        loaded.append(_load_one(found[0]))
    return loaded


def _entry_points() -> Iterable[Any]:
    return importlib_metadata.entry_points(group=GROUP)


def _describe(point: Any) -> Installed:
    dist = point.dist
    return Installed(
        name=point.name,
        distribution=(dist and dist.metadata["Name"]) or "an unnamed distribution",
        version=(dist and dist.version) or "of unknown version",
        target=point.value,
    )


def _unknown(name: str, points: Mapping[str, Any]) -> str:
    names = ", ".join(sorted(points)) or "none"
    close = difflib.get_close_matches(name, points, n=1)
    install = f"pip install {PACKAGES[name]}" if name in PACKAGES else "install its package"
    meant = f", did you mean {close[0]!r}?" if close and name not in PACKAGES else f": {install} or remove the name"
    return f"plugin {name!r} is enabled but not installed{meant} (installed: {names})"


def _load_one(point: Any) -> Plugin:
    found = _describe(point)
    title = f"{found.name!r} ({found.distribution} {found.version})"
    try:
        module = point.load()
    except Exception as error:
        raise PluginError(f"plugin {title} cannot be imported from {found.target}: {in_one_line(error)}") from error
    return accept(found, module)


def accept(found: Installed, module: Any) -> Plugin:
    """The plugin in *module*, which is imported already. Raises `PluginError` as `load` does."""
    title = f"{found.name!r} ({found.distribution} {found.version})"
    api = _check_api(title, found, getattr(module, "kuberay_hook_api", HOOK_API))
    try:
        hooks = find_hooks(found.name, module)
    except ValueError as error:
        raise PluginError(f"plugin {title} cannot be used: {error}") from error
    except Exception as error:
        raise PluginError(f"plugin {title} cannot be used: {in_one_line(error)}") from error
    return Plugin(found.name, found.distribution, found.version, module, hooks, api)


def _check_api(title: str, found: Installed, api: Any) -> tuple[int, int]:
    if not (isinstance(api, tuple) and len(api) == 2 and all(type(part) is int for part in api)):
        raise PluginError(
            f"plugin {title} cannot be used: kuberay_hook_api must be a pair like {HOOK_API}, not {api!r}"
        )
    major, minor = api
    if major != HOOK_API[0] or minor > HOOK_API[1]:
        wanted, offered = f"{major}.{minor}", f"{HOOK_API[0]}.{HOOK_API[1]}"
        newer = "a newer operator" if api > HOOK_API else f"a newer {found.distribution}"
        raise PluginError(
            f"plugin {title} is made for hook API {wanted}, and this operator offers {offered}: install {newer}"
        )
    return major, minor


def in_one_line(error: BaseException) -> str:
    """``TypeName: first line`` of an error, at most 500 characters."""
    try:
        lines = str(error).strip().splitlines()
    except Exception:  # noqa: BLE001  the error is a plugin's, and its text may be no better than the rest
        lines = ["its message cannot be read"]
    text = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= 500 else text[:499] + "…"
