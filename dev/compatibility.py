"""Renders ``docs/plugins/compatibility.md``: which hook API the core offers, and what each plugin of this tree needs.

``python -m dev.compatibility`` writes the page to standard output; ``make lint`` compares it with the file.
"""

from __future__ import annotations

import importlib
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from kuberay.hooks import HOOK_API, spec
from kuberay.plugins.hook_names import hook_arguments

ROOT = Path(__file__).resolve().parent.parent

_RULES = """\
A plugin says twice what it works with. Its distribution depends on a range of core versions (`kuberay-core>=0.1,<0.2`), which
the installer follows. Its module may set `kuberay_hook_api = (major, minor)`, the version of the hook API it was written for,
which the operator checks when it starts:

| The plugin says | The operator offers {api} and |
|---|---|
| nothing | takes it: the present API is meant |
| `({major}, {minor})`, or an older minor of {major} | takes it: minor versions only add hooks, fields and values |
| a newer minor, `({major}, {newer})` | refuses the start: install a newer operator |
| another major, `({next}, 0)` | refuses the start: the sentence says whether the operator or the plugin is the older one |

`kuberay plugins` shows the range of API versions that an enabled plugin works with. Within one minor version of the core no hook
changes its meaning; what a hook is called for, and its arguments, are part of the API and described in [hooks](../hooks.md)."""


def render(root: Path = ROOT) -> str:
    """The whole page."""
    major, minor = HOOK_API
    rules = _RULES.format(api=f"{major}.{minor}", major=major, minor=minor, newer=minor + 1, next=major + 1)
    core = _project(root / "core")
    parts = [
        "# Which plugin works with which operator",
        "<!-- Written by `python -m dev.compatibility`. Change what it reads, not this page. -->",
        rules,
        "## Operator",
        "| kuberay-core | Hook API | Hooks |",
        "|---|---|---|",
        f"| {core['version']} | {major}.{minor} | {len(hook_arguments())} |",
        "## Plugins of this project",
        "| Package | Version | kuberay-core | Hook API |",
        "|---|---|---|---|",
        *(_row(folder) for folder in sorted((root / "plugins").iterdir()) if (folder / "pyproject.toml").exists()),
        "## Since when there is which hook",
        "| Hook API | Hooks |",
        "|---|---|",
        *_since(),
    ]
    return re.sub(r"\|\n\n\|", "|\n|", "\n\n".join(parts)) + "\n"


def _project(folder: Path) -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    return project


def _row(folder: Path) -> str:
    project = _project(folder)
    needs = next(text for text in project["dependencies"] if text.startswith("kuberay-core"))
    (target,) = project["entry-points"]["kuberay.plugins"].values()
    major, minor = importlib.import_module(target).kuberay_hook_api
    return f"| {project['name']} | {project['version']} | `{needs.removeprefix('kuberay-core')}` | {major}.{minor} |"


def _since() -> list[str]:
    """Rows of versions, oldest first."""
    versions: dict[str, list[str]] = {}
    for name in hook_arguments():
        text = getattr(spec, name).__doc__ or ""
        since = re.search(r"versionadded:: (\d+\.\d+)", text)
        assert since, f"the docstring of hook {name} does not say since when it is there"
        versions.setdefault(since[1], []).append(name)
    ordered = sorted(versions, key=lambda version: [int(part) for part in version.split(".")])
    return [f"| {version} | {', '.join(f'`{name}`' for name in versions[version])} |" for version in ordered]


if __name__ == "__main__":
    sys.stdout.write(render())
