"""A real node without room: the scheduler's words in condition and `kuberay why`, and a pod that the kubelet evicts is replaced while its
event says why.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from waiting import eventually

from dev.demo import workload
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

NAME = "full"


def manifest() -> dict[str, Any]:
    """The autoscaler sample without its autoscaler, and with a worker that may fill two MiB of the node's disk."""
    cluster: dict[str, Any] = yaml.safe_load(workload.sample("raycluster-autoscaler.yaml"))
    cluster["metadata"]["name"] = NAME
    spec = cluster["spec"]
    del spec["enableInTreeAutoscaling"], spec["autoscalerOptions"]
    (group,) = spec["workerGroupSpecs"]
    group.update(groupName="small", replicas=1, minReplicas=0, maxReplicas=4)
    pod = group["template"]["spec"]
    pod.setdefault("volumes", []).append({"name": "scratch", "emptyDir": {"sizeLimit": "2Mi"}})
    pod["containers"][0].setdefault("volumeMounts", []).append({"name": "scratch", "mountPath": "/scratch"})
    return cluster


def edit(kubectl: Kubectl, namespace: str, change: Callable[[list[dict[str, Any]]], None]) -> None:
    found = kubectl.get("raycluster", NAME, namespace)
    assert found is not None
    groups = found["spec"]["workerGroupSpecs"]
    change(groups)
    patch = json.dumps({"spec": {"workerGroupSpecs": groups}})
    kubectl.run("-n", namespace, "patch", "raycluster", NAME, "--type=merge", "-p", patch)


def workers(kubectl: Kubectl, namespace: str, group: str) -> list[str]:
    found = kubectl.list("pods", namespace, f"ray.io/cluster={NAME},ray.io/group={group}")
    return [pod["metadata"]["name"] for pod in found if "deletionTimestamp" not in pod["metadata"]]


def not_ready(kubectl: Kubectl, namespace: str) -> str:
    found = kubectl.get("raycluster", NAME, namespace) or {}
    conditions = (found.get("status") or {}).get("conditions") or ()
    return next((str(each["message"]) for each in conditions if each["type"] == "PodsNotReady"), "")


def why(namespace: str) -> str:
    command = [sys.executable, "-m", "kuberay.cli.main", "why", f"raycluster/{NAME}", "-n", namespace]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def test_a_node_without_room(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(yaml.safe_dump(manifest()), "-n", namespace)
    workload.wait_for_cluster(kubectl, namespace, NAME, seconds=420, tell=print)
    kept = workers(kubectl, namespace, "small")

    def large(groups: list[dict[str, Any]]) -> None:
        group = json.loads(json.dumps(groups[0]))
        group["groupName"] = "large"
        amounts = {"cpu": "500", "memory": "1Gi"}
        group["template"]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
        groups.append(group)

    edit(kubectl, namespace, large)
    eventually(
        lambda: "Insufficient cpu" in not_ready(kubectl, namespace), 120, "the condition has the scheduler's words"
    )
    (waits,) = workers(kubectl, namespace, "large")
    assert f"pod {waits} of group large: Unschedulable: 0/1 nodes are available" in not_ready(kubectl, namespace)
    assert "Insufficient cpu" in why(namespace)
    assert workers(kubectl, namespace, "small") == kept
    edit(kubectl, namespace, lambda groups: groups[1].update(replicas=0))
    eventually(lambda: not not_ready(kubectl, namespace), 120, "nothing is wrong any more")
    assert workers(kubectl, namespace, "small") == kept

    # More than its volume may hold: the kubelet ends the pod for good.
    (evicted,) = kept
    fill = ("dd", "if=/dev/zero", "of=/scratch/full", "bs=1M", "count=16")
    kubectl.run("-n", namespace, "exec", evicted, "--", *fill)
    eventually(lambda: evicted not in workers(kubectl, namespace, "small"), 300, "the evicted worker has gone")
    eventually(lambda: len(workers(kubectl, namespace, "small")) == 1, 60, "another one is in its place")

    def notes() -> str:
        events = kubectl.list("events.events.k8s.io", namespace)
        return "\n".join(str(event.get("note")) for event in events if event.get("reason") == "DeletedWorkerPod")

    eventually(lambda: evicted in notes(), 60, "an event tells of it")
    assert "(Evicted: Usage of EmptyDir volume" in notes()
    workload.wait_for_cluster(kubectl, namespace, NAME, seconds=300, tell=print)
