"""What is refused about workers that leave: drain timeouts and disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.names import ANNOTATION_DRAIN_TIMEOUT
from kuberay.api.validation.cluster import validate_cluster
from kuberay_testkit.builders import build_group, build_raycluster


def problems(
    *, head: dict[str, Any] | None = None, annotations: dict[str, str] | None = None, **group: Any
) -> list[tuple[str, str]]:
    spec = build_raycluster(groups=[build_group("plain"), build_group("crew", **group)])["spec"]
    spec["headGroupSpec"].update(head or {})
    found = validate_cluster("rc", {}, annotations or {}, spec, DEFAULT_GATES)
    return [(problem.path, problem.message) for problem in found]


@pytest.mark.parametrize("seconds", ["0", "30", "604800"])
def test_timeouts_that_are_taken(seconds: str) -> None:
    assert problems(annotations={ANNOTATION_DRAIN_TIMEOUT: seconds}) == []


@pytest.mark.parametrize("seconds", ["", "-1", "1.5", "30s", "604801", "٣", "9" * 5000])
def test_timeouts_that_are_refused(seconds: str) -> None:
    ((path, message),) = problems(annotations={ANNOTATION_DRAIN_TIMEOUT: seconds})
    assert path == "metadata.annotations[ray.io/drain-timeout-seconds]"
    assert message.startswith("ray.io/drain-timeout-seconds must be a whole number of seconds from 0 to 604800, not")


@pytest.mark.parametrize("budget", [{"minAvailable": 0}, {"maxUnavailable": "100%"}, {"minAvailable": "0%"}, None])
def test_budgets_that_are_taken(budget: Any) -> None:
    assert problems(disruptionBudget=budget, head={"disruptionBudget": {"maxUnavailable": 0}}) == []


@pytest.mark.parametrize(
    ("budget", "where", "what"),
    [
        ({}, "", "exactly one of minAvailable and maxUnavailable must be set"),
        ({"minAvailable": 1, "maxUnavailable": 1}, "", "exactly one of minAvailable and maxUnavailable must be set"),
        ({"minAvailable": -1}, ".minAvailable", "minAvailable must not be negative"),
        (
            {"maxUnavailable": "half"},
            ".maxUnavailable",
            "maxUnavailable must be a whole number or a percentage from 0% to 100%, not 'half'",
        ),
        (
            {"minAvailable": "101%"},
            ".minAvailable",
            "minAvailable must be a whole number or a percentage from 0% to 100%, not '101%'",
        ),
    ],
)
def test_budgets_that_are_refused(budget: Any, where: str, what: str) -> None:
    assert problems(disruptionBudget=budget) == [(f"spec.workerGroupSpecs[1].disruptionBudget{where}", what)]
    assert problems(head={"disruptionBudget": budget}) == [(f"spec.headGroupSpec.disruptionBudget{where}", what)]


def test_a_budget_that_cannot_be_read_is_refused_with_its_path() -> None:
    (first, *_) = problems(disruptionBudget={"minAvailable": True})
    assert first[0].startswith("spec.workerGroupSpecs[1].disruptionBudget.minAvailable")
