"""What of a RayService spec is typed, and how its annotation for the first start is read (spec rayservice.md 1.2, 2.5)."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kuberay.api.service import (
    RayServiceSpec,
    ServeApplicationStatus,
    ServeDeploymentStatus,
    UpgradeType,
    read_initializing_timeout,
)
from pydantic import ValidationError


def test_defaults() -> None:
    spec = RayServiceSpec.parse({})
    assert (spec.serve_config_v2, spec.upgrade_type, spec.serve_service_name) == ("", None, "")
    assert (spec.suspend, spec.exclude_head_pod_from_serve_svc, spec.managed_by) == (False, False, None)
    assert spec.ray_cluster_config.head_group_spec.template == {}
    assert spec.deletion_delay == timedelta(seconds=60)


def test_wire_names() -> None:
    spec = RayServiceSpec.parse(
        {
            "rayClusterConfig": {"headGroupSpec": {"template": {}}, "rayVersion": "2.60.0"},
            "serveConfigV2": "applications: []",
            "upgradeStrategy": {
                "type": "NewClusterWithIncrementalUpgrade",
                "clusterUpgradeOptions": {
                    "maxSurgePercent": 20,
                    "stepSizePercent": 5,
                    "intervalSeconds": 30,
                    "gatewayClassName": "traefik",
                },
                "maxUnavailable": 1,
                "maxSurge": "25%",
                "allowHeadRestart": True,
            },
            "rayClusterDeletionDelaySeconds": 5,
            "serveService": {"metadata": {"name": "front"}},
            "excludeHeadPodFromServeSvc": True,
            "suspend": True,
            "managedBy": "ray.io/kuberay-operator",
            "serviceUnhealthySecondThreshold": 1,
            "deploymentUnhealthySecondThreshold": 2,
        }
    )
    assert spec.ray_cluster_config.ray_version == "2.60.0"
    assert spec.serve_config_v2 == "applications: []"
    assert spec.upgrade_type == UpgradeType.INCREMENTAL
    strategy = spec.upgrade_strategy
    assert strategy is not None
    assert (strategy.max_unavailable, strategy.max_surge, strategy.allow_head_restart) == (1, "25%", True)
    options = strategy.cluster_upgrade_options
    assert options is not None
    assert (options.max_surge_percent, options.step_size_percent, options.interval_seconds) == (20, 5, 30)
    assert options.gateway_class_name == "traefik"
    assert (spec.serve_service_name, spec.exclude_head_pod_from_serve_svc, spec.suspend) == ("front", True, True)
    assert (spec.service_unhealthy_second_threshold, spec.deployment_unhealthy_second_threshold) == (1, 2)
    assert spec.model_extra == {}


@pytest.mark.parametrize(("seconds", "delay"), [(None, 60), (0, 0), (1, 1), (600, 600)])
def test_rs_15_a_delay_of_zero_is_no_missing_one(seconds: int | None, delay: int) -> None:
    spec = RayServiceSpec.parse({"rayClusterDeletionDelaySeconds": seconds})
    assert spec.deletion_delay == timedelta(seconds=delay)


@pytest.mark.parametrize(
    "spec",
    [
        {"serveConfigV2": {"applications": []}},
        {"serveService": {"spec": {"ports": [{"name": "serve"}]}}},
        {"serveService": {"metadata": {"labels": {"a": 1}}}},
        {"upgradeStrategy": {"clusterUpgradeOptions": {"intervalSeconds": "30"}}},
    ],
)
def test_wrong_types_are_refused(spec: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        RayServiceSpec.parse(spec)


def test_words_of_serve() -> None:
    assert list(ServeApplicationStatus) == [
        "NOT_STARTED",
        "DEPLOYING",
        "RUNNING",
        "DEPLOY_FAILED",
        "DELETING",
        "UNHEALTHY",
    ]
    assert list(ServeDeploymentStatus) == ["UPDATING", "HEALTHY", "UNHEALTHY"]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5m", 300), ("300", 300), ("1h30m", 5400), ("+7", 7), ("1ms", 0.001), ("9223372036", 2**63 // 10**9)],
)
def test_initializing_timeout(text: str, seconds: float) -> None:
    assert read_initializing_timeout(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0", "must be a positive duration, got: 0"),
        ("-5m", "must be a positive duration, got: -5m"),
        ("-100", "must be a positive integer (seconds), got: -100"),
        ("00", "must be a positive integer (seconds), got: 00"),
        ("invalid", "has invalid format: invalid"),
        ("1_000", "has invalid format: 1_000"),
        (" 5 ", "has invalid format:  5 "),
        ("٣", "has invalid format: ٣"),
        ("9223372037", "has invalid format: 9223372037"),
        ("9" * 5000, "has invalid format: 999"),
        ("1.5", "has invalid format: 1.5"),
    ],
    ids=lambda value: value[:20],
)
def test_initializing_timeout_that_is_none(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=r"must be|has invalid") as caught:
        read_initializing_timeout(text)
    assert str(caught.value).startswith(told)
