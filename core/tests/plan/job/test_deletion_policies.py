"""What an ended RayJob deletes, when: every end × policy × time × what is there already (spec rayjob.md 4.8, 4.9)."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from kuberay.api.kinds import JOB, RAYCLUSTER, RAYJOB
from kuberay.api.times import format_time
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Delete, Patch, ProbeResult, StopJobCall

Make = Callable[..., Any]
Body = dict[str, Any]

SUCCEEDED = ("Complete", "SUCCEEDED", "")
STOPPED = ("Complete", "STOPPED", "")
FAILED = ("Failed", "FAILED", "AppFailed")
DEADLINE = ("Failed", "RUNNING", "DeadlineExceeded")
UNSUBMITTED = ("Failed", "", "SubmissionFailed")
FORCED = ("Failed", "SUCCEEDED", "JobDeploymentStatusTransitionGracePeriodExceeded")
ENDS = (SUCCEEDED, STOPPED, FAILED, DEADLINE, UNSUBMITTED, FORCED)
POLICIES = ("DeleteWorkers", "DeleteCluster", "DeleteSelf", "DeleteNone")
THERE = ("all", "workers suspended", "cluster going", "no cluster", "not its cluster")


def rules(*items: tuple[str, str, int]) -> Body:
    """deletionRules of policy, status and seconds."""
    return {
        "deletionRules": [
            {
                "policy": policy,
                "condition": {
                    "jobDeploymentStatus" if status == "Failed" else "jobStatus": status,
                    "ttlSeconds": seconds,
                },
            }
            for policy, status, seconds in items
        ]
    }


def legacy(success: str, failure: str) -> Body:
    return {"onSuccess": {"policy": success}, "onFailure": {"policy": failure}}


@pytest.fixture
def ended(running: Make) -> Make:
    """Makes a world whose job has ended in a given way; it ended ``ago`` seconds ago and nothing was decided since."""

    def make(end: tuple[str, str, str], *, ago: float = 0, there: str = "all", **spec: Any) -> Any:
        world = running(**{"world": {}, **spec})
        state, job_status, reason = end
        world.job["status"].update(
            jobDeploymentStatus=state,
            jobStatus=job_status,
            reason=reason,
            endTime=format_time(world.now - timedelta(seconds=ago)),
        )
        world.now = world.now.replace(microsecond=0)
        cluster = world.cluster
        match there:
            case "workers suspended":
                for group in cluster["spec"]["workerGroupSpecs"]:
                    group["suspend"] = True
            case "cluster going":
                cluster["metadata"].update(deletionTimestamp=format_time(world.now), finalizers=["other/one"])
            case "no cluster":
                del world.objects[RAYCLUSTER, cluster["metadata"]["name"]]
            case "not its cluster":
                del cluster["metadata"]["ownerReferences"]
        return world

    return make


def acts(world: Any) -> list[str]:
    """What this pass would do, in the policies' words."""
    found = []
    for write in itertools.chain(*world.decide().stages):
        match write:
            case Delete(kind=kind) if kind == RAYCLUSTER:
                found.append("DeleteCluster")
            case Delete(kind=kind) if kind == RAYJOB:
                found.append("DeleteSelf")
            case Patch(kind=kind, operations=operations) if kind == RAYCLUSTER and operations:
                found.append("DeleteWorkers")
            case Patch(kind=kind) if kind == JOB:
                pass  # a submitter is kept from handing in a job that has failed
            case _:
                raise AssertionError(write)
    return found


def wakes(world: Any) -> datetime | None:
    """When the pass is repeated for a policy; what it takes to stop a job that may still run is done with."""
    for probe in world.decide().probes:
        if isinstance(probe, StopJobCall):
            world.results[probe] = ProbeResult("found", world.now, {"stopped": True})
    after = world.decide().requeue_after
    return None if after is None else world.now + after


def is_done(policy: str, there: str) -> bool:
    return {
        "DeleteNone": True,
        "DeleteSelf": False,
        "DeleteCluster": there not in ("all", "workers suspended"),
        "DeleteWorkers": there != "all",
    }[policy]


