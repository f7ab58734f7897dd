"""Names of children and their length rules (spec raycluster.md 0.2 and 8.1)."""

from __future__ import annotations

import pytest
from kuberay.api import names


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "72fbcc7e-a661-4b18e-ca41-e903-fc3ae634b18e-lazer090scholar-director-s",
            "rca41-e903-fc3ae634b18e-lazer090scholar-director-s",
        ),
        (
            "--------566666--------444433-----------222222----------4444",
            "r6666--------444433-----------222222----------4444",
        ),
        ("9lives", "rlives"),
        ("-dash", "rdash"),
        ("short", "short"),
        ("a" * 200, "a" * 50),
        ("", ""),
    ],
)
def test_check_name(text: str, expected: str) -> None:
    assert names.check_name(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a" * 64, "a" * 63), ("a" * 10 + "-" + "b" * 62, "r" + "b" * 62), ("9" * 63, "9" * 63), ("x_y", "x_y")],
)
def test_check_label(text: str, expected: str) -> None:
    assert names.check_label(text) == expected


@pytest.mark.parametrize(
    ("cluster", "namespace", "expected"),
    [
        ("cv-traffic-training-202402090958", "development-namespace", "cv-traffic-training-2024020909"),
        ("2-step-cv-training-network-revisited", "development-namespace", "r-step-cv-training-network-rev"),
        ("c", "ns", "c"),
        ("c", "n" * 60, ""),
    ],
)
def test_check_route_name(cluster: str, namespace: str, expected: str) -> None:
    assert names.check_route_name(cluster, namespace) == expected


@pytest.mark.parametrize(
    ("prefix", "node_type", "expected"),
    [
        ("ray-cluster-01", "head", "ray-cluster-01-head-"),
        ("c-GPU-Group", "worker", "c-gpu-group-worker-"),
        (
            "ray-cluster-0000000000000000000000011111111122222233333333333333-group-name",
            "worker",
            "ray-cluster-00000000000000000000000111111111222222-worker-",
        ),
    ],
)
def test_pod_name(prefix: str, node_type: str, expected: str) -> None:
    found = names.pod_name_prefix(prefix, node_type)
    assert found == expected
    assert len(found) <= 58


def test_names_of_a_cluster_with_the_longest_name() -> None:
    cluster = "r" * 53
    assert names.head_service_name(cluster) == f"{cluster}-head-svc"
    assert names.head_service_name(cluster, "mine") == "mine"
    assert names.serve_service_name(cluster) == f"{cluster}-serve-svc"
    assert names.headless_service_name(cluster) == f"{cluster}-headless"
    assert names.gcs_claim_name(cluster) == f"{cluster}-gcs-pvc"
    assert names.ingress_name(cluster) == "r" * 37 + "-head-ingress"
    assert names.redis_cleanup_job_name(cluster) == "r" * 49 + "-redis-cleanup"
    assert names.identifier(cluster, "head") == f"{cluster}-head"
