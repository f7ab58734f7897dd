"""How ``kuberay diff`` tells its findings: a page for people, a dictionary for programs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Protocol

import orjson

from kuberay.api.problems import Problem
from kuberay.plan.edit.changes import FieldChange, Place
from kuberay.plan.edit.model import EditEffects, GroupEffect, Restarts

_LONGEST = 60
"""Characters shown of a value; the JSON has all of it."""


def as_dict(namespace: str, name: str, effects: EditEffects) -> dict[str, Any]:
    """One object for ``-o json``."""
    return {
        "kind": "RayCluster",
        "namespace": namespace,
        "name": name,
        "exists": effects.exists,
        "refused": bool(effects.problems),
        "upgradeStrategy": effects.strategy,
        "restarts": str(effects.restarts),
        "restartedGroups": effects.restarted_groups,
        "groups": group_fields(effects.groups),
        **finding_fields(effects.changes, effects.problems, effects.notes),
    }


def page(namespace: str, name: str, effects: EditEffects) -> str:
    """One object for people. Lines are not folded, so that they can be searched."""
    lines = [f"RayCluster {namespace}/{name}: {headline(effects)}"]
    lines += [f"  {problem}" for problem in effects.problems]
    if effects.groups and (effects.changes or effects.restarts != Restarts.NOTHING or not effects.exists):
        lines += table(("GROUP", "PODS", "WHAT HAPPENS"), group_rows(effects.groups))
    if effects.changes:
        lines += table(("FIELD", "EFFECT"), [(change_text(found.change), found.sentence) for found in effects.changes])
    lines += [f"  {note}" for note in effects.notes]
    return "\n".join(lines)


def headline(effects: EditEffects) -> str:
    """The answer in one line."""
    if effects.problems:
        return "the edit would be refused; what runs is not touched" if effects.exists else "would be refused"
    if not effects.exists:
        return "is not there yet; it would be made"
    if effects.restarts == Restarts.UNKNOWN:
        return "what it restarts cannot be told"
    if effects.restarts == Restarts.NOTHING:
        return "restarts nothing" if effects.changes else "no change"
    restarted = ", ".join(effects.restarted_groups)
    if effects.restarts == Restarts.CLUSTER:
        restarted = "the whole cluster"
    return f"restarts {restarted}{', step by step' if effects.strategy == 'Rolling' else ''}"


class Found(Protocol):
    """One changed field and what it does, of whatever kind."""

    @property
    def change(self) -> FieldChange: ...
    @property
    def effect(self) -> StrEnum: ...
    @property
    def sentence(self) -> str: ...


def finding_fields(changes: Sequence[Found], problems: Sequence[Problem], notes: Sequence[str]) -> dict[str, Any]:
    """For ``-o json``: what every kind tells of an edit."""
    return {
        "changes": [
            {**change_fields(found.change), "effect": str(found.effect), "sentence": found.sentence}
            for found in changes
        ],
        "problems": [{"field": problem.path, "message": problem.message} for problem in problems],
        "notes": list(notes),
    }


def group_fields(groups: Sequence[GroupEffect]) -> list[dict[str, Any]]:
    """For ``-o json``: what becomes of the pods of each group."""
    return [
        {
            "name": group.name,
            "podsBefore": group.before,
            "podsAfter": group.after,
            "restarts": group.restarts,
            "resizes": group.resizes,
            "sentence": group.sentence,
        }
        for group in groups
    ]


def group_rows(groups: Sequence[GroupEffect]) -> list[tuple[str, str, str]]:
    """The same as rows of a table."""
    return [(group.name, _numbers(group), group.sentence) for group in groups]


def _numbers(group: GroupEffect) -> str:
    return str(group.after) if group.before == group.after else f"{group.before} -> {group.after}"


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Indented lines; the last column is as wide as it likes."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return [
        "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (headings, *rows)
    ]


def change_fields(change: FieldChange) -> dict[str, Any]:
    """For ``-o json``: path, value before and value after."""
    return {"field": change.path, "before": change.before, "after": change.after}


def change_text(change: FieldChange) -> str:
    """Path, value before and value after."""
    if change.before is None and isinstance(change.steps[-1], Place):
        return f"{change.path}: added"
    if change.after is None and isinstance(change.steps[-1], Place):
        return f"{change.path}: removed"
    return f"{change.path}: {_value(change.before)} -> {_value(change.after)}"


def _value(value: Any) -> str:
    if value is None:
        return "(none)"
    text = value if isinstance(value, str) and value else orjson.dumps(value, default=str).decode()
    text = "\\n".join(text.splitlines())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