@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("end", ENDS, ids=lambda end: "-".join(filter(None, end)))
def test_one_rule(ended: Make, end: tuple[str, str, str], policy: str, there: str) -> None:
    """A rule acts exactly when the job ended in its way, its time has come and it is not done; else it wakes up for it."""
    for status, ago in itertools.product(("SUCCEEDED", "FAILED", "Failed"), (0, 59, 60, 3600)):
        world = ended(end, ago=ago, there=there, deletionStrategy=rules((policy, status, 60)))
        open_ = status in end[:2] and not is_done(policy, there)
        assert acts(world) == ([policy] if open_ and ago >= 60 else []), (status, ago)
        expected = world.now + timedelta(seconds=60 - ago) if open_ and ago < 60 else None
        assert wakes(world) == expected, (status, ago)


LEGACY = {SUCCEEDED: 0, FORCED: 0, FAILED: 1, DEADLINE: 1, UNSUBMITTED: 1}
"""Which side an end falls under; STOPPED is neither."""


@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize("end", ENDS, ids=lambda end: "-".join(filter(None, end)))
def test_legacy_policies(ended: Make, end: tuple[str, str, str], there: str) -> None:
    for success, failure in itertools.product(POLICIES, POLICIES):
        world = ended(end, there=there, deletionStrategy=legacy(success, failure))
        side = LEGACY.get(end)
        policy = None if side is None else (success, failure)[side]
        assert acts(world) == ([policy] if policy is not None and not is_done(policy, there) else [])
        assert wakes(world) is None


@pytest.mark.parametrize("end", ENDS, ids=lambda end: "-".join(filter(None, end)))
def test_legacy_policies_wait_for_the_time_to_live(ended: Make, end: tuple[str, str, str]) -> None:
    """An end that neither side names leaves the word to shutdownAfterJobFinishes."""
    spec = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": 60}
    for ago in (0, 59, 60):
        world = ended(end, ago=ago, deletionStrategy=legacy("DeleteWorkers", "DeleteSelf"), **spec)
        side = LEGACY.get(end)
        policy = "DeleteCluster" if side is None else ("DeleteWorkers", "DeleteSelf")[side]
        assert acts(world) == ([policy] if ago == 60 else [])
        assert wakes(world) == (None if ago == 60 else world.now + timedelta(seconds=60 - ago))


@pytest.mark.parametrize("there", THERE)
@pytest.mark.parametrize("end", ENDS, ids=lambda end: "-".join(filter(None, end)))
def test_shutdown(ended: Make, end: tuple[str, str, str], there: str) -> None:
    for itself, ttl, ago in itertools.product((False, True), (0, 60), (0, 60)):
        config = PlanConfig(delete_rayjob_after_finish=itself)
        spec = {"shutdownAfterJobFinishes": True, "ttlSecondsAfterFinished": ttl}
        world = ended(end, ago=ago, there=there, world={"config": config}, **spec)
        policy = "DeleteSelf" if itself else "DeleteCluster"
        assert acts(world) == ([policy] if ago >= ttl and not is_done(policy, there) else [])


@pytest.mark.parametrize(
    ("deletion", "ago", "there", "expected", "next_look"),
    [
        # Row 123: all overdue, only the most destructive one.
        ((("DeleteWorkers", 0), ("DeleteCluster", 0), ("DeleteSelf", 0)), 0, "all", ["DeleteSelf"], None),
        ((("DeleteWorkers", 0), ("DeleteCluster", 0), ("DeleteNone", 0)), 0, "all", ["DeleteCluster"], None),
        ((("DeleteNone", 0), ("DeleteWorkers", 0)), 0, "all", ["DeleteWorkers"], None),
        # Row 124: stages in their order, each woken for.
        ((("DeleteWorkers", 0), ("DeleteCluster", 5), ("DeleteSelf", 10)), 0, "all", ["DeleteWorkers"], 5),
        ((("DeleteWorkers", 0), ("DeleteCluster", 5), ("DeleteSelf", 10)), 1, "workers suspended", [], 4),
        (
            (("DeleteWorkers", 0), ("DeleteCluster", 5), ("DeleteSelf", 10)),
            5,
            "workers suspended",
            ["DeleteCluster"],
            5,
        ),
        ((("DeleteWorkers", 0), ("DeleteCluster", 5), ("DeleteSelf", 10)), 7, "no cluster", [], 3),
        ((("DeleteWorkers", 0), ("DeleteCluster", 5), ("DeleteSelf", 10)), 10, "no cluster", ["DeleteSelf"], None),
        # A cluster that is gone early leaves nothing to wake up for but the RayJob itself.
        ((("DeleteWorkers", 5), ("DeleteCluster", 9)), 0, "no cluster", [], None),
        ((("DeleteWorkers", 5), ("DeleteCluster", 9), ("DeleteSelf", 20)), 0, "no cluster", [], 20),
        # The operator was away: the later stage includes the earlier ones.
        ((("DeleteWorkers", 0), ("DeleteCluster", 5), ("DeleteSelf", 10)), 6, "all", ["DeleteCluster"], 4),
        # Equal times.
        ((("DeleteCluster", 5), ("DeleteSelf", 5)), 5, "all", ["DeleteSelf"], None),
    ],
)
def test_stages(
    ended: Make,
    deletion: tuple[tuple[str, int], ...],
    ago: int,
    there: str,
    expected: list[str],
    next_look: int | None,
) -> None:
    strategy = rules(*((policy, "SUCCEEDED", seconds) for policy, seconds in deletion))
    world = ended(SUCCEEDED, ago=ago, there=there, deletionStrategy=strategy)
    assert acts(world) == expected
    assert wakes(world) == (None if next_look is None else world.now + timedelta(seconds=next_look))


