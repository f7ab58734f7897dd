"""Turns Go's flag syntax into the usual one: ``-name`` is ``--name``, and booleans take a value only after ``=``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def go_style(arguments: Sequence[str], booleans: Iterable[str]) -> list[str]:
    """*arguments* with long options only and ``--flag=true|false`` for *booleans* (names without dashes).

    A value that is no Go boolean is left as it is, for the parser to refuse.
    """
    known = set(booleans)
    result: list[str] = []
    for position, argument in enumerate(arguments):
        if argument == "--":
            return [*result, *arguments[position:]]
        if not argument.startswith("-") or argument == "-" or _is_number(argument):
            result.append(argument)
            continue
        name, equals, value = argument.lstrip("-").partition("=")
        if name in known:
            value = "true" if not equals or value in _TRUE else "false" if value in _FALSE else value
            result.append(f"--{name}={value}")
        elif len(name) == 1 and not argument.startswith("--"):
            result.append(argument)
        else:
            result.append(f"--{name}{equals}{value}")
    return result


def _is_number(text: str) -> bool:
    return text.lstrip("-").replace(".", "", 1).isdigit()
