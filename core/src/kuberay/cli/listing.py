"""``kuberay plugins`` and ``kuberay gates``: what is installed, what of it is on, and who serves which gate.

Both read the same settings as ``kuberay run`` and need no cluster. Plugins that are not on are not imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from kuberay.cli.operator_flags import only_plugins

if TYPE_CHECKING:
    from kuberay.plugins.gates import FeatureGates, GateReport
    from kuberay.plugins.loader import Installed, Plugin
    from kuberay.plugins.manager import PluginManager

_JSON = typer.Option("--json", help="Machine-readable.")
_CONFIG = typer.Option(help="Configuration file, as for 'kuberay run'.")
_PLUGINS = typer.Option(help="Comma-separated plugins that are on, as for 'kuberay run'.")
_SCHEDULER = typer.Option(help="As for 'kuberay run'.")
_GATES = typer.Option(help="Name=true,Name=false, as for 'kuberay run'.")


class _Row:
    """One installed plugin."""

    def __init__(self, item: Installed, plugin: Plugin | None, gates: Sequence[GateReport]) -> None:
        self._item = item
        self._on = plugin is not None
        self._api = _api_range(plugin.api) if plugin else ""
        self._hooks = sorted(plugin.hooks) if plugin else []
        self._gates = [row.gate for row in gates if row.owner == item.name]

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self._item.name,
            "distribution": self._item.distribution,
            "version": self._item.version,
            "installed": True,
            "enabled": self._on,
            "api": self._api,
            "gates": self._gates,
            "hooks": self._hooks,
        }

    def cells(self) -> Sequence[str]:
        item = self._item
        what = (", ".join(self._gates), ", ".join(self._hooks))
        return (item.name, item.distribution, item.version, _yes(self._on), self._api, *what)


def plugins(
    as_json: Annotated[bool, _JSON] = False,
    config: Annotated[str, _CONFIG] = "",
    plugins: Annotated[str | None, _PLUGINS] = None,
    batch_scheduler: Annotated[str | None, _SCHEDULER] = None,
) -> None:
    """List installed plugins, which of them are on, the hooks those implement and the gates they serve."""
    from kuberay.plugins.loader import list_installed

    manager, gates = _assemble(config, plugins, batch_scheduler, None)
    loaded = {plugin.name: plugin for plugin in manager.plugins}
    installed = list_installed()
    served = gates.report([item.name for item in installed], list(loaded))
    rows = [_Row(item, loaded.get(item.name), served) for item in installed]
    if as_json:
        _print_json([row.as_json() for row in rows])
    elif rows:
        _print_table(("NAME", "DISTRIBUTION", "VERSION", "ON", "API", "GATES", "HOOKS"), *(row.cells() for row in rows))
    else:
        typer.echo("No plugins are installed. Try: pip install kuberay-autoscaler-v2")


def gates(
    as_json: Annotated[bool, _JSON] = False,
    config: Annotated[str, _CONFIG] = "",
    feature_gates: Annotated[str | None, _GATES] = None,
    plugins: Annotated[str | None, _PLUGINS] = None,
    batch_scheduler: Annotated[str | None, _SCHEDULER] = None,
) -> None:
    """List feature gates, their stage and value, and which plugin serves each (or the core itself, or nobody)."""
    from kuberay.plugins.loader import list_installed

    manager, known = _assemble(config, plugins, batch_scheduler, feature_gates)
    installed, enabled = [item.name for item in list_installed()], [plugin.name for plugin in manager.plugins]
    rows = known.report(installed, enabled)
    if as_json:
        _print_json([asdict(row) for row in rows])
        return
    _print_table(
        ("GATE", "STAGE", "DEFAULT", "VALUE", "OWNER", "INSTALLED", "ON"),
        *(
            (
                row.gate,
                row.stage,
                _word(row.default),
                _word(row.value),
                row.owner,
                _yes(row.installed),
                _yes(row.enabled),
            )
            for row in rows
        ),
    )
    for sentence in known.without_effect(installed, enabled):
        typer.echo(f"kuberay: {sentence}", err=True)


def _assemble(
    config: str, plugins: str | None, batch_scheduler: str | None, feature_gates: str | None
) -> tuple[PluginManager, FeatureGates]:
    """As ``kuberay run`` would. Ends the command with one sentence when it would not start."""
    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.operator.start import assemble
    from kuberay.plugins.gates import GateError
    from kuberay.plugins.loader import PluginError

    given = {"batch_scheduler": batch_scheduler, "feature_gates": feature_gates}
    flags: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if plugins is not None:
        flags["plugins"] = only_plugins(plugins)
    try:
        return assemble(load_settings(config, flags))
    except (SettingsError, PluginError, GateError) as error:
        typer.echo(f"kuberay: {error}", err=True)
        raise typer.Exit(1) from error


def _api_range(made_for: tuple[int, int]) -> str:
    """The hook API versions that a plugin made for *made_for* works with."""
    major, minor = made_for
    return f">={major}.{minor},<{major + 1}.0"


def _word(value: bool) -> str:
    return "true" if value else "false"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _print_json(rows: Sequence[Any]) -> None:
    typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())


def _print_table(*rows: Sequence[str]) -> None:
    """Columns as kubectl prints them: never wrapped, so that lines can be searched."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        typer.echo("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
