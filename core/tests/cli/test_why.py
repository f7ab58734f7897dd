"""``kuberay why``: what it says about RayClusters, from objects as an API server shows them; it only ever reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from click.testing import Result
from kuberay.cli.main import app
from kuberay.kube.client import Client
from kuberay_testkit.builders import build_group
from typer.testing import CliRunner
from why_server import BORN, Manifest, Server

CPU = "0/5 nodes are available: 5 Insufficient cpu."


READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def unscheduled(message: str = CPU) -> Manifest:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"phase": "Pending", "conditions": [{**condition, "lastTransitionTime": BORN}]}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()

    @asynccontextmanager
    async def reach(kubeconfig: str, context: str) -> AsyncIterator[tuple[Client, str]]:
        yield Client(server), "lab"  # type: ignore[arg-type]

    monkeypatch.setattr("kuberay.cli.why.reach", reach)
    return server


def why(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["why", *(arguments or ("raycluster/demo",))])


def told(server: Server) -> Manifest:
    result = why("raycluster/demo", "-o", "json")
    assert result.exit_code == 0, result.output
    report: Manifest = json.loads(result.stdout)
    return report


def test_a_ready_cluster(server: Server) -> None:
    server.cluster()
    server.service()
    server.pod("demo-head", "headgroup", READY)
    for name in ("a", "b"):
        server.pod(name, "gpu", READY)
    server.reconciled()
    result = why()
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "RayCluster lab/demo: ready",
        "Nothing is wrong: all 3 pods are ready, and the operator has seen the latest spec.",
    ]
    assert told(server)["findings"] == []


def test_a_head_counts_without_its_ended_submitter_and_is_made_once(server: Server) -> None:
    """RJ-10 and RJ-12."""
    metadata = server.cluster()["metadata"]
    metadata["labels"] = {"ray.io/job-submission-mode": "SidecarMode"}
    metadata["annotations"] = {"ray.io/disable-provisioned-head-restart": "true"}
    server.service()
    statuses = [
        {"name": "ray", "ready": True, "state": {"running": {}}},
        {"name": "ray-job-submitter", "state": {"terminated": {"exitCode": 0}}},
    ]
    unready = {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}
    server.pod("demo-head", "headgroup", {"phase": "Running", "conditions": [unready], "containerStatuses": statuses})
    for name in ("a", "b"):
        server.pod(name, "gpu", READY)
    server.reconciled()
    assert why().stdout.startswith("RayCluster lab/demo: ready\n")
    assert told(server)["pods"] == []
    server.objects["pods"] = server.objects["pods"][1:]
    server.reconciled()
    report = told(server)
    assert (report["state"], report["summary"]) == ("not ready", "2 of 3 pods are ready.")
    (finding,) = report["findings"]
    assert (finding["reason"], finding["lasting"]) == ("HeadPodHeldBack", "terminal")
    assert finding["what"].endswith("a new head would submit the RayJob a second time")


def test_pods_without_a_node(server: Server) -> None:
    server.cluster()
    server.service()
    server.pod("demo-head", "headgroup", READY)
    for name in ("a", "b"):
        server.pod(name, "gpu", unscheduled())
    server.reconciled()
    server.objects["events"].append(
        {
            "metadata": {"name": "e1", "namespace": "lab"},
            "type": "Warning",
            "reason": "FailedScheduling",
            "note": CPU,
            "regarding": {"kind": "Pod", "name": "a"},
            "eventTime": "2024-01-01T00:00:05.123456Z",
            "series": {"count": 7, "lastObservedTime": "2024-01-01T00:30:00.000000Z"},
        }
    )
    text = why().stdout
    assert text.startswith("RayCluster lab/demo: not ready\n1 of 3 pods are ready.\n")
    assert f"1. 2 pods of group gpu (a, b): Unschedulable: {CPU}\n" in text
    assert "since 2024-01-01T01:00:00Z" in text
    assert "What to do: Add nodes or free some" in text
    assert f"  a (gpu): Pending, since {(datetime.now(UTC) - datetime(2024, 1, 1, tzinfo=UTC)).days} d: {CPU}\n" in text
    assert f"2024-01-01T00:30:00Z Pod a: FailedScheduling: {CPU} (7 times)" in text
    report = told(server)
    (finding,) = report["findings"]
    assert (finding["reason"], finding["lasting"]) == ("Unschedulable", "transient")
    assert finding["since"] == "2024-01-01T01:00:00Z"
    assert [pod["name"] for pod in report["pods"]] == ["a", "b"]
    assert report["events"][0]["count"] == 7


def test_an_object_that_no_operator_has_looked_at(server: Server) -> None:
    server.cluster()
    text = why().stdout
    assert "RayCluster lab/demo: not seen yet" in text
    assert "No operator has looked at this object yet." in text
    assert "ray-operator-leader" in text


def test_an_operator_that_has_stopped_looking(server: Server) -> None:
    """What pods say for themselves is told without an operator."""
    body = server.cluster()
    server.service()
    server.pod("demo-head", "headgroup", READY)
    server.reconciled()
    server.pod("a", "gpu", unscheduled("no gpu"))
    body["metadata"]["generation"] = 4
    report = told(server)
    assert report["state"] == "waiting for the operator"
    assert [finding["reason"] for finding in report["findings"]] == ["NotObserved", "Unschedulable"]
    assert "it is 4, the one known is 1" in report["findings"][0]["what"]
    assert report["findings"][1]["what"] == "pod a of group gpu: Unschedulable: no gpu"


def test_a_refused_spec(server: Server) -> None:
    """RC-35: hours later, when events are gone."""
    groups = [build_group("gpu", 1, minReplicas=5, maxReplicas=1), build_group("", 1)]
    server.cluster(workerGroupSpecs=groups)
    server.reconciled()
    report = told(server)
    assert report["state"] == "refused"
    assert len(report["findings"]) >= 2
    assert {finding["what"].partition("[")[0] for finding in report["findings"]} == {"spec.workerGroupSpecs"}
    assert {finding["lasting"] for finding in report["findings"]} == {"terminal"}
    assert "spec.workerGroupSpecs[0]" in why().stdout


def test_a_missing_plugin_comes_with_the_line_to_install_it(server: Server) -> None:
    server.cluster(enableInTreeAutoscaling=True)
    server.service()
    server.reconciled()
    text = why().stdout
    assert "pip install kuberay-autoscaler-v2" in text
    assert "spec.enableInTreeAutoscaling" in text


def test_a_quota(server: Server) -> None:
    """RC-09."""
    from kuberay.plan.model import WriteFailure

    server.cluster()
    server.service()
    server.pod("demo-head", "headgroup", READY)
    error = 'pods "x" is forbidden: exceeded quota: small'
    server.reconciled(failure=WriteFailure("Pod", "x", "FailedCreateWorkerPod", error, "Forbidden"))
    report = told(server)
    assert [finding["reason"] for finding in report["findings"]] == ["QuotaExceeded"]
    assert "exceeded quota: small" in report["findings"][0]["what"]
    assert "kubectl describe resourcequota" in report["findings"][0]["advice"]


def test_a_crash(server: Server) -> None:
    server.cluster()
    server.service()
    ended = {"exitCode": 137, "reason": "OOMKilled", "message": "first\nlast words"}
    crashing = {
        "name": "ray",
        "restartCount": 4,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": ended},
    }
    server.pod(
        "demo-head",
        "headgroup",
        {
            "phase": "Running",
            "containerStatuses": [crashing],
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
        },
    )
    server.reconciled()
    text = why().stdout
    assert "ends again and again, last with exit code 137 (OOMKilled): last words" in text
    assert "give it more memory" in text
    assert "demo-head (headgroup): CrashLoopBackOff" in text


def test_a_start_that_goes_well(server: Server) -> None:
    server.cluster()
    server.service()
    server.pod("demo-head", "headgroup", {})
    server.objects["pods"][0]["metadata"]["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    server.reconciled(at=datetime(2024, 1, 1, tzinfo=UTC))
    report = told(server)
    assert (report["state"], report["findings"]) == ("starting", [])
    assert report["summary"] == "0 of 3 pods are ready; nothing is wrong so far."
    assert [pod["state"] for pod in report["pods"]] == ["Pending"]


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "spec.suspend is true"),
        ({"labels": {"kueue.x-k8s.io/queue-name": "night"}}, "Kueue resumes the cluster when queue night admits it"),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "RayJob", "name": "j", "uid": "2", "controller": True}]},
            "the cluster belongs to RayJob j",
        ),
        (
            {
                "managedFields": [
                    {"manager": "kubectl-edit", "time": BORN, "fieldsV1": {"f:spec": {"f:suspend": {}}}},
                ]
            },
            f"set by kubectl-edit at {BORN}",
        ),
    ],
)
def test_who_suspended_it(server: Server, metadata: Manifest, words: str) -> None:
    body = server.cluster(suspend=True)
    body["metadata"] |= metadata
    server.service()
    server.reconciled()
    report = told(server)
    assert (report["state"], report["findings"]) == ("suspended", [])
    assert words in report["summary"]
    server.pod("demo-head", "headgroup", READY)
    assert told(server)["state"] == "suspending"


def test_a_cluster_that_its_lifecycle_ended(server: Server) -> None:
    body = server.cluster()
    server.service()
    conditions = [("RayClusterSuspended", "RayClusterSuspended", ""), ("LifecycleEnded", "Idle", "idle since noon")]
    body["status"] = {
        "observedGeneration": 1,
        "conditions": [
            {"type": type_, "status": "True", "reason": reason, "message": message, "lastTransitionTime": BORN}
            for type_, reason, message in conditions
        ],
    }
    report = told(server)
    assert report["state"] == "suspended"
    assert report["summary"].startswith("Its lifecycle has ended")
    assert [finding["what"] for finding in report["findings"]] == ["idle since noon"]


def test_a_head_service_that_is_not_there(server: Server) -> None:
    server.cluster()
    server.pod("demo-head", "headgroup", READY)
    server.reconciled()
    assert [finding["reason"] for finding in told(server)["findings"]] == ["NoHeadService"]


def test_an_object_of_somebody_else_and_one_that_goes(server: Server) -> None:
    body = server.cluster(managedBy="kueue.x-k8s.io/multikueue")
    assert told(server)["state"] == "managed elsewhere"
    del body["spec"]["managedBy"]
    body["metadata"] |= {"deletionTimestamp": BORN, "finalizers": ["example.test/slow"]}
    report = told(server)
    assert report["state"] == "being deleted"
    assert "example.test/slow" in report["findings"][0]["what"]


def test_what_may_not_be_read_is_said(server: Server) -> None:
    server.cluster()
    server.service()
    server.reconciled()
    server.forbidden = {"pods", "events", "services"}
    result = why()
    assert result.exit_code == 0
    for plural in server.forbidden:
        assert f"Note: {plural} cannot be read" in result.stdout


@pytest.mark.parametrize(
    "change",
    [{"spec": {"suspend": True}}, {"metadata": {"deletionTimestamp": BORN, "finalizers": ["example.test/slow"]}}],
)
def test_pods_that_may_not_be_read_are_not_said_to_be_gone(server: Server, change: Manifest) -> None:
    body = server.cluster()
    for part, values in change.items():
        body[part] |= values
    server.forbidden = {"pods"}
    summary = told(server)["summary"]
    assert "its pods are not known" in summary
    assert "left" not in summary


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, "There is no RayCluster demo in namespace lab."),
        ({"installed": False}, "install it: kuberay crds | kubectl apply --server-side -f -"),
        ({"forbidden": {"rayclusters"}}, "RayCluster lab/demo cannot be read"),
        ({"down": True}, "connection refused"),
    ],
)
def test_when_there_is_no_answer(server: Server, change: Manifest, words: str) -> None:
    for name, value in change.items():
        setattr(server, name, value)
    result = why()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("kuberay: ")
    assert words in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["demo"], ["raycluster/"], ["pod/x"], ["raycluster/x", "-o", "yaml"]])
def test_wrong_words(server: Server, arguments: list[str]) -> None:
    result = why(*arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def test_a_context_that_is_not_there(tmp_path: Any) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\ncontexts: [{name: a, context: {cluster: c, user: u}}]\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n"
    )
    missing = why("raycluster/x", "--kubeconfig", str(config), "--context", "nowhere")
    assert missing.exit_code == 1
    assert "nowhere" in missing.stderr
    present = why("raycluster/x", "--kubeconfig", str(config), "--context", "a")
    assert present.exit_code == 1
    assert "127.0.0.1:1" in present.stderr