def test_rules_of_both_kinds_may_fall_due_together(ended: Make) -> None:
    strategy = rules(("DeleteWorkers", "FAILED", 0), ("DeleteCluster", "Failed", 0))
    assert acts(ended(FAILED, deletionStrategy=strategy)) == ["DeleteCluster"]
    strategy = rules(("DeleteCluster", "FAILED", 0), ("DeleteWorkers", "Failed", 0))
    assert acts(ended(DEADLINE, deletionStrategy=strategy)) == ["DeleteWorkers"]


# What the policies leave (rows 119-122)


def finish(world: Any, seconds: int = 5) -> None:
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Complete")
    world.run(seconds)


BOTH_STYLES = pytest.mark.parametrize("style", ["legacy", "rules"])


def strategy_of(style: str, policy: str) -> Body:
    return legacy(policy, "DeleteNone") if style == "legacy" else rules((policy, "SUCCEEDED", 0))


@BOTH_STYLES
def test_delete_workers_leaves_the_head_and_stays_quiet(running: Make, style: str) -> None:
    """Row 119."""
    world = running(deletionStrategy=strategy_of(style, "DeleteWorkers"))
    before = copy.deepcopy(world.cluster["spec"])
    finish(world)
    (group,) = world.cluster["spec"]["workerGroupSpecs"]
    assert group.pop("suspend") is True
    assert world.cluster["spec"] == before, "replicas and all else stay"
    name = world.status["rayClusterName"]
    assert world.live()["Pod"] == {f"{name} head": {"count": 1}}
    assert (JOB, "j") in world.objects
    assert world.notes("UpdatedRayCluster") == [
        f"Set the `suspend` field to true for all worker groups in cluster default/{name}"
    ]
    group["suspend"] = True
    before_calls = world.calls, world.passes
    world.run(3600)
    assert (world.calls, world.passes) == before_calls


@BOTH_STYLES
def test_workers_that_somebody_brings_back_go_again(running: Make, style: str) -> None:
    world = running(deletionStrategy=strategy_of(style, "DeleteWorkers"))
    finish(world)
    cluster = world.cluster
    second = {**copy.deepcopy(cluster["spec"]["workerGroupSpecs"][0]), "groupName": "h", "suspend": False}
    cluster["spec"]["workerGroupSpecs"].append(second)
    world._put(RAYCLUSTER, cluster)
    world.run(3)
    assert [group["suspend"] for group in world.cluster["spec"]["workerGroupSpecs"]] == [True, True]


@BOTH_STYLES
def test_delete_cluster_keeps_the_submitter(running: Make, style: str) -> None:
    """Row 120."""
    world = running(deletionStrategy=strategy_of(style, "DeleteCluster"))
    name = world.status["rayClusterName"]
    finish(world)
    assert (RAYCLUSTER, name) not in world.objects
    assert (JOB, "j") in world.objects
    assert world.status["jobDeploymentStatus"] == "Complete"
    assert world.notes("DeletedRayCluster") == [f"Deleted cluster default/{name}"]


@BOTH_STYLES
def test_delete_self_leaves_nothing(running: Make, style: str) -> None:
    """Row 121."""
    world = running(deletionStrategy=strategy_of(style, "DeleteSelf"))
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(5)
    assert not world.objects


