"""docs/chart-values.md and docs/charts.md name the values that the charts have, and no others."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from dev.chart_values import CHARTS, values_of

ROOT = Path(__file__).resolve().parents[2]
HELMS_OWN = {"global", "enabled"}
"""What Helm gives every chart that is part of another one."""
PAGES = {page: (ROOT / "docs" / page).read_text() for page in ("charts.md", "chart-values.md")}


@cache
def schema(chart: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "charts" / chart / "values.schema.json").read_text())
    return found


def knows(chart: str, path: str) -> bool:
    """Whether the schema of *chart* takes a value at *path*."""
    here: Any = schema(chart)
    for key in path.split("."):
        below = here.get("properties", {})
        if key not in below:
            return bool(here.get("additionalProperties", True) is not False)
        here = below[key]
    return True


VALUES = {chart: list(values_of(chart)) for chart in CHARTS}


@pytest.mark.parametrize("chart", CHARTS)
def test_every_value_that_is_told_is_taken(chart: str) -> None:
    assert [value.path for value in VALUES[chart] if not knows(chart, value.path)] == []


def parts(chart: str) -> Iterator[str]:
    """Values of the schema: all of the first level, and below those that values.yaml has."""
    found = schema(chart)
    for name, below in found["properties"].items():
        if name not in HELMS_OWN:
            yield name
            if below.get("additionalProperties") is False and chart == CHARTS[0]:
                yield from (f"{name}.{child}" for child in below.get("properties", {}))


SPEC_FIELDS = "every\nfield of the spec"


@pytest.mark.parametrize("chart", CHARTS)
def test_every_value_that_is_taken_is_told(chart: str) -> None:
    assert [path for path in parts(chart) if not is_told(chart, path)] == [], (
        "tell of them in values.yaml or docs/charts.md"
    )


def is_told(chart: str, path: str) -> bool:
    """As a value of its own, or by what one of the two pages says about many."""
    told = {value.path for value in VALUES[chart]}
    if any(each == path or each.startswith(f"{path}.") for each in told):
        return True
    if chart == "ray-cluster":
        # The page says that fields of the spec are values, too.
        return SPEC_FIELDS in PAGES["chart-values.md"] and path in fields_of_the_spec()
    # Keys of the configuration file are in docs/settings.md, settings of a plugin in its README.
    group, _, key = path.partition(".")
    if group.endswith("Probe"):
        return "The three probes of" in PAGES["chart-values.md"]
    settings = (ROOT / "docs" / "settings.md").read_text()
    return f"`{path}`" in PAGES["charts.md"] or (group == "configuration" and f"`{key}`" in settings)


def fields_of_the_spec() -> set[str]:
    from kuberay.api.cluster import RayClusterSpec

    return {field.alias or name for name, field in RayClusterSpec.model_fields.items()}


def test_values_that_are_named_exist() -> None:
    named = set(re.findall(r"`([a-z][A-Za-z]*(?:\.[a-z][A-Za-z-]*)+)(?::[^`]*)?`", PAGES["charts.md"]))
    assert len(named) > 10
    # Others are files and addresses.
    charts = {path: [c for c in CHARTS if path.partition(".")[0] in schema(c)["properties"]] for path in named}
    assert [path for path, those in charts.items() if those and not any(knows(chart, path) for chart in those)] == []
