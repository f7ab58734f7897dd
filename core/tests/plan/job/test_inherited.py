"""RJ-32: labels and annotations of a RayJob reach its submitter, except those that address a controller."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import JOB
from kuberay.plan.config import PlanConfig
from kuberay.plan.job.inherited import reserved

LAST = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    "key",
    [
        "cost-center",
        "example.com/team",
        "app.kubernetes.io/name",
        "app.kubernetes.io/part-of",
        "myray.io/x",
        "sidecar.istio.io/inject",
    ],
)
def test_passed_on(key: str) -> None:
    assert not reserved(key)


@pytest.mark.parametrize(
    "key",
    [
        "ray.io/cluster",
        "x.ray.io/y",
        "kueue.x-k8s.io/queue-name",
        "scheduling.x-k8s.io/pod-group",
        "app.kubernetes.io/created-by",
        "app.kubernetes.io/managed-by",
        LAST,
        "batch.kubernetes.io/job-name",
        "kubernetes.io/x",
        "volcano.sh/queue-name",
        "yunikorn.apache.org/queue",
        "kai.scheduler/queue",
        "argocd.argoproj.io/tracking-id",
        "meta.helm.sh/release-name",
        "job-name",
        "controller-uid",
    ],
)
def test_kept_back(key: str) -> None:
    assert reserved(key)


def started(empty_world: Any, config: PlanConfig, **spec: Any) -> Any:
    world = empty_world(config=config)
    world.create(
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {
                "name": "j",
                "labels": {"cost-center": "blue", "kueue.x-k8s.io/queue-name": "q", "ray.io/originated-from-crd": "me"},
                "annotations": {"memo": "keep", LAST: "{}"},
            },
            "spec": {
                "entrypoint": "true",
                "rayClusterSpec": {
                    "headGroupSpec": {"template": {"spec": {"containers": [{"name": "h", "image": "ray:2"}]}}}
                },
                **spec,
            },
        }
    )
    world.until(lambda: world.get(JOB, "j") is not None, 30)
    return world


OWN = {
    "ray.io/originated-from-cr-name": "j",
    "ray.io/originated-from-crd": "RayJob",
    "app.kubernetes.io/created-by": "kuberay-operator",
}


def test_job_and_pods_get_them(empty_world: Any) -> None:
    """RJ-32"""
    job = started(empty_world, PlanConfig()).get(JOB, "j")
    for metadata in (job["metadata"], job["spec"]["template"]["metadata"]):
        assert metadata["labels"] == {"cost-center": "blue", **OWN}
        assert metadata["annotations"] == {"memo": "keep"}


def test_the_template_wins(empty_world: Any) -> None:
    """RJ-32"""
    template = {
        "metadata": {"labels": {"cost-center": "red"}, "annotations": {"memo": "other", "x": "y"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "s", "image": "s"}]},
    }
    job = started(empty_world, PlanConfig(), submitterPodTemplate=template).get(JOB, "j")
    pods = job["spec"]["template"]["metadata"]
    assert pods["labels"] == {"cost-center": "red", **OWN}
    assert pods["annotations"] == {"memo": "other", "x": "y"}
    assert job["metadata"]["labels"]["cost-center"] == "blue"


def test_turned_off_nothing_is_passed_on(empty_world: Any) -> None:
    """RJ-32: opt-out, as KubeRay has it."""
    job = started(empty_world, PlanConfig(propagate_job_metadata=False)).get(JOB, "j")
    for metadata in (job["metadata"], job["spec"]["template"]["metadata"]):
        assert metadata["labels"] == OWN
        assert "annotations" not in metadata
