"""Renders docs/chart-values.md: every value of the charts with its default and its meaning, read from ``values.yaml`` and its comments.

A comment stands above what it tells of, to the next value. Values that have no default are there as comments of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
CHARTS = ("kuberay-operator", "ray-cluster")

_HEAD = """\
# Values of the charts

<!-- Written by `make generate` from values.yaml of each chart. Change those files, not this page. -->

What the values mean together is in [charts.md](charts.md). A value that is not listed is refused, except where the chart of a RayCluster takes every
field of the spec: of RayClusters as a value of its own name, of groups below `head`, `worker` and each of `additionalWorkerGroups`. The three probes of
the operator take all fields of a Kubernetes probe that say when it is made.
"""

_KEY = re.compile(r"(?P<indent> *)(?P<off># )?(?P<key>[A-Za-z][\w-]*):(?: (?P<rest>.*))?")
_LONG = 60
"""Characters of a default that are shown; longer ones are in values.yaml."""
_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class Value:
    """One value. ``default`` is its YAML; None where it has none."""

    path: str
    default: str | None
    meaning: str


def values_of(chart: str) -> Iterator[Value]:
    """In the order of the file; maps are given as their parts, unless they are empty."""
    text = (ROOT / "charts" / chart / "values.yaml").read_text()
    defaults = yaml.safe_load(text)
    path: list[str] = []
    comment: list[str] = []
    for line in text.splitlines():
        found = _KEY.fullmatch(line)
        if found is None or (found["off"] and not _is_value(found)):
            comment = _with(comment, line)
            continue
        depth = len(found["indent"]) // 2
        if depth > len(path):
            continue  # Part of a list.
        path = [*path[:depth], found["key"]]
        given = _at(defaults, path)
        if given is _NOTHING and not found["off"]:
            continue
        if found["off"]:
            yield Value(".".join(path), None, " ".join(comment))
            path = path[:-1]
        elif not (isinstance(given, dict) and given):
            yield Value(".".join(path), _short(given), " ".join(comment))
        elif comment:
            yield Value(".".join(path), None, " ".join(comment))
        comment = []


def _is_value(found: re.Match[str]) -> bool:
    """Whether a comment is a value that is off, and not a sentence with a colon in it."""
    rest = found["rest"] or ""
    return (
        bool(rest)
        and not rest.endswith((".", ";"))
        and " " not in rest.strip("{}[]").replace(", ", ",").replace(": ", ":")
    )


def _with(comment: list[str], line: str) -> list[str]:
    words = line.strip()
    if not words:
        return []
    return [*comment, words.removeprefix("#").strip()] if words.startswith("#") else comment


def _at(values: Any, path: list[str]) -> Any:
    for key in path:
        if not isinstance(values, dict) or key not in values:
            return _NOTHING
        values = values[key]
    return values


def _short(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[:1]}…{text[-1:]}"


def _row(value: Value) -> str:
    default = "" if value.default is None else f"`{value.default}`"
    return f"| `{value.path}` | {default} | {value.meaning.replace('|', chr(92) + '|')} |"


def render() -> str:
    """The whole page."""
    parts = [_HEAD]
    for chart in CHARTS:
        rows = "\n".join(_row(value) for value in values_of(chart))
        parts.append(f"## {chart}\n\n| Value | Default | Meaning |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)
