"""One RayCluster with two worker groups on real Ray: edits of replicas, a lost worker, and a new image for one group.

The job that runs on the other group must not notice any of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml
from waiting import eventually

from dev.demo import workload
from dev.demo.install import OUR_RAY_IMAGE
from dev.demo.kubectl import Kubectl, KubectlError

pytestmark = pytest.mark.long

NAME = "pair"
NEXT_IMAGE = f"{OUR_RAY_IMAGE}-next"
GROUPS = ("left", "right")

LONG_TASK = """
import ray, sys, time
ray.init(address="auto", log_to_driver=False)
@ray.remote(num_cpus=0, resources={"left": 1}, max_retries=0)
def work(seconds):
    time.sleep(seconds)
    return ray.util.get_node_ip_address()
print("done on", ray.get(work.remote(float(sys.argv[1]))), flush=True)
"""


def manifest() -> dict[str, Any]:
    """The autoscaler sample without its autoscaler, with two groups that can be told apart in Ray."""
    cluster: dict[str, Any] = yaml.safe_load(workload.sample("raycluster-autoscaler.yaml"))
    cluster["metadata"]["name"] = NAME
    spec = cluster["spec"]
    del spec["enableInTreeAutoscaling"], spec["autoscalerOptions"]
    spec["upgradeStrategy"] = {"type": "Rolling"}
    (group,) = spec["workerGroupSpecs"]
    spec["workerGroupSpecs"] = [
        {
            **group,
            "groupName": name,
            "replicas": 1,
            "minReplicas": 0,
            "rayStartParams": {"resources": f"'{{\"{name}\": 1}}'"},
        }
        for name in GROUPS
    ]
    return cluster


@pytest.fixture(scope="module")
def cluster(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    kubectl.apply(yaml.safe_dump(manifest()), "-n", namespace)
    workload.wait_for_cluster(kubectl, namespace, NAME, seconds=420, tell=print)
    yield namespace
    kubectl.delete("raycluster", NAME, namespace)


def edit(kubectl: Kubectl, namespace: str, group: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change one worker group as `kubectl edit` does."""
    found = kubectl.get("raycluster", NAME, namespace)
    assert found is not None
    groups = found["spec"]["workerGroupSpecs"]
    change(next(g for g in groups if g["groupName"] == group))
    patch = json.dumps({"spec": {"workerGroupSpecs": groups}})
    kubectl.run("-n", namespace, "patch", "raycluster", NAME, "--type=merge", "-p", patch)


def pods(kubectl: Kubectl, namespace: str, group: str) -> dict[str, dict[str, Any]]:
    """Pods of a group that are not on their way out, by name."""
    found = kubectl.list("pods", namespace, f"ray.io/cluster={NAME},ray.io/group={group}")
    return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}


def ready(pod: dict[str, Any]) -> bool:
    return any(c["type"] == "Ready" and c["status"] == "True" for c in pod["status"].get("conditions", []))


def ray_nodes(kubectl: Kubectl, namespace: str, group: str) -> int:
    """How many living nodes of the group Ray itself counts."""
    code = (
        "import ray; ray.init(address='auto', log_to_driver=False); "
        f"print('alive', sum(n['Alive'] and '{group}' in n['Resources'] for n in ray.nodes()))"
    )
    return int(run_on_head(kubectl, namespace, code).rpartition("alive ")[2].split()[0])


def run_on_head(kubectl: Kubectl, namespace: str, code: str, *arguments: str) -> str:
    (head,) = kubectl.list("pods", namespace, f"ray.io/cluster={NAME},ray.io/node-type=head")
    words = (
        "-n",
        namespace,
        "exec",
        head["metadata"]["name"],
        "-c",
        "ray-head",
        "--",
        "python",
        "-c",
        code,
        *arguments,
    )
    return kubectl.run(*words, seconds=240)


