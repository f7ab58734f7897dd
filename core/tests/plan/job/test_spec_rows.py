"""Spec rayjob.md, line by line: what other tests leave out. Edits of a job under way, statuses with holes, odd texts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import JOB, RAYCLUSTER, SERVICE
from kuberay.api.names import SAFE_ALPHABET
from kuberay.plan.job import plan_job

from .conftest import CLUSTER_SPEC, NS, World

Make = Callable[..., World]
MODES = ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode")
SHARED = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": CLUSTER_SPEC}


def start(new_world: Make, mode: str, **spec: Any) -> World:
    """Until the RayJob is Running; Ray does not know the job yet."""
    world = new_world(submissionMode=mode, **spec)
    if mode == "InteractiveMode":
        world.until(lambda: world.status.get("jobDeploymentStatus") == "Waiting")
        world.edit({"spec.jobId": "told"})
    if mode == "SidecarMode":
        world.settings["job"] = "PENDING"
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Running")
    return world


def submissions(world: World) -> list[str]:
    """Who may have handed the job in: requests, and submitter Jobs that were ever made."""
    posts = [post for dashboard in world.dashboards.values() for post in dashboard.posts if not post.endswith("stop")]
    return posts + [note for note in world.notes("CreatedRayJobSubmitter") if note]


# 1.1, 2.6 and 4.1: edits of a job that is under way


EDITS = [(before, after) for before, after in itertools.product(MODES, [*MODES, "Teleport"]) if before != after]


@pytest.mark.parametrize(("before", "after"), EDITS)
@pytest.mark.parametrize("seen", [False, True], ids=["not yet seen", "seen"])
def test_another_mode_counts_from_the_next_attempt_on(new_world: Make, before: str, after: str, seen: bool) -> None:
    world = start(new_world, before)
    if seen:
        world.set_job("RUNNING")
        world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    ways = len(submissions(world))
    world.edit({"spec.submissionMode": after})
    world.run(10)
    if not seen:
        world.set_job("RUNNING")
        world.run(10)
    # The operator itself submits a few seconds after the head answers; nobody else joins in.
    assert len(submissions(world)) == max(ways, before == "HTTPMode" and not seen)
    assert set(world.notes("CreatedRayJobSubmitter")) <= {"Created Kubernetes Job default/j"}
    assert ((JOB, "j") in world.objects) == (before == "K8sJobMode")
    told = {condition["type"]: condition["message"] for condition in world.told}
    if after == "Teleport":
        assert "submissionMode" in told["Accepted"]
    else:
        assert told == {
            "RayClusterSpecEditIgnored": f"submissionMode: not applied, since this attempt was made for {before}; takes "
            "effect with the next attempt."
        }
    world.set_job("SUCCEEDED")
    if before == "K8sJobMode":
        world.end_submitter("succeeded")
    if before == "SidecarMode":
        world.end_sidecar(0)
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["succeeded"]) == ("Complete", 1)


@pytest.mark.parametrize(("before", "after"), EDITS)
def test_another_mode_while_the_cluster_starts(new_world: Make, before: str, after: str) -> None:
    """What was built into the cluster stays there, so the cluster says how its job is handed in."""
    world = new_world(submissionMode=before, world={"settings": {"head": "ready", "worker": "none"}})
    world.run(5)
    world.edit({"spec.submissionMode": after})
    world.run(3)
    world.settings["worker"] = "ready"
    world.run(10)
    wanted = {"InteractiveMode": "Waiting"}.get(before, "Running")
    assert world.status["jobDeploymentStatus"] == wanted
    assert ((JOB, "j") in world.objects) == (before == "K8sJobMode")
    assert len(world.dashboard().requests) == (before == "HTTPMode")


def test_another_mode_while_an_id_is_awaited(new_world: Make) -> None:
    """6.1, T1: told, and the user's job is followed all the same."""
    world = new_world(submissionMode="InteractiveMode")
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Waiting")
    world.edit({"spec.submissionMode": "K8sJobMode"})
    world.run(3)
    (event,) = [event for event in world.events if event.type == "Warning"]
    assert (event.reason, event.action) == ("InvalidRayJobStatus", "Validate")
    world.set_job("SUCCEEDED", job_id="told")
    world.edit({"spec.jobId": "told"})
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["jobId"]) == ("Complete", "told")
    assert submissions(world) == []


