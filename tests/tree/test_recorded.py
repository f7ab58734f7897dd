"""Recorded cases that come out another way on purpose: the page for users names each of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from golden_scope import CASES, DIFFERENT, OBSERVED_GENERATION, SERVICE_CASES, SERVICES_DIFFERENT
from scenario_scope import CASES as PLAYED
from scenario_scope import SCENARIOS, SCENARIOS_DIFFERENT

PAGE = Path(__file__).parents[2] / "docs" / "differences.md"
DATA = Path(__file__).parents[2] / "core" / "tests" / "data" / "golden"
ABOUT_CLUSTERS = sorted(case for case in {*DIFFERENT, *OBSERVED_GENERATION} if case.startswith("raycluster/"))


@pytest.mark.parametrize("case", ABOUT_CLUSTERS)
def test_a_case_that_differs_is_on_the_page(case: str) -> None:
    assert f"`{case}`" in PAGE.read_text()


def test_the_page_names_recorded_cases_only() -> None:
    _, _, section = PAGE.read_text().partition("## Recorded\n")
    assert section, "the page has a section about recorded cases"
    named = [word for word in section.split("`") if word.startswith(("raycluster/", "invalid/"))]
    assert named
    assert [case for case in named if not (DATA / case / "expected.yaml").exists()] == []


def test_every_recorded_case_of_a_raycluster_is_replayed_on_a_real_api_server() -> None:
    recorded = [f"{area}/{folder.name}" for area in ("raycluster", "invalid") for folder in (DATA / area).iterdir()]
    clusters = [
        case
        for case in recorded
        if any(
            document and document["kind"] == "RayCluster"
            for document in yaml.safe_load_all((DATA / case / "input.yaml").read_text())
        )
    ]
    assert len(clusters) > 90
    assert sorted(set(clusters) - set(CASES)) == []


def test_every_recorded_case_of_a_rayservice_is_listed() -> None:
    recorded = [f"rayservice/{folder.name}" for folder in (DATA / "rayservice").iterdir()]
    recorded += [f"invalid/{folder.name}" for folder in (DATA / "invalid").glob("svc-*")]
    assert sorted(recorded) == sorted(SERVICE_CASES)


@pytest.mark.parametrize("case", sorted(SERVICES_DIFFERENT))
def test_a_case_of_a_rayservice_that_differs_is_on_the_page(case: str) -> None:
    assert f"`{case}`" in PAGE.read_text()


def test_all_scenarios_are_there_to_be_replayed() -> None:
    areas = [case.partition("/")[0] for case in PLAYED]
    assert [areas.count(area) for area in ("rayjob", "raycronjob", "rayservice")] == [60, 8, 39]
    assert [
        case for case in PLAYED for file in ("scenario", "expected") if not (SCENARIOS / case / f"{file}.yaml").exists()
    ] == []


def test_a_scenario_that_goes_another_way_says_how_and_is_on_the_page() -> None:
    assert {case for case in PLAYED if (SCENARIOS / case / "ours.yaml").exists()} == set(SCENARIOS_DIFFERENT)
    _, _, section = PAGE.read_text().partition("## Scenarios\n")
    section = section.partition("\n## ")[0]
    named = [word for word in section.split("`") if word.startswith(("rayjob/", "raycronjob/", "rayservice/"))]
    assert sorted(named) == sorted(SCENARIOS_DIFFERENT)
