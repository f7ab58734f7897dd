"""Which commands plugins add to ``kuberay``: those of the plugins that ``KUBERAY_PLUGINS`` names, else of the default ones.

No plugin is imported for a command of the core. One that fails is told on stderr, and the command line goes on without it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import typer

VARIABLE = "KUBERAY_PLUGINS"


def add_plugin_commands(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Adds them to *app* when *arguments* need them: a command that the core has not, or the help of all."""
    # Flags of ``kuberay`` itself have no values.
    command = next((argument for argument in arguments if not argument.startswith("-")), "")
    if command in _names(app) or (not command and arguments and "--help" not in arguments):
        return
    from kuberay.cli.operator_flags import only_plugins
    from kuberay.operator.settings import SettingsError, load_settings
    from kuberay.plugins.loader import PluginError, load
    from kuberay.plugins.startup import add_commands

    given = os.environ.get(VARIABLE)
    flags = {} if given is None else {"plugins": only_plugins(given)}
    try:
        names, optional = load_settings("", flags).enabled_plugins()
    except SettingsError as error:
        typer.echo(f"kuberay: {error}", err=True)
        return
    for name in names:
        try:
            add_commands(load([name], optional=optional), app)
        except PluginError as error:
            typer.echo(f"kuberay: {error}", err=True)


def _names(app: typer.Typer) -> set[str]:
    commands = {
        command.name or (command.callback.__name__ if command.callback else "") for command in app.registered_commands
    }
    return commands | {str(group.name) for group in app.registered_groups}
