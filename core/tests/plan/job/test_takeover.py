"""RayJobs that KubeRay has begun, or a hand has edited, go on where they stand; nothing of them runs twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import JOB, RAYCLUSTER, RAYJOB
from kuberay.plan.job import plan_job
from kuberay.plan.model import WriteFailure

Make = Callable[..., Any]
MODES = ("K8sJobMode", "HTTPMode", "SidecarMode")


def as_kuberay_left_it(world: Any) -> None:
    """Neither conditions nor what else is this operator's own; a new process."""
    world.job["status"].pop("conditions", None)
    for key, body in world.objects.items():
        if key[0] != RAYJOB:
            body["metadata"].pop("managedFields", None)
    world.restart()


@pytest.mark.parametrize("mode", MODES)
def test_a_running_job_goes_on(running: Make, mode: str) -> None:
    world = running(submissionMode=mode)
    as_kuberay_left_it(world)
    posts = list(world.dashboard().posts)
    world.run(30)
    assert world.condition("Submitted") == ("True", "JobSubmitted")
    world.set_job("SUCCEEDED")
    if mode == "K8sJobMode":
        world.end_submitter("succeeded")
    elif mode == "SidecarMode":
        world.end_sidecar(0)
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["succeeded"]) == ("Complete", 1)
    assert world.dashboard().posts == posts
    assert world.lifecycle["RayCluster"] == [f"created {world.status['rayClusterName']}"]


@pytest.mark.parametrize("mode", MODES)
def test_a_job_that_ray_has_lost_meanwhile_is_not_handed_in_again(running: Make, mode: str) -> None:
    """RJ-01."""
    world = running(submissionMode=mode)
    as_kuberay_left_it(world)
    posts = len(world.dashboard().posts)
    world.lose_head(new=True)
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Failed"
    assert not [post for post in world.dashboard().posts[posts:] if post == "POST /api/jobs/"]


@pytest.mark.parametrize(("state", "job_status"), [("Complete", "SUCCEEDED"), ("Failed", "FAILED")])
def test_what_is_over_costs_nothing(running: Make, state: str, job_status: str) -> None:
    world = running()
    world.end_submitter("succeeded")
    world.job["status"].update(jobDeploymentStatus=state, jobStatus=job_status, endTime="2024-01-01T00:00:00Z")
    as_kuberay_left_it(world)
    before, calls = world.status_writes, world.calls
    world.run(20)
    assert (world.status_writes, world.calls) == (before, calls)
    assert not world.plan.probes
    assert world.plan.requeue_after is None


@pytest.mark.parametrize("state", ["Suspending", "Retrying"])
def test_what_is_being_taken_down_begins_anew(running: Make, state: str) -> None:
    world = running(backoffLimit=1)
    before = world.status["rayClusterName"]
    world.set_status(jobDeploymentStatus=state, failed=1)
    as_kuberay_left_it(world)
    world.until(lambda: world.status["jobDeploymentStatus"] == "Running")
    assert world.status["rayClusterName"] != before
    assert [name for kind, name in world.objects if kind == RAYCLUSTER] == [world.status["rayClusterName"]]


def test_a_refused_job_does_not_begin_with_an_old_submitter(running: Make) -> None:
    """KubeRay refuses a running job, too; its RayCluster was deleted by hand then. What the Job says is of that attempt."""
    world = running()
    world.end_submitter("succeeded")
    old = world.objects[JOB, "j"]["metadata"]["uid"]
    world.set_status(jobDeploymentStatus="ValidationFailed", reason="ValidationFailed", message="x")
    world.objects.pop((RAYCLUSTER, world.status["rayClusterName"]))
    as_kuberay_left_it(world)
    world.until(lambda: world.status["jobDeploymentStatus"] == "Running")
    assert world.objects[JOB, "j"]["metadata"]["uid"] != old
    world.run(40)
    assert world.status["jobDeploymentStatus"] == "Running"


def test_a_cluster_whose_head_has_submitted_is_not_made_again(new_world: Make) -> None:
    """RJ-10, before the RayJob counts as running."""
    world = new_world(submissionMode="SidecarMode")
    world.settings["worker"] = "none"
    world.until(lambda: world.get(RAYCLUSTER, world.status.get("rayClusterName", "")) is not None)
    started = {"type": "HeadStarted", "status": "True", "reason": "RayContainerStarted", "message": ""}
    world.cluster["status"] = {"conditions": [started]}
    world._put(RAYCLUSTER, world.cluster)
    world.run(2)
    name = world.status["rayClusterName"]
    world.delete(RAYCLUSTER, name)
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "AppFailed")
    assert world.lifecycle["RayCluster"] == [f"created {name}", f"gone {name}"]


@pytest.mark.parametrize(
    ("state", "spec", "left"),
    [
        ("Initializing", {"activeDeadlineSeconds": 60, "preRunningDeadlineSeconds": 30}, 20),
        ("Running", {"activeDeadlineSeconds": 60, "preRunningDeadlineSeconds": 30}, 50),
        ("Running", {"activeDeadlineSeconds": 5}, None),
        ("Running", {}, None),
        ("Complete", {"activeDeadlineSeconds": 60}, None),
    ],
)
def test_a_limit_is_kept_although_writes_fail(new_world: Make, state: str, spec: Any, left: int | None) -> None:
    """The back-off of failing writes grows to minutes."""
    world = new_world(**spec)
    world.until(lambda: bool(world.status.get("startTime")))
    world.set_status(jobDeploymentStatus=state, startTime="2024-01-01T00:00:00Z")
    world.now = world.now.replace(minute=0, second=10)
    plan = plan_job(world.observe(WriteFailure("RayCluster", "x", "", "refused")))
    assert plan.look_by == (None if left is None else timedelta(seconds=left))
