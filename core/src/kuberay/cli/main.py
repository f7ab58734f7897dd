"""The ``kuberay`` command: run the operator, print what it needs or would make, and what plugins add.

Flags of ``run`` are KubeRay's and follow Go's flag syntax (one or two dashes, booleans bare or with ``=``).
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from kuberay.cli.diff import diff
from kuberay.cli.goflags import go_style
from kuberay.cli.listing import gates, plugins
from kuberay.cli.migrate import migrate
from kuberay.cli.offline import crds, rbac, webhooks
from kuberay.cli.plugin_commands import add_plugin_commands
from kuberay.cli.plugins_new import plugins_group
from kuberay.cli.render import render
from kuberay.cli.run import BOOLEAN_FLAGS, run
from kuberay.cli.why import why

app = typer.Typer(
    name="kuberay",
    help="An operator for Ray on Kubernetes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command(context_settings={"ignore_unknown_options": False})(run)
app.command()(crds)
app.command()(rbac)
app.command()(webhooks)
app.add_typer(plugins_group(plugins), name="plugins")
app.command()(gates)
app.command()(render)
app.command()(diff)
app.command()(why)
app.add_typer(migrate, name="migrate")


def _show_version(value: bool) -> None:
    if value:
        from kuberay.operator.start import operator_version

        typer.echo(operator_version())
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """An operator for Ray on Kubernetes."""


def main() -> None:
    """Entry point of the ``kuberay`` script."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] == "run":
        arguments = ["run", *go_style(arguments[1:], BOOLEAN_FLAGS)]
    add_plugin_commands(app, arguments)
    app(args=arguments)


if __name__ == "__main__":
    main()
