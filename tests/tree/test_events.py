"""docs/events.md tells every reason an event of the operator can have, and no other: the code is read, not run.

What is read are the calls that make an event. A call that hands on what it was given as a reason has to be one of them, too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import sources
from kuberay.api import kinds
from kuberay.api.event_reference import EVENTS

from dev import events

ROOT = Path(__file__).resolve().parents[2]
MAKERS = {
    "Event": (0, "reason", ("{}",)),
    "event": (0, "reason", ("{}",)),
    "_event": (0, "reason", ("{}",)),
    "deleted": (0, "reason", ("{}",)),
    "failure": (0, "reason", ("{}",)),
    "_failed": (0, "reason", ("{}",)),
    "_warning": (0, "reason", ("{}",)),
    "_tell": (0, "reason", ("{}",)),
    "warning": (1, "event_reason", ("{}",)),
    "_refused": (3, "reason", ("{}",)),
    "_wait": (2, "reason", ("{}",)),
    "delete_child": (2, "reason", ("Deleted{}", "FailedToDelete{}")),
    "Problem": (2, "reason", ("{}",)),
    "name_problems": (3, "reason", ("{}",)),
    "Hold": (2, "event", ("{}",)),
    "Wait": (9, "event", ("{}",)),
}
"""Calls that make an event: where the reason stands among their arguments, and what becomes of it. Calls of the same name
that make none have something else there and are left out below."""

_WORD = re.compile(r"[A-Z][A-Za-z]+")
_KINDS = [kind.kind for kind in vars(kinds).values() if isinstance(kind, kinds.Kind)]
_OPEN = f"(?:{'|'.join(['Create', 'Update', 'Delete', 'Gateway', 'HTTPRoute', *_KINDS])})"
"""What may be put into a reason: a kind, or a verb."""


def trees() -> dict[Path, ast.Module]:
    """All but the table itself."""
    return {path: tree for path, tree in sources.trees().items() if path.name != "event_reference.py"}


@cache
def constants() -> dict[str, set[str]]:
    """Values of module constants that are text, by name."""
    found: dict[str, set[str]] = {}
    for tree in trees().values():
        for node in tree.body:
            if (
                isinstance(node, ast.Assign)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, set()).add(node.value.value)
    return found


def reasons() -> Iterator[tuple[str, str]]:
    """Each reason as a pattern, and where it stands."""
    for path, tree in trees().items():
        for function in ast.walk(tree):
            if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for call in ast.walk(function):
                if isinstance(call, ast.Call):
                    yield from ((text, f"{path.relative_to(ROOT)}:{call.lineno}") for text in _of(call, function))


def _of(call: ast.Call, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if name not in MAKERS:
        return
    place, keyword, becomes = MAKERS[name]
    given = next((each.value for each in call.keywords if each.arg == keyword), None)
    if given is None and len(call.args) > place:
        given = call.args[place]
    if given is not None:
        yield from (each.format(text) for text in _texts(given, function) for each in becomes)


def _texts(node: ast.expr, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if _WORD.fullmatch(node.value):
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else _OPEN for part in node.values)
        if re.match(r"(Created|Updated|Deleted|Failed)", text):
            yield text
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _texts(value, function)
    elif isinstance(node, ast.Name):
        yield from _named(node.id, function)


def _named(name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """A constant of a module, or what the function itself put there."""
    values = [text for text in constants().get(name, ()) if _WORD.fullmatch(text)]
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == name for t in node.targets):
            yield from _texts(node.value, function)
    yield from values


DOCUMENTED = {entry.reason for entry in EVENTS}


@cache
def found() -> list[tuple[str, str]]:
    return sorted(set(reasons()))


def test_the_code_was_read() -> None:
    assert len({text for text, _ in found()}) > 60


def test_every_reason_in_the_code_is_told() -> None:
    untold = [
        f"{where}: {text}" for text, where in found() if not any(re.fullmatch(text, known) for known in DOCUMENTED)
    ]
    assert untold == [], "tell of them in api/event_reference.py"


def test_every_reason_that_is_told_is_in_the_code() -> None:
    patterns = [re.compile(text) for text, _ in found()]
    made_up = [reason for reason in sorted(DOCUMENTED) if not any(each.fullmatch(reason) for each in patterns)]
    assert made_up == [], "nothing makes an event with such a reason"


def test_each_is_told_once() -> None:
    told = [(entry.reason, kind) for entry in EVENTS for kind in entry.kinds]
    assert len(told) == len(set(told))


def test_the_page_has_them_all() -> None:
    page = events.render()
    assert [entry.reason for entry in EVENTS if f"| `{entry.reason}` |" not in page] == []


def types() -> Iterator[tuple[str, str]]:
    """Reason and type of events that are made in one place, where both stand there in so many words."""
    for path, tree in trees().items():
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and path.name != "model.py":
                for call in ast.walk(function):
                    if isinstance(call, ast.Call) and (type_ := _type_of(call)):
                        yield from ((reason, type_) for reason in _of(call, function))


def _type_of(call: ast.Call) -> str:
    name = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    given: dict[str | None, ast.expr] = {each.arg: each.value for each in call.keywords}
    if name == "Event":
        value = given.get("type", call.args[2] if len(call.args) > 2 else ast.Constant("Normal"))
        return str(value.value) if isinstance(value, ast.Constant) else ""
    if name == "event":
        value = given.get("warning", ast.Constant(False))
        return ("Warning" if value.value else "Normal") if isinstance(value, ast.Constant) else ""
    return {"deleted": "Normal", "failure": "Warning", "_failed": "Warning", "warning": "Warning"}.get(name, "")


def test_each_is_told_with_its_type() -> None:
    told: dict[str, set[str]] = {}
    for entry in EVENTS:
        told.setdefault(entry.reason, set()).add(entry.type)
    made = {(reason, type_) for reason, type_ in types() if reason in told}
    assert len(made) > 40
    assert sorted((reason, type_) for reason, type_ in made if not told[reason] & {type_, ""}) == []
