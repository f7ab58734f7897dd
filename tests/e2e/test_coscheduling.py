"""Gangs on a real scheduler with Coscheduling, that fit only one at a time: one runs whole, the other waits whole.

The node has room for a gang and a bit, so that without a gang both would get some pods and neither all.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from rayjobs import K8S, apply, head_only, rayjob, status
from waiting import eventually

from dev.demo import install, workload
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

SCHEDULER = "scheduler-plugins-scheduler"
CRD = "podgroups.scheduling.x-k8s.io"
GANG = {"ray.io/gang-scheduling-enabled": "true"}
LOOKS_AGAIN = 420
"""Seconds until the scheduler is sure to have looked again at pods that did not fit: after five minutes at the latest."""


@pytest.fixture(scope="module")
def coscheduling(kubectl: Kubectl, operator: str) -> Iterator[None]:
    """The operator with this scheduler, and the permissions that its plugin asks for; afterwards as it was."""
    if kubectl.get("crd", CRD) is None:
        pytest.fail(f"this cluster has no {CRD}: a development cluster with a node brings it and the scheduler")
    install.install_operator(kubectl, batch_scheduler="scheduler-plugins")
    install.wait_for_operator(kubectl)
    yield
    install.install_operator(kubectl)
    install.wait_for_operator(kubectl)


@pytest.fixture(scope="module")
def millis(kubectl: Kubectl) -> int:
    """Thousandths of a CPU that the node gives to pods."""
    (node,) = kubectl.list("nodes")
    text = node["status"]["allocatable"]["cpu"]
    return int(text.removesuffix("m")) if text.endswith("m") else 1000 * int(text)


def gang(name: str, workers: int, cpu: int) -> dict[str, Any]:
    """A RayCluster that asks for a gang; each pod requests *cpu* thousandths."""
    cluster = head_only(name)
    cluster["metadata"]["labels"] = dict(GANG)
    head = cluster["spec"]["headGroupSpec"]["template"]
    (container,) = head["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": f"{cpu}m", "memory": "256Mi"}, "limits": {"memory": "2Gi"}}
    worker = {"name": "ray-worker", "image": container["image"], "resources": container["resources"]}
    group = {"groupName": "small", "replicas": workers, "minReplicas": workers, "maxReplicas": workers}
    group |= {"rayStartParams": {}, "template": {"spec": {"containers": [worker]}}}
    cluster["spec"]["workerGroupSpecs"] = [group]
    return cluster


def placed(kubectl: Kubectl, namespace: str, cluster: str) -> list[str]:
    """Pods of a cluster that have a node."""
    found = kubectl.list("pods", namespace, f"ray.io/cluster={cluster}")
    return [pod["metadata"]["name"] for pod in found if pod["spec"].get("nodeName")]


def why(namespace: str, what: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "kuberay.cli.main", "why", what, "-n", namespace, "-o", "json"]
    found: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return found


def state(kubectl: Kubectl, namespace: str, name: str) -> str:
    return str((kubectl.get("raycluster", name, namespace) or {}).get("status", {}).get("state", ""))


def test_of_two_gangs_one_runs_whole_and_the_other_waits_whole(
    kubectl: Kubectl, namespace: str, coscheduling: None, millis: int
) -> None:
    apply(kubectl, namespace, *(gang(name, 2, millis // 4) for name in ("left", "right")))
    seen: dict[str, int] = {}

    def first() -> str:
        for name in ("left", "right"):
            seen[name] = max(seen.get(name, 0), len(placed(kubectl, namespace, name)))
        return next((name for name, count in seen.items() if count == 3), "")

    eventually(lambda: bool(first()), LOOKS_AGAIN, "one gang has all its pods placed")
    runs = first()
    (waits,) = {"left", "right"} - {runs}
    deadline = time.monotonic() + 300
    while state(kubectl, namespace, runs) != "ready":
        assert time.monotonic() < deadline, f"RayCluster {runs} did not become ready"
        assert placed(kubectl, namespace, waits) == [], "the other gang has got a part of its pods"
        time.sleep(1)
    assert seen[waits] == 0
    assert len(kubectl.list("pods", namespace, f"ray.io/cluster={waits}")) == 3, "all are there, and wait"
    group = kubectl.get(CRD, waits, namespace)
    assert group is not None
    assert group["spec"]["minMember"] == 3
    pods = kubectl.list("pods", namespace, f"ray.io/cluster={waits}")
    assert {pod["spec"]["schedulerName"] for pod in pods} == {SCHEDULER}

    def told() -> str:
        return json.dumps(why(namespace, f"raycluster/{waits}")["findings"])

    eventually(lambda: f"see PodGroup {waits}." in told(), 120, "kuberay why names what the gang waits for")
    assert f"{SCHEDULER} starts pods only when there is room for 3 together" in told()
    assert "Unschedulable" in told()
    assert placed(kubectl, namespace, waits) == []

    kubectl.delete("raycluster", runs, namespace)
    eventually(lambda: len(placed(kubectl, namespace, waits)) == 3, LOOKS_AGAIN, "the other gang is placed")
    workload.wait_for_cluster(kubectl, namespace, waits, tell=print)
    assert why(namespace, f"raycluster/{waits}")["findings"] == []
    kubectl.delete("raycluster", waits, namespace)


def test_jobs_whose_gangs_would_leave_no_room_for_submitters_run_one_after_the_other(
    kubectl: Kubectl, namespace: str, coscheduling: None, millis: int
) -> None:
    """Both gangs fit at once, but then no submitter does: each would wait for the other's for ever."""
    names = ("one", "two")
    submitter = rayjob("x", K8S, "true")["spec"]["submitterPodTemplate"]
    (container,) = submitter["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": f"{millis * 15 // 100}m", "memory": "128Mi"}}
    for name in names:
        job = rayjob(name, K8S, "python -c 'import ray; ray.init(); print(len(ray.nodes()))'")
        job["metadata"]["labels"] = dict(GANG)
        job["spec"] |= {
            "rayClusterSpec": gang(name, 1, millis * 225 // 1000)["spec"],
            "submitterPodTemplate": submitter,
            "ttlSecondsAfterFinished": 0,
        }
        apply(kubectl, namespace, job)
    together: list[tuple[str, ...]] = []

    def ended() -> bool:
        pods = kubectl.list("pods", namespace, "ray.io/node-type")
        live = [pod for pod in pods if pod["spec"].get("nodeName") and "deletionTimestamp" not in pod["metadata"]]
        clusters = {pod["metadata"]["labels"]["ray.io/cluster"] for pod in live}
        if len(clusters) > 1:
            together.append(tuple(sorted(clusters)))
        states = {name: status(kubectl, namespace, name).get("jobDeploymentStatus") for name in names}
        assert "Failed" not in states.values(), states
        return set(states.values()) == {"Complete"}

    eventually(ended, 300 + LOOKS_AGAIN, "both jobs are Complete")
    assert together == [], "one had to wait until the other had gone"
    assert {status(kubectl, namespace, name)["jobStatus"] for name in names} == {"SUCCEEDED"}
