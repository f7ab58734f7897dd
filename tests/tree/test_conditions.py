"""docs/conditions.md and the code say the same: each call that sets a condition is read, and each row must be in the code.

Reasons that only come about while the code runs are compared in simulations (`kuberay_testkit.sim.day`).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import sources
from kuberay.api import conditions as names
from kuberay.api.condition_reference import ANY, ENTRIES, find_entry
from kuberay.api.job import JobFailedReason, JobStatus

from dev import conditions

ROOT = Path(__file__).resolve().parents[2]
TYPES: Mapping[str, tuple[str, type]] = {
    "ClusterCondition": ("RayCluster", names.ClusterCondition),
    "JobCondition": ("RayJob", names.JobCondition),
    "ServiceCondition": ("RayService", names.ServiceCondition),
    "CronCondition": ("RayCronJob", names.CronCondition),
}
REASONS = {
    "ClusterReason": names.ClusterReason,
    "ServiceReason": names.ServiceReason,
    "TroubleReason": names.TroubleReason,
    "JobFailedReason": JobFailedReason,
}
STATUSES = {"TRUE": "True", "FALSE": "False", "UNKNOWN": "Unknown"}
SETTERS = ("condition", "Says", "set")


def trees() -> dict[Path, ast.Module]:
    """All but the table itself."""
    return {path: tree for path, tree in sources.trees().items() if path.parent.name != "condition_reference"}


def member(node: ast.expr, module: ast.Module, enums: Mapping[str, object]) -> tuple[str, str] | None:
    """Name of the enumeration and value of ``Enum.MEMBER``, also where the module calls it otherwise."""
    if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
        return None
    known = node.value.id
    for each in ast.walk(module):
        if isinstance(each, ast.ImportFrom):
            known = next((alias.name for alias in each.names if (alias.asname or alias.name) == known), known)
        if (
            isinstance(each, ast.Assign)
            and isinstance(each.value, ast.Tuple)
            and isinstance(each.targets[0], ast.Tuple)
        ):
            pairs = zip(each.targets[0].elts, each.value.elts, strict=False)
            known = next((getattr(new, "id", known) for old, new in pairs if getattr(old, "id", "") == known), known)
    if known not in enums:
        return None
    found = enums[known]
    return known, str(getattr(found[1] if isinstance(found, tuple) else found, node.attr))


def text_of(node: ast.expr, module: ast.Module) -> str:
    """A reason as it is written: text, a member, or a constant of the module; empty when it only comes about later."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    found = member(node, module, REASONS)
    if found is not None:
        return found[1]
    if isinstance(node, ast.Name):
        for statement in module.body:
            if (
                isinstance(statement, ast.Assign)
                and isinstance(statement.value, ast.Constant)
                and any(isinstance(target, ast.Name) and target.id == node.id for target in statement.targets)
            ):
                return str(statement.value.value)
    return ""


def calls() -> Iterator[tuple[str, str, str, str, str]]:
    """Kind, type, status and reason of each condition that is set in so many words, and where."""
    for path, module in trees().items():
        for node in ast.walk(module):
            if not isinstance(node, ast.Call) or len(node.args) < 3:
                continue
            if (node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")) not in SETTERS:
                continue
            type_ = member(node.args[0], module, TYPES)
            status = STATUSES.get(getattr(node.args[1], "id", ""), "")
            reason = text_of(node.args[2], module)
            if type_ is not None and status and reason:
                yield TYPES[type_[0]][0], type_[1], status, reason, f"{path.relative_to(ROOT)}:{node.lineno}"


@cache
def found() -> list[tuple[str, str, str, str, str]]:
    return sorted(set(calls()))


def test_the_code_was_read() -> None:
    assert len(found()) > 35
    assert {kind for kind, *_ in found()} == {kind for kind, _ in TYPES.values()}


def test_every_condition_in_the_code_is_told() -> None:
    untold = [f"{where}: {' '.join(words)}" for *words, where in found() if find_entry(*words) is None]
    assert untold == [], "tell of them in api/condition_reference"


PUT_TOGETHER = {f"Job{status.capitalize()}" for status in JobStatus if status}
"""Reasons that are made of Ray's word for the state of a job."""


@cache
def words() -> set[str]:
    """All text in the code, parts of formatted text left out."""
    return {
        node.value
        for module in trees().values()
        for node in ast.walk(module)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def test_every_reason_that_is_told_is_in_the_code() -> None:
    known = words() | PUT_TOGETHER
    assert [entry for entry in ENTRIES if entry.reason != ANY and entry.reason not in known] == []


def test_every_type_that_is_told_is_in_the_code() -> None:
    enums = dict(TYPES.values())
    known = words()
    assert [each for each in ENTRIES if each.type not in list(enums[each.kind]) and each.type not in known] == []  # type: ignore[call-overload]


def test_the_page_has_every_row() -> None:
    page = conditions.render()
    for entry in ENTRIES:
        assert f"### {entry.type}\n" in page
        assert f"`{entry.reason}`" in page or entry.reason == ANY
