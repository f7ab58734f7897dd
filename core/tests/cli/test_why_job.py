"""``kuberay why rayjob/NAME``: where a job stands, what it waits for and what comes next, in all modes and states."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from kuberay.cli.main import app
from kuberay.kube.client import Client
from kuberay_testkit.builders import build_rayjob
from typer.testing import CliRunner
from why_server import BORN, Manifest, Server

NOW = datetime(2024, 1, 1, 0, 10, tzinfo=UTC)
STARTED = "2024-01-01T00:05:00Z"
CPU = "0/5 nodes are available: 5 Insufficient cpu."


class JobServer(Server):
    """With a RayJob ``train`` on RayCluster ``demo``."""

    def job(self, status: Manifest | None = None, **spec: Any) -> Manifest:
        body = build_rayjob("train", namespace="lab", **({"submissionMode": "K8sJobMode"} | spec))
        body["metadata"] |= {"uid": "j1", "generation": 1, "creationTimestamp": BORN, "resourceVersion": "1"}
        body["metadata"]["finalizers"] = ["ray.io/rayjob-finalizer"]
        if status is not None:
            body["status"] = {"startTime": STARTED, "jobId": "train-abcde", "rayClusterName": "demo", **status}
        self.objects["rayjobs"] = [body]
        return body

    def own_cluster(self, state: str = "ready") -> Manifest:
        body = self.cluster()
        body["metadata"]["ownerReferences"] = [self._by_job()]
        self.service()
        self.reconciled()
        body["status"]["state"] = state
        return body

    def submitter(self, status: Manifest, pods: dict[str, Manifest] | None = None) -> None:
        metadata = {"name": "train", "namespace": "lab", "uid": "k1", "creationTimestamp": BORN}
        metadata["ownerReferences"] = [self._by_job()]  # type: ignore[assignment]
        self.objects["jobs"] = [{"metadata": metadata, "spec": {"backoffLimit": 2}, "status": status}]
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "k1", "controller": True}
        for name, state in (pods or {}).items():
            labels = {"ray.io/originated-from-cr-name": "train"}
            meta = {"name": name, "namespace": "lab", "uid": name, "labels": labels, "creationTimestamp": BORN}
            self.objects["pods"].append({"metadata": {**meta, "ownerReferences": [owner]}, "spec": {}, "status": state})

    def _by_job(self) -> Manifest:
        return {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "train", "uid": "j1", "controller": True}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> JobServer:
    server = JobServer()

    @asynccontextmanager
    async def reach(kubeconfig: str, context: str) -> AsyncIterator[tuple[Client, str]]:
        yield Client(server), "lab"  # type: ignore[arg-type]

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return NOW

    monkeypatch.setattr("kuberay.cli.why.reach", reach)
    monkeypatch.setattr("kuberay.cli.why.datetime", Clock)
    return server


def why(*words: str) -> str:
    result = CliRunner().invoke(app, ["why", "rayjob/train", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def told() -> Manifest:
    report: Manifest = json.loads(why("-o", "json"))
    return report


def ahead() -> list[tuple[str, str]]:
    return [(coming["at"][11:19], coming["what"]) for coming in told()["ahead"]]


RUNNING = {"jobDeploymentStatus": "Running", "jobStatus": "RUNNING", "dashboardURL": "demo-head-svc.lab.svc:8265"}


@pytest.mark.parametrize(
    ("status", "spec", "state", "summary"),
    [
        (None, {}, "not seen yet", "The RayJob has not started."),
        (
            {"jobDeploymentStatus": "Initializing"},
            {"backoffLimit": 2},
            "starting",
            "Attempt 1 of 3 has been starting since 2024-01-01T00:05:00Z; it waits for RayCluster demo to become ready.",
        ),
        (
            {"jobDeploymentStatus": "Initializing", "failed": 2},
            {"backoffLimit": 2},
            "starting",
            "Attempt 3 of 3 has been starting since",
        ),
        (
            {**RUNNING, "rayJobInfo": {"startTime": STARTED}},
            {},
            "running",
            "Attempt 1 of 1 runs: Ray has been running job train-abcde since 2024-01-01T00:05:00Z.",
        ),
        (
            {**RUNNING, "jobStatus": ""},
            {},
            "running",
            "Attempt 1 of 1: its RayCluster is ready, and Ray does not know job train-abcde yet",
        ),
        ({**RUNNING, "jobStatus": "PENDING"}, {}, "running", "Ray has job train-abcde and has not started it yet"),
        ({**RUNNING, "jobStatus": "SUCCEEDED"}, {}, "running", "is about to end: Ray says SUCCEEDED"),
        (
            {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "failed": 1, "endTime": STARTED},
            {"backoffLimit": 2},
            "complete",
            "Attempt 2 of 3 succeeded",
        ),
        (
            {"jobDeploymentStatus": "Complete", "jobStatus": "STOPPED", "endTime": STARTED},
            {},
            "complete",
            "was stopped",
        ),
        (
            {"jobDeploymentStatus": "Failed", "reason": "AppFailed", "failed": 3, "endTime": STARTED},
            {"backoffLimit": 2},
            "failed",
            "Attempt 3 of 3 failed at 2024-01-01T00:05:00Z: AppFailed. No retry is left.",
        ),
        (
            {"jobDeploymentStatus": "Failed", "reason": "DeadlineExceeded", "failed": 1, "endTime": STARTED},
            {"backoffLimit": 2},
            "failed",
            "Attempt 1 of 3 failed at 2024-01-01T00:05:00Z: DeadlineExceeded. That is not tried again.",
        ),
        (
            {"jobDeploymentStatus": "Retrying", "reason": "AppFailed", "failed": 1},
            {"backoffLimit": 2},
            "retrying",
            "Attempt 1 of 3 failed (AppFailed); its RayCluster is removed, then the next one starts.",
        ),
        ({"jobDeploymentStatus": "Dreaming"}, {}, "unknown", "no operator of this version writes"),
    ],
)
def test_where_it_stands(server: JobServer, status: Manifest | None, spec: Manifest, state: str, summary: str) -> None:
    server.job(status, **spec)
    report = told()
    assert report["state"] == state
    assert summary in report["summary"]


def test_a_running_job_in_full(server: JobServer) -> None:
    server.job(
        {**RUNNING, "rayJobInfo": {"startTime": STARTED}},
        activeDeadlineSeconds=600,
        shutdownAfterJobFinishes=True,
        ttlSecondsAfterFinished=60,
    )
    server.own_cluster()
    for name, group in (("demo-head", "headgroup"), ("a", "gpu"), ("b", "gpu")):
        server.pod(name, group, {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    server.submitter({"active": 1}, {"train-x": {"phase": "Running", "conditions": []}})
    assert why().splitlines() == [
        "RayJob lab/train: running",
        "Attempt 1 of 1 runs: Ray has been running job train-abcde since 2024-01-01T00:05:00Z.",
        "",
        "How far it is",
        "  RayCluster demo: ready",
        "  submitter Job train: is at work",
        "  Ray job train-abcde: RUNNING",
        "",
        "What comes next, if nothing else happens",
        "  2024-01-01T00:15:00Z (in 5 min): the RayJob fails: DeadlineExceeded",
        "  2024-01-01T00:15:00Z (in 5 min): Ray is asked to stop job train-abcde",
        "  2024-01-01T00:16:00Z (in 6 min): RayCluster demo is deleted",
    ]


def test_it_waits_for_its_cluster_and_that_for_a_node(server: JobServer) -> None:
    server.job({"jobDeploymentStatus": "Initializing"}, preRunningDeadlineSeconds=900, backoffLimit=1)
    server.cluster()["metadata"]["ownerReferences"] = [server._by_job()]
    server.service()
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": CPU}
    server.pod("a", "gpu", {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": BORN}]})
    server.reconciled()
    report = told()
    assert [finding["reason"] for finding in report["findings"]] == ["Unschedulable"]
    assert report["findings"][0]["what"].startswith("RayCluster demo: pod a of group gpu: Unschedulable: 0/5 nodes")
    assert "Add nodes" in report["findings"][0]["advice"]
    assert report["chain"] == [
        {"what": "RayCluster demo", "state": "not ready yet"},
        {"what": "Ray job train-abcde", "state": "not known to Ray yet"},
    ]
    assert [pod["name"] for pod in report["pods"]] == ["a"]
    assert ahead() == [
        ("00:20:00", "the attempt fails (PreRunningDeadlineExceeded) and is tried again, as attempt 2 of 2"),
        ("00:20:00", "RayCluster demo is deleted"),
    ]


def test_a_submitter_that_failed_shows_its_last_words(server: JobServer) -> None:
    failed = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "3 pods failed"}
    ended = {"exitCode": 1, "reason": "Error", "finishedAt": STARTED}
    server.job({"jobDeploymentStatus": "Failed", "reason": "SubmissionFailed", "message": "no", "endTime": STARTED})
    server.submitter(
        {"failed": 1, "conditions": [{**failed, "lastTransitionTime": STARTED}]},
        {"train-x": {"phase": "Failed", "containerStatuses": [{"name": "c", "state": {"terminated": ended}}]}},
    )
    server.logs["train-x"] = (
        "\n".join(f"line {number}" for number in range(40)) + "\nRuntimeEnvSetupError: no such pip\n"
    )
    report = told()
    (log,) = report["logs"]
    assert (log["pod"], log["container"], log["lines"][-1]) == ("train-x", "c", "RuntimeEnvSetupError: no such pip")
    assert len(log["lines"]) == 15
    assert {"what": "submitter Job train", "state": "has failed (BackoffLimitExceeded: 3 pods failed)"} in report[
        "chain"
    ]
    assert [finding["reason"] for finding in report["findings"]] == ["SubmissionFailed"]
    assert "runtimeEnvYAML" in report["findings"][0]["advice"]
    text = why()
    assert "Last lines of pod train-x, container c" in text
    assert "  | RuntimeEnvSetupError: no such pip" in text
    server.logs.clear()
    assert any("the log of pod train-x cannot be read" in note for note in told()["notes"])


def test_a_submitter_that_cannot_pull_its_image(server: JobServer) -> None:
    server.job({**RUNNING, "jobStatus": ""})
    server.own_cluster()
    waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
    state = {"phase": "Pending", "containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": BORN}
    server.submitter({"active": 1}, {"train-x": {**state, "conditions": [scheduled]}})
    report = told()
    assert "submitter pod train-x: ImagePullBackOff: container c cannot pull its image" in [
        finding["what"].partition(": no such")[0] for finding in report["findings"]
    ]
    assert ("train-x", "submitter", "ImagePullBackOff") in [
        (pod["name"], pod["group"], pod["state"]) for pod in report["pods"]
    ]


def test_a_job_of_that_name_belongs_to_somebody_else(server: JobServer) -> None:
    server.job({"jobDeploymentStatus": "Initializing"})
    server.own_cluster()
    server.submitter({"active": 1})
    del server.objects["jobs"][0]["metadata"]["ownerReferences"]
    assert "SubmitterNotOwned" in [finding["reason"] for finding in told()["findings"]]


def test_a_sidecar(server: JobServer) -> None:
    server.job({**RUNNING, "jobStatus": ""}, submissionMode="SidecarMode")
    server.own_cluster()
    ended = {"exitCode": 2, "reason": "Error", "finishedAt": "2024-01-01T00:09:59Z"}
    statuses = [
        {"name": "ray", "state": {"running": {}}},
        {"name": "ray-job-submitter", "state": {"terminated": ended}},
    ]
    server.pod("demo-head", "headgroup", {"phase": "Running", "containerStatuses": statuses})
    server.logs["demo-head"] = "cannot connect"
    report = told()
    step = {"what": "submitter container ray-job-submitter of demo-head", "state": "has ended with exit code 2 (Error)"}
    assert step in report["chain"]
    assert report["logs"][0]["lines"] == ["cannot connect"]


@pytest.mark.parametrize("spec", [{"submissionMode": "HTTPMode"}, {}])
def test_a_dashboard_that_does_not_answer(server: JobServer, spec: Manifest) -> None:
    server.job({**RUNNING, "jobStatusCheckFailureStartTime": "2024-01-01T00:09:00Z"}, **spec)
    server.own_cluster()
    (finding,) = [finding for finding in told()["findings"] if finding["reason"] == "DashboardUnreachable"]
    assert finding["since"] == "2024-01-01T00:09:00Z"
    assert "svc/train-head-svc 8265" in finding["advice"]


def test_an_interactive_job_is_told_how_to_give_the_id(server: JobServer) -> None:
    """RJ-22."""
    status = {"jobDeploymentStatus": "Waiting", "jobId": "", "dashboardURL": "demo-head-svc.lab.svc.cluster.local:8265"}
    server.job(status, submissionMode="InteractiveMode", preRunningDeadlineSeconds=900)
    server.own_cluster()
    report = told()
    assert report["state"] == "waiting for a job id"
    (finding,) = [finding for finding in report["findings"] if finding["reason"] == "WaitingForJobID"]
    patch = """kubectl patch rayjob train -n lab --type merge -p '{"spec":{"jobId":"ID"}}'"""
    assert finding["advice"].endswith(patch)
    assert "svc/demo-head-svc 8265" in finding["advice"]
    assert ahead()[0] == ("00:20:00", "the RayJob fails: PreRunningDeadlineExceeded")


@pytest.mark.parametrize(("state", "stops"), [("ValidationFailed", True), ("Running", False)])
def test_a_refused_spec_names_its_fields(server: JobServer, state: str, stops: bool) -> None:
    """RJ-09, RJ-34."""
    message = "spec.suspend: not allowed; spec.backoffLimit: too small"
    refused = {
        "type": "Accepted",
        "status": "False",
        "reason": "Invalid",
        "message": message,
        "lastTransitionTime": BORN,
    }
    server.job({"jobDeploymentStatus": state, "jobStatus": "RUNNING", "conditions": [refused]})
    server.own_cluster()
    findings = [finding for finding in told()["findings"] if finding["reason"] == "Invalid"]
    assert [finding["what"] for finding in findings] == ["spec.suspend: not allowed", "spec.backoffLimit: too small"]
    assert ("what runs goes on" in findings[0]["advice"]) is not stops


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "spec.suspend is true"),
        ({"labels": {"kueue.x-k8s.io/queue-name": "night"}}, "Kueue resumes the RayJob when queue night admits it"),
        (
            {"managedFields": [{"manager": "kubectl-edit", "time": BORN, "fieldsV1": {"f:spec": {"f:suspend": {}}}}]},
            f"set by kubectl-edit at {BORN}",
        ),
    ],
)
def test_who_suspended_it(server: JobServer, metadata: Manifest, words: str) -> None:
    body = server.job({"jobDeploymentStatus": "Suspended"}, suspend=True, shutdownAfterJobFinishes=True)
    body["metadata"] |= metadata
    report = told()
    assert report["state"] == "suspended"
    assert words in report["summary"]
    assert report["summary"].endswith("everything was given back.")
    pending = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "no quota for gpu"}
    server.objects["workloads"] = [
        {
            "metadata": {"name": "w", "namespace": "lab", "ownerReferences": [server._by_job()]},
            "status": {"conditions": [pending]},
        }
    ]
    assert [finding["what"] for finding in told()["findings"]] == [
        "Kueue has not admitted Workload w: no quota for gpu"
    ]


@pytest.mark.parametrize("state", ["Retrying", "Suspending"])
def test_a_cluster_that_does_not_go(server: JobServer, state: str) -> None:
    server.job({"jobDeploymentStatus": state, "reason": "AppFailed", "failed": 1}, backoffLimit=1)
    body = server.own_cluster()
    body["metadata"] |= {"deletionTimestamp": BORN, "finalizers": ["example.test/slow"]}
    report = told()
    assert [finding["what"] for finding in report["findings"]] == [
        "RayCluster demo: Finalizers hold it: example.test/slow."
    ]
    assert {"what": "RayCluster demo", "state": "is being deleted"} in report["chain"]


def test_a_dashboard_that_does_not_take_the_job(server: JobServer) -> None:
    """In HTTPMode the operator hands the job in itself; what the dashboard says to that is told."""
    held = {"type": "PodsWaiting", "status": "True", "reason": "SubmissionFailing", "lastTransitionTime": BORN}
    message = "the dashboard does not take the job: 500 no such pip package"
    server.job({**RUNNING, "jobStatus": "", "conditions": [{**held, "message": message}]}, submissionMode="HTTPMode")
    server.own_cluster()
    assert [finding["what"] for finding in told()["findings"] if finding["reason"] == "SubmissionFailing"] == [message]


def test_one_that_somebody_else_manages_and_one_that_goes(server: JobServer) -> None:
    body = server.job(managedBy="kueue.x-k8s.io/multikueue")
    assert told()["state"] == "managed elsewhere"
    del body["spec"]["managedBy"]
    body["metadata"]["deletionTimestamp"] = BORN
    report = told()
    assert (report["state"], [finding["reason"] for finding in report["findings"]]) == ("being deleted", ["Finalizers"])


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, []),
        (
            {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 600},
            [("00:15:00", "RayCluster demo is deleted")],
        ),
        (
            {
                "deletionStrategy": {
                    "deletionRules": [
                        {"policy": "DeleteCluster", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 600}},
                        {"policy": "DeleteSelf", "condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 1200}},
                        {"policy": "DeleteSelf", "condition": {"jobStatus": "FAILED", "ttlSeconds": 700}},
                    ]
                }
            },
            [("00:15:00", "RayCluster demo is deleted"), ("00:25:00", "RayJob train is deleted")],
        ),
    ],
)
def test_what_will_be_deleted_and_when(server: JobServer, spec: Manifest, expected: list[tuple[str, str]]) -> None:
    server.job(
        {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": STARTED, "succeeded": 1}, **spec
    )
    server.own_cluster()
    assert ahead() == expected


def test_what_may_not_be_read_is_said_and_nothing_is_foretold(server: JobServer) -> None:
    server.job({**RUNNING}, activeDeadlineSeconds=600)
    server.own_cluster()
    server.forbidden = {"rayclusters", "jobs", "pods", "events"}
    report = told()
    assert report["ahead"] == []
    assert {"what": "RayCluster demo", "state": "is not known"} in report["chain"]
    assert any(note.startswith("RayCluster demo cannot be read") for note in report["notes"])
    assert not [finding for finding in report["findings"] if finding["reason"] == "NoRayCluster"]


def test_a_cluster_that_is_chosen_and_not_there(server: JobServer) -> None:
    """RJ-18."""
    server.job({"jobDeploymentStatus": "Initializing"}, clusterSelector={"ray.io/cluster": "demo"})
    (finding,) = told()["findings"]
    assert (finding["reason"], finding["what"]) == (
        "RayClusterNotFound",
        "RayCluster demo named by spec.clusterSelector is not there.",
    )


def test_when_there_is_none(server: JobServer) -> None:
    result = CliRunner().invoke(app, ["why", "rayjob/train"])
    assert (result.exit_code, result.stderr) == (1, "kuberay: There is no RayJob train in namespace lab.\n")
