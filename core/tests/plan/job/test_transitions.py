"""Spec rayjob.md 2.3, row by row, and the rows of 8.5: from a state and a guard to the next state, and what is written."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import JOB, RAYCLUSTER, RAYJOB, SERVICE
from kuberay.api.names import RAYJOB_FINALIZER
from kuberay.api.times import format_time
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, Delete, JobInfoProbe, Patch, StopJobCall

SUSPENDABLE = {"suspend": True, "shutdownAfterJobFinishes": True}
GRACE = "JobDeploymentStatusTransitionGracePeriodExceeded"
Make = Callable[..., Any]


def states(world: Any) -> list[tuple[str, str, str]]:
    return [(t["jobDeploymentStatus"], t["jobStatus"], t["reason"]) for t in world.transitions]


# New


def test_new_stores_identifiers_before_anything_is_created(new_world: Make) -> None:
    world = new_world()
    plan = world.decide()
    ((patch,),) = plan.stages
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"finalizers": [RAYJOB_FINALIZER]}}
    assert patch.resource_version == world.job["metadata"]["resourceVersion"]
    assert plan.status is not None
    assert plan.status["jobDeploymentStatus"] == "Initializing"
    assert plan.status["startTime"] == "2024-01-01T00:00:00Z"
    assert (plan.status["failed"], plan.status["succeeded"]) == (0, 0)
    assert plan.status["rayClusterName"].startswith("j-")
    assert plan.status["jobId"].startswith("j-")
    assert plan.status["jobId"] != plan.status["rayClusterName"]
    again = world.decide()
    assert (again.stages, again.status) == (plan.stages, plan.status), "the same view gave another plan"


def test_new_keeps_other_finalizers(new_world: Make) -> None:
    world = new_world()
    world.job["metadata"]["finalizers"] = ["other/one"]
    ((patch,),) = world.decide().stages
    assert patch.body["metadata"]["finalizers"] == ["other/one", RAYJOB_FINALIZER]


def test_new_takes_the_users_names(new_world: Make) -> None:
    world = new_world(jobId="mine", rayClusterSpec=None, clusterSelector={"ray.io/cluster": "shared", "x": "y"})
    status = world.decide().status
    assert (status["jobId"], status["rayClusterName"]) == ("mine", "shared")


def test_names_avoid_what_exists(new_world: Make) -> None:
    world = new_world()
    taken = world.decide().status["rayClusterName"]
    world.create({"kind": "RayCluster", "metadata": {"name": taken}, "spec": {"headGroupSpec": {"template": {}}}})
    assert world.decide().status["rayClusterName"] != taken


# Initializing


def test_initializing_creates_the_cluster_and_waits(new_world: Make) -> None:
    world = new_world(world={"settings": {"head": "ready", "worker": "none"}})
    world.job["metadata"].update(labels={"a": "1", "ray.io/originated-from-crd": "x"}, annotations={"b": "2"})
    world.run(3)
    cluster = world.cluster
    assert cluster["metadata"]["labels"] == {
        "a": "1",
        "ray.io/originated-from-cr-name": "j",
        "ray.io/originated-from-crd": "RayJob",
        "ray.io/job-submission-mode": "K8sJobMode",
    }
    assert cluster["metadata"]["annotations"] == {"b": "2"}
    assert cluster["spec"] == world.job["spec"]["rayClusterSpec"]
    assert world.status["jobDeploymentStatus"] == "Initializing"
    assert world.status["rayClusterStatus"] == cluster["status"], "the cluster's status is not mirrored"
    assert (JOB, "j") not in world.objects
    assert world.plan.waiting


def test_initializing_ready_submits_and_runs(new_world: Make) -> None:
    world = new_world()
    world.run(2)
    name = world.status["rayClusterName"]
    assert world.status["jobDeploymentStatus"] == "Running"
    assert world.status["dashboardURL"] == f"{name}-head-svc.default.svc.cluster.local:8265"
    assert (JOB, "j") in world.objects
    assert world.objects[SERVICE, "j-head-svc"]["spec"]["selector"]["ray.io/cluster"] == name
    assert world.status_writes == 2, "identifiers, then Running"


def test_initializing_without_dashboard_port_says_so(new_world: Make) -> None:
    world = new_world()
    world.reconcile()
    world.reconcile()
    world._play_clusters()
    service = world.objects[SERVICE, f"{world.status['rayClusterName']}-head-svc"]
    port = service["spec"]["ports"].pop()
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Initializing"
    assert "no port named dashboard" in world.told[0]["message"]
    service["spec"]["ports"].append(port)
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert world.told == []


@pytest.mark.parametrize("suspend", [True, False])
def test_initializing_suspend(new_world: Make, suspend: bool) -> None:
    world = new_world(suspend=suspend, shutdownAfterJobFinishes=True)
    world.reconcile()
    status = world.decide().status
    assert (status is not None and status["jobDeploymentStatus"] == "Suspending") is suspend


def test_a_foreign_cluster_of_that_name_is_not_used(new_world: Make) -> None:
    world = new_world()
    world.reconcile()
    world.create(
        {
            "kind": "RayCluster",
            "metadata": {"name": world.status["rayClusterName"]},
            "spec": world.job["spec"]["rayClusterSpec"],
        }
    )
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Initializing"
    assert "does not belong to this RayJob" in world.told[0]["message"]


@pytest.mark.parametrize("mine", [True, False])
def test_an_existing_job_of_that_name(new_world: Make, mine: bool) -> None:
    world = new_world()
    world.reconcile()
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "j", "uid": world.job["metadata"]["uid"]}
    metadata = {"name": "j", "ownerReferences": [{**owner, "controller": True}] if mine else []}
    world.create({"kind": "Job", "metadata": metadata, "spec": {"mark": 1}})
    world.run(6)
    assert world.objects[JOB, "j"]["spec"] == {"mark": 1}, "an existing Job is left alone"
    assert "CreatedRayJobSubmitter" not in world.reasons()
    assert world.status["jobDeploymentStatus"] == ("Running" if mine else "Initializing")


# Limits


@pytest.mark.parametrize("state", ["Initializing", "Running"])
@pytest.mark.parametrize(("after", "late"), [(9, False), (10, True)])
def test_active_deadline(new_world: Make, state: str, after: int, late: bool) -> None:
    world = new_world(activeDeadlineSeconds=10, backoffLimit=2)
    if state == "Initializing":
        world.settings["worker"] = "none"
    world.run(4)
    assert world.status["jobDeploymentStatus"] == state
    assert world.plan.requeue_after is not None
    world.now = world.now.replace(second=after)
    plan = world.decide()
    if not late:
        assert plan.requeue_after == timedelta(seconds=1)
        return
    assert plan.status is not None
    assert plan.status["jobDeploymentStatus"] == "Failed", "a deadline is never retried"
    assert plan.status["reason"] == "DeadlineExceeded"
    assert plan.status["failed"] == 1
    assert plan.status["endTime"] == "2024-01-01T00:00:10Z"
    assert plan.status["message"] == (
        "The RayJob has passed the activeDeadlineSeconds. StartTime: 2024-01-01 00:00:00 +0000 UTC."
        " ActiveDeadlineSeconds: 10"
    )


@pytest.mark.parametrize(("backoff", "state"), [(None, "Failed"), (0, "Failed"), (1, "Retrying")])
def test_pre_running_deadline(new_world: Make, backoff: int | None, state: str) -> None:
    world = new_world(preRunningDeadlineSeconds=5, backoffLimit=backoff)
    world.settings["worker"] = "none"
    world.until(lambda: world.status.get("failed") == 1)
    assert world.transitions[1]["jobDeploymentStatus"] == state
    assert world.transitions[1]["reason"] == "PreRunningDeadlineExceeded"
    assert world.passes < 12, "it was polled instead of waited for"


def test_pre_running_deadline_has_no_effect_on_a_running_job(running: Make) -> None:
    world = running(preRunningDeadlineSeconds=30)
    world.run(60)
    assert world.status["jobDeploymentStatus"] == "Running"


# Running


def test_running_suspend(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True)
    world.edit({"spec.suspend": True})
    assert world.decide().status["jobDeploymentStatus"] == "Suspending"


@pytest.mark.parametrize(
    ("status", "state", "reason", "counters"),
    [
        ("SUCCEEDED", "Complete", "", (0, 1)),
        ("STOPPED", "Complete", "", (0, 0)),
        ("FAILED", "Failed", "AppFailed", (1, 0)),
    ],
)
@pytest.mark.parametrize("submitter", ["succeeded", "failed"])
def test_the_ray_job_decides_the_outcome(
    running: Make, status: str, state: str, reason: str, counters: tuple[int, int], submitter: str
) -> None:
    world = running(submitterConfig={"backoffLimit": 0})
    world.set_job(status, "the end")
    world.until(lambda: world.status["jobStatus"] == status)
    assert world.status["jobDeploymentStatus"] == "Running", "the submitter is still at work"
    world.end_submitter(submitter)
    world.run(1)
    assert states(world)[-1] == (state, status, reason)
    assert (world.status["failed"], world.status["succeeded"]) == counters
    assert world.status["message"] == "the end"
    assert set(world.status["rayJobInfo"]) == {"startTime", "endTime"}
    assert world.status["endTime"]


@pytest.mark.parametrize(("status", "state"), [("SUCCEEDED", "Complete"), ("FAILED", "Failed")])
def test_grace_period_after_the_end(running: Make, status: str, state: str) -> None:
    world = running(world={"config": PlanConfig(job_transition_grace=timedelta(seconds=20))})
    world.set_job(status)
    world.until(lambda: world.status["jobStatus"] == status)
    passes = world.passes
    world.until(lambda: world.status["jobDeploymentStatus"] != "Running")
    assert states(world)[-1] == (state, status, GRACE)
    assert world.passes - passes <= 3, "it was polled instead of waited for"


def test_an_end_without_a_time_has_a_grace_period_too(running: Make) -> None:
    world = running()
    world.set_job("SUCCEEDED")
    del world.dashboard().jobs[world.status["jobId"]]["end_time"]
    world.run(250)
    assert (world.status["jobDeploymentStatus"], world.status["jobStatus"]) == ("Running", "SUCCEEDED")
    world.run(100)
    assert states(world)[-1] == ("Complete", "SUCCEEDED", GRACE)


def test_an_operator_that_was_away_does_not_force_an_end(running: Make) -> None:
    world = running()
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.now += timedelta(minutes=10)
    world.restart()
    world.run(5)
    assert states(world)[-1] == ("Complete", "SUCCEEDED", "")


def test_submitter_done_but_ray_says_running(running: Make) -> None:
    world = running()
    world.end_submitter("succeeded")
    finished = world.now
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed")
    assert states(world)[-1] == ("Failed", "FAILED", GRACE)
    assert (world.now - finished).total_seconds() == 31
    assert world.status["message"] == (
        f"The RayJob submitter finished at {finished:%Y-%m-%d %H:%M:%S} but the ray job did not reach terminal state within 30s"
    )


def test_submitter_done_and_the_dashboard_gone(running: Make) -> None:
    world = running()
    world.refuse = True
    world.end_submitter("succeeded")
    world.run(100)
    assert world.status["jobDeploymentStatus"] == "Running", "nobody knows how the job ended"
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed", 250)
    assert states(world)[-1][2] == "JobStatusCheckTimeoutExceeded"


def test_submitter_done_but_the_job_is_unknown(new_world: Make) -> None:
    world = new_world()
    world.run(3)
    world.end_submitter("succeeded")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed", 10)
    assert states(world)[-1] == ("Failed", "", "AppFailed")
    assert world.status["message"] == "Submitter completed but Ray job not found in RayCluster."


def test_submitter_failed(new_world: Make) -> None:
    world = new_world(submitterConfig={"backoffLimit": 0})
    world.run(3)
    world.end_submitter("failed")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed", 10)
    assert states(world)[-1] == ("Failed", "", "SubmissionFailed")
    assert world.status["message"] == (
        "Job submission has failed. Reason: BackoffLimitExceeded. Message: Job has reached the specified backoff limit"
    )


def test_submitter_failed_after_the_job_had_succeeded_unseen(running: Make) -> None:
    world = running(submitterConfig={"backoffLimit": 0})
    world.run(2)
    world.set_job("SUCCEEDED")
    world.end_submitter("failed")
    world.run(6)
    assert states(world)[-1] == ("Complete", "SUCCEEDED", ""), "an answer older than the failure was believed"


@pytest.mark.parametrize("other", ["FailureTarget", "SuccessCriteriaMet"])
def test_other_conditions_of_the_submitter_do_not_count(running: Make, other: str) -> None:
    world = running()
    world.objects[JOB, "j"]["status"] = {
        "conditions": [{"type": other, "status": "True", "lastTransitionTime": format_time(world.now)}]
    }
    world.run(40)
    assert world.status["jobDeploymentStatus"] == "Running"


def test_submitter_job_deleted_before_the_job_was_seen_is_made_again(new_world: Make) -> None:
    world = new_world()
    world.run(3)
    world.delete(JOB, "j")
    world.run(4)
    assert (JOB, "j") in world.objects
    assert world.reasons().count("CreatedRayJobSubmitter") == 2


@pytest.mark.parametrize(
    ("later", "end"), [("SUCCEEDED", ("Complete", "SUCCEEDED", "")), (None, ("Failed", "RUNNING", "AppFailed"))]
)
def test_submitter_job_deleted_while_the_job_runs(running: Make, later: str | None, end: tuple[str, str, str]) -> None:
    world = running()
    world.delete(JOB, "j")
    world.run(10)
    assert (JOB, "j") not in world.objects
    assert world.status["jobDeploymentStatus"] == "Running"
    if later is None:
        world.settings["job"] = None
        world.dashboard().jobs.clear()
    else:
        world.set_job(later)
    world.run(5)
    assert states(world)[-1] == end


def test_own_cluster_deleted_while_running(running: Make) -> None:
    world = running(backoffLimit=1)
    first = world.status["rayClusterName"]
    world.delete(RAYCLUSTER, first)
    world.until(lambda: world.status["jobStatus"] == "RUNNING" and world.status["failed"] == 1)
    assert ("Retrying", "RUNNING", "AppFailed") in states(world)
    assert world.status["rayClusterName"] != first
    assert world.reasons().count("CreatedRayCluster") == 2


# The failure timer (rows 88, 92-94)


def test_failing_checks(running: Make) -> None:
    world = running(world={"config": PlanConfig(job_status_check_timeout=timedelta(seconds=20))}, backoffLimit=1)
    world.refuse = True
    world.until(lambda: "jobStatusCheckFailureStartTime" in world.status)
    since = world.status["jobStatusCheckFailureStartTime"]
    writes = world.status_writes
    world.run(10)
    assert world.status["jobStatusCheckFailureStartTime"] == since
    assert world.status_writes == writes, "a repeated failure was written"
    world.until(lambda: world.status["jobDeploymentStatus"] != "Running", 20)
    assert states(world)[-1] == ("Failed", "RUNNING", "JobStatusCheckTimeoutExceeded"), "never retried"
    assert "exceeded timeout of 20s" in world.status["message"]


@pytest.mark.parametrize("answer", ["RUNNING", None])
def test_any_answer_resets_the_timer(new_world: Make, answer: str | None) -> None:
    world = new_world()
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Running")
    world.refuse = True
    world.until(lambda: "jobStatusCheckFailureStartTime" in world.status)
    world.refuse = False
    world.settings["job"] = answer
    world.run(4)
    assert "jobStatusCheckFailureStartTime" not in world.status
    assert world.status["jobDeploymentStatus"] == "Running"


def test_a_restarted_operator_asks_before_it_gives_up(running: Make) -> None:
    world = running()
    world.set_status(jobStatusCheckFailureStartTime="2023-12-31T00:00:00Z")
    world.restart()
    assert world.decide().status is None
    world.run(2)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert "jobStatusCheckFailureStartTime" not in world.status


# Suspending, Suspended, Retrying


def test_suspending_waits_until_all_is_gone(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True)
    name = world.status["rayClusterName"]
    world.cluster["metadata"]["finalizers"] = ["someone/holds"]
    world.edit({"spec.suspend": True})
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Suspending"
    assert world.notes("DeletedRayCluster") == [f"Deleted cluster default/{name}"]
    assert world.notes("DeletedRayJobSubmitter") == ["Deleted submitter K8s Job default/j"]
    world.edit({"spec.suspend": False})
    world.run(3)
    assert world.status["jobDeploymentStatus"] == "Suspending", "suspension is atomic"
    world.edit({"spec.suspend": True})
    world._remove(RAYCLUSTER, name)
    world.run(2)
    assert world.status["jobDeploymentStatus"] == "Suspended"
    kept = {"jobDeploymentStatus", "startTime", "failed", "succeeded", "conditions"}
    assert set(world.status) == kept
    passes = world.passes
    world.run(30)
    assert world.passes == passes, "a suspended RayJob is not looked at again"


def test_resume_begins_anew(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True)
    before = world.status
    world.edit({"spec.suspend": True})
    world.until(lambda: world.status["jobDeploymentStatus"] == "Suspended")
    world.run(5)
    world.edit({"spec.suspend": False})
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    for key in ("rayClusterName", "jobId", "startTime"):
        assert world.status[key] != before[key]


def test_retry_resets_and_uses_the_present_spec(running: Make) -> None:
    world = running(backoffLimit=2)
    first = world.status["rayClusterName"]
    world.set_job("FAILED", "boom")
    world.until(lambda: world.status["jobStatus"] == "FAILED")
    world.edit({"spec.rayClusterSpec.rayVersion": "2.53.0"})
    world.end_submitter("succeeded")
    world.until(lambda: world.status["failed"] == 1 and world.status.get("jobStatus") == "RUNNING")
    assert ("", "", "") in states(world), "New shows between two attempts"
    assert "message" not in world.status
    assert world.status["rayClusterName"] != first
    assert world.cluster["spec"]["rayVersion"] == "2.53.0"
    assert (RAYCLUSTER, first) not in world.objects, (
        "a retry deletes the old cluster whatever shutdownAfterJobFinishes says"
    )


def test_three_attempts(running: Make) -> None:
    world = running(backoffLimit=2)
    for attempt in range(1, 4):
        world.set_job("FAILED")
        world.until(lambda: world.status.get("jobStatus") == "FAILED")
        world.end_submitter("succeeded")
        world.until(lambda attempt=attempt: world.status["failed"] == attempt)
        if attempt < 3:
            world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    assert states(world)[-1] == ("Failed", "FAILED", "AppFailed")
    assert (world.status["failed"], world.status["succeeded"]) == (3, 0)
    assert len(world.lifecycle["RayCluster"]) == 5


# Complete and Failed


def test_complete_ignores_suspend(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=100)
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Complete")
    writes = world.status_writes
    world.edit({"spec.suspend": True})
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Complete"
    assert world.status_writes == writes


def test_ttl_is_exact(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=60)
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Complete")
    ended = world.now - timedelta(seconds=1)
    assert world.status["endTime"] == format_time(ended)
    passes = world.passes
    world.until(lambda: not any(kind == RAYCLUSTER for kind, _ in world.objects), 100)
    assert world.now - timedelta(seconds=1) - ended == timedelta(seconds=60)
    assert world.passes - passes <= 4
    assert (JOB, "j") in world.objects, "the submitter Job stays for its logs"


def test_the_rayjob_itself_is_deleted_when_the_operator_is_told_so(running: Make) -> None:
    world = running(world={"config": PlanConfig(delete_rayjob_after_finish=True)}, shutdownAfterJobFinishes=True)
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(5)
    assert not world.objects


def test_nothing_is_removed_without_shutdown(running: Make) -> None:
    world = running()
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Complete"
    assert world.plan.requeue_after is None
    assert world.plan.probes == []
    before = world.passes, world.calls
    world.run(3600)
    assert (world.passes, world.calls) == before


def test_a_shared_cluster_is_never_touched(new_world: Make) -> None:
    shared = {"kind": "RayCluster", "metadata": {"name": "shared"}, "spec": new_world().job["spec"]["rayClusterSpec"]}
    world = new_world(
        world={
            "config": PlanConfig(delete_rayjob_after_finish=True),
            "settings": {"head": "ready", "worker": "ready", "job": "RUNNING"},
        },
        rayClusterSpec=None,
        clusterSelector={"ray.io/cluster": "shared"},
        shutdownAfterJobFinishes=True,
    )
    world.create(shared)
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    assert (SERVICE, "j-head-svc") not in world.objects
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Complete"
    assert (RAYCLUSTER, "shared") in world.objects
    world.edit({"spec.clusterSelector": {}})
    assert not [
        w for stage in world.decide().stages for w in stage if isinstance(w, Delete) and w.kind == RAYCLUSTER
    ], "not its controller"


def test_a_limit_that_passed_stops_the_ray_job(running: Make) -> None:
    world = running(activeDeadlineSeconds=30)
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed")
    world.run(3)
    assert world.dashboard().posts == [f"POST /api/jobs/{world.status['jobId']}/stop"]
    assert world.status["jobStatus"] == "RUNNING", "its last value stays visible"


def test_a_failed_ray_job_is_not_stopped(running: Make) -> None:
    world = running()
    world.set_job("FAILED")
    world.end_submitter("succeeded")
    world.run(10)
    assert world.plan.probes == []
    assert world.dashboard().posts == []


# Writes and events (rows 86-88, 95-98)


def test_only_decisive_changes_are_written(running: Make) -> None:
    world = running()
    writes = world.status_writes
    world.set_job("RUNNING", "step 2 of 9")
    world.run(10)
    assert world.status_writes == writes
    world.set_job("SUCCEEDED", "done")
    world.until(lambda: world.status["jobStatus"] == "SUCCEEDED")
    assert world.status["message"] == "done"


def test_a_pass_over_an_unchanged_job_writes_nothing(running: Make) -> None:
    world = running()
    world.run(5)
    calls = world.calls
    for _ in range(5):
        world.reconcile()
    assert world.calls == calls


def test_the_whole_way_costs_few_calls(running: Make) -> None:
    world = running()
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Complete")
    # finalizer, cluster, submitter, head service; Initializing, Running, RUNNING, SUCCEEDED with Complete.
    assert world.calls <= 9


@pytest.mark.parametrize(
    ("verb", "kind", "reason", "note"),
    [
        ("Create", "RayCluster", "FailedToCreateRayCluster", "Failed to create RayCluster default/"),
        ("Create", "Job", "FailedToCreateRayJobSubmitter", "Failed to create new Kubernetes Job default/j: no"),
        ("Delete", "Job", "FailedToDeleteRayJobSubmitter", "Failed to delete submitter K8s Job default/j: no"),
        ("Delete", "RayCluster", "FailedToDeleteRayCluster", "Failed to delete cluster default/"),
    ],
)
def test_failing_writes_are_told_and_block_the_step(
    new_world: Make, verb: str, kind: str, reason: str, note: str
) -> None:
    world = new_world(shutdownAfterJobFinishes=True)
    world.refuse_writes[verb, kind] = "no"
    world.run(4)
    if verb == "Delete":
        world.edit({"spec.suspend": True})
        world.run(4)
    assert world.notes(reason)[0].startswith(note)
    stays = {"Create": "Initializing", "Delete": "Suspending"}[verb]
    assert world.status["jobDeploymentStatus"] == stays
    assert "no" in world.told[0]["message"]
    world.refuse_writes.clear()
    world.run(8)
    assert world.status["jobDeploymentStatus"] == {"Create": "Running", "Delete": "Suspended"}[verb]
    assert world.told == []


def test_a_head_service_that_cannot_be_written_stops_no_job(new_world: Make) -> None:
    world = new_world(world={"settings": {"head": "ready", "worker": "ready", "job": "RUNNING"}})
    world.refuse_writes["Apply", "Service"] = "no"
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    assert "Failed to create the service default/j-head-svc, no" in world.notes("FailedToCreateService")


def test_the_head_service_follows_the_attempt(running: Make) -> None:
    world = running(backoffLimit=1)
    world.set_job("FAILED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["failed"] == 1 and world.status.get("jobStatus") == "RUNNING")
    assert world.objects[SERVICE, "j-head-svc"]["spec"]["selector"]["ray.io/cluster"] == world.status["rayClusterName"]
    assert world.notes("UpdatedService") == ["Updated the service default/j-head-svc"]


# Deletion (4.10)


def test_deletion_stops_the_ray_job_once(running: Make) -> None:
    world = running()
    job_id, dashboard = world.status["jobId"], world.dashboard()
    world.delete(RAYJOB, "j")
    plan = world.decide()
    assert plan.stages == []
    assert plan.status is None
    (call,) = plan.probes
    assert isinstance(call, StopJobCall)
    world.run(3)
    assert not world.objects
    assert dashboard.posts == [f"POST /api/jobs/{job_id}/stop"]


@pytest.mark.parametrize("mode", ["dashboard away", "never an answer"])
def test_deletion_does_not_depend_on_the_stop(running: Make, mode: str) -> None:
    world = running()
    world.refuse = True
    world.delete(RAYJOB, "j")
    if mode == "never an answer":
        world._poll = lambda: None
        world.run(20)
        assert world.objects
        world.now += timedelta(seconds=20)
    world.run(3)
    assert not world.objects
    (note,) = world.notes("FailedToStopRayJob")
    assert note.startswith("Failed to stop Ray job j-")


def test_deletion_of_an_ended_job_asks_nobody(running: Make) -> None:
    world = running()
    world.set_job("SUCCEEDED")
    world.until(lambda: world.status["jobStatus"] == "SUCCEEDED")
    world.refuse = True
    world.delete(RAYJOB, "j")
    world.run(1)
    assert not world.objects


def test_deletion_of_an_invalid_object_works(new_world: Make) -> None:
    world = new_world()
    world.run(1)
    world.edit({"spec.backoffLimit": -1, "spec.rayClusterSpec.workerGroupSpecs": "nonsense"})
    world.delete(RAYJOB, "j")
    world.run(2)
    assert not world.objects


def test_other_finalizers_stay(new_world: Make) -> None:
    world = new_world()
    world.run(1)
    world.job["metadata"]["finalizers"].append("other/one")
    world.delete(RAYJOB, "j")
    world.run(3)
    assert world.job["metadata"]["finalizers"] == ["other/one"]


# Others


def test_a_job_that_another_controller_manages_is_left_alone(new_world: Make) -> None:
    world = new_world(managedBy="kueue.x-k8s.io/multikueue")
    plan = world.decide()
    assert (plan.stages, plan.status, plan.probes, plan.events) == ([], None, [], [])


def test_the_probe_carries_what_the_dashboard_needs(new_world: Make) -> None:
    spec = new_world().job["spec"]["rayClusterSpec"]
    world = new_world(rayClusterSpec={**spec, "rayVersion": "2.53.0", "authOptions": {"mode": "token"}})
    world.run(3)
    name = world.status["rayClusterName"]
    (probe,) = world.plan.probes
    assert isinstance(probe, JobInfoProbe)
    assert (probe.address, probe.job_id) == (world.status["dashboardURL"], world.status["jobId"])
    assert (probe.namespace, probe.service) == ("default", f"{name}-head-svc")
    assert probe.auth is not None
    assert (probe.auth.namespace, probe.auth.name, probe.auth.key) == ("default", name, "auth_token")


def test_the_submitter_pod_is_expected(running: Make) -> None:
    world = running()
    (pod,) = world.plan.expected_pods
    assert (pod.group, pod.node_type, pod.name, pod.exists) == ("submittergroup", "submitter", "j", True)
    assert pod.resources == {"cpu": "500m", "memory": "200Mi"}
    assert pod.build()["spec"]["containers"][0]["name"] == "ray-job-submitter"


def test_an_unknown_state_is_left_alone(new_world: Make) -> None:
    world = new_world()
    world.set_status(jobDeploymentStatus="Imagined")
    plan = world.decide()
    assert plan.stages == []
    assert "Imagined" in plan.waiting
    assert plan.status is not None
    assert plan.status["jobDeploymentStatus"] == "Imagined"


def test_creates_come_with_their_events(new_world: Make) -> None:
    world = new_world()
    world.run(3)
    creates = [event.note for event in world.events]
    name = world.status["rayClusterName"]
    assert creates == [
        f"Created RayCluster default/{name}",
        "Created Kubernetes Job default/j",
        "Created the service default/j-head-svc",
    ]
    assert {event.action for event in world.events} == {"Create"}
    assert all(isinstance(write, Create | Patch) for stage in new_world().decide().stages for write in stage)


@pytest.mark.parametrize("missing", ["rayClusterName", "jobId"])
def test_identifiers_that_somebody_removed_are_stored_before_they_are_used(new_world: Make, missing: str) -> None:
    world = new_world()
    world.reconcile()
    del world.job["status"][missing]
    plan = world.decide()
    assert plan.stages == []
    assert plan.status is not None
    assert plan.status[missing]
    world.set_status()
    world.until(lambda: world.status["jobDeploymentStatus"] == "Running")


def test_clocks_of_nodes_do_not_judge(running: Make) -> None:
    """A submitter whose node is late by a minute has ended a minute ago, it seems; Ray has not been asked since."""
    world = running(submissionMode="SidecarMode")
    world.run(4)
    world.now -= timedelta(seconds=60)
    world.end_sidecar(0)
    world.now += timedelta(seconds=60)
    world.set_job("SUCCEEDED")
    world.reconcile()
    assert world.status["jobDeploymentStatus"] == "Running"
    world.run(1)
    assert (world.status["jobDeploymentStatus"], world.status["jobStatus"]) == ("Complete", "SUCCEEDED")
