"""``docs/settings.md`` says what the code says, about every key, flag and variable."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from kuberay.cli import settings_docs
from kuberay.cli.run import run
from kuberay.operator.environment import Environment
from kuberay.operator.settings import Settings, load_settings

PAGE = Path(__file__).parents[3] / "docs" / "settings.md"


def test_the_page_is_up_to_date():
    assert PAGE.read_text() == settings_docs.render(), "run: make generate"


def test_every_key_flag_and_variable_is_on_the_page():
    page = PAGE.read_text()
    for field in Settings.model_fields.values():
        assert f"\n| `{field.alias}` |" in page
    for name in Environment.model_fields:
        assert f"\n| `{name}` |" in page
    for name in inspect.signature(run).parameters:
        assert f"`--{name.replace('_', '-')}`" in page


def test_every_row_says_what_it_means():
    rows = re.findall(r"^\| `[^|]+\|.*\|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) > 40
    assert [row for row in rows if row.endswith("|  |")] == []


@pytest.mark.parametrize(
    ("key", "flag"),
    [
        ("probeAddr", "health-probe-bind-address"),
        ("logFile", "log-file-path"),
        ("qps", "qps"),
        ("logLevel", "zap-log-level"),
        ("plugins", "plugins"),
    ],
)
def test_a_key_stands_beside_its_flag(key: str, flag: str):
    assert f"| `{key}` | `--{flag}` |" in settings_docs.render()


def test_the_example_is_a_valid_configuration(tmp_path: Path):
    example = re.search(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert example
    (tmp_path / "config.yaml").write_text(example[1])
    settings = load_settings(str(tmp_path / "config.yaml"), {})
    assert settings.namespaces == ["team-a", "team-b"]
    assert settings.enabled_plugins()[0] == ["autoscaler-v2", "volcano"]
