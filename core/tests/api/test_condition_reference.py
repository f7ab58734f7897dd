"""Every condition and reason that code can set is explained (cases.md RC-34)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import kuberay
import pytest
from kuberay.api.condition_reference import ANY, ENTRIES, RAYCLUSTER, RAYJOB, RAYSERVICE, find_entry
from kuberay.api.conditions import (
    ClusterCondition,
    ClusterReason,
    CronCondition,
    JobCondition,
    ServiceCondition,
    ServiceReason,
    TroubleReason,
)
from kuberay.api.job import JobFailedReason

PLAN = Path(next(iter(kuberay.__path__))) / "plan"
TYPES = {(entry.kind, entry.type) for entry in ENTRIES}
REASONS = {entry.reason for entry in ENTRIES}


@pytest.mark.parametrize("type_", ClusterCondition)
def test_conditions_of_rayclusters(type_: ClusterCondition) -> None:
    """RC-34: each condition says whether it is transient or terminal."""
    assert ("RayCluster", str(type_)) in TYPES


@pytest.mark.parametrize("type_", JobCondition)
def test_conditions_of_rayjobs(type_: JobCondition) -> None:
    assert ("RayJob", str(type_)) in TYPES


@pytest.mark.parametrize("type_", ServiceCondition)
def test_conditions_of_rayservices(type_: ServiceCondition) -> None:
    assert ("RayService", str(type_)) in TYPES


@pytest.mark.parametrize("type_", CronCondition)
def test_conditions_of_raycronjobs(type_: CronCondition) -> None:
    assert ("RayCronJob", str(type_)) in TYPES


@pytest.mark.parametrize("reason", [*ClusterReason, *TroubleReason, *ServiceReason])
def test_reasons_with_a_name(reason: str) -> None:
    assert str(reason) in REASONS


def spelled_out() -> Iterator[str]:
    """Reasons that plans write as text: of holds, and those beside the message of a condition that is present."""
    for path in sorted((PLAN / "cluster").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name == "Hold" and node.args and isinstance(node.args[0], ast.Constant):
                yield str(node.args[0].value)
            if name in ("set_present", "_condition"):
                for part in (part for argument in node.args for part in ast.walk(argument)):
                    if isinstance(part, ast.Tuple) and part.elts and isinstance(part.elts[0], ast.Constant):
                        yield str(part.elts[0].value)


@pytest.mark.parametrize("reason", sorted(set(spelled_out())))
def test_reasons_spelled_out_in_plans(reason: str) -> None:
    assert reason in REASONS


def held(folder: str) -> Iterator[str]:
    """Reasons for which plans in *folder* hold an object back."""
    for path in sorted((PLAN / folder).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "hold":
                (reason, *_) = node.args
                if isinstance(reason, ast.Constant):
                    yield str(reason.value)


@pytest.mark.parametrize("reason", sorted(set(held("job"))))
def test_what_holds_a_rayjob_back_is_explained(reason: str) -> None:
    entry = find_entry(RAYJOB, JobCondition.PODS_WAITING, "True", reason)
    assert entry is not None
    assert entry.reason == reason, "not only by what is said of all others"
    assert entry.advice


@pytest.mark.parametrize("reason", sorted({*held("service"), "ApplicationDeployFailed", "ApplicationUnhealthy"}))
def test_what_a_rayservice_waits_for_is_explained(reason: str) -> None:
    entry = find_entry(RAYSERVICE, ServiceCondition.WAITING, "True", reason)
    assert entry is not None
    assert entry.reason == reason, "not only by what is said of all others"
    assert entry.advice


@pytest.mark.parametrize(
    "reason", [reason for reason in JobFailedReason if reason not in (JobFailedReason.NONE, "ValidationFailed")]
)
def test_each_reason_of_a_failed_rayjob_is_explained(reason: JobFailedReason) -> None:
    """A RayJob that is refused never ends, so ValidationFailed is no reason of condition Finished."""
    entry = find_entry(RAYJOB, JobCondition.FINISHED, "True", reason)
    assert entry is not None
    assert (entry.reason, entry.lasting) == (reason, "terminal")


def test_what_is_wrong_comes_with_advice() -> None:
    assert [entry for entry in ENTRIES if entry.lasting == "terminal" and not entry.advice] == []
    assert len({(entry.kind, entry.type, entry.status, entry.reason) for entry in ENTRIES}) == len(ENTRIES)


def test_looking_up() -> None:
    exact = find_entry(RAYCLUSTER, "PodsWaiting", "True", "TooManyHeadPods")
    other = find_entry(RAYCLUSTER, "PodsWaiting", "True", "Volcano")
    assert exact is not None
    assert exact.lasting == "terminal"
    assert other is not None
    assert other.reason == ANY
    assert find_entry(RAYCLUSTER, "NoSuch", "True", "X") is None
