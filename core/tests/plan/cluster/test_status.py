"""What the status says and when it is written (spec raycluster.md 5 and 8.8; cases.md RC-09, RC-19, RC-34)."""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import POD, SERVICE
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.model import Create


def condition(tiny: Any, type_: str) -> tuple[str, str, str]:
    found = tiny.condition(type_)
    return found["status"], found["reason"], found["message"]


def quota(tiny: Any, node_type: str) -> None:
    """Refuses pods of a node type."""

    def refuse(write: Any) -> str:
        refused = (
            isinstance(write, Create)
            and write.kind == POD
            and write.body["metadata"]["labels"]["ray.io/node-type"] == node_type
        )
        return "exceeded quota: small" if refused else ""

    tiny.refuse = refuse


def test_ready_cluster(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    status = tiny.status
    assert status["state"] == "ready"
    assert status["stateTransitionTimes"]["ready"] == status["lastUpdateTime"]
    assert condition(tiny, "RayClusterProvisioned")[:2] == ("True", "AllPodRunningAndReadyFirstTime")
    assert condition(tiny, "HeadPodReady") == ("True", "HeadPodRunningAndReady", "")
    assert status["observedGeneration"] == 1
    head = tiny.head
    assert status["head"] == {
        "podIP": head["status"]["podIP"],
        "podName": head["metadata"]["name"],
        "serviceIP": head["status"]["podIP"],
        "serviceName": "pair-head-svc",
    }


def test_two_status_writes_and_three_events_until_ready(kubernetes: Any, cluster: Any) -> None:
    """Pods become ready one after the other within seconds, one pass each."""
    tiny = kubernetes(cluster())
    tiny.run_pods = False
    tiny.reconcile()
    for name in sorted(tiny.pods):
        tiny.set_pod(name, phase="Pending")
        tiny.reconcile()
    for name in sorted(tiny.pods):
        tiny.now += timedelta(seconds=1)
        tiny.set_pod(name, phase="Running", ready=True)
        tiny.reconcile()
    assert tiny.status["state"] == "ready"
    assert len(tiny.statuses) == 2
    assert [(event.reason, event.count) for event in tiny.events] == [
        ("CreatedService", 1),
        ("CreatedHeadPod", 1),
        ("CreatedWorkerPod", 3),
    ]


def test_a_start_is_told_when_it_takes_longer_than_a_moment(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.run_pods = False
    tiny.reconcile()
    tiny.cluster["status"] = {}
    assert tiny.plan().status_delay == timedelta(seconds=3), "the pods were made just now"
    tiny.now += timedelta(seconds=3)
    assert tiny.plan().status_delay == timedelta(0)
    for name in tiny.pods:
        tiny.set_pod(name, phase="Running", ready=False)
    assert tiny.plan().status_delay == timedelta(seconds=2), "but no longer than five seconds, whatever the pods do"
    for name in tiny.pods:
        tiny.set_pod(name, phase="Running", ready=True)
    plan = tiny.plan()
    assert (plan.status["state"], plan.status_delay) == ("ready", timedelta(0))


def test_a_start_may_wait_longer_while_others_wait_for_their_turn(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.run_pods = False
    tiny.reconcile()
    tiny.cluster["status"] = {}
    tiny.now += timedelta(seconds=10)
    assert plan_cluster(tiny.observe()).status_delay == timedelta(0)
    assert plan_cluster(replace(tiny.observe(), busy=True)).status_delay == timedelta(seconds=8)


def test_a_start_that_does_not_go_well_is_told_at_once(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(enableInTreeAutoscaling=True))
    plan = tiny.plan()
    assert any(condition["type"] == "PluginMissing" for condition in plan.status["conditions"])
    assert plan.status_delay == timedelta(0)


def test_progress_is_told_when_the_pods_have_been_quiet(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.run_pods = False
    tiny.reconcile()
    first, second, _ = sorted(tiny.workers)
    tiny.now += timedelta(seconds=20)
    tiny.set_pod(first, phase="Running", ready=True)
    assert tiny.reconcile().status_delay == timedelta(seconds=2), "however long ago the last write was"
    tiny.now += timedelta(seconds=1)
    tiny.set_pod(second, phase="Running", ready=True)
    assert tiny.reconcile().status_delay == timedelta(seconds=2)
    assert len(tiny.statuses) == 1
    tiny.now += timedelta(seconds=2)
    assert tiny.reconcile().status_delay == timedelta(0)
    assert tiny.status["availableWorkerReplicas"] == 2


def test_progress_is_told_after_ten_seconds_even_if_pods_keep_changing(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.run_pods = False
    tiny.reconcile()
    worker, other, _ = sorted(tiny.workers)
    tiny.now += timedelta(seconds=60)
    tiny.set_pod(other, phase="Running", ready=True)
    for second in range(10):
        assert tiny.reconcile().status_delay > timedelta(0)
        tiny.now += timedelta(seconds=1)
        tiny.set_pod(worker, phase="Running", ready=second % 2 == 0)
    assert tiny.reconcile().status_delay == timedelta(0)
    assert tiny.status["availableWorkerReplicas"] == 2


def test_lost_head_is_told_at_once(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    written = len(tiny.statuses)
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Running", ready=False)
    assert tiny.reconcile().status_delay == timedelta(0)
    assert len(tiny.statuses) == written + 1
    assert tiny.condition("HeadPodReady")["status"] == "False"


def test_a_head_of_which_nothing_is_left_is_left_out(kubernetes: Any, cluster: Any) -> None:
    """Server-side apply makes null of a map that loses all its members, and the API server refuses null."""
    tiny = kubernetes(cluster())
    tiny.settle()
    assert tiny.status["head"]
    tiny.refuse = lambda write: "the namespace is being terminated"
    tiny.objects.clear()
    tiny.reconcile()
    assert "head" not in tiny.status


def test_unchanged_pass_does_nothing(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    writes = len(tiny.writes)
    tiny.now += timedelta(hours=1)
    plan = tiny.reconcile()
    assert (plan.status, plan.events, plan.waiting) == (None, [], "")
    assert len(tiny.writes) == writes
    assert plan.requeue_after == timedelta(seconds=300)


@pytest.mark.parametrize(
    ("change", "written"),
    [
        ({"lastUpdateTime": "2020-01-01T00:00:00Z"}, False),
        ({"observedGeneration": 0}, True),
        ({"desiredCPU": "99"}, True),
        ({"workerGroups": []}, True),
        ({"resources": {}}, True),
        ({"stateTransitionTimes": {}}, False),
        ({"reason": "old"}, True),
        ({"state": ""}, True),
        ({"availableWorkerReplicas": 0}, True),
        ({"maxWorkerReplicas": 1}, True),
        ({"endpoints": {}}, True),
        ({"head": {}}, True),
        ({"conditions": []}, True),
    ],
)
def test_what_is_worth_a_write(kubernetes: Any, cluster: Any, change: dict[str, Any], written: bool) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.cluster["status"] |= change
    assert (tiny.plan().status is not None) is written


def test_more_workers_to_come(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    quota(tiny, "worker")
    tiny.reconcile()
    tiny.start_pods()
    tiny.reconcile()
    assert "state" not in tiny.status
    assert "stateTransitionTimes" not in tiny.status


@pytest.mark.parametrize(
    ("node_type", "marker", "event", "note"),
    [
        ("head", "FailedCreateHeadPod", "FailedToCreateHeadPod", "Failed to create head Pod default/, {1}"),
        (
            "worker",
            "FailedCreateWorkerPod",
            "FailedToCreateWorkerPod",
            "Failed to create worker Pod for the cluster default/pair, {1}",
        ),
    ],
)
def test_refused_pods(kubernetes: Any, cluster: Any, node_type: str, marker: str, event: str, note: str) -> None:
    """RC-09."""
    tiny = kubernetes(cluster())
    quota(tiny, node_type)
    plan = tiny.plan()
    (name,) = [write.name for stage in plan.stages for write in stage if "-head-" in write.name and write.kind == POD]
    tiny.reconcile()
    assert condition(tiny, "ReplicaFailure") == ("True", marker, f"{marker}\nexceeded quota: small")
    assert note.format(name, "exceeded quota: small") in [e.note for e in tiny.events if e.reason == event]
    assert len(tiny.workers) == 0
    assert tiny.status.get("state", "") == ""
    tiny.refuse = lambda write: ""
    tiny.settle()
    assert tiny.condition("ReplicaFailure") is None
    assert tiny.status["state"] == "ready"


def test_a_ready_cluster_stays_ready_when_writes_fail(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    since = tiny.status["stateTransitionTimes"]
    quota(tiny, "worker")
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=5))
    tiny.reconcile()
    assert tiny.condition("ReplicaFailure") is not None
    assert (tiny.status["state"], tiny.status["stateTransitionTimes"]) == ("ready", since)


def test_failures_of_other_writes_leave_replica_failure_alone(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.refuse = lambda write: "no" if write.kind == SERVICE else ""
    tiny.reconcile()
    assert tiny.condition("ReplicaFailure") is None
    assert tiny.pods == {}
    assert [event.note for event in tiny.events] == ["Failed creating service default/pair-head-svc, no"]


def test_before_the_first_head_nothing_is_lost(kubernetes: Any, cluster: Any) -> None:
    """RC-34."""
    tiny = kubernetes(cluster())
    quota(tiny, "head")
    tiny.reconcile()
    assert condition(tiny, "HeadPodReady") == ("False", "HeadPodCreating", "Head Pod is being created")
    tiny.refuse = lambda write: ""
    tiny.reconcile()
    assert condition(tiny, "HeadPodReady") == ("False", "Unknown", "")
    tiny.settle()
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    quota(tiny, "head")
    tiny.reconcile()
    tiny.reconcile()
    assert condition(tiny, "HeadPodReady") == ("False", "HeadPodNotFound", "Head Pod not found")


def not_ready(message: str, *containers: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "phase": "Pending",
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": message}],
        "containerStatuses": [{"name": name, "state": state} for name, state in containers],
    }


PULL = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
ENDED = {"terminated": {"reason": "Error", "message": "boom", "exitCode": 1}}


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        (not_ready("m", ("ray", PULL)), "ImagePullBackOff", "m; ray: no such image"),
        (not_ready("", ("ray", PULL)), "ImagePullBackOff", "ray: no such image"),
        (not_ready("m", ("ray", PULL), ("b", ENDED)), "ImagePullBackOff", "m; ray: no such image"),
        (not_ready("m", ("ok", {"running": {}}), ("b", ENDED)), "Error", "m; b: boom"),
        (not_ready("m"), "ContainersNotReady", "m"),
        (not_ready("m", ("ray", {"waiting": {"message": "x"}})), "ContainersNotReady", "m; ray: x"),
        ({"phase": "Pending"}, "Unknown", ""),
        ({"conditions": [{"type": "Ready", "status": "False"}]}, "Unknown", ""),
    ],
)
def test_head_pod_not_ready(kubernetes: Any, cluster: Any, status: dict[str, Any], reason: str, message: str) -> None:
    tiny = kubernetes(cluster())
    tiny.reconcile()
    tiny.head["status"] = status
    tiny.now += timedelta(seconds=10)
    tiny.reconcile()
    assert condition(tiny, "HeadPodReady") == ("False", reason, message)


def test_provisioned_stays(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    since = tiny.condition("RayClusterProvisioned")
    for name in tiny.pods:
        tiny.set_pod(name, phase="Running", ready=False)
    tiny.now += timedelta(minutes=1)
    tiny.reconcile()
    assert tiny.condition("RayClusterProvisioned") == since
    assert tiny.status["state"] == "ready"


def test_pods_without_a_ready_condition_pass(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.reconcile()
    for name in tiny.pods:
        tiny.set_pod(name, phase="Running")
    tiny.reconcile()
    assert tiny.status["state"] == "ready"
    assert (tiny.status["availableWorkerReplicas"], tiny.status.get("readyWorkerReplicas")) == (3, None)


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([{"maxReplicas": 2147483647, "numOfHosts": 4}], 2147483647),
        ([{"maxReplicas": 1500000000, "numOfHosts": 2}, {"maxReplicas": 1000000000}], 2147483647),
        ([{"maxReplicas": 100, "numOfHosts": 4}], 400),
        ([{"maxReplicas": 100, "suspend": True}], None),
    ],
)
def test_maximum_workers(kubernetes: Any, cluster: Any, group: Any, groups: Any, expected: int | None) -> None:
    body = cluster(groups=[group(f"g{n}", 0, **fields) for n, fields in enumerate(groups)])
    tiny = kubernetes(body)
    tiny.settle()
    assert tiny.status.get("maxWorkerReplicas") == expected


def sized(name: str, **resources: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": name, "image": "x", "resources": resources}]}}


@pytest.mark.parametrize(
    ("head", "fields", "worker", "expected"),
    [
        (
            {"requests": {"cpu": "1", "memory": "100Mi"}},
            {"replicas": 4, "numOfHosts": 2},
            {"requests": {"cpu": "1", "memory": "200Mi"}},
            ("9", "1700Mi", "0", "0"),
        ),
        (
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            {"replicas": 3},
            {"limits": {"cpu": "1", "memory": "1Gi"}},
            ("4", "4Gi", "0", "0"),
        ),
        ({}, {"replicas": 3, "suspend": True}, {"requests": {"cpu": "1"}}, ("0", "0", "0", "0")),
        (
            {},
            {"replicas": 1},
            {"limits": {"gpu": 3, "nvidia.com/mig-1g.10gb": 2, "foo.bar/gpu": 2, "google.com/tpu": 1}},
            ("0", "0", "7", "1"),
        ),
        ({}, {"replicas": 0, "minReplicas": 2}, {"requests": {"cpu": "1"}}, ("0", "0", "0", "0")),
    ],
)
def test_desired_resources(
    kubernetes: Any, cluster: Any, group: Any, head: Any, fields: Any, worker: Any, expected: tuple[str, ...]
) -> None:
    """RC-11 and RC-19."""
    body = cluster(groups=[group(**fields, template=sized("w", **worker))])
    body["spec"]["headGroupSpec"]["template"] = sized("h", **head)
    before = copy.deepcopy(body["spec"])
    tiny = kubernetes(body)
    tiny.settle()
    names = ("desiredCPU", "desiredMemory", "desiredGPU", "desiredTPU")
    assert tuple(tiny.status[name] for name in names) == expected
    assert tiny.cluster["spec"] == before


def test_service_with_an_address(kubernetes: Any, cluster: Any) -> None:
    body = cluster()
    body["spec"]["headGroupSpec"]["serviceType"] = "NodePort"
    tiny = kubernetes(body)
    tiny.settle()
    service = tiny.objects[SERVICE, "pair-head-svc"]
    assert tiny.status["head"]["serviceIP"] == service["spec"]["clusterIP"]
    ports = {port["name"]: str(port["nodePort"]) for port in service["spec"]["ports"]}
    assert tiny.status["endpoints"] == ports


def test_stale_endpoints_are_kept_and_foreign_ones_are_text(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.cluster["status"]["endpoints"] = {"old": "1", "client": "2"}
    tiny.objects[SERVICE, "pair-head-svc"]["spec"]["ports"][0]["targetPort"] = "by-name"
    tiny.now += timedelta(minutes=1)
    tiny.reconcile()
    endpoints = tiny.status["endpoints"]
    assert endpoints["old"] == "1"
    assert "by-name" in endpoints.values()


def test_counts_by_group_and_totals(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-19 and RC-27: what is wanted and what Ray can use now, with the hosts of each replica counted."""
    gpu = sized("w", requests={"cpu": "500m"}, limits={"memory": "1Gi", "nvidia.com/gpu": 1})
    body = cluster(groups=[group("one", 5, maxReplicas=2), group("many", 2, numOfHosts=4, template=gpu)])
    tiny = kubernetes(body)
    tiny.run_pods = False
    tiny.reconcile()
    assert tiny.status["workerGroups"] == [
        {"name": "one", "desired": 2, "ready": 0, "available": 0},
        {"name": "many", "desired": 8, "ready": 0, "available": 0},
    ]
    requested = {"cpu": "7", "memory": "14Gi", "nvidia.com/gpu": "8"}
    assert tiny.status["resources"] == {"requested": requested}
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Running", ready=True)
    hosts = sorted(name for name in tiny.workers if "-many-" in name)
    for number, name in enumerate(hosts[:3]):
        tiny.set_pod(name, phase="Running", ready=number > 0)
    tiny.now += timedelta(seconds=10)
    tiny.reconcile()
    assert tiny.status["workerGroups"][1] == {"name": "many", "desired": 8, "ready": 2, "available": 3}
    allocatable = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "2"}
    assert tiny.status["resources"] == {"requested": requested, "allocatable": allocatable}
    tiny.run_pods = True
    for name in hosts[:1]:
        tiny.set_pod(name, phase="Running", ready=True)
    tiny.settle()
    assert tiny.status["state"] == "ready"
    assert tiny.status["readyWorkerReplicas"] == tiny.status["desiredWorkerReplicas"] == 10
    assert tiny.status["resources"] == {"requested": requested, "allocatable": requested}


def test_what_ray_can_use_is_what_the_pods_have(kubernetes: Any, cluster: Any, group: Any) -> None:
    """Pods of a former spec keep their size, and containers that others put in count for nothing."""
    tiny = kubernetes(cluster(groups=[group(replicas=1, template=sized("w", requests={"cpu": "1"}))]))
    tiny.settle()
    for body in tiny.pods.values():
        body["spec"]["containers"].append({"name": "mesh", "resources": {"requests": {"cpu": "7"}}})
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(template=sized("w", requests={"cpu": "4"})))
    tiny.settle()
    assert tiny.status["resources"] == {
        "requested": {"cpu": "5", "memory": "2Gi"},
        "allocatable": {"cpu": "2", "memory": "2Gi"},
    }


def test_a_suspended_cluster_asks_for_nothing(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.edit(lambda spec: spec.update(suspend=True))
    tiny.settle()
    assert "resources" not in tiny.status
    assert tiny.status["workerGroups"] == [{"name": "crew", "desired": 3, "ready": 0, "available": 0}]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["headGroupSpec"].update(rayStartParams={"num-cpus": "0"}),
        lambda spec: spec["workerGroupSpecs"][0].update(scaleStrategy={"workersToDelete": ["nobody"]}),
        lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0].update(resources={}),
    ],
)
def test_a_new_generation_is_observed_although_nothing_else_changes(kubernetes: Any, cluster: Any, change: Any) -> None:
    """KubeRay's observedGeneration and desired resources lag behind such an edit (spec raycluster.md 9)."""
    tiny = kubernetes(cluster())
    tiny.settle()
    before, times = tiny.status, tiny.status["stateTransitionTimes"]
    tiny.edit(change)
    tiny.now += timedelta(hours=1)
    tiny.settle()
    assert tiny.status["observedGeneration"] == 2
    assert tiny.status["lastUpdateTime"] != before["lastUpdateTime"]
    assert (tiny.status["state"], tiny.status["stateTransitionTimes"]) == ("ready", times)
    assert tiny.status["conditions"] == before["conditions"]
