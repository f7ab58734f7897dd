"""Every plugin of the tree is in the index with a page of its own, and what messages tell to install is what there is."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.gates import CORE_GATES, GATE_PLUGINS
from kuberay.api.shipped import PACKAGES, SCHEDULERS
from kuberay.hooks import HOOK_API
from kuberay.operator.settings import DEFAULT_PLUGINS
from kuberay.plugins.hook_names import find_hooks

from dev import compatibility

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs" / "plugins"
INDEX = (PAGES / "README.md").read_text()
ROW = re.compile(r"^\| \[([\w-]+)\]\(([^)]+)\) \| `([\w-]+)` \|", re.MULTILINE)
OTHER_PAGES = {"README.md", "compatibility.md", "write-a-scheduler.md"}


def projects() -> dict[str, dict[str, Any]]:
    """Of each plugin in the tree, by entry point name."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((ROOT / "plugins").glob("*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        (name,) = project["entry-points"]["kuberay.plugins"]
        found[name] = project
    return found


PROJECTS = projects()


def test_the_names_of_messages_are_those_of_the_tree() -> None:
    assert {name: project["name"] for name, project in PROJECTS.items()} == dict(PACKAGES)
    assert set(SCHEDULERS) | set(DEFAULT_PLUGINS) <= PACKAGES.keys()
    assert {plugin for plugin in GATE_PLUGINS.values() if plugin} <= PACKAGES.keys()
    assert GATE_PLUGINS.keys() <= {gate for gate, *_ in CORE_GATES}


def test_the_index_has_each_plugin_and_no_other() -> None:
    assert {name: package for name, _, package in ROW.findall(INDEX)} == dict(PACKAGES)


@pytest.mark.parametrize("name", PROJECTS)
def test_each_plugin_has_a_page_that_names_its_package(name: str) -> None:
    (target,) = [page for found, page, _ in ROW.findall(INDEX) if found == name]
    page = (PAGES / target).read_text()
    assert PACKAGES[name] in page
    assert name in page


def test_each_page_is_of_a_plugin() -> None:
    linked = {page for _, page, _ in ROW.findall(INDEX)}
    assert {path.name for path in PAGES.glob("*.md")} - OTHER_PAGES <= linked
    assert {path.name for path in PAGES.glob("*.md")} >= OTHER_PAGES


@pytest.mark.parametrize("name", PROJECTS)
def test_each_plugin_is_made_for_the_present_hook_api(name: str) -> None:
    module = importlib.import_module(PROJECTS[name]["entry-points"]["kuberay.plugins"][name])
    assert module.kuberay_hook_api == HOOK_API
    assert f"| {PACKAGES[name]} | {PROJECTS[name]['version']} |" in compatibility.render()


def test_the_four_schedulers_and_no_other_plugin_say_that_they_are_schedulers() -> None:
    found = set()
    for name, project in PROJECTS.items():
        hooks = find_hooks(name, importlib.import_module(project["entry-points"]["kuberay.plugins"][name]))
        found |= {name} if "batch_scheduler" in hooks else set()
    assert found == set(SCHEDULERS)
