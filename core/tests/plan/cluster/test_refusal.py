"""Refused, foreign and dying RayClusters (spec raycluster.md 2.1, 6.6 and 8.9; cases.md RC-25 and RC-35)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import SERVICE
from kuberay.plan.model import Plan


def test_refused_spec_shows_as_a_condition(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-35."""
    tiny = kubernetes(cluster(groups=[group(minReplicas=5, maxReplicas=1)]))
    for _ in range(3):
        tiny.reconcile()
    condition = tiny.condition("RayClusterSpecValid")
    text = "worker group crew has minReplicas 5 greater than maxReplicas 1"
    assert (condition["status"], condition["reason"]) == ("False", "InvalidRayClusterSpec")
    assert condition["message"].startswith("spec.workerGroupSpecs[0]")
    assert text in condition["message"]
    assert condition["observedGeneration"] == tiny.status["observedGeneration"] == 1
    assert len(tiny.statuses) == 1, "written once, not per pass"
    (event,) = tiny.events
    assert (event.type, event.reason, event.action) == ("Warning", "InvalidRayClusterSpec", "Validate")
    assert event.note == f"The RayCluster spec is invalid default/pair: {text}"
    assert event.field_path.startswith("spec.workerGroupSpecs[0]")
    assert tiny.objects == {}
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(minReplicas=0))
    tiny.settle()
    assert tiny.condition("RayClusterSpecValid") is None


def test_nothing_that_runs_is_touched(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    before = tiny.status
    tiny.writes.clear()
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(minReplicas=-1, replicas=0))
    tiny.settle()
    assert tiny.writes == []
    told = {"conditions", "lastUpdateTime", "observedGeneration"}
    rest = {key: value for key, value in tiny.status.items() if key not in told}
    assert rest == {key: value for key, value in before.items() if key not in told}
    assert tiny.status["observedGeneration"] == 2
    assert len(tiny.pods) == 4


def test_another_problem_is_told_again(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    for change in ({"minReplicas": -1}, {"minReplicas": -1}, {"minReplicas": -2}):
        tiny.edit(lambda spec, change=change: spec["workerGroupSpecs"][0].update(change))
        tiny.reconcile()
    assert len(tiny.events) == 2


def test_unreadable_spec(kubernetes: Any, cluster: Any) -> None:
    """A slim CRD lets wrong types through."""
    tiny = kubernetes(cluster(workerGroupSpecs="none"))
    tiny.settle()
    condition = tiny.condition("RayClusterSpecValid")
    assert condition["message"].startswith("spec.workerGroupSpecs: ")
    assert tiny.objects == {}


@pytest.mark.parametrize("name", ["r" * 54, "1" * 10])
def test_bad_name(kubernetes: Any, cluster: Any, name: str) -> None:
    tiny = kubernetes(cluster(name))
    tiny.settle()
    (event,) = tiny.events
    assert event.reason == "InvalidRayClusterMetadata"
    assert tiny.objects == {}


def test_longest_name(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-13."""
    body = cluster("r" * 53, groups=[group("a-rather-long-group-name", 1, numOfHosts=2)])
    body["metadata"]["annotations"] = {"ray.io/enable-serve-service": "true"}
    tiny = kubernetes(body)
    tiny.settle()
    services = [name for kind, name in tiny.objects if kind == SERVICE]
    assert services == [f"{'r' * 53}-{suffix}" for suffix in ("head-svc", "headless", "serve-svc")]
    worker = next(iter(tiny.workers.values()))
    assert f"--address={services[0]}.default.svc.cluster.local:6379" in worker["spec"]["containers"][0]["args"][0]
    assert len(tiny.pods) == 3


def test_both_suspend_conditions(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.cluster["status"] = {
        "conditions": [{"type": kind, "status": "True"} for kind in ("RayClusterSuspended", "RayClusterSuspending")]
    }
    tiny.reconcile()
    (event,) = tiny.events
    assert event.reason == "InvalidRayClusterStatus"


@pytest.mark.parametrize("value", ["", "kueue.x-k8s.io/multikueue", "controller.com/invalid"])
def test_managed_by_somebody_else(kubernetes: Any, cluster: Any, value: str) -> None:
    assert kubernetes(cluster(managedBy=value)).plan() == Plan()


@pytest.mark.parametrize("value", [None, "ray.io/kuberay-operator"])
def test_managed_by_us(kubernetes: Any, cluster: Any, value: str | None) -> None:
    tiny = kubernetes(cluster(managedBy=value))
    tiny.settle()
    assert tiny.status["state"] == "ready"


@pytest.mark.parametrize("replicas", [3, -1])
def test_dying_cluster_is_left_to_garbage_collection(kubernetes: Any, cluster: Any, replicas: int) -> None:
    """RC-25: whether it is valid or not."""
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(minReplicas=replicas))
    tiny.cluster["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert tiny.plan() == Plan()


def test_autoscaler_v1_warning_is_told_once_per_spec(kubernetes: Any, cluster: Any, group: Any) -> None:
    from kuberay.hooks.calls import NoHooks

    class WithAutoscaler(NoHooks):
        def has(self, plugin: str) -> bool:
            return True

    body = group()
    body["template"]["spec"]["restartPolicy"] = "Always"
    spec = {"enableInTreeAutoscaling": True, "autoscalerOptions": {"version": "v1"}}
    tiny = kubernetes(cluster(groups=[body], **spec), hooks=WithAutoscaler())
    tiny.settle()
    tiny.settle()
    (event,) = [event for event in tiny.events if event.type == "Warning"]
    assert event.note == (
        "RayCluster spec warning default/pair: restartPolicy for worker groups [crew] should be Never or unset when "
        "using autoscaler V1"
    )
