"""docs/annotations.md has every annotation and label that the code reads or writes, and no other."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import sources

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "annotations.md").read_text()
TABLES = "\n".join(line for line in PAGE.splitlines() if line.startswith("| `"))

_DOMAINS = (
    r"ray\.io",
    r"volcano\.sh",
    r"yunikorn\.apache\.org",
    r"kai\.scheduler",
    r"scheduling\.[\w.-]+",
    r"kueue\.x-k8s\.io",
)
_KEY = re.compile(rf"(?:{'|'.join(_DOMAINS)})/[A-Za-z][A-Za-z0-9-]*")
_VERSION = re.compile(r"v\d+((alpha|beta)\d+)?")


@cache
def keys_of_code() -> dict[str, str]:
    """Each key that stands in the code as text of its own, and one place where it does."""
    found: dict[str, str] = {}
    for path, tree in sources.trees().items():
        for node in ast.walk(tree):
            value = node.value if isinstance(node, ast.Constant) else None
            if isinstance(value, str) and _KEY.fullmatch(value) and not _VERSION.fullmatch(value.partition("/")[2]):
                found.setdefault(value, f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


ROWS = sorted(set(re.findall(r"^\| `([^`]+)` \|", TABLES, re.MULTILINE)))


def test_every_key_in_the_code_is_told() -> None:
    assert [f"{where}: {key}" for key, where in sorted(keys_of_code().items()) if f"`{key}`" not in PAGE] == []


def test_every_key_that_is_told_is_in_the_code() -> None:
    assert len(ROWS) > 40
    assert [key for key in ROWS if _KEY.fullmatch(key) and key not in keys_of_code()] == []


def test_each_key_has_one_row() -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", TABLES, re.MULTILINE)
    assert len(rows) == len(set(rows))
