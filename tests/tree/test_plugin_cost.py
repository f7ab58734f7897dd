"""The benchmark of a no-op plugin: it is installed for the operator it measures, and a miss of the target fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from kuberay.operator.settings import DEFAULT_PLUGINS

from bench import plugin_report
from bench.measure import environment
from bench.run import NOOP_PLUGINS

ROOT = Path(__file__).parents[2]


def test_the_operator_under_measurement_finds_the_plugin_beside_those_that_are_on_by_default() -> None:
    command = [sys.executable, "-m", "kuberay.cli.main", "plugins", "--json", "--plugins", NOOP_PLUGINS]
    variables = environment()
    told = subprocess.run(
        command,
        env=variables | {"PYTHONPATH": f"{variables['PYTHONPATH']}:{ROOT}"},
        capture_output=True,
        text=True,
        check=True,
    )
    on = {row["name"] for row in json.loads(told.stdout) if row["enabled"]}
    assert on == {*DEFAULT_PLUGINS, "noop"}


@pytest.mark.parametrize(
    ("share", "seconds", "code"), [(1.019, 50.9, 0), (1.03, 50.0, 1), (1.0, 52.0, 1)], ids=["met", "CPU", "time"]
)
def test_cpu_is_counted_in_the_api_servers_so_that_a_slower_run_is_no_miss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], share: float, seconds: float, code: int
) -> None:
    runs = {
        "plain-1": (10.0, 40.0, 60.0),
        "plain-2": (12.0, 48.0, 50.0),
        "noop-1": (20.0 * share, 80.0, 70.0),
        "noop-2": (11.0 * share, 44.0, seconds),
    }
    for name, (operator, api_server, all_of_them) in runs.items():
        figures = {
            "clusters": 7,
            "operator_cpu_per_cluster_ms": operator,
            "apiserver_cpu_per_cluster_ms": api_server,
            "seconds": all_of_them,
        }
        (tmp_path / name).write_text(json.dumps(figures))
    paths = [str(tmp_path / name) for name in runs]
    assert plugin_report.main([*paths[:2], "--", *paths[2:]]) == code
    told = capsys.readouterr().out
    assert "| 7 RayClusters × 4 pods, 2 runs each |" in told
    assert f"| operator CPU per API server CPU, median | 0.25 | {share / 4:.4g} | {share:.3f} |" in told
    assert f"| all ready after, least (s) | 50 | {seconds:.4g} | {seconds / 50:.3f} |" in told
    assert told.rstrip().endswith("met." if code == 0 else "missed.")
