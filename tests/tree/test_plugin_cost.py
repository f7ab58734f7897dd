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
    ("cpu", "seconds", "code"), [(10.19, 50.9, 0), (10.3, 50.0, 1), (10.0, 52.0, 1)], ids=["met", "CPU", "time"]
)
def test_the_least_of_all_runs_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], cpu: float, seconds: float, code: int
) -> None:
    runs = {
        "plain-1": (10.0, 60.0),
        "plain-2": (12.0, 50.0),
        "noop-1": (cpu, 70.0),
        "noop-2": (15.0, seconds),
    }
    for name, (each, all_of_them) in runs.items():
        figures = {"clusters": 7, "operator_cpu_per_cluster_ms": each, "seconds": all_of_them}
        (tmp_path / name).write_text(json.dumps(figures))
    paths = [str(tmp_path / name) for name in runs]
    assert plugin_report.main([*paths[:2], "--", *paths[2:]]) == code
    told = capsys.readouterr().out
    assert "| 7 RayClusters × 4 pods, least of 2 runs |" in told
    assert f"| operator CPU per cluster | 10.00 ms | {cpu:.2f} ms |" in told
    assert f"| all ready after | 50.00 s | {seconds:.2f} s |" in told
    assert ("met" if code == 0 else "missed") in told
