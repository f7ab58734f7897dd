"""RayJobs that reach a limit: attempts, deadlines, and submitters that fail or leave too early (spec rayjob.md 8.8).

Those with retries have clusters of their own; the others share one.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import rayjobs
from ledger import Ledger
from rayjobs import HTTP, K8S, SIDECAR, Dashboard
from waiting import eventually

from dev.demo.install import OUR_RAY_IMAGE
from dev.demo.kubectl import Kubectl

pytestmark = pytest.mark.long

SHARED = "shared"
ATTEMPTS = 3


def submitter(*command: str) -> dict[str, Any]:
    """A submitter with a command of its own."""
    container = {
        "name": "ray-job-submitter",
        "image": OUR_RAY_IMAGE,
        "command": list(command),
        "resources": {"requests": {"cpu": "50m", "memory": "200Mi"}},
    }
    return {"spec": {"restartPolicy": "Never", "containers": [container]}}


def fails_in(mode: str) -> str:
    return f"fails-{mode.removesuffix('Mode').lower()}"


@pytest.fixture(scope="module")
def retried(kubectl: Kubectl, namespace: str, ledger: Ledger) -> None:
    """Jobs that fail in all of their attempts, which are as many in each mode."""
    manifests = []
    for mode in (K8S, HTTP, SIDECAR):
        key = f"{namespace}.{fails_in(mode)}"
        ledger.end(key, 3)
        manifests.append(rayjobs.rayjob(fails_in(mode), mode, ledger.entrypoint(key), backoffLimit=ATTEMPTS - 1))
    alone = submitter("ray", "job", "submit", "--address", "http://127.0.0.1:1", "--", "true")
    manifests.append(
        rayjobs.rayjob(
            "never-connects",
            K8S,
            "true",
            backoffLimit=ATTEMPTS - 1,
            submitterPodTemplate=alone,
            submitterConfig={"backoffLimit": 0},
        )
    )
    rayjobs.apply(kubectl, namespace, *manifests)


def clusters_made(kubectl: Kubectl, namespace: str, name: str) -> set[str]:
    """Names of the RayClusters that were made for a RayJob, from its events."""
    events = kubectl.list("events", namespace)
    texts = [e["message"] for e in events if e["involvedObject"]["name"] == name and e["reason"] == "CreatedRayCluster"]
    return {found[1] for text in texts if (found := re.search(r"/(\S+)$", text))}


@pytest.mark.parametrize("mode", [K8S, HTTP, SIDECAR])
def test_a_job_that_fails_is_run_once_in_each_attempt(
    kubectl: Kubectl, namespace: str, ledger: Ledger, retried: None, mode: str
) -> None:
    name = fails_in(mode)
    status = rayjobs.wait_for_end(kubectl, namespace, name, seconds=500)
    assert rayjobs.outcome(status) == ("Failed", "FAILED", "AppFailed"), status
    assert rayjobs.counts(status) == (0, ATTEMPTS)
    assert len(ledger.runs(f"{namespace}.{name}")) == ATTEMPTS
    assert len(clusters_made(kubectl, namespace, name)) == ATTEMPTS
    assert "ends with 3" in status["message"]
    if mode == K8S:
        counted = (kubectl.get("job", name, namespace) or {})["status"]
        assert (counted.get("succeeded", 0), counted.get("failed", 0)) == (1, 0)


def test_a_submitter_that_cannot_connect_is_tried_in_each_attempt(
    kubectl: Kubectl, namespace: str, retried: None
) -> None:
    status = rayjobs.wait_for_end(kubectl, namespace, "never-connects", seconds=500)
    assert rayjobs.outcome(status) == ("Failed", "", "SubmissionFailed"), status
    assert rayjobs.counts(status) == (0, ATTEMPTS)
    assert len(clusters_made(kubectl, namespace, "never-connects")) == ATTEMPTS


def test_a_deadline_is_not_retried(kubectl: Kubectl, namespace: str, ledger: Ledger) -> None:
    key = f"{namespace}.late"
    rayjobs.apply(
        kubectl,
        namespace,
        rayjobs.rayjob("late", HTTP, ledger.entrypoint(key), activeDeadlineSeconds=5, backoffLimit=ATTEMPTS - 1),
    )
    status = rayjobs.wait_for_end(kubectl, namespace, "late", seconds=60)
    assert rayjobs.outcome(status) == ("Failed", "", "DeadlineExceeded"), status
    assert rayjobs.counts(status) == (0, 1)
    assert ledger.runs(key) == []
    kubectl.delete("rayjob", "late", namespace)


@pytest.fixture(scope="module")
def shared(kubectl: Kubectl, namespace: str) -> str:
    rayjobs.apply(kubectl, namespace, rayjobs.head_only(SHARED))
    return SHARED


def test_a_deadline_given_to_a_running_job_ends_it(
    kubectl: Kubectl, namespace: str, ledger: Ledger, shared: str
) -> None:
    key = f"{namespace}.too-long"
    rayjobs.apply(kubectl, namespace, rayjobs.rayjob("too-long", K8S, ledger.entrypoint(key), cluster=shared))
    ledger.wait_for_run(key)
    rayjobs.wait_until_running(kubectl, namespace, "too-long")
    rayjobs.patch(kubectl, namespace, "too-long", activeDeadlineSeconds=1)
    status = rayjobs.wait_for_end(kubectl, namespace, "too-long", seconds=60)
    assert rayjobs.outcome(status) == ("Failed", "RUNNING", "DeadlineExceeded"), status
    assert rayjobs.counts(status) == (0, 1)
    dashboard = Dashboard(status["dashboardURL"])
    eventually(lambda: dashboard.job(status["jobId"]) == "STOPPED", 60, "Ray has stopped the job")
    assert len(ledger.runs(key)) == 1


def test_a_submitter_that_leaves_early_has_half_a_minute(
    kubectl: Kubectl, namespace: str, ledger: Ledger, shared: str
) -> None:
    key = f"{namespace}.left"
    command = "ray job submit --no-wait --submission-id $RAY_JOB_SUBMISSION_ID --address http://$RAY_DASHBOARD_ADDRESS"
    leaves = submitter("bash", "-c", f"{command} -- {ledger.entrypoint(key)}")
    rayjobs.apply(kubectl, namespace, rayjobs.rayjob("left", K8S, "", cluster=shared, submitterPodTemplate=leaves))
    status = rayjobs.wait_for_end(kubectl, namespace, "left")
    reason = "JobDeploymentStatusTransitionGracePeriodExceeded"
    assert rayjobs.outcome(status) == ("Failed", "FAILED", reason), status
    dashboard = Dashboard(status["dashboardURL"])
    eventually(lambda: dashboard.job(status["jobId"]) == "STOPPED", 60, "Ray has stopped the job")
    assert len(ledger.runs(key)) == 1


def test_a_submission_that_ray_refuses_is_tried_three_times(kubectl: Kubectl, namespace: str, shared: str) -> None:
    job = rayjobs.rayjob(
        "refused", K8S, "true", cluster=shared, runtimeEnvYAML="working_dir: no-such-place://nowhere/code.zip\n"
    )
    rayjobs.apply(kubectl, namespace, job)
    status = rayjobs.wait_for_end(kubectl, namespace, "refused")
    assert rayjobs.outcome(status) == ("Failed", "", "SubmissionFailed"), status
    pods = rayjobs.submitters(kubectl, namespace, "refused")
    assert [pod["status"]["phase"] for pod in pods] == ["Failed"] * 3