def test_edits_scale_each_group_by_itself(kubectl: Kubectl, cluster: str) -> None:
    kept = set(pods(kubectl, cluster, "left"))
    edit(kubectl, cluster, "right", lambda group: group.update(replicas=2))
    eventually(lambda: ray_nodes(kubectl, cluster, "right") == 2, 180, "Ray sees two nodes of the group")
    edit(kubectl, cluster, "right", lambda group: group.update(replicas=1))
    eventually(lambda: len(pods(kubectl, cluster, "right")) == 1, 120, "one pod is left")
    eventually(lambda: ray_nodes(kubectl, cluster, "right") == 1, 120, "Ray sees one node of the group")
    assert set(pods(kubectl, cluster, "left")) == kept


def test_a_killed_worker_is_replaced(kubectl: Kubectl, cluster: str) -> None:
    (killed,) = pods(kubectl, cluster, "right")
    kubectl.run("-n", cluster, "delete", "pod", killed, "--grace-period=0", "--force")

    def replaced() -> bool:
        found = pods(kubectl, cluster, "right")
        return killed not in found and len(found) == 1 and all(ready(pod) for pod in found.values())

    eventually(replaced, 180, "another worker is ready")
    eventually(lambda: ray_nodes(kubectl, cluster, "right") == 1, 120, "Ray sees one node of the group")


def test_a_new_image_for_one_group_leaves_the_job_on_the_other_alone(kubectl: Kubectl, cluster: str) -> None:
    edit(kubectl, cluster, "right", lambda group: group.update(replicas=2))
    eventually(lambda: ray_nodes(kubectl, cluster, "right") == 2, 180, "Ray sees two nodes of the group")
    before = pods(kubectl, cluster, "left")
    head = pods(kubectl, cluster, "headgroup")
    job = _start_job(kubectl, cluster, seconds=60)

    def new_image(group: dict[str, Any]) -> None:
        group["template"]["spec"]["containers"][0]["image"] = NEXT_IMAGE

    edit(kubectl, cluster, "right", new_image)
    least = 2

    def upgraded() -> bool:
        nonlocal least
        found = pods(kubectl, cluster, "right")
        least = min(least, sum(ready(pod) for pod in found.values()))
        images = [pod["spec"]["containers"][0]["image"] for pod in found.values()]
        return images == [NEXT_IMAGE] * 2 and all(ready(pod) for pod in found.values())

    eventually(upgraded, 300, "both pods of the group have the new image")
    assert least >= 1, "the group was never without a ready pod"
    place = job()
    assert place == next(iter(before.values()))["status"]["podIP"]
    assert set(pods(kubectl, cluster, "left")) == set(before)
    assert set(pods(kubectl, cluster, "headgroup")) == set(head)
    eventually(lambda: ray_nodes(kubectl, cluster, "right") == 2, 120, "Ray sees two nodes of the group")


def _start_job(kubectl: Kubectl, namespace: str, seconds: float) -> Callable[[], str]:
    """Submit a task to the group "left" that must not be retried; the function waits for it and tells where it ran."""
    (head,) = kubectl.list("pods", namespace, f"ray.io/cluster={NAME},ray.io/node-type=head")
    ray = ("-n", namespace, "exec", head["metadata"]["name"], "-c", "ray-head", "--", "ray", "job")
    submit = ("submit", "--no-wait", "--submission-id", "long", "--", "python", "-c", LONG_TASK, str(seconds))
    kubectl.run(*ray, *submit)

    def status() -> str:
        try:
            return kubectl.run(*ray, "status", "long")
        except KubectlError as error:
            return str(error)

    def running() -> bool:
        text = status()
        assert "failed" not in text, text
        return "RUNNING" in text

    eventually(running, 60, "the job runs")

    def wait() -> str:
        eventually(lambda: "succeeded" in status() or "failed" in status(), seconds + 60, "the job has ended")
        log = kubectl.run(*ray, "logs", "long")
        assert "done on " in log, log
        return log.rpartition("done on ")[2].split()[0]

    return wait
