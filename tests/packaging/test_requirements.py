"""Each distribution declares what its code imports, nothing that it does not use, and with a lower bound.

What a forgotten requirement breaks shows only where nothing else happens to install it.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packages import MEMBERS, TESTKIT, package_of, project

ALL = pytest.mark.parametrize("member", MEMBERS, ids=lambda path: path.name)

FOUND_BY_OTHERS = {
    "aiodns": "aiohttp resolves names with it when it is there",
    "tzdata": "zoneinfo reads it where the system has no time zones",
}
"""Requirements that no code imports."""


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def declared(member: Path) -> dict[str, str]:
    """Distribution to version specifier; what only an extra brings is among them."""
    extras = project(member).get("optional-dependencies", {})
    needs = [*project(member)["dependencies"], *(need for extra in extras.values() for need in extra)]
    parts = [re.fullmatch(r"([\w.-]+)(?:\[[^]]*\])?\s*([^;]*?)\s*(?:;.*)?", need) for need in needs]
    return {normal(part[1]): part[2] for part in parts if part is not None}


def modules(tree: ast.AST) -> Iterator[str]:
    """First parts of the names of imported modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.partition(".")[0]


@cache
def imported(member: Path) -> dict[str, set[str]]:
    """Distributions of which a member's code imports something, each with the files where."""
    ours = {package_of(each): [str(project(each)["name"])] for each in MEMBERS}
    distributions = {**packages_distributions(), **ours}
    found: dict[str, set[str]] = {}
    for path in sorted((member / "src").rglob("*.py")):
        for module in modules(ast.parse(path.read_text())):
            if module in sys.stdlib_module_names:
                continue
            owners = {normal(name) for name in distributions.get(module, (f"unknown ({module})",))}
            # A namespace that several share (google, for example) is good when one of them is declared.
            known = owners & {*declared(member), normal(project(member)["name"])}
            for owner in sorted(known) or sorted(owners)[:1]:
                found.setdefault(owner, set()).add(str(path.relative_to(member)))
    found.pop(normal(project(member)["name"]), None)
    return found


@ALL
def test_everything_imported_is_declared(member: Path) -> None:
    missing = {name: sorted(files)[:3] for name, files in imported(member).items() if name not in declared(member)}
    assert not missing, f"{member.name} imports these without declaring them: {missing}"


@ALL
def test_everything_declared_is_imported(member: Path) -> None:
    assert not set(declared(member)) - set(imported(member)) - set(FOUND_BY_OTHERS)


@ALL
def test_every_requirement_has_a_lower_bound(member: Path) -> None:
    assert {name: wanted for name, wanted in declared(member).items() if not wanted.startswith(">=")} == {}


def test_the_reading_of_imports_sees_all_of_them() -> None:
    """Inside functions and type-checking blocks too, and none that is relative."""
    text = "import a.b, c\nfrom d.e import f\nfrom . import g\nif X:\n    import h\ndef i():\n    from j import k\n"
    assert set(modules(ast.parse(text))) == {"a", "c", "d", "h", "j"}
    assert {"pytest", "aiohttp", "kuberay-core"} <= set(imported(TESTKIT))
