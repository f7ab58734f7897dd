"""Pages and manifests of the tree hold together: links lead somewhere, commands exist, generated files are current."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bench import report
from dev import differences, generate

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "docs" / "plugins").glob("*.md"),
        *(ROOT / "plugins").glob("*/README.md"),
        *(ROOT / name / "README.md" for name in ("core", "testkit", "dev", "config/samples")),
    ]
)
ALL_PAGES = pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


@ALL_PAGES
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    local = [link for link in links if not re.match(r"[a-z]+:", link)]
    assert [link for link in local if not (page.parent / link).exists()] == []


@ALL_PAGES
def test_commands_exist(page: Path) -> None:
    makefile = (ROOT / "Makefile").read_text()
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", page.read_text(), re.DOTALL))
    targets = set(re.findall(r"\bmake ([a-z][a-z0-9-]*)", code))
    assert {name for name in targets if not re.search(rf"^{name}:", makefile, re.MULTILINE)} == set()


@ALL_PAGES
def test_files_that_are_named_exist(page: Path) -> None:
    named = re.findall(r"`((?:config|core|dev|docs|plugins|testkit|tests|bench)/[\w./-]+)`", page.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_generated_files_are_current() -> None:
    stale = [name for name, text in generate.generated().items() if (ROOT / name).read_text() != text]
    assert stale == [], "run: make generate"


def test_differences_are_grouped_by_topic(tmp_path: Path) -> None:
    (tmp_path / "b.md").write_text("- RayJob: second.\n- volcano: third.\n")
    (tmp_path / "a.md").write_text("- RayJob: first.\n\n- CRDs come twice: full and slim.\n")
    page = differences.render(tmp_path)
    assert page.split("\n## ")[1:] == [
        "In general\n\n- CRDs come twice: full and slim.\n",
        "RayJob\n\n- First.\n- Second.\n",
        "Volcano\n\n- Third.\n",
    ]


def test_a_difference_that_is_no_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("RayJob: no dash.\n")
    with pytest.raises(ValueError, match="must begin with"):
        differences.render(tmp_path)


FIGURES = {
    "clusters": 1000,
    "seconds": 12.0,
    "deletion_seconds": 20.0,
    "edits": 200,
    "edit_pods_p99": 0.5,
    "edit_status_p99": 0.9,
    "p50": 0.5,
    "p99": 2.0,
    "operator_cpu": 9.0,
    "operator_start_cpu": 1.0,
    "operator_cpu_per_cluster_ms": 8.0,
    "operator_peak_rss": 88.0,
    "apiserver_cpu": 5.0,
    "apiserver_cpu_per_cluster_ms": 5.0,
    "etcd_cpu": 1.0,
    "controller-manager_cpu": 1.0,
    "settled_seconds": 10.0,
    "requests_while_settled": 0,
    "pods": 4000,
    "pods_wanted": 4000,
    "requests_per_cluster": {"create pods": 4.0, "patch rayclusters/status": 2.0, "create events": 3.0},
}


@pytest.mark.parametrize(
    ("changed", "missed"),
    [
        ({}, []),
        ({"seconds": 16.0}, ["time over the floor's"]),
        ({"operator_cpu": 20.0, "pods": 4001}, ["operator CPU per 1,000, s", "pods beyond those wanted"]),
        (
            {"deletion_seconds": 26.0, "edit_status_p99": 1.1},
            ["edit to status, p99 s", "deletion over the garbage collector's"],
        ),
    ],
)
def test_a_benchmark_that_misses_a_target_fails(
    changed: dict[str, float], missed: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {"floor": FIGURES | {"seconds": 10.0}, "operator": FIGURES | changed, "small": FIGURES | {"clusters": 100}}
    for name, figures in runs.items():
        (tmp_path / name).write_text(json.dumps(figures))
    code = report.main([str(tmp_path / name) for name in runs])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("|")[1].strip() for line in lines if line.endswith("**missed** |")] == missed
    assert code == (1 if missed else 0)
