"""The autoscaler decides, the operator obeys: tasks without a place bring workers, idle workers go by name."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
import yaml
from waiting import eventually

from dev.demo import workload
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

SPECIAL = "special"
"""A second group, empty at first; its workers alone have the resource of that name."""

# Two CPUs at once, where one worker has one, and one task that only the second group can take.
TASKS = (
    "import ray, time; ray.init(log_to_driver=False)\n"
    "@ray.remote(num_cpus=1)\n"
    "def task():\n"
    "    time.sleep(15)\n"
    "    return ray.util.get_node_ip_address()\n"
    f"special = task.options(num_cpus=0, resources={{'{SPECIAL}': 1}}).remote()\n"
    "print('ran on', *sorted(set(ray.get([task.remote() for _ in range(4)]))))\n"
    "print('special on', ray.get(special))\n"
)


def manifest() -> str:
    """The sample, with the second group."""
    cluster = yaml.safe_load(workload.sample("raycluster-autoscaler.yaml"))
    (group,) = cluster["spec"]["workerGroupSpecs"]
    params = {"num-cpus": "0", "resources": f"'{{\"{SPECIAL}\": 1}}'"}
    second = {
        **group,
        "groupName": SPECIAL,
        "replicas": 0,
        "minReplicas": 0,
        "maxReplicas": 1,
        "rayStartParams": params,
    }
    cluster["spec"]["workerGroupSpecs"] = [group, second]
    return yaml.safe_dump(cluster)


def test_workers_of_two_groups_come_for_tasks_and_go_when_idle(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(manifest(), "-n", namespace)
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
    *_, ran, special = output.strip().splitlines()
    places = ran.removeprefix("ran on ").split()
    grown = workers(kubectl, namespace)
    (specialist,) = workers(kubectl, namespace, SPECIAL)
    assert special == f"special on {specialist['status']['podIP']}"
    assert len(places) >= 2, output
    assert set(places) <= {pod["status"].get("podIP") for pod in grown}, "tasks ran elsewhere than on workers"

    eventually(lambda: len(workers(kubectl, namespace)) == 1, 180, "only the minimum of workers")
    eventually(lambda: not workers(kubectl, namespace, SPECIAL), 180, "no worker of the second group")
    (left,) = workers(kubectl, namespace)
    gone = {pod["metadata"]["name"] for pod in grown} - {left["metadata"]["name"]}
    wanted = group(kubectl, namespace)
    assert wanted["replicas"] == 1
    assert gone <= set(wanted["scaleStrategy"]["workersToDelete"]), "a worker went that the autoscaler had not named"
    workload.wait_for_cluster(kubectl, namespace, workload.CLUSTER, seconds=420, tell=print)


def workers(kubectl: Kubectl, namespace: str, group: str = "small") -> list[dict[str, Any]]:
    """Worker pods of a group that are not on their way out."""
    pods = kubectl.list("pods", namespace, f"ray.io/cluster={workload.CLUSTER},ray.io/group={group}")
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def group(kubectl: Kubectl, namespace: str) -> dict[str, Any]:
    cluster = kubectl.get("raycluster", workload.CLUSTER, namespace)
    assert cluster is not None
    found: dict[str, Any] = cluster["spec"]["workerGroupSpecs"][0]
    return found
