"""What users were let down by, one test each, as far as decisions are concerned; the ids are those of the case list."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.kinds import JOB, RAYCLUSTER

Make = Callable[..., Any]


def test_a_dead_head_does_not_leave_a_job_running_for_ever(new_world: Make) -> None:
    """RJ-02: the first failure is recorded; after 300 s the job is Failed with a reason of its own, cleaned up and not
    retried; one good answer in between resets the clock."""
    world = new_world(submissionMode="HTTPMode", shutdownAfterJobFinishes=True, backoffLimit=3)
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    world.refuse = True
    world.run(200)
    first = world.status["jobStatusCheckFailureStartTime"]
    world.refuse = False
    world.run(40)
    assert "jobStatusCheckFailureStartTime" not in world.status
    world.refuse = True
    world.run(290)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert world.status["jobStatusCheckFailureStartTime"] > first
    world.run(60)
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "JobStatusCheckTimeoutExceeded")
    assert world.status["failed"] == 1
    assert not [kind for kind, _ in world.objects if kind == RAYCLUSTER], "the cluster leaked"


def test_a_replaced_submitter_pod_is_no_failure(running: Make) -> None:
    """RJ-04: the command attaches to the submission that is there, and nothing is counted as failed."""
    world = running(submitterConfig={"backoffLimit": 2})
    (command,) = world.objects[JOB, "j"]["spec"]["template"]["spec"]["containers"][0]["args"]
    job_id = world.status["jobId"]
    assert f"if ! ray job status --address http://{world.status['dashboardURL']} {job_id}" in command
    assert command.endswith(f"fi ; ray job logs --address http://{world.status['dashboardURL']} --follow {job_id}")
    world.end_submitter("failed")
    world.run(30)
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["jobStatus"]) == ("Complete", "SUCCEEDED")
    assert world.status["failed"] == 0


def test_a_slow_dashboard_gets_one_submission(new_world: Make) -> None:
    """RJ-07: the id is stored before the first POST; after a time-out the job is asked for by that id first."""
    world = new_world(submissionMode="HTTPMode")
    world.reconcile()
    job_id = world.status["jobId"]
    world.fail_post = 504
    world.until(lambda: bool(world.dashboard().posts))
    world.set_job("RUNNING")
    world.run(30)
    assert world.dashboard().posts == ["POST /api/jobs/"]
    assert (world.status["jobId"], world.status["jobStatus"]) == (job_id, "RUNNING")


def test_the_exit_code_of_a_later_submitter_is_no_result(running: Make) -> None:
    """RJ-16: attempt 1 of the submitter exits non-zero, attempt 2 zero; the dashboard says FAILED."""
    world = running(submitterConfig={"backoffLimit": 2})
    world.end_submitter("failed")
    world.set_job("FAILED", "exit code 1")
    world.end_submitter("succeeded")
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "AppFailed")
    assert (world.status["failed"], world.status["succeeded"]) == (1, 0)


def shared(version: str | None) -> dict[str, Any]:
    container = {"name": "ray-head", "image": "rayproject/ray:2.52.0"}
    spec = {"headGroupSpec": {"template": {"spec": {"containers": [container]}}}}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "shared"},
        "spec": {**({"rayVersion": version} if version else {}), **spec},
    }


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_metadata_reaches_an_existing_cluster(new_world: Make, mode: str) -> None:
    """RJ-17: without an embedded cluster spec no version is known, and the metadata is passed on."""
    world = new_world(
        rayClusterSpec=None,
        clusterSelector={"ray.io/cluster": "shared"},
        metadata={"team": "blue"},
        submissionMode=mode,
    )
    world.create(shared(None))
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Running")
    world.run(5)
    if mode == "HTTPMode":
        assert world.dashboard().requests[0]["metadata"] == {"team": "blue"}
    else:
        (command,) = world.objects[JOB, "j"]["spec"]["template"]["spec"]["containers"][0]["args"]
        assert r'--metadata-json "{\"team\":\"blue\"}"' in command


def test_metadata_is_refused_only_for_a_stated_version_that_is_too_old(new_world: Make) -> None:
    """RJ-17: … and then in one clear sentence."""
    world = new_world(metadata={"team": "blue"})
    world.edit({"spec.rayClusterSpec.rayVersion": "2.5.0"})
    world.run(5)
    assert "spec.metadata needs Ray 2.6.0 or newer" in world.status["message"]


@pytest.mark.parametrize(
    "entrypoint",
    [
        pytest.param("echo one && echo two; echo `whoami`", id="RJ-19"),
        pytest.param('python -c "import ray; ray.init(); print(f\\"{1+1}\\")"', id="RJ-20"),
    ],
)
def test_the_entrypoint_reaches_ray_as_it_is_written(new_world: Make, entrypoint: str) -> None:
    """RJ-19, RJ-20: the same in HTTPMode, where no shell is between; for the shells see test_quoting and test_submit_command."""
    world = new_world(submissionMode="HTTPMode", entrypoint=entrypoint)
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    assert world.dashboard().requests[0]["entrypoint"] == entrypoint


def test_three_attempts_and_no_more(new_world: Make) -> None:
    """RJ-21: each attempt waits for the end of the one before it, has a cluster and an id of its own, and is counted."""
    world = new_world(backoffLimit=2, activeDeadlineSeconds=3600)
    seen = []
    for attempt in (1, 2, 3):
        world.settings["job"] = "RUNNING"
        world.until(lambda: world.status.get("jobStatus") == "RUNNING")
        seen.append((world.status["rayClusterName"], world.status["jobId"]))
        clusters = [name for kind, name in world.objects if kind == RAYCLUSTER]
        assert clusters == [world.status["rayClusterName"]], "the former cluster is still there"
        world.settings.pop("job")
        world.set_job("FAILED")
        world.end_submitter("succeeded")
        world.until(lambda attempt=attempt: world.status["failed"] == attempt)
    world.run(30)
    assert world.status["jobDeploymentStatus"] == "Failed"
    assert len({name for name, _ in seen}) == len({job_id for _, job_id in seen}) == 3


def test_a_deadline_ends_everything_without_a_retry(running: Make) -> None:
    """RJ-21: … at once."""
    world = running(backoffLimit=2, activeDeadlineSeconds=60)
    world.run(70)
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "DeadlineExceeded")
    assert world.status["failed"] == 1


@pytest.mark.parametrize("state", ["Initializing", "Waiting"])
def test_an_interactive_job_gives_way(new_world: Make, state: str) -> None:
    """RJ-23: a queue preempts a job that waits, for its pods or for its user; resumed it waits again."""
    world = new_world(submissionMode="InteractiveMode", shutdownAfterJobFinishes=True)
    if state == "Initializing":
        world.settings["worker"] = "none"
    world.until(lambda: world.status.get("jobDeploymentStatus") == state)
    world.run(5)
    world.edit({"spec.suspend": True})
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Suspended"
    assert not [kind for kind, _ in world.objects if kind == RAYCLUSTER]
    world.settings["worker"] = "ready"
    world.edit({"spec.suspend": False})
    world.until(lambda: world.status["jobDeploymentStatus"] == "Waiting")


def test_a_corrected_interactive_job_starts(new_world: Make) -> None:
    """RJ-27: from the beginning, with reason and message cleared."""
    world = new_world(submissionMode="InteractiveMode", backoffLimit=1)
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "ValidationFailed"
    calls = world.calls
    world.run(60)
    assert world.calls == calls, "a refused job costs nothing"
    world.edit({"spec.backoffLimit": 0})
    world.until(lambda: world.status["jobDeploymentStatus"] == "Waiting")
    assert not {"reason", "message"} & set(world.status)


def test_suspend_on_a_selector_job_is_told_and_changes_nothing(new_world: Make) -> None:
    """RJ-31: one event that the spec is invalid, and the running job goes on."""
    world = new_world(rayClusterSpec=None, clusterSelector={"ray.io/cluster": "shared"})
    world.create(shared("2.52.0"))
    world.settings["job"] = "RUNNING"
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    world.edit({"spec.suspend": True, "spec.shutdownAfterJobFinishes": True})
    world.run(30)
    assert world.status["jobStatus"] == "RUNNING"
    assert world.condition("Accepted") == ("False", "Invalid")
    (note,) = world.notes("InvalidRayJobSpec")
    assert "the ClusterSelector mode doesn't support the suspend operation" in note
    assert (RAYCLUSTER, "shared") in world.objects


def test_scheduling_edits_made_while_suspended_are_used(new_world: Make) -> None:
    """RJ-23 and the issue's word on queues: what a queue controller writes while the job rests shapes the next cluster."""
    world = new_world(suspend=True, shutdownAfterJobFinishes=True)
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Suspended")
    spec = json.loads(json.dumps(world.job["spec"]["rayClusterSpec"]))
    for group in spec["workerGroupSpecs"]:
        group["template"]["spec"]["nodeSelector"] = {"pool": "spot"}
        group["template"]["spec"]["tolerations"] = [{"key": "spot", "operator": "Exists"}]
    world.edit({"spec.rayClusterSpec": spec, "spec.suspend": False})
    world.until(lambda: world.status["jobDeploymentStatus"] == "Running")
    assert world.cluster["spec"]["workerGroupSpecs"] == spec["workerGroupSpecs"]