def test_a_submitter_of_the_former_mode_does_not_submit_to_another_head(running: Make) -> None:
    """RJ-01: as if nobody had edited the mode."""
    world = running(submissionMode="K8sJobMode", backoffLimit=0)
    world.edit({"spec.submissionMode": "HTTPMode"})
    world.lose_head(new=True)
    world.run(20)
    assert world.objects[JOB, "j"]["spec"]["suspend"] is True
    assert (world.status["jobDeploymentStatus"], world.status["reason"]) == ("Failed", "AppFailed")
    assert world.dashboard().requests == []


def test_the_next_attempt_has_the_new_mode(running: Make) -> None:
    world = running(submissionMode="K8sJobMode", backoffLimit=1)
    world.edit({"spec.submissionMode": "HTTPMode"})
    world.settings.pop("job")
    world.set_job("FAILED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["failed"] == 1 and world.status.get("jobStatus") == "RUNNING")
    assert (JOB, "j") not in world.objects
    assert world.cluster["metadata"]["labels"]["ray.io/job-submission-mode"] == "HTTPMode"
    assert len(world.dashboard().requests) == 1
    assert world.told == []


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode"])
def test_a_selector_added_later_changes_nothing_for_the_jobs_own_cluster(running: Make, mode: str) -> None:
    world = running(submissionMode=mode, shutdownAfterJobFinishes=True)
    own = world.status["rayClusterName"]
    world.edit({"spec.clusterSelector": {"ray.io/cluster": "shared"}})
    world.run(5)
    assert world.status["rayClusterName"] == own
    world.settings.pop("job")
    world.set_job("SUCCEEDED")
    if mode == "K8sJobMode":
        world.end_submitter("succeeded")
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Complete"
    assert not [key for key in world.objects if key[0] == RAYCLUSTER]


@pytest.mark.parametrize("after", [None, {"ray.io/cluster": "other"}], ids=["removed", "another"])
def test_a_job_on_a_shared_cluster_stays_there_whatever_the_selector_says(
    new_world: Make, after: dict[str, str] | None
) -> None:
    """RJ-05: and neither retries nor suspends what it cannot take down."""
    world = new_world(clusterSelector={"ray.io/cluster": "shared"}, submissionMode="HTTPMode")
    world.create({**SHARED, "metadata": {"name": "shared"}})
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    world.edit(
        {
            "spec.clusterSelector": after,
            "spec.suspend": True,
            "spec.shutdownAfterJobFinishes": True,
            "spec.backoffLimit": 3,
        }
    )
    world.run(5)
    assert (world.status["jobDeploymentStatus"], world.status["rayClusterName"]) == ("Running", "shared")
    world.set_job("FAILED")
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["failed"]) == ("Failed", 1)
    assert [name for kind, name in world.objects if kind == RAYCLUSTER] == ["shared"]
    assert len(world.dashboards["shared"].requests) == 1


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "InteractiveMode"])
def test_a_selector_is_corrected_while_its_cluster_is_awaited(new_world: Make, mode: str) -> None:
    """RJ-18: the name was misspelt."""
    world = new_world(clusterSelector={"ray.io/cluster": "shraed"}, submissionMode=mode)
    world.create({**SHARED, "metadata": {"name": "shared"}})
    world.run(5)
    assert world.told[0]["reason"] == "RayClusterNotFound"
    job_id = world.status.get("jobId")
    world.edit({"spec.clusterSelector": {"ray.io/cluster": "shared"}})
    world.run(5)
    assert world.status["rayClusterName"] == "shared"
    assert world.status["dashboardURL"] == "shared-head-svc.default.svc.cluster.local:8265"
    assert world.status.get("jobId") == job_id
    assert world.status["jobDeploymentStatus"] == ("Waiting" if mode == "InteractiveMode" else "Running")
    assert world.told == []


def test_another_id_does_not_reach_a_job_under_way(new_world: Make) -> None:
    world = new_world(submissionMode="HTTPMode")
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    before = world.status["jobId"]
    world.edit({"spec.jobId": "another", "spec.entrypoint": "python b.py"})
    world.run(10)
    assert (world.status["jobId"], world.status["jobDeploymentStatus"]) == (before, "Running")
    assert len(submissions(world)) == 1


