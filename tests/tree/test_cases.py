"""Every case of `tests/cases.txt` is a test: one whose name or docstring, or that of a class around it, holds the id."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ID = re.compile(r"\b([A-Z]{2})[-_](\d{2})(?!\d)", re.IGNORECASE)
LINE = re.compile(r"(?P<id>[A-Z]{2}-\d{2})(?P<open> \(open\))?  (?P<title>\S.*)")

CASES = [
    match
    for line in (ROOT / "tests" / "cases.txt").read_text().splitlines()
    if line and not line.startswith("#") and (match := LINE.fullmatch(line))
]


def test_the_list_can_be_read() -> None:
    lines = (ROOT / "tests" / "cases.txt").read_text().splitlines()
    assert [line for line in lines if line and not line.startswith("#") and not LINE.fullmatch(line)] == []
    ids = [case["id"] for case in CASES]
    assert ids == sorted(set(ids))


def _tests(tree: ast.Module) -> Iterator[str]:
    """What each test of a module says about itself."""
    for node in ast.walk(tree):
        if (isinstance(node, ast.ClassDef) and node.name.startswith("Test")) or (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
        ):
            yield f"{node.name} {ast.get_docstring(node) or ''}"


@cache
def named() -> frozenset[str]:
    """The ids that tests name."""
    found: set[str] = set()
    for folder in ("core/tests", "testkit/tests", "plugins", "tests"):
        for path in (ROOT / folder).rglob("test_*.py"):
            for text in _tests(ast.parse(path.read_text())):
                found.update(f"{area.upper()}-{number}" for area, number in ID.findall(text))
    return frozenset(found)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
def test_the_case_is_a_test(case: re.Match[str]) -> None:
    if case["open"]:
        assert case["id"] not in named(), "it is a test now: take (open) off its line"
    else:
        assert case["id"] in named(), f"no test names {case['id']}: {case['title']}"