@BOTH_STYLES
def test_delete_none_leaves_everything(running: Make, style: str) -> None:
    """Row 122."""
    world = running(deletionStrategy=strategy_of(style, "DeleteNone"))
    before = copy.deepcopy(world.cluster["spec"])
    finish(world, 3600)
    assert world.cluster["spec"] == before
    assert (JOB, "j") in world.objects
    assert world.plan.requeue_after is None


def test_the_patch_names_what_it_means(ended: Make) -> None:
    """Somebody who reorders the groups or replaces the cluster meanwhile makes the patch fail, not hit another group."""
    world = ended(SUCCEEDED, deletionStrategy=rules(("DeleteWorkers", "SUCCEEDED", 0)))
    groups = world.cluster["spec"]["workerGroupSpecs"]
    groups[:] = [
        {**copy.deepcopy(groups[0]), "groupName": name, **extra}
        for name, extra in (("a", {"suspend": True}), ("b", {}), ("c", {"suspend": False}))
    ]
    patch = world.decide().stages[0][0]
    assert patch.operations == [
        {"op": "test", "path": "/metadata/uid", "value": world.cluster["metadata"]["uid"]},
        {"op": "test", "path": "/spec/workerGroupSpecs/1/groupName", "value": "b"},
        {"op": "add", "path": "/spec/workerGroupSpecs/1/suspend", "value": True},
        {"op": "test", "path": "/spec/workerGroupSpecs/2/groupName", "value": "c"},
        {"op": "add", "path": "/spec/workerGroupSpecs/2/suspend", "value": True},
    ]


def test_failing_writes_are_told_and_tried_again(running: Make) -> None:
    world = running(deletionStrategy=rules(("DeleteWorkers", "SUCCEEDED", 0)))
    world.refuse_writes["Patch", "RayCluster"] = "no"
    finish(world)
    name = world.status["rayClusterName"]
    assert f"Failed to suspend worker groups in cluster default/{name}: no" in world.notes("FailedToUpdateRayCluster")
    waiting = [item for item in world.status["conditions"] if item["type"] == "PodsWaiting"]
    assert "no" in waiting[0]["message"]
    world.refuse_writes.clear()
    world.run(10)
    assert world.cluster["spec"]["workerGroupSpecs"][0]["suspend"] is True


def test_autoscaling_that_was_turned_on_since_keeps_the_workers_and_says_so(ended: Make) -> None:
    """A RayCluster with both would be refused as a whole."""
    world = ended(
        SUCCEEDED, deletionStrategy=rules(("DeleteWorkers", "SUCCEEDED", 0), ("DeleteCluster", "SUCCEEDED", 90))
    )
    world.cluster["spec"]["enableInTreeAutoscaling"] = True
    world.edit({})
    world.run(5)
    assert world.cluster["spec"]["workerGroupSpecs"][0].get("suspend") is None
    (note,) = world.notes("FailedToUpdateRayCluster")
    assert "autoscaling enabled" in note
    name = world.status["rayClusterName"]
    world.run(100)
    assert (RAYCLUSTER, name) not in world.objects, "later stages do not wait for it"


# Edits after the end


def test_edits_after_the_end_count(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=3600)
    finish(world, 100)
    name = world.status["rayClusterName"]
    assert (RAYCLUSTER, name) in world.objects
    world.edit({"spec.ttlSecondsAfterFinished": 200})
    world.run(50)
    assert (RAYCLUSTER, name) in world.objects
    world.edit({"spec.ttlSecondsAfterFinished": 120})
    world.run(3)
    assert (RAYCLUSTER, name) not in world.objects


def test_a_strategy_added_after_the_end_is_followed(running: Make) -> None:
    world = running()
    finish(world, 100)
    world.edit({"spec.deletionStrategy": rules(("DeleteWorkers", "SUCCEEDED", 0), ("DeleteSelf", "SUCCEEDED", 500))})
    world.run(3)
    assert world.cluster["spec"]["workerGroupSpecs"][0]["suspend"] is True
    world.edit({"spec.deletionStrategy": rules(("DeleteSelf", "SUCCEEDED", 50))})
    world.run(3)
    assert not world.objects


