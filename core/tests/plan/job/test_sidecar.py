"""SidecarMode: the container that is added to the head, and what its state says; spec rayjob.md 3.5, rows 62-65, 76, 77, 89-91."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES, SIDECAR_SUBMITTER_RESTART
from kuberay.api.times import format_time
from kuberay.plan.config import PlanConfig

Make = Callable[..., Any]
RESTARTS = {"gates": {**DEFAULT_GATES, SIDECAR_SUBMITTER_RESTART: True}}


def pod_spec(world: Any) -> dict[str, Any]:
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Initializing" and len(world.objects) > 1)
    spec: dict[str, Any] = world.cluster["spec"]["headGroupSpec"]["template"]["spec"]
    return spec


def sidecar(world: Any) -> dict[str, Any]:
    container: dict[str, Any] = pod_spec(world)["containers"][-1]
    return container


def waiting(new_world: Make, **options: Any) -> Any:
    """A world whose workers never start."""
    world = options.pop("world", {})
    return new_world(
        submissionMode="SidecarMode", world={"settings": {"head": "ready", "worker": "none"}, **world}, **options
    )


def test_the_container_and_the_pod_around_it(new_world: Make) -> None:
    world = waiting(new_world)
    container = sidecar(world)
    assert container["name"] == "ray-job-submitter"
    assert container["image"] == "rayproject/ray:2.52.0"
    assert container["command"] == ["/bin/bash", "-ce", "--"]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "200Mi"}
    assert "restartPolicy" not in container
    assert pod_spec(world)["restartPolicy"] == "Never"
    assert world.cluster["metadata"]["annotations"] == {"ray.io/disable-provisioned-head-restart": "true"}
    assert world.cluster["metadata"]["labels"]["ray.io/job-submission-mode"] == "SidecarMode"
    assert {"name": "RAY_JOB_SUBMISSION_ID", "value": world.status["jobId"]} in container["env"]
    assert len(world.job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"]) == 1


def test_the_command_blocks_until_the_job_ends(new_world: Make) -> None:
    (command,) = sidecar(waiting(new_world))["args"]
    assert "http://localhost:8265/api/gcs_healthz" in command
    assert "ray job submit --address http://127.0.0.1:8265 --submission-id" in command
    assert command.endswith("-- python a.py ;")
    assert "--no-wait" not in command
    assert "if !" not in command


def test_a_sidecar_that_may_be_restarted_attaches(new_world: Make) -> None:
    container = sidecar(waiting(new_world, world=RESTARTS))
    (command,) = container["args"]
    assert container["restartPolicy"] == "OnFailure"
    for part in ("if ! ray job status", "--no-wait", "; fi ; ray job logs", "--follow"):
        assert part in command


@pytest.mark.parametrize(
    ("head", "port"),
    [
        ({"ports": [{"name": "dashboard", "containerPort": 9000}]}, 9000),
        ({"ports": [{"name": "gcs", "containerPort": 6379}]}, 8265),
        ({}, 8265),
    ],
)
def test_the_port_is_the_heads(new_world: Make, head: dict[str, Any], port: int) -> None:
    world = waiting(new_world)
    container = world.job["spec"]["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container.update(head)
    (command,) = sidecar(world)["args"]
    assert f"localhost:{port}/api/gcs_healthz" in command


@pytest.mark.parametrize("version", ["2.53.0", "2.52.1", "invalid-version"])
def test_the_probe_is_the_same_for_all_versions(new_world: Make, version: str) -> None:
    world = waiting(new_world)
    world.job["spec"]["rayClusterSpec"]["rayVersion"] = version
    (command,) = sidecar(world)["args"]
    assert 'python -c "import urllib.request' in command
    assert "wget" not in command


def test_login_shell(new_world: Make) -> None:
    world = waiting(new_world, world={"config": PlanConfig(login_shell=True)})
    assert sidecar(world)["command"] == ["/bin/bash", "-cel", "--"]


def test_token(new_world: Make) -> None:
    world = waiting(new_world)
    world.job["spec"]["rayClusterSpec"].update(authOptions={"mode": "token"}, rayVersion="2.52.0")
    names = [entry["name"] for entry in sidecar(world)["env"]]
    assert names[-2:] == ["RAY_AUTH_MODE", "RAY_AUTH_TOKEN"]


def ended(exit_code: int, world: Any) -> dict[str, Any]:
    return {"terminated": {"exitCode": exit_code, "reason": "Error", "finishedAt": format_time(world.now)}}


@pytest.mark.parametrize(
    ("restarts", "state", "fails"),
    [
        (1, 1, False),
        (2, 1, True),
        (3, 0, False),
        (2, None, True),
        (1, None, False),
    ],
    ids=["89: one left", "90: none left", "91: it ended well", "it waits for a restart beyond the budget", "it runs"],
)
def test_the_restart_budget(new_world: Make, restarts: int, state: int | None, fails: bool) -> None:
    world = new_world(submissionMode="SidecarMode", world=RESTARTS)
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Running")
    world.sidecar_restarts = restarts
    name = world.status["rayClusterName"]
    world.sidecars[name] = {"running": {}} if state is None else ended(state, world)
    world.sidecar_before = ended(1, world)
    world._dirty = True
    world.run(10)
    failed = world.status["jobDeploymentStatus"] == "Failed" and world.status["reason"] == "SubmissionFailed"
    assert failed is fails
    if fails:
        assert "exceeding the maximum restart count" in world.status["message"]


def test_a_failed_submitter_is_noticed_before_the_cluster_is_ready(new_world: Make) -> None:
    """RJ-12: workers are Pending, the submitter terminates with code 1: Failed, then the usual clean-up."""
    world = waiting(new_world, shutdownAfterJobFinishes=True)
    sidecar(world)
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Initializing"
    world.end_sidecar(1)
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed", 10)
    assert world.status["reason"] == "SubmissionFailed"
    assert world.status["message"] == "Ray head pod container ray-job-submitter terminated with exit code 1: Error"
    world.run(5)
    assert not [kind for kind, _ in world.objects if kind.kind == "RayCluster"]


def test_a_job_that_runs_counts_as_running_while_workers_are_missing(new_world: Make) -> None:
    world = waiting(new_world, preRunningDeadlineSeconds=60)
    world.settings["job"] = "RUNNING"
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    world.run(100)
    assert world.status["jobDeploymentStatus"] == "Running", "a deadline for the start fails no job that runs"
    world.set_job("SUCCEEDED")
    world.end_sidecar(0)
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Complete"


def test_a_head_that_comes_later_is_waited_for(new_world: Make) -> None:
    world = new_world(submissionMode="SidecarMode", world={"settings": {"head": "none", "worker": "none"}})
    world.run(30)
    assert world.status["jobDeploymentStatus"] == "Initializing"


def test_a_lost_head_ends_the_attempt(running: Make) -> None:
    """RJ-10: no new head for that RayCluster; with retries left the next attempt has a cluster of its own."""
    world = running(submissionMode="SidecarMode", backoffLimit=1)
    first = world.status["rayClusterName"]
    world.lose_head(new=False)
    world.until(lambda: world.status["failed"] == 1, 10)
    world.settings["head"] = "ready"
    world.settings["job"] = "RUNNING"
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    assert world.status["rayClusterName"] != first


def test_an_evicted_head_says_why(running: Make) -> None:
    world = running(submissionMode="SidecarMode")
    world.head_phase = "Failed"
    world._dirty = True
    world.run(3)
    assert world.status["reason"] == "AppFailed"
    assert "has ended" in world.status["message"]
