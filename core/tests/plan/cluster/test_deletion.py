"""How a RayCluster with GCS fault tolerance goes: finalizer, pods, cleanup Job, deadline; and that nothing holds it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES, STATUS_CONDITIONS
from kuberay.api.kinds import JOB, POD
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, Delete, Patch, Plan, Write, WriteFailure

FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"
REDIS = {"redisAddress": "redis:6379"}
JOB_NAME = "pair-redis-cleanup"


@pytest.fixture
def ft(cluster: Callable[..., Any]) -> Callable[..., Any]:
    """A RayCluster that keeps its state in Redis."""
    return lambda **spec: cluster(**{"gcsFaultToleranceOptions": REDIS, **spec})


def finalizers(tiny: Any) -> list[str]:
    found: list[str] = tiny.cluster["metadata"].get("finalizers", [])
    return found


def told(tiny: Any, type_: str = "Warning") -> list[str]:
    return [event.reason for event in tiny.events if event.type == type_]


def end_job(tiny: Any, type_: str = "Complete", reason: str = "") -> None:
    tiny.objects[JOB, JOB_NAME]["status"] = {"conditions": [{"type": type_, "status": "True", "reason": reason}]}


def waiting_head(tiny: Any, state: str = "ImagePullBackOff") -> None:
    tiny.head["status"] = {
        "phase": "Pending",
        "containerStatuses": [{"name": "engine", "state": {"waiting": {"reason": state}}}],
    }


def steps(plan: Plan) -> list[list[Write]]:
    return [list(stage) for stage in plan.stages]


# -- the finalizer


def test_the_finalizer_comes_before_the_first_pod(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    first, *others = steps(tiny.plan())
    assert [type(write) for write in first] == [Patch]
    assert [write for stage in others for write in stage if isinstance(write, Create) and write.kind == POD]
    tiny.settle()
    assert finalizers(tiny) == [FINALIZER]
    assert len(tiny.pods) == 4


def test_the_finalizer_is_added_only_to_the_version_that_was_seen(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.cluster["metadata"]["resourceVersion"] = "17"
    patch = tiny.plan().stages[0][0]
    assert isinstance(patch, Patch)
    assert patch.resource_version == "17"


def test_no_pod_is_made_while_the_finalizer_is_refused(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.refuse = lambda write: "no" if isinstance(write, Patch) else ""
    tiny.reconcile()
    assert not tiny.objects


@pytest.mark.parametrize(
    ("spec", "annotations", "config", "expected"),
    [
        ({"gcsFaultToleranceOptions": {}}, {}, PlanConfig(), True),
        ({}, {"ray.io/ft-enabled": "TRUE"}, PlanConfig(), True),
        ({}, {"ray.io/ft-enabled": "false"}, PlanConfig(), False),
        ({"gcsFaultToleranceOptions": REDIS}, {}, PlanConfig(redis_cleanup=False), False),
        ({"gcsFaultToleranceOptions": {"backend": "rocksdb"}}, {}, PlanConfig(), False),
        ({"gcsFaultToleranceOptions": REDIS, "suspend": True}, {}, PlanConfig(), False),
    ],
    ids=["empty options", "annotation", "annotation false", "flag off", "rocksdb", "suspended at birth"],
)
def test_which_clusters_get_the_finalizer(
    kubernetes: Any, cluster: Callable[..., Any], spec: Any, annotations: Any, config: PlanConfig, expected: bool
) -> None:
    body = cluster(**spec)
    body["metadata"]["annotations"] = annotations
    tiny = kubernetes(body, config=config, gates={**DEFAULT_GATES, "GCSFaultToleranceEmbeddedStorage": True})
    tiny.settle()
    assert finalizers(tiny) == ([FINALIZER] if expected else [])
    assert (len(tiny.pods) == 4) == (not spec.get("suspend"))


def test_taking_fault_tolerance_away_lets_the_finalizer_go_and_warns(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.edit(lambda spec: spec.pop("gcsFaultToleranceOptions"))
    tiny.settle()
    assert finalizers(tiny) == []
    (event,) = [event for event in tiny.events if event.type == "Warning"]
    assert event.reason == "RedisCleanupSkipped"
    assert f'namespace "{tiny.cluster["metadata"]["uid"]}" may need manual cleanup' in event.note


def test_turning_cleanup_off_takes_the_finalizer_away_quietly(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.config = PlanConfig(redis_cleanup=False)
    tiny.settle()
    assert finalizers(tiny) == []
    assert told(tiny) == []


# -- the deletion


def test_pods_then_the_job_then_the_finalizer(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.keep_terminating = True
    tiny.delete()
    plan = tiny.reconcile()
    assert all("deletionTimestamp" in pod["metadata"] for pod in tiny.pods.values())
    assert (JOB, JOB_NAME) not in tiny.objects
    assert plan.waiting.startswith("the head pod is being deleted")
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    plan = tiny.reconcile()
    # Workers need not be gone.
    assert len(tiny.workers) == 3
    assert tiny.objects[JOB, JOB_NAME]["spec"]["backoffLimit"] == 0
    assert told(tiny, "Normal")[-1] == "CreatedRedisCleanupJob"
    assert plan.waiting == "a Job cleans up the cluster's keys in Redis"
    assert plan.requeue_after == timedelta(seconds=300)
    writes = len(tiny.writes)
    tiny.reconcile()
    assert len(tiny.writes) == writes
    end_job(tiny)
    tiny.reconcile()
    assert finalizers(tiny) == []
    assert told(tiny) == []


@pytest.mark.parametrize("type_", ["Failed", "FailureTarget"])
def test_a_failed_job_lets_the_object_go_with_a_warning(kubernetes: Any, ft: Callable[..., Any], type_: str) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.delete()
    tiny.reconcile()
    tiny.objects[JOB, JOB_NAME]["status"] = {"conditions": [{"type": "FailureTarget", "status": "False"}]}
    tiny.reconcile()
    assert finalizers(tiny) == [FINALIZER]
    end_job(tiny, type_, "BackoffLimitExceeded")
    tiny.reconcile()
    assert finalizers(tiny) == []
    assert told(tiny) == ["RedisCleanupFailed"]


@pytest.mark.parametrize(
    ("annotation", "seconds"),
    [("120", 120), (None, 300), ("not-a-number", 300), ("0", 300), ("-5", 300), ("1", 1), ("9" * 30, 300)],
)
@pytest.mark.parametrize("lingers", ["head", "job"])
def test_the_deadline_counts_whatever_lingers(
    kubernetes: Any, ft: Callable[..., Any], annotation: str | None, seconds: int, lingers: str
) -> None:
    """RC-21: deletion ends no later than the configured time, with a Warning that keys may remain."""
    body = ft()
    if annotation is not None:
        body["metadata"]["annotations"] = {"ray.io/gcs-ft-deletion-timeout": annotation}
    tiny = kubernetes(body)
    tiny.settle()
    tiny.keep_terminating = lingers == "head"
    tiny.delete()
    plan = tiny.reconcile()
    assert plan.requeue_after == plan.look_by == timedelta(seconds=seconds)
    tiny.now += timedelta(seconds=seconds - 0.5)
    tiny.reconcile()
    assert finalizers(tiny) == [FINALIZER]
    tiny.now += timedelta(seconds=0.5)
    tiny.reconcile()
    assert finalizers(tiny) == []
    (event,) = [event for event in tiny.events if event.type == "Warning"]
    assert (event.reason, event.action) == ("ForceDeletedStuckCluster", "Cleanup")
    assert event.note == (
        f"Force-removed GCS FT finalizer after {seconds}s due to Redis cleanup timeout; Redis storage namespace "
        f'"{tiny.cluster["metadata"]["uid"]}" may need manual cleanup'
    )


def test_a_head_that_has_ended_is_not_waited_for(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.keep_terminating = True
    tiny.delete()
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Failed", terminated=True)
    tiny.reconcile()
    assert (JOB, JOB_NAME) in tiny.objects


def test_a_deleted_job_is_made_again_when_it_is_gone(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.delete()
    tiny.reconcile()
    del tiny.objects[JOB, JOB_NAME]
    tiny.reconcile()
    assert (JOB, JOB_NAME) in tiny.objects


def test_a_suspended_cluster_is_cleaned_up_too(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.edit(lambda spec: spec.update(suspend=True))
    tiny.settle()
    assert not tiny.pods
    tiny.delete()
    tiny.reconcile()
    assert (JOB, JOB_NAME) in tiny.objects


def test_managed_by_others_is_left_alone(kubernetes: Any, ft: Callable[..., Any]) -> None:
    body = ft(managedBy="kueue.x-k8s.io/multikueue")
    body["metadata"]["finalizers"] = [FINALIZER]
    tiny = kubernetes(body)
    tiny.delete()
    assert tiny.plan() == Plan()


def test_without_the_finalizer_nothing_is_done(kubernetes: Any, cluster: Callable[..., Any]) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.delete()
    assert tiny.plan() == Plan()


def test_other_finalizers_stay(kubernetes: Any, ft: Callable[..., Any]) -> None:
    body = ft()
    body["metadata"]["finalizers"] = ["example.test/mine"]
    tiny = kubernetes(body)
    tiny.settle()
    assert finalizers(tiny) == ["example.test/mine", FINALIZER]
    tiny.delete()
    tiny.reconcile()
    end_job(tiny)
    tiny.reconcile()
    assert finalizers(tiny) == ["example.test/mine"]


def test_in_the_foreground_the_job_has_no_owner_and_is_deleted_by_us(kubernetes: Any, ft: Callable[..., Any]) -> None:
    """The garbage collector deletes at once whatever the cluster owns."""
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.cluster["metadata"]["finalizers"].append("foregroundDeletion")
    tiny.delete()
    tiny.reconcile()
    job = tiny.objects[JOB, JOB_NAME]
    assert "ownerReferences" not in job["metadata"]
    end_job(tiny)
    tiny.reconcile()
    assert (JOB, JOB_NAME) not in tiny.objects
    assert finalizers(tiny) == ["foregroundDeletion"]


def test_an_older_job_without_an_owner_is_not_taken_for_ours(kubernetes: Any, ft: Callable[..., Any]) -> None:
    """A predecessor's Job that was never removed says nothing about this cluster's keys."""
    tiny = kubernetes(ft())
    tiny.settle()
    metadata = {"name": JOB_NAME, "labels": {"ray.io/node-type": "redis-cleanup"}}
    tiny.add(JOB, {"metadata": metadata, "status": {"conditions": [{"type": "Complete", "status": "True"}]}})
    tiny.now += timedelta(seconds=5)
    tiny.delete()
    tiny.refuse = lambda write: "exists" if isinstance(write, Create) else ""
    tiny.reconcile()
    assert finalizers(tiny) == [FINALIZER]


def test_pods_that_are_orphaned_are_left_alone_with_their_keys(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.cluster["metadata"]["finalizers"].append("orphan")
    tiny.delete()
    tiny.reconcile()
    assert finalizers(tiny) == ["orphan"]
    assert len(tiny.pods) == 4


@pytest.mark.parametrize(
    ("spec", "gates"),
    [({"gcsFaultToleranceOptions": {"backend": "rocksdb"}}, {"GCSFaultToleranceEmbeddedStorage": True}), ({}, {})],
    ids=["rocksdb", "no fault tolerance"],
)
def test_a_leftover_finalizer_is_stripped(
    kubernetes: Any, cluster: Callable[..., Any], spec: Any, gates: dict[str, bool]
) -> None:
    body = cluster(**spec)
    body["metadata"]["finalizers"] = [FINALIZER]
    tiny = kubernetes(body, gates={**DEFAULT_GATES, **gates})
    tiny.delete()
    tiny.reconcile()
    assert finalizers(tiny) == []
    assert not tiny.objects
    assert told(tiny) == ["RedisCleanupSkipped"]


def test_the_flag_turned_off_keeps_nothing(kubernetes: Any, ft: Callable[..., Any]) -> None:
    body = ft()
    body["metadata"]["finalizers"] = [FINALIZER]
    tiny = kubernetes(body, config=PlanConfig(redis_cleanup=False))
    tiny.delete()
    tiny.reconcile()
    assert finalizers(tiny) == []
    assert not tiny.objects


# -- heads that never ran


@pytest.mark.parametrize("gate", [True, False])
def test_a_head_that_never_ran_leaves_nothing_to_clean(kubernetes: Any, ft: Callable[..., Any], gate: bool) -> None:
    """RC-21: the head is in ImagePullBackOff; the finalizer goes at once, without a Job and without a warning."""
    tiny = kubernetes(ft(), gates={**DEFAULT_GATES, STATUS_CONDITIONS: gate})
    tiny.run_pods = False
    tiny.settle()
    waiting_head(tiny)
    tiny.settle()
    tiny.delete()
    plan = tiny.plan()
    (seen,), (patch,) = plan.stages
    assert isinstance(seen, Patch)
    assert (seen.kind, seen.resource_version) == (POD, tiny.head["metadata"]["resourceVersion"])
    assert isinstance(patch, Patch)
    # Not even that may hold the object longer than its deadline.
    assert plan.look_by == timedelta(seconds=300)
    tiny.now += timedelta(seconds=300)
    assert [[type(write) for write in stage] for stage in tiny.plan().stages] == [[Patch]]
    tiny.reconcile()
    assert finalizers(tiny) == []
    assert told(tiny) == []


def test_a_head_that_could_not_be_made_leaves_nothing_to_clean(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.refuse = lambda write: "exceeded quota" if isinstance(write, Create) and write.kind == POD else ""
    tiny.reconcile()
    tiny.reconcile()
    assert not tiny.pods
    tiny.delete()
    tiny.reconcile()
    assert finalizers(tiny) == []
    assert not [kind for kind, _ in tiny.objects if kind == JOB]


def test_a_second_head_that_never_ran_does_not_hide_the_first(kubernetes: Any, ft: Callable[..., Any]) -> None:
    """The first head wrote keys; its successor has an image that does not exist, and workers never came."""
    tiny = kubernetes(ft())
    tiny.run_pods = False
    tiny.reconcile()
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Running", ready=True)
    tiny.reconcile()
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    tiny.reconcile()
    waiting_head(tiny)
    tiny.reconcile()
    tiny.delete()
    tiny.reconcile()
    assert (JOB, JOB_NAME) in tiny.objects


def test_a_head_that_crashed_has_run(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.run_pods = False
    tiny.reconcile()
    waiting_head(tiny, "CrashLoopBackOff")
    tiny.head["status"]["containerStatuses"][0]["restartCount"] = 3
    tiny.reconcile()
    assert tiny.condition("RedisStorageUnused") is None
    tiny.delete()
    tiny.reconcile()
    assert (JOB, JOB_NAME) in tiny.objects


def test_that_the_head_ran_is_written_down_before_it_is_deleted(kubernetes: Any, ft: Callable[..., Any]) -> None:
    """The status still says that no head has started when the delete comes: whoever looks next sees no head any more."""
    tiny = kubernetes(ft())
    tiny.run_pods = False
    tiny.reconcile()
    assert tiny.condition("RedisStorageUnused") is not None
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Running")
    tiny.delete()
    plan = tiny.plan()
    assert not plan.stages
    assert plan.requeue_after == timedelta(0)
    tiny.reconcile()
    assert tiny.condition("RedisStorageUnused") is None
    assert tiny.pods
    tiny.reconcile()
    assert not tiny.pods
    assert (JOB, JOB_NAME) in tiny.objects


def test_running_says_nothing_more(kubernetes: Any, ft: Callable[..., Any], cluster: Callable[..., Any]) -> None:
    for body in (ft(), cluster()):
        tiny = kubernetes(body)
        tiny.settle()
        assert tiny.condition("RedisStorageUnused") is None


# -- objects that are broken


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"headGroupSpec": {"template": {"spec": {}}}, "gcsFaultToleranceOptions": REDIS},
        {"headGroupSpec": {"template": {"spec": {"containers": []}}}, "gcsFaultToleranceOptions": REDIS},
        {"headGroupSpec": {"template": {"spec": {"containers": ["x"]}}}, "gcsFaultToleranceOptions": REDIS},
        {
            "headGroupSpec": {"template": {"metadata": {"labels": 7}, "spec": {"containers": [{}]}}},
            "gcsFaultToleranceOptions": REDIS,
        },
        {"headGroupSpec": "what", "gcsFaultToleranceOptions": REDIS},
    ],
)
def test_an_object_that_cannot_be_read_can_be_deleted(kubernetes: Any, spec: dict[str, Any]) -> None:
    """RC-25: however broken the spec is, the finalizer goes, with a Warning."""
    body = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "spec": spec}
    body["metadata"] = {"name": "pair", "finalizers": [FINALIZER]}
    tiny = kubernetes(body)
    tiny.delete()
    tiny.reconcile()
    assert finalizers(tiny) == []
    assert told(tiny) == ["RedisCleanupSkipped"]


def test_an_object_that_validation_refuses_is_cleaned_up(kubernetes: Any, ft: Callable[..., Any]) -> None:
    """RC-25: a name of 60 characters, made by an older operator."""
    body = ft()
    body["metadata"] |= {"name": "c" * 60, "finalizers": [FINALIZER]}
    tiny = kubernetes(body)
    tiny.reconcile()
    assert tiny.condition("RayClusterSpecValid") is not None
    tiny.delete()
    tiny.reconcile()
    ((kind, name),) = tiny.objects
    assert (kind, name) == (JOB, "c" * 49 + "-redis-cleanup")
    tiny.objects[kind, name]["status"] = {"conditions": [{"type": "Complete", "status": "True"}]}
    tiny.reconcile()
    assert finalizers(tiny) == []


@pytest.mark.parametrize("reason", ["Invalid", "NamespaceTerminating"])
def test_a_job_that_is_refused_for_good_holds_nothing(kubernetes: Any, ft: Callable[..., Any], reason: str) -> None:
    """The namespace is going, or the API server will never take the Job: the finalizer goes with a Warning."""
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.delete()
    tiny.refuse = lambda write: "it is being terminated" if isinstance(write, Create) else ""
    tiny.reconcile()
    assert told(tiny)[:1] == ["FailedToCreateRedisCleanupJob"]
    # What the controller does after a failed write: one more plan, which only decides the status.
    plan = plan_cluster(tiny.observe(WriteFailure("Job", JOB_NAME, "", "it is being terminated", reason)))
    assert plan.status is not None
    tiny.cluster["status"] = plan.status
    tiny.reconcile()
    assert finalizers(tiny) == []
    assert told(tiny)[-1] == "RedisCleanupSkipped"


def test_a_job_that_is_refused_for_now_is_tried_again(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.delete()
    tiny.refuse = lambda write: "exceeded quota" if isinstance(write, Create) else ""
    plan = tiny.reconcile()
    assert finalizers(tiny) == [FINALIZER]
    assert plan.status is None
    assert plan.look_by == timedelta(seconds=300)
    tiny.refuse = lambda write: ""
    tiny.reconcile()
    assert (JOB, JOB_NAME) in tiny.objects


def test_plugins_have_no_part_in_the_job(kubernetes: Any, ft: Callable[..., Any]) -> None:
    """A gang of its own pods would never let the cleanup pod start."""
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.hooks = _Refusing()
    tiny.delete()
    tiny.reconcile()
    assert (JOB, JOB_NAME) in tiny.objects


class _Refusing:
    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} was called")


def test_every_delete_names_the_pod_it_means(kubernetes: Any, ft: Callable[..., Any]) -> None:
    tiny = kubernetes(ft())
    tiny.settle()
    tiny.delete()
    deletes = [write for stage in tiny.plan().stages for write in stage if isinstance(write, Delete)]
    assert {write.uid for write in deletes} == {pod["metadata"]["uid"] for pod in tiny.pods.values()}