@pytest.mark.parametrize(
    "strategy",
    [
        rules(("DeleteWorkers", "SUCCEEDED", 2), ("DeleteCluster", "SUCCEEDED", 1)),
        rules(("DeleteSelf", "SUCCEEDED", 0), ("DeleteSelf", "SUCCEEDED", 1)),
        {"onSuccess": {"policy": "DeleteSelf"}},
        {},
    ],
)
def test_nothing_is_deleted_by_a_strategy_that_is_wrong(running: Make, strategy: Body) -> None:
    """The edit is refused in words; a corrected one is followed."""
    world = running()
    finish(world)
    world.edit({"spec.deletionStrategy": strategy})
    world.run(60)
    assert (RAYCLUSTER, world.status["rayClusterName"]) in world.objects
    assert "InvalidRayJobSpec" in world.reasons()
    world.edit({"spec.deletionStrategy": rules(("DeleteSelf", "SUCCEEDED", 0))})
    world.run(3)
    assert not world.objects


def test_without_the_gate_only_shutdown_counts(ended: Make) -> None:
    gates = {"RayJobDeletionPolicy": False}
    strategy = legacy("DeleteSelf", "DeleteSelf")
    world = ended(SUCCEEDED, deletionStrategy=strategy, shutdownAfterJobFinishes=True)
    world.gates = gates
    assert acts(world) == ["DeleteCluster"]
    world.edit({"spec.shutdownAfterJobFinishes": False})
    assert acts(world) == []


# Shared clusters


@pytest.mark.parametrize("policy", POLICIES)
def test_a_shared_cluster_is_never_touched(ended: Make, policy: str) -> None:
    """RJ-05: not even by a policy that slipped past validation. Deleting the RayJob itself is its own business."""
    for strategy in (rules((policy, "SUCCEEDED", 0)), legacy(policy, policy)):
        world = ended(SUCCEEDED, deletionStrategy=strategy)
        name = world.status["rayClusterName"]
        del world.cluster["metadata"]["ownerReferences"]
        world.edit({"spec.clusterSelector": {"ray.io/cluster": name}, "spec.rayClusterSpec": None})
        before = copy.deepcopy(world.cluster)
        assert acts(world) == (["DeleteSelf"] if policy == "DeleteSelf" else [])
        world.run(5)
        assert world.objects[RAYCLUSTER, name] == before
        assert ((RAYJOB, "j") in world.objects) == (policy != "DeleteSelf")


@pytest.mark.parametrize("selector", [False, True], ids=["a namesake", "a selected cluster"])
@pytest.mark.parametrize("state", ["Suspending", "Retrying", "Complete", "Failed"])
def test_no_way_of_deleting_reaches_a_cluster_of_somebody_else(running: Make, state: str, selector: bool) -> None:
    """RJ-05: by suspending, by a retry, by time to live, by rules."""
    shutdown = {"shutdownAfterJobFinishes": True}
    for spec in (shutdown, {"deletionStrategy": rules(("DeleteCluster", "SUCCEEDED", 0))}):
        world = running(**spec)
        name = world.status["rayClusterName"]
        del world.cluster["metadata"]["ownerReferences"]
        if selector:
            world.edit({"spec.clusterSelector": {"ray.io/cluster": name}, "spec.rayClusterSpec": None})
        world.set_status(jobDeploymentStatus=state, jobStatus="SUCCEEDED", endTime=format_time(world.now))
        before = copy.deepcopy(world.cluster)
        writes = itertools.chain(*world.decide().stages)
        assert [write for write in writes if write.kind == RAYCLUSTER] == []
        world.run(5)
        assert world.objects[RAYCLUSTER, name] == before


# Jobs that still run


@pytest.mark.parametrize("policy", POLICIES)
def test_a_job_that_failed_by_a_limit_is_stopped_unless_its_cluster_goes(running: Make, policy: str) -> None:
    world = running(activeDeadlineSeconds=30, deletionStrategy=rules((policy, "Failed", 0)))
    dashboard, job_id = world.dashboard(), world.status["jobId"]
    world.run(60)
    stop = f"POST /api/jobs/{job_id}/stop"
    assert dashboard.posts == ([] if policy == "DeleteCluster" else [stop])
    if policy != "DeleteSelf":
        assert world.status["jobStatus"] == "RUNNING"
    else:
        assert not world.objects


def test_stopping_goes_on_while_the_workers_wait_for_their_stage(ended: Make) -> None:
    world = ended(DEADLINE, deletionStrategy=rules(("DeleteCluster", "Failed", 60)))
    plan = world.decide()
    assert plan.stages == []
    assert [type(probe) for probe in plan.probes] == [StopJobCall]