def test_an_id_of_the_users_is_used_again_on_the_next_cluster(running: Make) -> None:
    world = running(submissionMode="HTTPMode", jobId="mine", backoffLimit=1)
    first = world.status["rayClusterName"]
    world.settings.pop("job")
    world.set_job("FAILED")
    world.until(lambda: world.status["failed"] == 1 and world.status.get("jobStatus") == "RUNNING")
    assert world.status["jobId"] == "mine"
    assert world.status["rayClusterName"] != first
    assert [request["submission_id"] for request in world.dashboard().requests] == ["mine"]


def test_another_manager_that_takes_over_stops_the_asking(running: Make) -> None:
    """2.1 (2): nothing at all is done, and nothing is asked."""
    world = running()
    world.edit({"spec.managedBy": "kueue.x-k8s.io/multikueue"})
    plan = world.decide()
    assert (plan.stages, plan.status, plan.probes, plan.requeue_after) == ([], None, [], None)


def test_a_backoff_limit_of_null_is_none(running: Make) -> None:
    world = running(submissionMode="HTTPMode")
    world.job["spec"]["backoffLimit"] = None
    world.settings.pop("job")
    world.set_job("FAILED")
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["failed"]) == ("Failed", 1)


# 2.2: a job that KubeRay refused after its end


@pytest.mark.parametrize(
    ("job_status", "state", "reason"),
    [
        ("SUCCEEDED", "Complete", None),
        ("STOPPED", "Complete", None),
        ("FAILED", "Failed", "AppFailed"),
        ("RUNNING", "Failed", None),
        ("", "Failed", None),
    ],
)
@pytest.mark.parametrize("cluster", [True, False], ids=["cluster left", "cluster gone"])
def test_what_is_over_does_not_run_again(
    running: Make, job_status: str, state: str, reason: str | None, cluster: bool
) -> None:
    world = running()
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(10)
    ended = world.status["endTime"]
    if not cluster:
        world.delete(RAYCLUSTER, world.status["rayClusterName"])
    refused = {"jobDeploymentStatus": "ValidationFailed", "reason": "ValidationFailed", "message": "no"}
    world.job["status"] = {**world.status, **refused, "jobStatus": job_status}
    world.edit({"spec.entrypoint": "true"})
    clusters = len(world.notes("CreatedRayCluster"))
    world.run(20)
    assert (world.status["jobDeploymentStatus"], world.status.get("reason")) == (state, reason)
    assert (world.status["endTime"], world.status["succeeded"], world.status["failed"]) == (ended, 1, 0)
    assert len(world.notes("CreatedRayCluster")) == clusters


# A status with holes: whatever is missing, a pass does not fail, and what runs is not started a second time


