"""Commands that plugins add to ``kuberay``: which plugins are asked, and that a broken one takes nothing away."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import typer
from kuberay.cli.plugin_commands import VARIABLE, add_plugin_commands
from typer.testing import CliRunner

GREET = """
@hookimpl
def cli(app):
    @app.command()
    def greet(): print("good morning")
    @app.command()
    def run(): print("not the operator")
"""


def application() -> typer.Typer:
    app = typer.Typer()

    @app.command()
    def run() -> None:
        """The core's."""
        typer.echo("the operator")

    app.add_typer(typer.Typer(), name="plugins")
    return app


def call(*arguments: str) -> Any:
    app = application()
    add_plugin_commands(app, arguments)
    return CliRunner().invoke(app, list(arguments))


def test_a_plugin_that_is_on_adds_its_command(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install("greeter", GREET)
    monkeypatch.setenv(VARIABLE, "greeter")
    assert call("greet").stdout == "good morning\n"
    assert "greet" in call("--help").stdout
    assert call("run").stdout == "the operator\n"


def test_a_plugin_that_is_off_is_not_imported(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install("greeter", "raise RuntimeError('imported')\n" + GREET)
    monkeypatch.delenv(VARIABLE, raising=False)
    before = set(sys.modules)
    assert call("greet").exit_code == 2
    assert not {name for name in set(sys.modules) - before if name.startswith("fake_plugin")}


def test_a_command_of_the_core_imports_no_plugin(install: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    install("greeter", "raise RuntimeError('imported')\n" + GREET)
    monkeypatch.setenv(VARIABLE, "greeter")
    for arguments in (["run"], ["plugins", "--help"], ["--version"]):
        app = application()
        add_plugin_commands(app, arguments)
        assert len(app.registered_commands) == 1


def test_a_broken_one_is_told_and_the_others_stay(
    install: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install("greeter", GREET)
    install("aaa", "raise RuntimeError('cannot be')")
    monkeypatch.setenv(VARIABLE, "aaa, greeter, missing")
    assert call("greet").stdout == "good morning\n"
    told = capsys.readouterr().err.splitlines()
    assert ["cannot be" in told[0], "'missing'" in told[1]] == [True, True]
