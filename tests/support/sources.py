"""The code of core and plugins, parsed once for all tests that hold pages against it. Templates for authors are left out."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@cache
def trees() -> Mapping[Path, ast.Module]:
    """Each module by its file."""
    files = (*ROOT.glob("core/src/kuberay/**/*.py"), *ROOT.glob("plugins/*/src/**/*.py"))
    return {path: ast.parse(path.read_text()) for path in sorted(files) if "template" not in path.parts}
