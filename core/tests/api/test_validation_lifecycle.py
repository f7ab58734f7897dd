"""Which ``spec.lifecycle`` is refused, and where."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.gates import DEFAULT_GATES, STATUS_CONDITIONS
from kuberay.api.lifecycle import Lifecycle
from kuberay.api.validation.cluster import validate_cluster
from kuberay.api.validation.job import validate_job
from kuberay.plan.build.spec_hash import spec_hash
from kuberay_testkit.builders import build_raycluster, build_rayjob

IDLE = {"idleTimeoutSeconds": 600}


def problems(lifecycle: Any, gates: Any = DEFAULT_GATES, creator: str = "") -> list[tuple[str, str, str]]:
    labels = {"ray.io/originated-from-crd": creator} if creator else {}
    spec = build_raycluster(lifecycle=lifecycle)["spec"]
    return [(p.path, p.message, p.reason) for p in validate_cluster("c", labels, {}, spec, gates)]


@pytest.mark.parametrize(
    "lifecycle",
    [
        None,
        IDLE,
        {"maxAgeSeconds": 1},
        {"idleTimeoutSeconds": 60, "maxAgeSeconds": 30, "action": "Delete", "warningSeconds": 0},
        {**IDLE, "action": "Suspend", "warningSeconds": 10_000},
        {"maxAgeSeconds": 2**31 - 1, "warningSeconds": 2**31 - 1},
    ],
    ids=str,
)
def test_accepted(lifecycle: Any) -> None:
    assert problems(lifecycle) == []


@pytest.mark.parametrize(
    ("lifecycle", "path", "message"),
    [
        ({}, "spec.lifecycle", "lifecycle must set idleTimeoutSeconds, maxAgeSeconds or both"),
        ({"action": "Delete"}, "spec.lifecycle", "lifecycle must set idleTimeoutSeconds, maxAgeSeconds or both"),
        (
            {"idleTimeoutSeconds": 0},
            "spec.lifecycle.idleTimeoutSeconds",
            "lifecycle.idleTimeoutSeconds must be at least 1, got 0",
        ),
        (
            {**IDLE, "maxAgeSeconds": -5},
            "spec.lifecycle.maxAgeSeconds",
            "lifecycle.maxAgeSeconds must be at least 1, got -5",
        ),
        (
            {**IDLE, "warningSeconds": -1},
            "spec.lifecycle.warningSeconds",
            "lifecycle.warningSeconds must not be negative, got -1",
        ),
        ({**IDLE, "action": "Stop"}, "spec.lifecycle.action", "lifecycle.action must be Suspend or Delete, got 'Stop'"),
        (
            {"idleTimeoutSeconds": "1h"},
            "spec.lifecycle.idleTimeoutSeconds",
            "spec.lifecycle.idleTimeoutSeconds: Input should be a valid integer",
        ),
        ("1h", "spec.lifecycle", "spec.lifecycle: Input should be a valid dictionary or instance of Lifecycle"),
    ],
    ids=str,
)
def test_refused(lifecycle: Any, path: str, message: str) -> None:
    assert problems(lifecycle) == [(path, message, "InvalidRayClusterSpec")]


def test_every_problem_is_told() -> None:
    found = problems({"idleTimeoutSeconds": -1, "maxAgeSeconds": 0, "warningSeconds": -1, "action": ""})
    assert len(found) == 4


def test_state_needs_conditions() -> None:
    found = problems(IDLE, {**DEFAULT_GATES, STATUS_CONDITIONS: False})
    assert [(path, message) for path, message, _ in found] == [
        (
            "spec.lifecycle",
            "lifecycle can be used only when the RayClusterStatusConditions feature gate is enabled",
        )
    ]


@pytest.mark.parametrize("creator", ["RayJob", "RayService"])
def test_whoever_made_the_cluster_ends_it(creator: str) -> None:
    message = f"lifecycle cannot be set when RayCluster is created by {creator}, which ends it itself"
    assert problems(IDLE, creator=creator) == [("spec.lifecycle", message, "InvalidRayClusterSpec")]


def test_in_a_rayjob() -> None:
    manifest = build_rayjob(cluster={"lifecycle": IDLE})
    found = validate_job("j", {}, {}, manifest["spec"], DEFAULT_GATES)
    assert [problem.path for problem in found] == ["spec.rayClusterSpec.lifecycle"]
    assert "created by RayJob" in found[0].message


def test_it_changes_no_pod() -> None:
    plain = build_raycluster()["spec"]
    assert spec_hash({**plain, "lifecycle": IDLE}) == spec_hash(plain)


@pytest.mark.parametrize(
    ("lifecycle", "limit", "warning"),
    [({}, 600, 300), ({}, 100, 100), ({"warningSeconds": 30}, 600, 30), ({"warningSeconds": 0}, 600, 0)],
    ids=str,
)
def test_the_warning(lifecycle: Any, limit: int, warning: int) -> None:
    assert Lifecycle.model_validate(lifecycle).warning(limit) == warning


def test_defaults() -> None:
    spec = RayClusterSpec.parse(build_raycluster(lifecycle=IDLE)["spec"])
    assert spec.lifecycle is not None
    assert not spec.lifecycle.deletes
