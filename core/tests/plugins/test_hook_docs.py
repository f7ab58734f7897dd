"""``docs/hooks.md`` says what the code says, and its example works."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest
from kuberay.hooks import service_upgrade
from kuberay.hooks import types as hook_types
from kuberay.plugins import hook_docs
from kuberay.plugins.hook_names import hook_arguments
from kuberay.plugins.loader import load

PAGE = Path(__file__).parents[3] / "docs" / "hooks.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == hook_docs.render(), "run: python -m kuberay.plugins.hook_docs > docs/hooks.md"


def test_every_hook_is_on_the_page_with_its_arguments():
    page = PAGE.read_text()
    hooks = hook_arguments()
    assert len(hooks) == 17
    for name, arguments in hooks.items():
        section = page.split(f"\n### {name}\n")[1].split("\n### ")[0]
        signature = re.search(rf"def {name}\((.*)\) ->", section)
        assert signature, name
        assert tuple(re.findall(r"(\w+):", signature[1])) == arguments
        assert "*Since hook API " in section
        assert f"| [`{name}`](#{name}) |" in page


@pytest.mark.parametrize("module", [hook_types, service_upgrade], ids=lambda module: module.__name__)
def test_every_public_type_is_on_the_page(module: ModuleType):
    page = PAGE.read_text()
    public = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    assert public
    for name in public:
        if not name.startswith("_"):
            assert f"\n### {name}\n" in page


def test_methods_of_strategies_are_on_the_page():
    section = PAGE.read_text().split("\n### ServiceUpgradeStrategy\n")[1].split("\n### ")[0]
    for name, method in vars(service_upgrade.ServiceUpgradeStrategy).items():
        if inspect.isfunction(method):
            assert f"\n`{name}(" in section
            assert method.__doc__
    assert "\n### Relation\n" in PAGE.read_text()


def test_the_example_is_a_plugin_that_works(install, make_pod_context):
    (source,) = re.findall(r"```python\n# src/[^\n]*\n(.*?)```", PAGE.read_text(), re.DOTALL)
    install("example", source)
    (plugin,) = load(["example"])
    changed = plugin.hooks["mutate_pod"](make_pod_context(), {"metadata": {}})
    assert changed == {"metadata": {"labels": {"example.com/team": "lab"}}}
