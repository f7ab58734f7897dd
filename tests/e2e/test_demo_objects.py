"""The demo's RayCluster and RayJob, on a cluster where the operator runs as a pod with its own permissions only."""

from __future__ import annotations

import json
import re
import time

import pytest

from dev.demo import install, workload
from dev.demo.kubectl import Kubectl


@pytest.fixture(scope="module")
def applied(kubectl: Kubectl, namespace: str) -> None:
    """Both at once: their waiting overlaps."""
    kubectl.apply(workload.sample("raycluster-autoscaler.yaml"), "-n", namespace)
    kubectl.apply(workload.sample("rayjob.yaml"), "-n", namespace)


def test_the_operator_runs_without_rights_on_its_node(kubectl: Kubectl, operator: str, namespace: str) -> None:
    script = (
        "import json, os, pathlib\n"
        "def refused():\n"
        "    try: pathlib.Path('/opt/new').write_text('')\n"
        "    except OSError as error: return error.strerror\n"
        "status = dict(l.split(':', 1) for l in pathlib.Path('/proc/self/status').read_text().splitlines())\n"
        "print(json.dumps([os.getuid(), refused(), *(status[k].strip() for k in ('CapEff', 'NoNewPrivs', 'Seccomp'))]))\n"
    )
    seen = json.loads(
        kubectl.run("-n", operator, "exec", f"deployment/{install.NAME}", "--", "python", "-c", script).splitlines()[-1]
    )
    user, refusal, capabilities, no_new_privileges, seccomp = seen
    assert user not in (0, None)
    assert refusal == "Read-only file system"
    assert (int(capabilities, 16), no_new_privileges, seccomp) == (0, "1", "2")


def test_the_raycluster_with_the_autoscaler_becomes_ready(kubectl: Kubectl, namespace: str, applied: None) -> None:
    workload.wait_for_cluster(kubectl, namespace, workload.CLUSTER, seconds=420, tell=print)
    cluster = kubectl.get("raycluster", workload.CLUSTER, namespace)
    assert cluster is not None
    status = cluster["status"]
    conditions = {c["type"]: c["status"] for c in status["conditions"]}
    assert (conditions["HeadPodReady"], conditions["RayClusterProvisioned"]) == ("True", "True")
    assert (status["desiredWorkerReplicas"], status["readyWorkerReplicas"]) == (1, 1)
    assert status["observedGeneration"] == cluster["metadata"]["generation"]
    (head,) = kubectl.list("pods", namespace, f"ray.io/cluster={workload.CLUSTER},ray.io/node-type=head")
    assert [c["name"] for c in head["spec"]["containers"]] == ["ray-head", "autoscaler"]
    assert head["spec"]["serviceAccountName"] == workload.CLUSTER
    assert status["head"]["podName"] == head["metadata"]["name"]


def test_the_rayjob_computes_on_its_worker_and_completes(kubectl: Kubectl, namespace: str, applied: None) -> None:
    status = workload.wait_for_job(kubectl, namespace, workload.JOB, seconds=420, tell=print)
    assert (status["jobDeploymentStatus"], status["jobStatus"]) == ("Complete", "SUCCEEDED"), status
    assert (status["succeeded"], status["failed"]) == (1, 0)
    (submitter,) = kubectl.list("pods", namespace, f"batch.kubernetes.io/job-name={workload.JOB}")
    output = kubectl.run("-n", namespace, "logs", submitter["metadata"]["name"])
    result = re.search(
        r"pi is about (\d\.\d+), from 8,000,000 darts in \S+ s on (\S+) \((\S+)\)$", output, re.MULTILINE
    )
    assert result, output
    assert abs(float(result[1]) - 3.1416) < 0.01
    (worker,) = kubectl.list("pods", namespace, f"ray.io/cluster={status['rayClusterName']},ray.io/node-type=worker")
    assert (result[2], result[3]) == (worker["metadata"]["name"], worker["status"]["podIP"])


def test_the_operator_had_all_the_permissions_it_needed(
    kubectl: Kubectl, operator: str, namespace: str, applied: None
) -> None:
    entries = [
        json.loads(line)
        for line in kubectl.run("-n", operator, "logs", f"deployment/{install.NAME}").splitlines()
        if line.startswith("{")
    ]
    assert any(entry["msg"].startswith("serving") for entry in entries)
    assert [entry for entry in entries if entry["level"] in ("error", "critical")] == []
    # No write was refused, for want of a permission or because it came before what it needs.
    by_executor = [entry for entry in entries if entry.get("component", "").endswith("executor")]
    assert [entry for entry in by_executor if f'"namespace": "{namespace}"' in json.dumps(entry)] == []


def test_what_is_deleted_leaves_nothing(kubectl: Kubectl, namespace: str, applied: None) -> None:
    kubectl.delete("rayjob", workload.JOB, namespace)
    kubectl.delete("raycluster", workload.CLUSTER, namespace)
    kinds = "rayclusters,pods,services,jobs,secrets,persistentvolumeclaims,roles,rolebindings,serviceaccounts"
    deadline = time.monotonic() + 90
    left: list[str] = []
    while time.monotonic() < deadline:
        left = kubectl.run("-n", namespace, "get", kinds, "-o", "name").split()
        if left == ["serviceaccount/default"]:
            return
        time.sleep(1)
    pytest.fail(f"still there after 90 s: {left}")
