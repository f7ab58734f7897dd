"""A worker that is no longer wanted finishes what runs on it, through Ray's own draining, and only then goes."""

from __future__ import annotations

import json
import subprocess
import time
from datetime import datetime
from typing import Any

import pytest
import yaml

from dev.demo import workload
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

NAME = "leaving"
TASKS = """
import json, ray, time
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=0)
class Board:
    def __init__(self):
        self.begun = 0
    def begin(self):
        self.begun += 1
    def count(self):
        return self.begun
@ray.remote(num_cpus=1, max_retries=0)
def work(board):
    begun = time.time()
    ray.get(board.begin.remote())
    time.sleep(15)
    return ray.util.get_node_ip_address(), begun, time.time()
here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
board = Board.options(scheduling_strategy=here).remote()
tasks = [work.remote(board) for _ in range(2)]
while ray.get(board.count.remote()) < 2:
    time.sleep(0.1)
print("started", flush=True)
print(json.dumps(ray.get(tasks)), flush=True)
"""


def manifest() -> dict[str, Any]:
    """Two workers with a CPU each; the head has none."""
    cluster: dict[str, Any] = yaml.safe_load(workload.sample("raycluster-autoscaler.yaml"))
    cluster["metadata"]["name"] = NAME
    spec = cluster["spec"]
    del spec["enableInTreeAutoscaling"], spec["autoscalerOptions"]
    spec["headGroupSpec"]["rayStartParams"] = {"num-cpus": "0"}
    (group,) = spec["workerGroupSpecs"]
    group |= {"replicas": 2, "minReplicas": 0, "rayStartParams": {"num-cpus": "1"}}
    return cluster


def test_a_task_on_the_worker_that_goes_ends_before_its_pod(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(yaml.safe_dump(manifest()), "-n", namespace)
    workload.wait_for_cluster(kubectl, namespace, NAME, seconds=420, tell=print)
    (head,) = kubectl.list("pods", namespace, f"ray.io/cluster={NAME},ray.io/node-type=head")
    words = [*kubectl.words, "-n", namespace, "exec", head["metadata"]["name"], "-c", "ray-head", "--"]
    driver = subprocess.Popen(
        [*words, "python", "-c", TASKS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert driver.stdout is not None
        assert driver.stdout.readline().strip() == "started"
        group = {**manifest()["spec"]["workerGroupSpecs"][0], "replicas": 1}
        patch = json.dumps({"spec": {"workerGroupSpecs": [group]}})
        kubectl.run("-n", namespace, "patch", "raycluster", NAME, "--type=merge", "-p", patch)
        leaving = marked(kubectl, namespace, seconds=10)
        output, errors = driver.communicate(timeout=120)
    finally:
        driver.kill()
    assert driver.returncode == 0, errors
    results = {ip: (begun, ended) for ip, begun, ended in json.loads(output.strip().splitlines()[-1])}
    assert len(results) == 2, "both workers had a task"
    begun, ended = results[leaving["status"]["podIP"]]

    told = deletion(kubectl, namespace, leaving["metadata"]["name"], seconds=60)
    deleted = datetime.fromisoformat(told["eventTime"]).timestamp()
    assert ended - begun < 20, "the task was not started anew"
    assert ended < deleted < ended + 10
    assert told["note"] == f"Deleted Pod {namespace}/{leaving['metadata']['name']}", "drained, and not given up on"
    workload.wait_for_cluster(kubectl, namespace, NAME, seconds=120, tell=print)
    (left,) = workers(kubectl, namespace)
    assert left["metadata"]["name"] != leaving["metadata"]["name"]


def workers(kubectl: Kubectl, namespace: str) -> list[dict[str, Any]]:
    found = kubectl.list("pods", namespace, f"ray.io/cluster={NAME},ray.io/node-type=worker")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def marked(kubectl: Kubectl, namespace: str, *, seconds: float) -> dict[str, Any]:
    """The worker that has been chosen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pod in workers(kubectl, namespace):
            if "ray.io/draining-since" in pod["metadata"].get("annotations", {}):
                return pod
        time.sleep(0.5)
    raise AssertionError(f"no worker was marked as draining within {seconds:.0f} s")


def deletion(kubectl: Kubectl, namespace: str, pod: str, *, seconds: float) -> dict[str, Any]:
    """The operator's event about the deleted pod."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for event in kubectl.list("events.events.k8s.io", namespace):
            if event["reason"] == "DeletedWorkerPod" and pod in event.get("note", ""):
                return event
        time.sleep(1)
    raise AssertionError(f"no event about the deletion of {pod} within {seconds:.0f} s")
