"""Built manifests are valid, and fixtures are found through the entry point."""

import pytest
from kuberay.api.validation.cluster import validate_cluster
from kuberay.api.validation.job import validate_job
from kuberay_testkit import builders


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (0, {}),
        (3, {"workers": 3}),
        ({"a": 1, "b": 2}, {"a": 1, "b": 2}),
        ([builders.build_group("c", 20, numOfHosts=2)], {"c": 20}),
    ],
)
def test_clusters_are_valid(groups, expected):
    body = builders.build_raycluster("x", groups=groups, suspend=False)
    assert {each["groupName"]: each["replicas"] for each in body["spec"]["workerGroupSpecs"]} == expected
    assert body["spec"]["suspend"] is False
    assert validate_cluster("x", {}, {}, body["spec"], {}) == []


def test_jobs_are_valid():
    body = builders.build_rayjob("x", groups=2, shutdownAfterJobFinishes=True, cluster={"rayVersion": "2.50.0"})
    assert body["spec"]["rayClusterSpec"]["rayVersion"] == "2.50.0"
    assert validate_job("x", {}, {}, body["spec"], {}) == []
    selecting = builders.build_rayjob("x", clusterSelector={"ray.io/cluster": "y"})
    assert "rayClusterSpec" not in selecting["spec"]
    assert validate_job("x", {}, {}, selecting["spec"], {}) == []


def test_manifests_are_not_shared():
    first, second = builders.build_raycluster(), builders.build_raycluster()
    first["spec"]["headGroupSpec"]["template"]["spec"]["containers"].clear()
    assert second["spec"]["headGroupSpec"]["template"]["spec"]["containers"]


def test_fixtures(sim_server, virtual_clock, fake_dashboard, build_raycluster, build_rayjob):
    assert sim_server.clock is virtual_clock is fake_dashboard.clock
    made = sim_server.create(build_raycluster("a"))
    assert made["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert sim_server.create(build_rayjob("b"))["kind"] == "RayJob"
