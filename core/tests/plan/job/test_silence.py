"""When a submitter Job is suspended so that it cannot hand the job in a second time, and when it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.kinds import JOB, POD, RAYCLUSTER
from kuberay.api.names import ANNOTATION_SILENCED
from kuberay.api.times import format_time
from kuberay.plan.model import StopJobCall

Make = Callable[..., Any]


def suspended(world: Any) -> bool:
    return bool(world.objects[JOB, "j"]["spec"].get("suspend"))


def test_a_head_that_is_lost_takes_the_submitter_along(running: Make) -> None:
    """RJ-01, in K8sJobMode: the next pod of the submitter would hand the job in again to the new head."""
    world = running()
    world.refuse = True
    world.lose_head(new=False)
    world.run(2)
    assert suspended(world)
    assert world.objects[JOB, "j"]["metadata"]["annotations"] == {ANNOTATION_SILENCED: "true"}
    (note,) = world.notes("SuspendedRayJobSubmitter")
    assert "must not be submitted again" in note
    assert world.status["jobDeploymentStatus"] == "Running", "whether Ray has the job is the dashboard's to say"
    world.lose_head(new=True)
    world.refuse = False
    world.run(5)
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "AppFailed")
    assert suspended(world)


def submitter_pod(world: Any, name: str, phase: str) -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": world.objects[JOB, "j"]["metadata"]["uid"]}
    metadata = {"name": name, "ownerReferences": [{**owner, "controller": True}]}
    world.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"phase": phase}})


def test_pods_of_a_silenced_submitter_get_no_time_and_old_ones_keep_their_logs(running: Make) -> None:
    """A shell that waits for the dashboard does not listen to the kubelet, and would submit within its time to end."""
    world = running()
    submitter_pod(world, "old", "Failed")
    submitter_pod(world, "present", "Running")
    world.refuse = True
    world.lose_head(new=True)
    world.run(1)
    assert (POD, "present") not in world.objects
    submitter_pod(world, "late", "Pending")
    world._dirty = True
    world.run(1)
    assert (POD, "late") not in world.objects
    assert (POD, "old") in world.objects


def test_a_new_head_that_knows_the_job_lets_the_submitter_go_on(running: Make) -> None:
    world = running()
    jobs = dict(world.dashboard().jobs)
    world.run(5)
    world.lose_head(new=True)
    world.refuse = True
    world.run(2)
    assert suspended(world)
    since = format_time(world.now)
    world.objects[JOB, "j"]["status"] = {
        "conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": since}]
    }
    world.dashboard().jobs.update(jobs)
    world.refuse = False
    world.run(8)
    assert not suspended(world)
    assert not world.objects[JOB, "j"]["metadata"].get("annotations")
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Complete"


@pytest.mark.parametrize("failed", [0, 1])
def test_a_submitter_is_not_tried_again_while_ray_does_not_tell_of_its_job(running: Make, failed: int) -> None:
    """RJ-01, in K8sJobMode: a pod failed, and its head may be gone before the next one asks. Ray's answer sets it free."""
    world = running()
    world.objects[JOB, "j"]["status"] = {"failed": failed}
    world._put(JOB, world.objects[JOB, "j"])
    world.run(5)
    assert not suspended(world), "Ray tells of the job, so the next pod follows its log"
    world.refuse = True
    world.run(10)
    assert suspended(world) == bool(failed)
    assert world.status["jobDeploymentStatus"] == "Running"


def test_with_fault_tolerance_ray_remembers_and_the_submitter_follows(running: Make) -> None:
    world = running()
    world.cluster["metadata"]["annotations"] = {"ray.io/ft-enabled": "true"}
    world.run(5)
    world.refuse = True
    world.lose_head(new=True)
    world.run(5)
    assert not suspended(world)


