"""A RayJob that is deleted always goes, soon, and stops its Ray job on the way where that can be done (4.10, RJ-29)."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import JOB, RAYCLUSTER, RAYJOB
from kuberay.api.names import RAYJOB_FINALIZER
from kuberay.plan.job import plan_job
from kuberay.plan.job.deletion import PATIENCE
from kuberay.plan.job.in_flight import POST_FLIGHT, WITHDRAWAL
from kuberay.plan.model import Delete, JobInfoProbe, Patch, ProbeResult, StopJobCall, WriteFailure

Make = Callable[..., Any]
Body = dict[str, Any]

EDITS: dict[str, Body] = {
    "a good spec": {},
    "a refused spec": {"spec.backoffLimit": -1},
    "a spec that cannot be read": {"spec.backoffLimit": "many", "spec.rayClusterSpec.workerGroupSpecs": "nonsense"},
    "no spec": {"spec": {}},
    "an unknown mode": {"spec.submissionMode": "Telepathy"},
    "another manager": {"spec.managedBy": "kueue.x-k8s.io/multikueue"},
    "a selected cluster that is gone": {"spec.clusterSelector": {"ray.io/cluster": "g"}, "status.rayClusterName": "g"},
    "suspend": {"spec.suspend": True, "spec.shutdownAfterJobFinishes": True},
}


def lets_go(plan: Any) -> bool:
    """Whether the finalizer goes; nothing else may be written but what stops the job."""
    found = False
    for write in itertools.chain(*plan.stages):
        match write:
            case Patch(kind=kind) if kind == RAYJOB:
                assert write.body == {"metadata": {"finalizers": []}}
                found = True
            case Delete(kind=kind, optional=True) if kind == JOB:
                pass
            case _:
                raise AssertionError(write)
    assert plan.status is None
    return found


def told(plan: Any) -> list[str]:
    """What is told of once the finalizer is gone."""
    assert plan.events == []
    return [write.done.reason for write in itertools.chain(*plan.stages) if write.done is not None]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("state", JobDeploymentStatus)
def test_it_goes_from_every_state_whatever_its_spec_says(running: Make, state: JobDeploymentStatus, edit: str) -> None:
    for job_status, answer in itertools.product(("", "PENDING", "RUNNING", "SUCCEEDED"), ("none", "found", "error")):
        world = running()
        world.edit({"status.jobDeploymentStatus": state.value, "status.jobStatus": job_status, **EDITS[edit]})
        world.delete(RAYJOB, "j")
        world.now += timedelta(seconds=1)
        plan = world.decide()
        ended = job_status == "SUCCEEDED" or "gone" in edit
        assert lets_go(plan) == ended
        if ended:
            assert plan.probes == []
            continue
        (stop,) = plan.probes
        assert isinstance(stop, StopJobCall)
        assert plan.requeue_after == PATIENCE - timedelta(seconds=1)
        if answer != "none":
            world.results[stop] = ProbeResult(answer, world.now, error="away" if answer == "error" else "")
        else:
            world.now += PATIENCE
        plan = world.decide()
        assert lets_go(plan)
        assert told(plan) == ([] if answer == "found" else ["FailedToStopRayJob"])


@pytest.mark.parametrize("state", ["Waiting", "Initializing", "Running"])
def test_without_a_job_or_an_address_it_goes_at_once(running: Make, state: str) -> None:
    for missing in ("jobId", "dashboardURL", "rayClusterName"):
        world = running()
        world.edit({"status.jobDeploymentStatus": state, "status.jobStatus": "", f"status.{missing}": None})
        world.delete(RAYJOB, "j")
        plan = world.decide()
        assert lets_go(plan)
        assert told(plan) == []


def test_a_restarted_operator_does_not_begin_to_wait_anew(running: Make) -> None:
    world = running()
    world._poll = lambda: None
    world.delete(RAYJOB, "j")
    for _ in range(3):
        world.run(9)
        assert world.objects
        world.restart()
    world.run(6)
    assert not world.objects
    assert "no answer within 30s" in world.notes("FailedToStopRayJob")[0]


def test_an_object_of_a_strange_shape_goes_too(running: Make) -> None:
    world = running()
    world.cluster["spec"]["authOptions"] = "token"
    world.delete(RAYJOB, "j")
    plan = world.decide()
    assert lets_go(plan)
    assert told(plan) == ["FailedToStopRayJob"]


def test_a_refused_write_is_tried_again_until_it_goes(running: Make) -> None:
    world = running()
    world.refuse_writes["Patch", "RayJob"] = "conflict"
    world.delete(RAYJOB, "j")
    world.run(20)
    assert world.objects
    failure = WriteFailure("RayJob", "j", "", "conflict", "Conflict")
    assert plan_job(world.observe(failure)).status is None
    world.refuse_writes.clear()
    world.run(6)
    assert not world.objects


def test_a_complete_one_goes_at_once_and_asks_nobody(running: Make) -> None:
    world = running()
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Complete")
    posts = list(world.dashboard().posts)
    dashboard = world.dashboard()
    world.delete(RAYJOB, "j")
    world.run(1)
    assert not world.objects
    assert dashboard.posts == posts


def test_one_that_another_controller_manages_keeps_their_finalizers(running: Make) -> None:
    world = running()
    world.edit({"spec.managedBy": "kueue.x-k8s.io/multikueue"})
    assert world.decide().stages == []
    world.job["metadata"]["finalizers"].append("other/one")
    world.delete(RAYJOB, "j")
    world.run(3)
    assert world.job["metadata"]["finalizers"] == ["other/one"]
    passes = world.calls
    world.run(30)
    assert world.calls == passes


def test_without_our_finalizer_nothing_is_done(running: Make) -> None:
    world = running()
    world.job["metadata"]["finalizers"] = ["other/one"]
    world.delete(RAYJOB, "j")
    plan = world.decide()
    assert (plan.stages, plan.probes, plan.status) == ([], [], None)


# On a cluster that stays, what is handed in late would run for good


@pytest.fixture
def on_shared(new_world: Make) -> Make:
    """Makes a world whose RayJob has a shared cluster that does not know its job yet."""

    def make(mode: str = "K8sJobMode") -> Any:
        spec = copy.deepcopy(new_world().job["spec"]["rayClusterSpec"])
        world = new_world(rayClusterSpec=None, clusterSelector={"ray.io/cluster": "shared"}, submissionMode=mode)
        world.create({"kind": "RayCluster", "metadata": {"name": "shared"}, "spec": spec})
        if mode == "K8sJobMode":
            world.until(lambda: world.status.get("jobDeploymentStatus") == "Running")
            # Its pod is to be gone before the Job is.
            world.job_finalizer = "foregroundDeletion"
            world.objects[JOB, "j"]["metadata"]["finalizers"] = [world.job_finalizer]
            return world
        world.run(3)
        world.job["status"] = {
            **world.status,
            "jobDeploymentStatus": "Running",
            "jobStatus": "",
            "jobId": "one",
            "dashboardURL": "shared-head-svc.default.svc.cluster.local:8265",
        }
        world.job["status"].pop("conditions", None)
        world.dashboard().jobs.clear()
        world.dashboard().posts.clear()
        return world

    return make


def stops(world: Any) -> int:
    return sum(post.endswith("/stop") for post in world.dashboards["shared"].posts)


def test_its_submitter_ends_before_the_stop_is_sent(on_shared: Make) -> None:
    world = on_shared()
    world.delete(RAYJOB, "j")
    (delete,) = itertools.chain(*world.decide().stages)
    assert (delete.kind, delete.propagation) == (JOB, "Foreground")
    world.run(20)
    assert world.objects[JOB, "j"]["metadata"]["deletionTimestamp"]
    assert stops(world) == 0
    assert (RAYJOB, "j") in world.objects
    world._remove(JOB, "j")
    world.run(3)
    assert (RAYJOB, "j") not in world.objects
    assert stops(world) == 1
    assert (RAYCLUSTER, "shared") in world.objects


def test_a_job_that_is_handed_in_after_the_delete_is_stopped(on_shared: Make) -> None:
    world = on_shared()
    world.delete(RAYJOB, "j")
    world.run(10)
    world.set_job("RUNNING")
    job_id = world.status["jobId"]
    world.run(6)
    assert (RAYJOB, "j") not in world.objects
    assert world.dashboards["shared"].jobs[job_id]["status"] == "STOPPED"


def test_a_submitter_that_does_not_end_delays_it_only_so_long(on_shared: Make) -> None:
    world = on_shared()
    world.refuse = True
    world._poll = lambda: None
    world.refuse_writes["Delete", "Job"] = "forbidden"
    world.delete(RAYJOB, "j")
    world.run((WITHDRAWAL + PATIENCE).total_seconds())
    assert (RAYJOB, "j") in world.objects
    world.run(3)
    assert (RAYJOB, "j") not in world.objects


def test_a_request_that_is_under_way_is_waited_for(on_shared: Make) -> None:
    world = on_shared("HTTPMode")
    world.delete(RAYJOB, "j")
    assert lets_go(world.decide()) is False
    assert [type(probe) for probe in world.decide().probes] == [JobInfoProbe]
    world.now += POST_FLIGHT
    (stop,) = world.decide().probes
    assert isinstance(stop, StopJobCall)


def test_a_submitter_that_is_over_hands_nothing_in(on_shared: Make) -> None:
    world = on_shared()
    world.end_submitter("succeeded")
    world.delete(RAYJOB, "j")
    assert StopJobCall in [type(probe) for probe in world.decide().probes]


def test_the_finalizer_is_the_one_that_users_know() -> None:
    assert RAYJOB_FINALIZER == "ray.io/rayjob-finalizer"
