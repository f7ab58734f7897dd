"""The autoscaler decides, the operator obeys: tasks without a place bring workers, idle workers go by name."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from dev.demo import workload
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

# Two CPUs at once, where one worker has one.
TASKS = (
    "import ray, time; ray.init(log_to_driver=False)\n"
    "@ray.remote(num_cpus=1)\n"
    "def task():\n"
    "    time.sleep(15)\n"
    "    return ray.util.get_node_ip_address()\n"
    "print('ran on', *sorted(set(ray.get([task.remote() for _ in range(4)]))))\n"
)


def test_workers_come_for_tasks_and_go_when_idle(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(workload.sample("raycluster-autoscaler.yaml"), "-n", namespace)
    workload.wait_for_cluster(kubectl, namespace, workload.CLUSTER, seconds=420, tell=print)
    (head,) = kubectl.list("pods", namespace, f"ray.io/cluster={workload.CLUSTER},ray.io/node-type=head")
    driver = subprocess.Popen(
        [
            *kubectl.words,
            "-n",
            namespace,
            "exec",
            head["metadata"]["name"],
            "-c",
            "ray-head",
            "--",
            "python",
            "-c",
            TASKS,
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        eventually(lambda: len(workers(kubectl, namespace)) >= 2, 180, "a second worker")
        output, errors = driver.communicate(timeout=240)
    finally:
        driver.kill()
    assert driver.returncode == 0, errors
    places = output.strip().splitlines()[-1].removeprefix("ran on ").split()
    grown = workers(kubectl, namespace)
    assert len(places) >= 2, output
    assert set(places) <= {pod["status"].get("podIP") for pod in grown}, "tasks ran elsewhere than on workers"

    eventually(lambda: len(workers(kubectl, namespace)) == 1, 180, "only the minimum of workers")
    (left,) = workers(kubectl, namespace)
    gone = {pod["metadata"]["name"] for pod in grown} - {left["metadata"]["name"]}
    wanted = group(kubectl, namespace)
    assert wanted["replicas"] == 1
    assert gone <= set(wanted["scaleStrategy"]["workersToDelete"]), "a worker went that the autoscaler had not named"
    workload.wait_for_cluster(kubectl, namespace, workload.CLUSTER, seconds=420, tell=print)


def workers(kubectl: Kubectl, namespace: str) -> list[dict[str, Any]]:
    """Worker pods that are not on their way out."""
    pods = kubectl.list("pods", namespace, f"ray.io/cluster={workload.CLUSTER},ray.io/node-type=worker")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def group(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    cluster = kubectl.get("raycluster", workload.CLUSTER, namespace)
    assert cluster is not None
    found: dict[str, Any] = cluster["spec"]["workerGroupSpecs"][0]
    return found


def eventually(check: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:.0f} s"
        time.sleep(1)