FULL = {
    "jobId": "j-id",
    "rayClusterName": "j-c",
    "dashboardURL": "j-c-head-svc.default.svc.cluster.local:8265",
    "jobStatus": "RUNNING",
    "message": "m",
    "reason": "AppFailed",
    "startTime": "2024-01-01T00:00:00Z",
    "endTime": "2024-01-01T00:00:00Z",
    "succeeded": 0,
    "failed": 1,
    "rayClusterStatus": {"state": "ready"},
    "rayJobInfo": {"startTime": "2024-01-01T00:00:00Z", "endTime": "2024-01-01T00:00:00Z"},
    "jobStatusCheckFailureStartTime": "2024-01-01T00:00:00Z",
    "conditions": [{"type": "Submitted", "status": "True"}],
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state", [state.value for state in JobDeploymentStatus] + ["Sleeping"])
def test_no_hole_in_a_status_breaks_a_pass(new_world: Make, state: str, mode: str) -> None:
    holes = [{key: value for key, value in FULL.items() if key != hole} for hole in FULL]
    alone = [{key: value} for key, value in FULL.items()]
    for status in [FULL, {}, *holes, *alone, FULL | {"startTime": "when", "failed": None}]:
        for suspend, deleting in ((False, False), (True, False), (False, True)):
            world = new_world(submissionMode=mode, suspend=suspend, shutdownAfterJobFinishes=True)
            world.job["status"] = {**status, "jobDeploymentStatus": state}
            if deleting:
                world.job["metadata"] |= {
                    "finalizers": ["ray.io/rayjob-finalizer"],
                    "deletionTimestamp": "2024-01-01T00:00:00Z",
                }
            plan_job(world.observe())


@pytest.mark.parametrize("mode", MODES)
def test_a_running_job_without_its_id_says_so(new_world: Make, mode: str) -> None:
    world = start(new_world, mode)
    world.set_job("RUNNING")
    world.run(5)
    ways = submissions(world)
    world.job["status"].pop("jobId")
    world.edit({"spec.jobId": None})
    world.run(10)
    assert world.told[0]["reason"] == "NoJobID"
    assert submissions(world) == ways


def test_a_running_job_without_its_address_finds_it_again(running: Make) -> None:
    world = running()
    address = world.status["dashboardURL"]
    world.job["status"].pop("dashboardURL")
    world.edit({})
    world.run(3)
    assert world.status["dashboardURL"] == address


# 0, 4.3 and 8.5: names


def test_the_longest_name(empty_world: type[World], new_world: Make) -> None:
    """Rows 6, 104 and 118: 47 characters are enough for all that is named after them."""
    name = "j" * 47
    world = empty_world(job_name=name)
    head = {**CLUSTER_SPEC["headGroupSpec"], "headService": {"metadata": {"name": "mine"}}}
    body = new_world(rayClusterSpec={**CLUSTER_SPEC, "headGroupSpec": head}).job
    world.create({**body, "metadata": {"name": name}, "kind": "RayJob"})
    world.until(lambda: world.status.get("jobDeploymentStatus") == "Running")
    cluster, job_id = world.status["rayClusterName"], world.status["jobId"]
    for made in (cluster, job_id):
        prefix, _, suffix = made.rpartition("-")
        assert prefix == name
        assert len(suffix) == 5
        assert set(suffix) <= set(SAFE_ALPHABET)
    assert len(cluster) == 53
    assert world.status["dashboardURL"] == f"mine.{NS}.svc.cluster.local:8265"
    service = world.objects[SERVICE, f"{name}-head-svc"]
    assert service["metadata"]["labels"] == {
        "ray.io/originated-from-cr-name": name,
        "ray.io/originated-from-crd": "RayJob",
        "ray.io/node-type": "head",
        "ray.io/identifier": f"{name}-head",
    }
    assert set(service["spec"]["selector"]) == {
        "ray.io/cluster",
        "ray.io/node-type",
        "ray.io/identifier",
        "app.kubernetes.io/name",
        "app.kubernetes.io/created-by",
    }
    assert service["metadata"]["ownerReferences"][0]["kind"] == "RayJob"
    assert (JOB, name) in world.objects


# 3.10


@pytest.mark.parametrize("odd", [10**21, 10**17, -(10**17)])
def test_times_on_no_calendar_are_left_out(running: Make, odd: int) -> None:
    world = running()
    before = world.status["rayJobInfo"]
    world.set_job("SUCCEEDED")
    world.dashboard().jobs[world.status["jobId"]] |= {"start_time": odd, "end_time": odd}
    world.end_submitter("succeeded")
    world.run(10)
    assert (world.status["jobDeploymentStatus"], world.status["rayJobInfo"]) == ("Complete", before)


# 3.8


@pytest.mark.parametrize("mode", ["K8sJobMode", "HTTPMode", "InteractiveMode"])
def test_a_shared_cluster_that_cannot_be_asked_gets_no_job(new_world: Make, mode: str) -> None:
    world = new_world(clusterSelector={"ray.io/cluster": "shared"}, submissionMode=mode)
    options = {"mode": "token", "enableK8sTokenAuth": True}
    world.create({**SHARED, "metadata": {"name": "shared"}, "spec": {**CLUSTER_SPEC, "authOptions": options}})
    world.run(10)
    (told,) = world.told
    assert (told["type"], told["reason"]) == ("PodsWaiting", "DashboardNotAccessible")
    assert "authOptions.enableK8sTokenAuth" in told["message"]
    assert (world.status["jobDeploymentStatus"], submissions(world)) == ("Initializing", [])
    assert world.plan.probes == []


def test_a_shared_cluster_with_a_token_is_asked_with_its_secret(new_world: Make) -> None:
    """The Secret's name: the user's, or the cluster's, shortened as names of children are."""
    for secret, name, wanted in (("own", "shared", "own"), ("", "9" * 53, "r" + "9" * 49)):
        world = new_world(clusterSelector={"ray.io/cluster": name}, submissionMode="HTTPMode")
        options = {"mode": "token", **({"secretName": secret} if secret else {})}
        world.create({**SHARED, "metadata": {"name": name}, "spec": {**CLUSTER_SPEC, "authOptions": options}})
        world.until(lambda world=world: world.status.get("jobStatus") == "RUNNING")
        assert {
            probe.auth and (probe.auth.namespace, probe.auth.name, probe.auth.key) for probe in world.plan.probes
        } == {(NS, wanted, "auth_token")}


# 7.1

NOTES = {
    ("Normal", "CreatedRayCluster", "Create"): f"Created RayCluster {NS}/C",
    ("Normal", "CreatedRayJobSubmitter", "Create"): f"Created Kubernetes Job {NS}/j",
    ("Normal", "CreatedService", "Create"): f"Created the service {NS}/j-head-svc",
    ("Normal", "UpdatedService", "Update"): f"Updated the service {NS}/j-head-svc",
    ("Normal", "DeletedRayCluster", "Delete"): f"Deleted cluster {NS}/C",
    ("Normal", "DeletedRayJobSubmitter", "Delete"): f"Deleted submitter K8s Job {NS}/j",
}


def test_events_of_a_retried_job(running: Make) -> None:
    """Type, reason, action and note; none marks a transition, an end, a retry or the deletion of the RayJob itself."""
    world = running(backoffLimit=1, shutdownAfterJobFinishes=True)
    first = world.status["rayClusterName"]
    world.settings.pop("job")
    world.set_job("FAILED", "line 1\nline 2")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["failed"] == 1 and world.status["jobDeploymentStatus"] == "Running")
    second = world.status["rayClusterName"]
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Complete"
    told = [
        ((event.type, event.reason, event.action), event.note.replace(first, "C").replace(second, "C"))
        for event in world.events
    ]
    assert set(told) == set(NOTES.items())
    assert [reason for (_, reason, _), _ in told] == [
        "CreatedRayCluster",
        "CreatedRayJobSubmitter",
        "CreatedService",
        "DeletedRayCluster",
        "DeletedRayJobSubmitter",
        "CreatedRayCluster",
        "CreatedRayJobSubmitter",
        "UpdatedService",
        "DeletedRayCluster",
    ]


