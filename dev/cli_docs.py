"""Renders docs/cli.md: every command of ``kuberay`` with its arguments and options, read from the commands themselves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from kuberay.cli.main import app

_HEAD = """\
# Command line

<!-- Written by `make generate` from the commands in core/src/kuberay/cli. Change their docstrings and help, not this page. -->

Every command of `kuberay`. `kuberay COMMAND --help` tells the same. Plugins may add commands of their own: those that are on by default, or
those that the environment variable `KUBERAY_PLUGINS` names (comma-separated).
"""


def commands() -> Iterator[tuple[str, Any]]:
    """Each command that does something, and its name with those of its groups."""
    yield from _below("kuberay", typer.main.get_command(app))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(command, "commands"):
        if command.invoke_without_command:
            yield name, command
        for child, each in command.commands.items():
            yield from _below(f"{name} {child}", each)
    else:
        yield name, command


def options(command: Any) -> list[Any]:
    """Those that are shown, without ``--help``."""
    return [
        each for each in command.params if each.param_type_name == "option" and not each.hidden and each.name != "help"
    ]


def _arguments(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "argument"]


def names_of(option: Any) -> list[str]:
    """All its spellings, the negative ones too."""
    return [*option.opts, *option.secondary_opts]


def _section(name: str, command: Any) -> str:
    usage = " ".join([name, *(_placeholder(each) for each in _arguments(command))])
    lines = [
        f"## `{name}`",
        "",
        f"```\n{usage}{' [OPTIONS]' if options(command) else ''}\n```",
        "",
        _prose(command.help or ""),
    ]
    rows = [(f"`{_placeholder(each)}`", _prose(getattr(each, "help", "") or "")) for each in _arguments(command)]
    rows += [(", ".join(f"`{n}`" for n in names_of(each)), _option(each)) for each in options(command)]
    if name == "kuberay run":
        rows = []
        lines += ["", "Its flags, and the keys of its configuration file, are in [settings.md](settings.md)."]
    if rows:
        lines += [
            "",
            "| | Meaning |",
            "|---|---|",
            *(f"| {what} | {means.replace('|', chr(92) + '|')} |" for what, means in rows),
        ]
    return "\n".join(lines) + "\n"


def _placeholder(argument: Any) -> str:
    word = (argument.metavar or argument.name or "").upper().strip("[].") or ""
    word += " ..." if argument.nargs != 1 else ""
    return word if argument.required else f"[{word}]"


def _option(option: Any) -> str:
    text = _prose(option.help or "")
    default = option.default
    if option.is_flag or default in (None, "", ()) or callable(default):
        return text
    return f"{text} Default: `{default}`."


def _prose(text: str) -> str:
    return " ".join(text.replace("``", "`").replace("\b", "").split())


def render() -> str:
    """The whole page."""
    return _HEAD + "\n" + "\n".join(_section(name, command) for name, command in commands())
