"""``kuberay diff`` for RayServices: edits that need another RayCluster, or other pods in the one that serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from core.tests.cli.service_edits import (
    GROUPS,
    HEAD_IMAGE,
    IMAGE,
    OLD,
    OTHER_CONFIG,
    Manifest,
    edited,
    effects,
    field,
    head_image,
    image,
    sentences,
    service,
)


def test_another_cluster(diff_service: Any) -> None:
    """RS-03: the strategy is named, what it costs, and what follows when."""
    told = diff_service(OLD, edited(image))
    assert effects(told) == {IMAGE: "new-cluster"}
    assert sentences(told)[IMAGE] == (
        "another RayCluster is made, B (upgradeStrategy.type NewCluster, the default): twice the resources until it has taken"
        " over; RayCluster A serves meanwhile"
    )
    assert told["upgradeStrategy"] == "NewCluster"
    assert told["atOnce"] == ["RayCluster B is made"]
    assert told["then"] == [
        "as soon as that is ready: Serve of RayCluster B is given its configuration",
        "as soon as that is ready: RayCluster B becomes the active one: requests go there instead of to RayCluster A",
        "60 s later: RayCluster A is deleted",
    ]
    assert told["notes"][1].startswith("Both RayClusters need their resources until then, so twice the resources")
    assert "the new one has 2 pods" in told["notes"][1]
    assert told["text"].startswith("RayService default/s: needs another RayCluster\n  at once: RayCluster B is made\n")


def test_what_counts_for_the_other_cluster_only(diff_service: Any) -> None:
    told = diff_service(OLD, edited(image, head_image, field("replicas", 3), serveConfigV2=OTHER_CONFIG))
    assert set(effects(told).values()) == {"new-cluster"}
    anyway = "with RayCluster B, which is made anyway; RayCluster A stays as it is"
    assert (sentences(told)["serveConfigV2"], sentences(told)[f"{GROUPS}[g].replicas"]) == (anyway, anyway)
    assert all(sentences(told)[name].startswith("another RayCluster is made, B") for name in (IMAGE, HEAD_IMAGE))


def test_how_long_the_old_cluster_stays(diff_service: Any) -> None:
    """RS-15."""
    told = diff_service(OLD, edited(image, rayClusterDeletionDelaySeconds=300))
    assert told["then"][-1] == "300 s later: RayCluster A is deleted"
    assert sentences(told)["rayClusterDeletionDelaySeconds"] == "RayCluster A is deleted 300 s later, not 60 s later"


@pytest.mark.parametrize(
    ("strategy", "restarted", "words", "headline"),
    [
        (
            {"type": "Rolling"},
            ["g"],
            {
                IMAGE: ("same-cluster", "in RayCluster A: no other one is made; pods are replaced step by step: g"),
                HEAD_IMAGE: (
                    "later",
                    "in RayCluster A: the head keeps running as it is, until its restart is agreed to",
                ),
            },
            "replaces pods of RayCluster A (g), step by step",
        ),
        (
            {"type": "Rolling", "allowHeadRestart": True},
            ["headgroup", "g"],
            {
                IMAGE: ("same-cluster", "in RayCluster A: no other one is made; pods are replaced step by step: g"),
                HEAD_IMAGE: (
                    "same-cluster",
                    "in RayCluster A: no other one is made; pods are replaced step by step: headgroup",
                ),
            },
            "replaces pods of RayCluster A (headgroup, g), step by step",
        ),
        (
            {"type": "Recreate"},
            ["headgroup", "g"],
            dict.fromkeys(
                (IMAGE, HEAD_IMAGE),
                (
                    "same-cluster",
                    "in RayCluster A: no other one is made; all pods are made anew: upgradeStrategy.type is Recreate; the "
                    "service is away until they are back",
                ),
            ),
            "replaces pods of RayCluster A (headgroup, g): the service is away meanwhile",
        ),
    ],
)
def test_the_same_cluster(
    diff_service: Any, strategy: Manifest, restarted: list[str], words: dict[str, tuple[str, str]], headline: str
) -> None:
    old = service(upgradeStrategy=strategy)
    told = diff_service(old, edited(image, head_image, old=old, serveConfigV2=OTHER_CONFIG))
    assert {name: (effects(told)[name], sentences(told)[name]) for name in words} == words
    assert (told["restartedGroups"], told["newClusters"]) == (restarted, [])
    assert effects(told)["serveConfigV2"] == "later", "it may be meant for the new pods"
    assert sentences(told)["serveConfigV2"] == "Serve of RayCluster A is given its configuration when it is ready"
    assert told["text"].startswith(f"RayService default/s: {headline}\n")
    assert "GROUP       PODS   WHAT HAPPENS" in told["text"]


def incremental(**spec: Any) -> Manifest:
    options = {"gatewayClassName": "c", "maxSurgePercent": 50, "stepSizePercent": 50, "intervalSeconds": 20}
    strategy = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": options}
    return service(upgradeStrategy=strategy, cluster={"enableInTreeAutoscaling": True}, **spec)


@pytest.fixture
def with_gateways(tmp_path: Path) -> str:
    body = {
        "apiVersion": "config.ray.io/v1alpha1",
        "kind": "Configuration",
        "plugins": {"enabled": ["gateway-upgrade", "autoscaler-v2"]},
        "featureGates": "RayServiceIncrementalUpgrade=true",
    }
    (tmp_path / "config").write_text(yaml.safe_dump(body))
    return str(tmp_path / "config")


def test_requests_that_move_step_by_step(diff_service: Any, with_gateways: str) -> None:
    """GW-01: when which share moves, and what it costs."""
    told = diff_service(incremental(), edited(image, old=incremental()), "--config", with_gateways)
    assert effects(told) == {IMAGE: "new-cluster"}
    assert "requests move to it step by step" in sentences(told)[IMAGE]
    assert told["then"] == [
        "as soon as that is ready: Serve of RayCluster B is given its configuration",
        "as soon as that is ready: RayCluster B runs 50 % of its capacity (from 0 %)",
        "as soon as that is ready: 50 % of the requests go to RayCluster B, 50 % to RayCluster A",
        "5 s later: RayCluster A runs 50 % of its capacity (from 100 %)",
        "5 s later: RayCluster B runs 100 % of its capacity (from 50 %)",
        "20 s later: 100 % of the requests go to RayCluster B, 0 % to RayCluster A",
        "25 s later: RayCluster A runs 0 % of its capacity (from 50 %)",
        "25 s later: RayCluster B becomes the active one",
        "85 s later: RayCluster A is deleted",
    ]
    assert "at most 50 % of its replicas at a time" in told["notes"][-1]


def test_the_options_of_a_plugins_strategy_are_checked(diff_service: Any, with_gateways: str) -> None:
    """GW-04."""
    new = incremental()
    new["spec"]["upgradeStrategy"]["clusterUpgradeOptions"]["stepSizePercent"] = 80
    told = diff_service(incremental(), new, "--config", with_gateways)
    assert told["refused"]
    (problem,) = told["problems"]
    assert problem["field"] == "spec.upgradeStrategy.clusterUpgradeOptions.stepSizePercent"
    assert problem["message"].endswith("stepSizePercent must be less than or equal to maxSurgePercent")


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ("RayServiceIncrementalUpgrade=true", "nothing until the plugin is there"),
        ("RayServiceIncrementalUpgrade=false", "nothing: upgradeStrategy.type None"),
    ],
)
def test_a_plugin_or_a_gate_that_is_missing(
    diff_service: Any, monkeypatch: pytest.MonkeyPatch, gate: str, words: str
) -> None:
    monkeypatch.setattr("kuberay.plugins.loader._entry_points", list)
    told = diff_service(incremental(), edited(image, old=incremental()), f"--feature-gates={gate}")
    assert (told["newClusters"], told["atOnce"]) == ([], [])
    assert sentences(told)[IMAGE].startswith(words)