def test_a_missing_shared_cluster_is_told_once(new_world: Make) -> None:
    world = new_world(clusterSelector={"ray.io/cluster": "shared"})
    world.run(20)
    (event,) = world.events
    assert (event.type, event.reason, event.action, event.note) == (
        "Warning",
        "RayClusterNotFound",
        "Validate",
        f"RayCluster {NS}/shared set in the clusterSelector is not found. It must be created manually",
    )


def test_a_head_service_that_cannot_be_updated_is_told_as_such(running: Make) -> None:
    world = running(backoffLimit=1)
    world.settings.pop("job")
    world.refuse_writes["Apply", "Service"] = "no"
    world.set_job("FAILED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["failed"] == 1 and world.status["jobDeploymentStatus"] == "Running")
    world.run(3)
    event = next(event for event in world.events if event.reason == "FailedToUpdateService")
    assert (event.type, event.action, event.note) == (
        "Warning",
        "Update",
        "Failed to update the service default/j-head-svc, no",
    )


# 2.6: counters


@pytest.mark.parametrize(
    ("job_status", "overdue", "state", "counters"),
    [
        ("SUCCEEDED", False, "Complete", (1, 0)),
        ("STOPPED", False, "Complete", (0, 0)),
        ("FAILED", False, "Failed", (0, 1)),
        ("SUCCEEDED", True, "Complete", (1, 0)),
        ("STOPPED", True, "Complete", (0, 0)),
        ("FAILED", True, "Failed", (0, 1)),
    ],
)
def test_counters(running: Make, job_status: str, overdue: bool, state: str, counters: tuple[int, int]) -> None:
    world = running()
    world.settings.pop("job")
    world.set_job(job_status, "line 1\nline 2")
    if not overdue:
        world.end_submitter("succeeded")
    world.run(310)
    status = world.status
    assert (status["jobDeploymentStatus"], status["jobStatus"]) == (state, job_status)
    assert (status["succeeded"], status["failed"]) == counters
    reason = "JobDeploymentStatusTransitionGracePeriodExceeded" if overdue else "AppFailed"
    assert status.get("reason") == (reason if overdue or state == "Failed" else None)
