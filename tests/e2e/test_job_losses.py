"""What becomes of a job that runs when its submitter or its head is killed: docs/rayjob-outcomes.md, on real Ray.

SidecarMode has a cluster for each job; the others share one, whose head is killed last. No job runs twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import node
import pytest
import rayjobs
from ledger import Ledger
from rayjobs import HTTP, INTERACTIVE, K8S, SIDECAR, Dashboard
from waiting import eventually

from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

SHARED = "shared"
SUBMITTER = "ray-job-submitter"
DELETED, KILLED, HEAD, BOTH = "submitter-deleted", "submitter-killed", "head-killed", "both-killed"


def name_of(mode: str, loss: str) -> str:
    return f"{mode.removesuffix('Mode').lower()}-{loss}"


@pytest.fixture(scope="module")
def running(kubectl: Kubectl, namespace: str, ledger: Ledger, chosen: Callable[[str], list[Any]]) -> None:
    """The RayJobs of all chosen cases, each of them run by Ray."""
    cases = chosen("case")
    manifests = []
    for mode, loss in cases:
        name = name_of(mode, loss)
        place = {} if mode == SIDECAR else {"cluster": SHARED}
        limit = {"submitterConfig": {"backoffLimit": 0}} if (mode, loss) == (K8S, KILLED) else {}
        manifests.append(rayjobs.rayjob(name, mode, ledger.entrypoint(f"{namespace}.{name}"), **place, **limit))
    rayjobs.apply(kubectl, namespace, rayjobs.head_only(SHARED), *manifests)
    for mode, loss in cases:
        name = name_of(mode, loss)
        if mode == INTERACTIVE:
            rayjobs.submit_by_hand(kubectl, namespace, name, ledger.entrypoint(f"{namespace}.{name}"))
        ledger.wait_for_run(f"{namespace}.{name}")
        rayjobs.wait_until_running(kubectl, namespace, name)


@pytest.mark.parametrize("case", [(K8S, DELETED)], ids="-".join)
def test_a_job_whose_submitter_pod_is_deleted_goes_on(
    kubectl: Kubectl, namespace: str, ledger: Ledger, running: None, case: tuple[str, str]
) -> None:
    """RJ-04: the submitter pod is not the job."""
    name = name_of(*case)
    key = f"{namespace}.{name}"
    (before,) = rayjobs.submitters(kubectl, namespace, name)
    kubectl.run("-n", namespace, "delete", "pod", before["metadata"]["name"], "--grace-period=0", "--force")

    def follows() -> bool:
        return any(f"{key} runs" in log for log in logs())

    def logs() -> list[str]:
        pods = [pod["metadata"]["name"] for pod in rayjobs.submitters(kubectl, namespace, name)]
        later = [pod for pod in pods if pod != before["metadata"]["name"]]
        return [kubectl.try_run("-n", namespace, "logs", pod) for pod in later]

    eventually(follows, 180, "another submitter pod follows the log from its beginning")
    ledger.end(key)
    status = rayjobs.wait_for_end(kubectl, namespace, name)
    assert rayjobs.outcome(status) == ("Complete", "SUCCEEDED", "Succeeded"), status
    assert rayjobs.counts(status) == (1, 0)
    assert any(f"{key} ends with 0" in log for log in logs())
    assert len(ledger.runs(key)) == 1


@pytest.mark.parametrize("case", [(K8S, KILLED), (SIDECAR, KILLED)], ids="-".join)
def test_a_job_whose_submitter_is_killed_for_good_is_stopped(
    kubectl: Kubectl, namespace: str, ledger: Ledger, running: None, case: tuple[str, str]
) -> None:
    name = name_of(*case)
    before = rayjobs.status(kubectl, namespace, name)
    if case[0] == K8S:
        (pod,) = rayjobs.submitters(kubectl, namespace, name)
    else:
        pod = rayjobs.head_of(kubectl, namespace, before["rayClusterName"])
    node.kill(pod, SUBMITTER)
    status = rayjobs.wait_for_end(kubectl, namespace, name)
    assert (status["jobDeploymentStatus"], status["reason"]) == ("Failed", "SubmissionFailed"), status
    assert rayjobs.counts(status) == (0, 1)
    dashboard = Dashboard(before["dashboardURL"])
    eventually(lambda: dashboard.job(before["jobId"]) == "STOPPED", 60, "Ray has stopped the job")
    assert len(ledger.runs(f"{namespace}.{name}")) == 1


@pytest.fixture(scope="module")
def headless(kubectl: Kubectl, namespace: str, running: None, chosen: Callable[[str], list[Any]]) -> list[str]:
    """The heads of all chosen cases are killed; gives their uids."""
    names = [name_of(mode, loss) for mode, loss in chosen("case") if loss in (HEAD, BOTH)]
    clusters = {rayjobs.status(kubectl, namespace, name)["rayClusterName"] for name in names}
    heads = [rayjobs.head_of(kubectl, namespace, cluster)["metadata"] for cluster in clusters]
    if name_of(K8S, BOTH) in names:
        _renew_submitter(kubectl, namespace, name_of(K8S, BOTH))
    for head in heads:
        kubectl.run("-n", namespace, "delete", "pod", head["name"], "--grace-period=0", "--force")
    return [head["uid"] for head in heads]


def _renew_submitter(kubectl: Kubectl, namespace: str, name: str) -> None:
    """Have another submitter pod begin, which has not yet looked whether Ray knows the job."""
    (before,) = rayjobs.submitters(kubectl, namespace, name)
    kubectl.run("-n", namespace, "delete", "pod", before["metadata"]["name"], "--grace-period=0", "--force")

    def begun() -> bool:
        return any(pod["status"]["phase"] == "Running" for pod in rayjobs.submitters(kubectl, namespace, name))

    eventually(begun, 120, "another submitter pod has begun")


@pytest.mark.parametrize(
    "case", [(SIDECAR, HEAD), (K8S, HEAD), (K8S, BOTH), (HTTP, HEAD), (INTERACTIVE, HEAD)], ids="-".join
)
def test_a_job_whose_head_is_killed_fails_and_is_not_run_again(
    kubectl: Kubectl, namespace: str, ledger: Ledger, headless: list[str], case: tuple[str, str]
) -> None:
    """RJ-01: in no mode is the job handed in to the next head."""
    name, (mode, _) = name_of(*case), case
    status = rayjobs.wait_for_end(kubectl, namespace, name, seconds=240)
    assert rayjobs.outcome(status) == ("Failed", "RUNNING", "AppFailed"), status
    assert rayjobs.counts(status) == (0, 1)
    selector = f"ray.io/cluster={status['rayClusterName']},ray.io/node-type=head"
    cluster = kubectl.get("raycluster", status["rayClusterName"], namespace)
    assert cluster is not None
    final = cluster["metadata"].get("annotations", {}).get("ray.io/disable-provisioned-head-restart")
    if mode == SIDECAR:
        assert final == "true"
        assert rayjobs.live(kubectl, "pods", namespace, selector) == [], "the head is made again"
    else:
        assert final is None
        head = rayjobs.head_of(kubectl, namespace, SHARED)
        assert head["metadata"]["uid"] not in headless
        assert status["jobId"] not in Dashboard(status["dashboardURL"]).ids(), "handed in again"
    if mode == K8S:
        job = kubectl.get("job", name, namespace)
        assert job is not None
        assert job["spec"]["suspend"] is True
        assert job["metadata"]["annotations"][rayjobs.SUBMITTER_SILENCED] == "true"

        def at_work() -> list[str]:
            phases = [pod["status"]["phase"] for pod in rayjobs.submitters(kubectl, namespace, name)]
            return [phase for phase in phases if phase not in ("Succeeded", "Failed")]

        eventually(lambda: at_work() == [], 60, "no submitter is at work")
    assert len(ledger.runs(f"{namespace}.{name}")) == 1
