"""The conditions that users wait for: Accepted, ClusterReady, Submitted, Running, Finished, along a RayJob's life."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER

Make = Callable[..., Any]
FIVE = ("Accepted", "ClusterReady", "Submitted", "Running", "Finished")


def told(world: Any) -> dict[str, str]:
    """Each of the five as ``status/reason``."""
    return {type_: "/".join(world.condition(type_)) for type_ in FIVE}


def test_from_start_to_end(new_world: Make) -> None:
    world = new_world(world={"settings": {"head": "ready", "worker": "none"}})
    world.run(3)
    assert told(world) == {
        "Accepted": "True/Valid",
        "ClusterReady": "False/RayClusterNotReady",
        "Submitted": "False/WaitingForRayCluster",
        "Running": "False/NotRunning",
        "Finished": "False/NotFinished",
    }
    world.settings["worker"] = "ready"
    world.until(lambda: world.status["jobDeploymentStatus"] == "Running")
    assert told(world)["ClusterReady"] == "True/RayClusterReady"
    assert told(world)["Submitted"] == "False/NotSubmittedYet"
    world.settings["job"] = "PENDING"
    world.run(5)
    assert told(world)["Submitted"] == "True/JobSubmitted"
    assert told(world)["Running"] == "False/JobPending"
    world.set_job("RUNNING")
    world.run(5)
    assert told(world)["Running"] == "True/JobRunning"
    world.set_job("SUCCEEDED")
    world.run(5)
    assert (told(world)["Running"], told(world)["Finished"]) == ("False/JobSucceeded", "False/NotFinished")
    world.end_submitter("succeeded")
    world.run(5)
    assert told(world) == {
        "Accepted": "True/Valid",
        "ClusterReady": "True/RayClusterReady",
        "Submitted": "True/JobSubmitted",
        "Running": "False/NotRunning",
        "Finished": "True/Succeeded",
    }
    assert world.told == []


def test_conditions_cost_no_write_of_their_own(running: Make) -> None:
    world = running()
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Complete")
    assert world.status_writes == len(world.transitions)


@pytest.mark.parametrize(
    ("status", "reason"), [("STOPPED", "Stopped"), ("SUCCEEDED", "Succeeded"), ("FAILED", "AppFailed")]
)
def test_the_reason_of_the_end(running: Make, status: str, reason: str) -> None:
    world = running()
    world.set_job(status)
    world.end_submitter("succeeded")
    world.run(5)
    assert world.condition("Finished") == ("True", reason)


def test_the_last_lines_tell_why_it_failed(running: Make) -> None:
    world = running()
    log = "\n".join(f"line {n}" for n in range(100))
    world.set_job(
        "FAILED", f"Job entrypoint command failed with exit code 1, last available logs:\n{log}\nBoomError: x"
    )
    world.end_submitter("succeeded")
    world.run(5)
    (finished,) = [c for c in world.status["conditions"] if c["type"] == "Finished"]
    lines = finished["message"].splitlines()
    assert lines[-1] == "BoomError: x"
    assert lines[0] == "line 91"
    assert "line 0\n" in world.status["message"], "status.message is Ray's own"


def test_between_attempts(running: Make) -> None:
    world = running(backoffLimit=2)
    world.cluster["metadata"]["finalizers"] = ["test/hold"]
    world.set_job("FAILED", "no luck")
    world.end_submitter("succeeded")
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Retrying"
    assert told(world) == {
        "Accepted": "True/Valid",
        "ClusterReady": "False/NoRayCluster",
        "Submitted": "False/NoAttempt",
        "Running": "False/NotRunning",
        "Finished": "False/Retrying",
    }
    (finished,) = [c for c in world.status["conditions"] if c["type"] == "Finished"]
    assert finished["message"] == "attempt 1 of 3 failed (AppFailed): no luck"


def test_suspended(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True)
    world.edit({"spec.suspend": True})
    world.run(10)
    assert told(world) == {
        "Accepted": "True/Valid",
        "ClusterReady": "False/NoRayCluster",
        "Submitted": "False/NoAttempt",
        "Running": "False/NotRunning",
        "Finished": "False/NotFinished",
    }


def test_a_cluster_that_cannot_start_says_why(new_world: Make) -> None:
    world = new_world(world={"settings": {"head": "ready", "worker": "none"}})
    world.run(3)
    trouble = {
        "type": "PodsNotReady",
        "status": "True",
        "reason": "Unschedulable",
        "message": "1 pod of group g: 0/3 nodes have a GPU",
    }
    world.cluster["status"]["conditions"] = [trouble]
    world._put(RAYCLUSTER, world.cluster)
    world.run(3)
    (ready,) = [c for c in world.status["conditions"] if c["type"] == "ClusterReady"]
    assert (ready["status"], ready["reason"]) == ("False", "Unschedulable")
    assert ready["message"].endswith("is not ready: 1 pod of group g: 0/3 nodes have a GPU")


def test_a_refused_job(new_world: Make) -> None:
    world = new_world(backoffLimit=-1)
    world.run(3)
    assert [c["type"] for c in world.status["conditions"]] == ["Accepted"]
    assert world.condition("Accepted") == ("False", "Invalid")
    world.edit({"spec.backoffLimit": 0})
    world.run(3)
    assert told(world)["Accepted"] == "True/Valid"


def test_what_is_over_is_left_as_it_is(new_world: Make) -> None:
    """An operator that takes over jobs which ended under another one writes nothing to them."""
    world = new_world()
    world.job["metadata"]["finalizers"] = ["ray.io/rayjob-finalizer"]
    world.set_status(
        jobDeploymentStatus="Complete",
        jobStatus="SUCCEEDED",
        jobId="j-1",
        rayClusterName="j-c",
        startTime="2024-01-01T00:00:00Z",
        endTime="2024-01-01T00:01:00Z",
        succeeded=1,
        failed=0,
    )
    world.run(10)
    assert world.status_writes == 0
    assert world.calls == 0


def test_interactive(new_world: Make) -> None:
    world = new_world(submissionMode="InteractiveMode")
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Waiting")
    assert world.condition("Submitted") == ("False", "WaitingForJobID")
    world.set_job("RUNNING", job_id="mine")
    world.edit({"metadata.annotations": {"ray.io/ray-job-submission-id": "mine"}})
    world.run(5)
    assert world.status["jobId"] == "mine"
    assert told(world)["Running"] == "True/JobRunning"


def test_http(new_world: Make) -> None:
    world = new_world(submissionMode="HTTPMode")
    world.fail_post = 500
    world.run(6)
    assert world.condition("Submitted") == ("False", "NotSubmittedYet")
    assert world.told[0]["message"] == "the dashboard does not take the job: SubmitJob fail: HTTP 500"
    world.fail_post = 0
    world.run(8)
    assert world.condition("Submitted") == ("True", "JobSubmitted")
    assert world.told == []
