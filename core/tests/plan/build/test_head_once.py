"""RJ-10: when a lost head must stay lost, from what is stored alone."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.plan.build.head_once import head_is_final, head_submits, no_head_restart

ASKED = {"ray.io/disable-provisioned-head-restart": "true"}


def status(**conditions: str) -> dict[str, Any]:
    return {"conditions": [{"type": type_, "status": value} for type_, value in conditions.items()]}


@pytest.mark.parametrize(
    ("stored", "final"),
    [
        ({}, False),
        ({"conditions": None}, False),
        (status(RayClusterProvisioned="False", HeadPodReady="False"), False),
        (status(RayClusterProvisioned="True"), True),
        (status(RayClusterProvisioned="False", HeadStarted="True"), True),
        (status(RayClusterProvisioned="True", HeadStarted="True"), True),
        (status(HeadPodReady="True"), False),
        ({"head": {"podName": "a", "podIP": "10.0.0.1"}}, False),
    ],
)
def test_the_stored_status_decides(stored: dict[str, Any], final: bool) -> None:
    assert head_is_final(ASKED, stored) is final
    assert not head_is_final({}, stored)


@pytest.mark.parametrize(("value", "asked"), [("true", True), ("True", False), ("false", False), ("", False)])
def test_only_true_counts(value: str, asked: bool) -> None:
    annotations = {"ray.io/disable-provisioned-head-restart": value}
    assert no_head_restart(annotations) is asked
    assert head_is_final(annotations, status(RayClusterProvisioned="True")) is asked


@pytest.mark.parametrize(("mode", "submits"), [("SidecarMode", True), ("K8sJobMode", False), ("", False)])
def test_which_heads_submit(mode: str, submits: bool) -> None:
    assert head_submits({"ray.io/job-submission-mode": mode}) is submits
    assert not head_submits({})