def test_a_job_that_ended_is_not_kept_waiting_by_a_suspended_submitter(running: Make) -> None:
    world = running()
    world.set_job("FAILED", "boom")
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Running", "the submitter may still have log to show"
    world.refuse = True
    world.lose_head(new=True)
    world.run(3)
    assert suspended(world)
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "AppFailed")


def test_a_job_that_never_reached_ray_is_still_handed_in(new_world: Make) -> None:
    world = new_world()
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Running")
    world.lose_head(new=True)
    world.run(5)
    assert not suspended(world)
    world.settings["job"] = "RUNNING"
    world.run(5)
    assert world.status["jobStatus"] == "RUNNING"


def test_a_submitter_that_others_suspended_is_left_to_them(running: Make) -> None:
    """A queue may hold the submitter Job back."""
    world = running()
    world.objects[JOB, "j"]["spec"]["suspend"] = True
    world._put(JOB, world.objects[JOB, "j"])
    world.run(10)
    assert suspended(world)


@pytest.mark.parametrize(("seen", "suspend"), [(True, False), (False, True)])
def test_after_a_deadline_only_the_log_of_a_stopped_job_is_followed(new_world: Make, seen: bool, suspend: bool) -> None:
    world = new_world(activeDeadlineSeconds=20)
    if seen:
        world.settings["job"] = "RUNNING"
    world.run(40)
    assert world.status["reason"] == "DeadlineExceeded"
    assert suspended(world) is suspend


def test_after_failing_checks_the_submitter_is_silenced(running: Make) -> None:
    world = running()
    world.refuse = True
    world.run(400)
    assert world.status["reason"] == "JobStatusCheckTimeoutExceeded"
    assert suspended(world)


@pytest.mark.parametrize("status", ["SUCCEEDED", "FAILED"])
def test_a_submitter_that_never_ends_does_not_outlive_the_job(running: Make, status: str) -> None:
    """RJ-01: when a head that is kept is lost later, the next pod of the submitter would run a finished job again."""
    world = running()
    world.set_job(status)
    world.run(290)
    assert not suspended(world)
    world.run(60)
    assert world.condition("Finished")[0] == "True"
    assert suspended(world)


def test_a_submitter_does_not_outlive_its_cluster(running: Make) -> None:
    """It would wait for a dashboard for ever, and find the job missing in a cluster that is made again under this name."""
    world = running()
    world.delete(RAYCLUSTER, world.status["rayClusterName"])
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Failed"
    assert suspended(world)


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "SidecarMode"])
def test_a_job_that_reaches_ray_after_the_end_is_stopped(new_world: Make, mode: str) -> None:
    """Whoever hands the job in may be doing so while a limit passes."""
    world = new_world(submissionMode=mode, activeDeadlineSeconds=20)
    world.fail_post = 503
    if mode == "K8sJobMode":
        world.until(lambda: (JOB, "j") in world.objects)
        submitter_pod(world, "present", "Running")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed")
    world.run(4)
    world.set_job("RUNNING")
    world.run(10)
    assert world.dashboard().jobs[world.status["jobId"]]["status"] == "STOPPED"
    assert len([post for post in world.dashboard().posts if post.endswith("/stop")]) == 1


def test_a_head_that_comes_up_after_the_end_submits_in_vain(new_world: Make) -> None:
    """SidecarMode: whatever keeps a head from starting may go away long after preRunningDeadlineSeconds."""
    world = new_world(submissionMode="SidecarMode", preRunningDeadlineSeconds=20)
    world.settings["head"] = "none"
    world.run(1000)
    assert world.status["jobDeploymentStatus"] == "Failed"
    assert not world.plan.probes
    world.head_since[world.status["rayClusterName"]] = world.now
    world.settings["head"] = "ready"
    world.run(4)
    world.set_job("RUNNING")
    world.run(10)
    assert world.dashboard().jobs[world.status["jobId"]]["status"] == "STOPPED"
    world.run(400)
    assert not [probe for probe in world.plan.probes if not isinstance(probe, StopJobCall)]
