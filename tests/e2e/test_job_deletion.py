"""What goes after a job by its deletion rules, stage by stage, and what a deleted RayJob leaves behind while its job runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import rayjobs
import yaml
from ledger import Ledger
from rayjobs import HTTP, INTERACTIVE, MODES, SIDECAR, Dashboard
from waiting import eventually

from dev.demo import workload
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

SHARED = "shared"
STAGE = 20
"""Seconds between two stages: more than it takes to look."""


def rule(policy: str, seconds: int, **condition: str) -> dict[str, Any]:
    return {"policy": policy, "condition": {**condition, "ttlSeconds": seconds}}


def with_worker(job: dict[str, Any]) -> dict[str, Any]:
    """The RayJob with one worker in its cluster."""
    (sample,) = (m for m in yaml.safe_load_all(workload.sample("rayjob.yaml")) if m["kind"] == "RayJob")
    job["spec"]["rayClusterSpec"]["workerGroupSpecs"] = sample["spec"]["rayClusterSpec"]["workerGroupSpecs"]
    return job


def look(kubectl: Kubectl, namespace: str, name: str, cluster: str) -> tuple[str, ...]:
    """What is there and not on its way out: the RayJob, its cluster, head and worker."""
    job = kubectl.get("rayjob", name, namespace)
    there = ["job"] if job is not None and "deletionTimestamp" not in job["metadata"] else []
    found = kubectl.get("raycluster", cluster, namespace)
    there += ["cluster"] if found is not None and "deletionTimestamp" not in found["metadata"] else []
    pods = rayjobs.live(kubectl, "pods", namespace, f"ray.io/cluster={cluster}")
    return (*there, *sorted(pod["metadata"]["labels"]["ray.io/node-type"] for pod in pods))


def test_rules_take_workers_then_the_cluster_then_the_job(kubectl: Kubectl, namespace: str, ledger: Ledger) -> None:
    key = f"{namespace}.stages"
    rules = [
        rule("DeleteWorkers", STAGE, jobStatus="SUCCEEDED"),
        rule("DeleteCluster", 2 * STAGE, jobStatus="SUCCEEDED"),
        rule("DeleteSelf", 3 * STAGE, jobStatus="SUCCEEDED"),
    ]
    job = rayjobs.rayjob(
        "stages",
        HTTP,
        ledger.entrypoint(key),
        deletionStrategy={"deletionRules": rules},
        shutdownAfterJobFinishes=None,
        ttlSecondsAfterFinished=None,
    )
    rayjobs.apply(kubectl, namespace, with_worker(job))
    ledger.wait_for_run(key)
    cluster = rayjobs.status(kubectl, namespace, "stages")["rayClusterName"]
    ledger.end(key)
    rayjobs.wait_for_end(kubectl, namespace, "stages")
    seen = [look(kubectl, namespace, "stages", cluster)]

    def all_gone() -> bool:
        now = look(kubectl, namespace, "stages", cluster)
        if now != seen[-1]:
            seen.append(now)
        return now == ()

    eventually(all_gone, 4 * STAGE + 60, "the RayJob is gone")
    stages = [("job", "cluster", "head", "worker"), ("job", "cluster", "head"), ("job",), ()]
    # A pod is asked to go some moments after the cluster it belongs to, and looking takes its time too.
    assert [stage for stage in seen if stage in stages] == stages, seen


def test_a_rule_for_failures_takes_the_cluster_and_leaves_the_job(
    kubectl: Kubectl, namespace: str, ledger: Ledger
) -> None:
    key = f"{namespace}.failure"
    ledger.end(key, 1)
    rules = [
        rule("DeleteSelf", 0, jobStatus="SUCCEEDED"),
        rule("DeleteCluster", 0, jobDeploymentStatus="Failed"),
    ]
    job = rayjobs.rayjob(
        "failure",
        HTTP,
        ledger.entrypoint(key),
        deletionStrategy={"deletionRules": rules},
        shutdownAfterJobFinishes=None,
        ttlSecondsAfterFinished=None,
    )
    rayjobs.apply(kubectl, namespace, job)
    status = rayjobs.wait_for_end(kubectl, namespace, "failure")
    cluster = status["rayClusterName"]
    eventually(lambda: look(kubectl, namespace, "failure", cluster) == ("job",), 90, "only the RayJob is left")
    assert rayjobs.outcome(rayjobs.status(kubectl, namespace, "failure")) == ("Failed", "FAILED", "AppFailed")


def name_of(mode: str) -> str:
    return f"deleted-{mode.removesuffix('Mode').lower()}"


@pytest.fixture(scope="module")
def running(
    kubectl: Kubectl, namespace: str, ledger: Ledger, chosen: Callable[[str], list[Any]]
) -> dict[str, dict[str, Any]]:
    """Statuses of RayJobs of all chosen modes, all of which run; all but the sidecar's on one cluster."""
    modes, found = chosen("mode"), {}
    manifests = []
    for mode in modes:
        place = {} if mode == SIDECAR else {"cluster": SHARED}
        manifests.append(
            rayjobs.rayjob(name_of(mode), mode, ledger.entrypoint(f"{namespace}.{name_of(mode)}"), **place)
        )
    rayjobs.apply(kubectl, namespace, rayjobs.head_only(SHARED), *manifests)
    for mode in modes:
        name = name_of(mode)
        if mode == INTERACTIVE:
            rayjobs.submit_by_hand(kubectl, namespace, name, ledger.entrypoint(f"{namespace}.{name}"))
        ledger.wait_for_run(f"{namespace}.{name}")
        found[mode] = rayjobs.wait_until_running(kubectl, namespace, name)
    return found


@pytest.mark.parametrize("mode", MODES)
def test_a_deleted_rayjob_stops_its_job_and_nothing_else(
    kubectl: Kubectl, namespace: str, ledger: Ledger, running: dict[str, dict[str, Any]], mode: str
) -> None:
    name, before = name_of(mode), running[mode]
    head = rayjobs.head_of(kubectl, namespace, before["rayClusterName"])
    kubectl.delete("rayjob", name, namespace, seconds=90)
    of_job = f"ray.io/originated-from-cr-name={name}"
    if mode == SIDECAR:
        eventually(lambda: not kubectl.list("rayclusters", namespace, of_job), 90, "its cluster is gone")
        gone = f"ray.io/cluster={before['rayClusterName']}"
        eventually(lambda: not kubectl.list("pods", namespace, gone), 90, "its pods are gone")
    else:
        dashboard = Dashboard(before["dashboardURL"])
        # The RayJob is let go once Ray has taken the request; Ray takes some seconds to end the driver.
        eventually(lambda: dashboard.job(before["jobId"]) == "STOPPED", 60, "Ray has stopped the job")
        assert rayjobs.head_of(kubectl, namespace, SHARED)["metadata"]["uid"] == head["metadata"]["uid"]
        eventually(lambda: not rayjobs.submitters(kubectl, namespace, name), 90, "its submitter is gone")
    assert len(ledger.runs(f"{namespace}.{name}")) == 1
