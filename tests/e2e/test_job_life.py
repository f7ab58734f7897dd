"""RayJobs that fail, and a RayJob whose operator is deleted while it runs. Each has a cluster of a head only."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml

from dev.demo import install, workload
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long


def head_only_job(name: str, entrypoint: str, **spec: Any) -> str:
    """The demo's RayJob without workers and code, its head taking the tasks."""
    (job,) = (m for m in yaml.safe_load_all(workload.sample("rayjob.yaml")) if m["kind"] == "RayJob")
    job["metadata"]["name"] = name
    job["spec"].update(entrypoint=entrypoint, **spec)
    cluster = job["spec"]["rayClusterSpec"]
    del cluster["workerGroupSpecs"]
    head = cluster["headGroupSpec"]
    head["rayStartParams"] = {}
    del head["template"]["spec"]["volumes"], head["template"]["spec"]["containers"][0]["volumeMounts"]
    return yaml.safe_dump(job)


def test_a_job_that_fails_is_tried_again_and_then_given_up(kubectl: Kubectl, namespace: str) -> None:
    kubectl.apply(head_only_job("fails", "python -c 'raise SystemExit(3)'", backoffLimit=1), "-n", namespace)
    clusters: set[str] = set()

    def watch(_: str) -> None:
        job = kubectl.get("rayjob", "fails", namespace) or {}
        clusters.add(job.get("status", {}).get("rayClusterName", ""))

    status = workload.wait_for_job(kubectl, namespace, "fails", seconds=420, tell=watch)
    assert (status["jobDeploymentStatus"], status["jobStatus"], status["reason"]) == ("Failed", "FAILED", "AppFailed")
    assert (status["failed"], status.get("succeeded", 0)) == (2, 0)
    assert len(clusters - {""}) == 2, "each attempt has a cluster of its own"
    assert "exit code 3" in status["message"]


def test_a_job_survives_the_end_of_the_operator(kubectl: Kubectl, operator: str, namespace: str) -> None:
    kubectl.apply(
        head_only_job("survives", "python -c 'import time; time.sleep(25); print(\"slept well\")'"), "-n", namespace
    )
    deadline = time.monotonic() + 240
    while (kubectl.get("rayjob", "survives", namespace) or {}).get("status", {}).get("jobStatus") != "RUNNING":
        assert time.monotonic() < deadline, "the job does not run"
        time.sleep(1)
    (before,) = kubectl.list("pods", operator, install.POD_LABELS)
    kubectl.run("-n", operator, "delete", "pod", before["metadata"]["name"], "--grace-period=0", "--force")
    status = workload.wait_for_job(kubectl, namespace, "survives", tell=print)
    (after,) = kubectl.list("pods", operator, install.POD_LABELS)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert (status["jobDeploymentStatus"], status["jobStatus"]) == ("Complete", "SUCCEEDED"), status
    assert (status["succeeded"], status["failed"]) == (1, 0)
    (submitter,) = kubectl.list("pods", namespace, "batch.kubernetes.io/job-name=survives")
    assert "slept well" in kubectl.run("-n", namespace, "logs", submitter["metadata"]["name"])
    clusters = kubectl.list("rayclusters", namespace, "ray.io/originated-from-cr-name=survives")
    assert [c["metadata"]["name"] for c in clusters] == [status["rayClusterName"]]
