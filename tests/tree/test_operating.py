"""docs/operating.md and docs/plugins/tracing.md name what there is, and all of it: pages, checks, keys, reasons, metrics, spans."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from kuberay.hooks import tracing
from kuberay.operator import controller, health, logs, on_cluster, prober, profiling, reload, traced, upkeep
from kuberay.operator import metric_table as table
from kuberay.operator.health import Health
from kuberay.operator.log_levels import LEVELS
from kuberay.operator.reload_rules import RELOADED
from kuberay.operator.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "operating.md").read_text()
TRACES = (ROOT / "docs" / "plugins" / "tracing.md").read_text()


def table_of(page: str, heading: str) -> set[str]:
    """What stands in code in the first column of the table with that first heading."""
    _, found, rest = page.partition(f"| {heading} |")
    assert found, heading
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def test_every_page_of_the_profiling_listener_is_told() -> None:
    served = set(re.findall(r'web\.\w+\("(/debug/[\w-]+)"', inspect.getsource(profiling)))
    assert served == set(re.findall(r" (/debug/[\w-]+)", profiling.INDEX))
    assert served == set(re.findall(r"(/debug/[\w-]+)", PAGE))


def test_every_check_is_told_and_no_other() -> None:
    known = Health(str, str)
    of_others = set(re.findall(r'add_ready\("([\w-]+)"', inspect.getsource(on_cluster)))
    assert table_of(PAGE, "Check") == {*known._live, *known._ready, *of_others}
    for path in set(re.findall(r'\("(/\w+z)", \w+\)', inspect.getsource(health))) | {"/configz"}:
        assert path in PAGE


def test_every_key_of_a_log_line_is_told() -> None:
    fixed = {"level", "ts", "logger", "msg", "stacktrace"}
    source = inspect.getsource(logs)
    assert all(f'"{key}"' in source for key in fixed)
    added = set(re.findall(r'fields\["(\w+)"\]', source))
    context = {"reconcileID"}
    assert "reconcileID=" in inspect.getsource(controller)
    assert table_of(PAGE, "Key") - {"RayCluster", "RayJob", "setup", "debug"} == fixed | added | context
    assert all(level in PAGE for level in LEVELS)


def test_every_reason_of_an_event_is_told_and_no_other() -> None:
    assert table_of(PAGE, "Event") == set(re.findall(r'_tell\(\w+, "(\w+)"', inspect.getsource(reload)))


def test_the_metrics_are_those_of_the_table() -> None:
    names = {each.name for each in table.DEFINITIONS if each.name.startswith("kuberay_config_")}
    assert table_of(PAGE, "Metric") == names


def test_every_signal_is_told() -> None:
    handled = set(re.findall(r"signal\.(SIG[A-Z0-9]+)", inspect.getsource(on_cluster) + inspect.getsource(upkeep)))
    _, _, rest = PAGE.partition("| Signal |")
    assert set(re.findall(r"SIG[A-Z0-9]+", rest)) == handled


def test_every_span_and_attribute_is_told_and_no_other() -> None:
    sources = "".join(inspect.getsource(each) for each in (controller, prober, traced))
    spans = set(re.findall(r'\.(?:span|past)\(\s*"([a-z ]+)"', sources))
    assert table_of(TRACES, "Span") == spans
    assert all(f"``{name}``" in " ".join((tracing.__doc__ or "").split()) for name in spans)
    attributes = set(re.findall(r'"((?:kuberay|k8s|http|url|server)\.[\w.]+)"', sources))
    _, _, rows = TRACES.partition("| Span |")
    told = set(re.findall(r"`((?:kuberay|k8s|http|url|server)\.[\w.]+)`", rows.partition("\n\n")[0]))
    assert told == {name for name in attributes if not name.startswith("kuberay.operator.")}


def test_every_setting_of_the_tracing_plugin_is_in_its_readme() -> None:
    from kuberay_tracing.config import TracingSettings

    readme = (ROOT / "plugins/tracing/README.md").read_text()
    assert table_of(readme, "Setting under `plugins.tracing`") == set(TracingSettings.model_fields)


@pytest.mark.parametrize("name", [name for name in Settings.model_fields if name != "plugins"])
def test_the_page_of_settings_says_what_reloads(name: str) -> None:
    """The column is made from the same table that decides; what it says of each key is held against that table."""
    page = (ROOT / "docs" / "settings.md").read_text()
    (row,) = re.findall(rf"^\| `{Settings.model_fields[name].alias}` \|.*$", page, re.MULTILINE)
    cell = re.split(r"(?<!\\)\|", row)[5].strip()
    assert cell == {"at once": "yes", "new pods": "new pods", None: "no"}[RELOADED.get(name)]
