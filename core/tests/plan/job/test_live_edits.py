"""Edits of ``rayClusterSpec`` while its RayCluster runs: what reaches it, what is told, what is left alone (RJ-33)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from kuberay.api.conditions import FALSE, JobCondition, find_condition
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.job import RayJobSpec
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.names import ANNOTATION_NO_HEAD_RESTART
from kuberay.api.objects import RayObject, from_dict
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.live_edits import follow_edits
from kuberay.plan.job.ray_cluster import build_cluster
from kuberay.plan.model import Patch
from kuberay.plan.observed import FixedView, Observed

NOW = datetime(2024, 1, 1, 1, tzinfo=UTC)
MADE, BEFORE, AFTER = "2024-01-01T00:00:10Z", "2024-01-01T00:00:09Z", "2024-01-01T00:30:00Z"
Body = dict[str, Any]
Edit = Callable[[Body], Any]


def container(image: str = "ray:1") -> Body:
    return {"spec": {"containers": [{"name": "ray", "image": image}]}}


def group(name: str, **counts: int) -> Body:
    return {"groupName": name, "replicas": 1, "minReplicas": 0, "maxReplicas": 5, **counts, "template": container()}


def cluster_spec(**more: Any) -> Body:
    groups = [group("small"), group("big")]
    return {"rayVersion": "2.54.0", "headGroupSpec": {"template": container()}, "workerGroupSpecs": groups, **more}


def entry(manager: str, time: str, *fields: str, job: bool = False, subresource: str = "") -> Body:
    below: Body = {f"f:{field}": {} for field in fields}
    owned: Body = {"f:spec": {"f:rayClusterSpec": below} if job else below}
    body: Body = {"manager": manager, "operation": "Update", "time": time, "fieldsType": "FieldsV1", "fieldsV1": owned}
    return {**body, "subresource": subresource} if subresource else body


ALL = ("headGroupSpec", "workerGroupSpecs", "rayVersion", "enableInTreeAutoscaling", "suspend")


class Life:
    """A RayJob whose RayCluster was made as the operator makes it; then either of them is edited."""

    cluster: Body | None

    def __init__(self, *, mode: str = "K8sJobMode", spec: Body | None = None, **cluster: Any) -> None:
        self.job: Body = {
            "apiVersion": "ray.io/v1",
            "kind": "RayJob",
            "metadata": {
                "name": "j",
                "namespace": "default",
                "uid": "uid-j",
                "generation": 1,
                "managedFields": [entry("kubectl-create", BEFORE, *ALL, job=True)],
            },
            "spec": {
                "entrypoint": "true",
                "submissionMode": mode,
                **(spec or {}),
                "rayClusterSpec": cluster_spec(**cluster),
            },
            "status": {"jobDeploymentStatus": "Running", "rayClusterName": "c", "jobId": "id"},
        }
        self.cluster = None
        self.cluster = copy.deepcopy(build_cluster(self.draft()))
        self.cluster["metadata"] |= {
            "uid": "uid-c",
            "resourceVersion": "7",
            "creationTimestamp": MADE,
            "managedFields": [
                entry("kuberay-operator", MADE, *self.cluster["spec"]),
                entry("kuberay-operator", AFTER, "status", subresource="status"),
            ],
        }

    def draft(self) -> Draft:
        obj = from_dict(RAYJOB, copy.deepcopy(self.job))
        assert isinstance(obj, RayObject)
        spec = RayJobSpec.parse(obj.spec)
        view = FixedView([(RAYCLUSTER, copy.deepcopy(self.cluster))] if self.cluster is not None else ())
        return Draft.start(Observed(obj=obj, now=NOW, view=view, gates=dict(DEFAULT_GATES)), spec)

    def edit_job(self, change: Edit, *fields: str, time: str = AFTER) -> Life:
        change(self.job["spec"]["rayClusterSpec"])
        self.job["metadata"]["generation"] += 1
        self.job["metadata"]["managedFields"].append(entry("kubectl-edit", time, *fields, job=True))
        return self

    def edit_cluster(self, change: Edit, *fields: str, manager: str = "kubectl-edit") -> Life:
        assert self.cluster is not None
        change(self.cluster["spec"])
        for owner in self.cluster["metadata"]["managedFields"]:
            for field in fields:
                owner["fieldsV1"]["f:spec"].pop(f"f:{field}", None)
        self.cluster["metadata"]["managedFields"].append(entry(manager, AFTER, *fields))
        return self

    def look(self) -> Draft:
        draft = self.draft()
        follow_edits(draft)
        return draft


def counts(number: int = 0, **values: int) -> Edit:
    return lambda spec: spec["workerGroupSpecs"][number].update(values)


def head_image(image: str) -> Edit:
    return lambda spec: spec["headGroupSpec"].update(template=container(image))


def patch_of(draft: Draft) -> Patch | None:
    writes = [write for stage in draft.plan.stages for write in stage]
    assert len(writes) <= 1
    (write,) = writes or [None]
    assert write is None or isinstance(write, Patch)
    return write


def raised(draft: Draft) -> dict[str, Any]:
    patch = patch_of(draft)
    return {op["path"]: op["value"] for op in (patch.operations if patch else ()) if op["op"] == "add"}


def told(draft: Draft) -> str:
    condition = find_condition(draft.status.get("conditions") or [], JobCondition.EDIT_IGNORED)
    return "" if condition is None else f"{condition['reason']}: {condition['message']}"


def quiet(draft: Draft) -> bool:
    return not (draft.plan.stages or draft.plan.events or told(draft))


def test_raised_replicas_reach_the_cluster_by_one_safe_patch() -> None:
    """RJ-33"""
    draft = Life().edit_job(counts(replicas=3), "workerGroupSpecs").look()
    patch = patch_of(draft)
    assert patch is not None
    assert patch.operations == [
        {"op": "test", "path": "/metadata/uid", "value": "uid-c"},
        {"op": "test", "path": "/spec/workerGroupSpecs/0/groupName", "value": "small"},
        {"op": "test", "path": "/spec/workerGroupSpecs/0/replicas", "value": 1},
        {"op": "add", "path": "/spec/workerGroupSpecs/0/replicas", "value": 3},
    ]
    assert patch.optional, "the job is watched on, whatever becomes of it"
    assert patch.done is not None
    assert (patch.done.reason, patch.done.note) == (
        "UpdatedRayCluster",
        "Raised replicas of worker group small in cluster default/c from 1 to 3",
    )
    assert not draft.plan.events


def test_several_groups_and_limits_are_raised_at_once() -> None:
    def change(spec: Body) -> None:
        counts(replicas=9, maxReplicas=9)(spec)
        counts(1, minReplicas=1, replicas=2)(spec)

    draft = Life().edit_job(change, "workerGroupSpecs").look()
    assert raised(draft) == {
        "/spec/workerGroupSpecs/0/maxReplicas": 9,
        "/spec/workerGroupSpecs/0/replicas": 9,
        "/spec/workerGroupSpecs/1/replicas": 2,
        "/spec/workerGroupSpecs/1/minReplicas": 1,
    }


def test_an_absent_count_is_raised_from_what_the_schema_says() -> None:
    life = Life()
    for spec in (life.job["spec"]["rayClusterSpec"], life.cluster["spec"]):
        del spec["workerGroupSpecs"][0]["replicas"]
    draft = life.edit_job(counts(replicas=2), "workerGroupSpecs").look()
    patch = patch_of(draft)
    assert patch is not None
    assert [op["path"] for op in patch.operations if op["op"] == "test"] == [
        "/metadata/uid",
        "/spec/workerGroupSpecs/0/groupName",
    ]
    assert patch.done is not None
    assert patch.done.note.endswith("from 0 to 2")


def test_what_was_raised_is_settled() -> None:
    life = Life().edit_job(counts(replicas=3), "workerGroupSpecs")
    counts(replicas=3)(life.cluster["spec"])
    assert quiet(life.look())


LATER = (
    "takes effect with the next attempt, or after suspend and resume. To change the running cluster, edit RayCluster"
)


@pytest.mark.parametrize(
    ("change", "field", "named"),
    [
        (counts(replicas=0), "workerGroupSpecs", "rayClusterSpec.workerGroupSpecs[small].replicas"),
        (counts(maxReplicas=3), "workerGroupSpecs", "rayClusterSpec.workerGroupSpecs[small].maxReplicas"),
        (counts(numOfHosts=2), "workerGroupSpecs", "rayClusterSpec.workerGroupSpecs[small].numOfHosts"),
        (counts(template=container("ray:2")), "workerGroupSpecs", "small].template.spec.containers[ray].image"),
        (head_image("ray:2"), "headGroupSpec", "rayClusterSpec.headGroupSpec.template.spec.containers[ray].image"),
        (lambda spec: spec.update(rayVersion="2.55.0"), "rayVersion", "rayClusterSpec.rayVersion"),
        (lambda spec: spec["workerGroupSpecs"].pop(), "workerGroupSpecs", "rayClusterSpec.workerGroupSpecs[big]"),
        (lambda spec: spec.pop("rayVersion"), "headGroupSpec", "rayClusterSpec.rayVersion"),
        (lambda spec: spec["workerGroupSpecs"].append(group("new")), "workerGroupSpecs", "workerGroupSpecs[new]"),
        (lambda spec: spec["workerGroupSpecs"].reverse(), "workerGroupSpecs", "rayClusterSpec.workerGroupSpecs"),
        (lambda spec: spec.update(suspend=True), "suspend", "rayClusterSpec.suspend"),
    ],
)
def test_other_edits_wait_and_are_told_once(change: Edit, field: str, named: str) -> None:
    """RJ-33"""
    life = Life().edit_job(change, field)
    draft = life.look()
    assert patch_of(draft) is None
    assert told(draft).startswith("TakesEffectLater: rayClusterSpec.")
    assert named in told(draft)
    assert f"{LATER} default/c." in told(draft)
    (event,) = draft.plan.events
    assert (event.type, event.reason) == ("Warning", "RayClusterSpecEditIgnored")
    assert named in event.note
    life.job["status"] = draft.status
    again = life.look()
    assert again.plan.events == []
    assert again.status == draft.status, "a second look writes nothing"


def test_a_raise_beside_a_refused_edit_is_followed() -> None:
    def change(spec: Body) -> None:
        counts(replicas=3)(spec)
        head_image("ray:2")(spec)

    draft = Life().edit_job(change, "workerGroupSpecs", "headGroupSpec").look()
    assert raised(draft) == {"/spec/workerGroupSpecs/0/replicas": 3}
    assert "To be raised: replicas of worker group small in cluster default/c from 1 to 3." in told(draft)
    (event,) = draft.plan.events
    assert "image" in event.note
    assert "replicas" not in event.note


def test_a_group_with_a_lowered_limit_is_not_raised() -> None:
    draft = Life().edit_job(counts(replicas=3, maxReplicas=2), "workerGroupSpecs").look()
    assert patch_of(draft) is None
    assert "replicas, rayClusterSpec.workerGroupSpecs[small].maxReplicas" in told(draft)


def test_an_edit_taken_back_is_no_longer_told() -> None:
    life = Life().edit_job(head_image("ray:2"), "headGroupSpec")
    life.job["status"] = life.look().status
    assert told(life.draft())
    life.edit_job(head_image("ray:1"), "headGroupSpec")
    assert told(life.look()) == ""


def test_a_raise_that_fails_is_told_once_and_tried_again() -> None:
    life = Life().edit_job(counts(replicas=3), "workerGroupSpecs")
    first = life.look()
    patch = patch_of(first)
    assert patch is not None
    assert patch.failed is not None
    assert patch.failed("quota").note == (
        "Failed to raise replicas of worker group small in cluster default/c from 1 to 3: quota"
    )
    assert told(first).startswith("NotYetApplied: To be raised:")
    life.job["status"] = first.status
    again = life.look()
    patch = patch_of(again)
    assert patch is not None
    assert patch.failed is None
    assert again.finish().requeue_after is not None
    assert again.plan.status is None


@pytest.mark.parametrize("manager", ["kubectl-edit", "python-requests", "kubectl"])
def test_groups_that_others_have_edited_are_left_alone(manager: str) -> None:
    """RJ-33: direct edits of the RayCluster are never reverted."""
    life = Life().edit_cluster(counts(replicas=0), "workerGroupSpecs", manager=manager)
    assert quiet(life.look()), "nobody has edited the RayJob"
    draft = life.edit_job(counts(replicas=3), "workerGroupSpecs").look()
    assert patch_of(draft) is None
    assert told(draft) == (
        "RayClusterChangedByOthers: rayClusterSpec.workerGroupSpecs[small].replicas: not applied, since RayCluster "
        f"default/c has been changed there by others ({manager})."
    )


def test_an_edited_head_does_not_hold_back_a_raise() -> None:
    life = Life().edit_cluster(head_image("ray:9"), "headGroupSpec")
    draft = life.edit_job(counts(replicas=3), "workerGroupSpecs").look()
    assert raised(draft) == {"/spec/workerGroupSpecs/0/replicas": 3}
    assert "image" not in told(draft), "the RayJob's head was not edited"


def test_a_cluster_whose_writers_are_not_recorded_is_left_alone() -> None:
    life = Life().edit_job(counts(replicas=3), "workerGroupSpecs")
    life.cluster["metadata"]["managedFields"] = []
    draft = life.look()
    assert patch_of(draft) is None
    assert "by others (unknown)" in told(draft)


def test_with_autoscaling_replicas_are_the_autoscalers() -> None:
    draft = Life(enableInTreeAutoscaling=True).edit_job(counts(replicas=3), "workerGroupSpecs").look()
    assert patch_of(draft) is None
    assert "the autoscaler decides about it; minReplicas can be raised" in told(draft)


def test_with_autoscaling_the_minimum_is_raised() -> None:
    life = Life(enableInTreeAutoscaling=True)
    life.edit_cluster(counts(replicas=4), "workerGroupSpecs", manager="python-requests")
    assert quiet(life.look())
    draft = life.edit_job(counts(replicas=2, minReplicas=2), "workerGroupSpecs").look()
    assert raised(draft) == {"/spec/workerGroupSpecs/0/minReplicas": 2}, "and not what the autoscaler asked for"
    assert told(draft).startswith("NotYetApplied")


def test_with_autoscaling_peoples_edits_of_the_cluster_are_left_alone() -> None:
    life = Life(enableInTreeAutoscaling=True).edit_cluster(counts(minReplicas=0), "workerGroupSpecs")
    assert patch_of(life.edit_job(counts(minReplicas=2), "workerGroupSpecs").look()) is None


@pytest.mark.parametrize(
    "spoil", ["gone", "deleting", "foreign", "selector", "refused", "older", "first", "over", "ended", "retrying"]
)
def test_where_there_is_nothing_to_follow(spoil: str) -> None:
    life = Life(spec={"clusterSelector": {"ray.io/cluster": "c"}} if spoil == "selector" else None)
    life.edit_job(counts(replicas=3), "workerGroupSpecs", time=BEFORE if spoil == "older" else AFTER)
    metadata = life.cluster["metadata"]
    if spoil == "gone":
        life.cluster = None
    elif spoil == "deleting":
        metadata["deletionTimestamp"] = AFTER
    elif spoil in ("foreign", "selector"):
        metadata["ownerReferences"] = []
    elif spoil == "refused":
        condition = {"type": "Accepted", "status": FALSE, "reason": "Invalid", "message": "no"}
        life.job["status"]["conditions"] = [condition]
    elif spoil in ("over", "retrying"):
        life.job["status"]["jobDeploymentStatus"] = "Complete" if spoil == "over" else "Retrying"
    elif spoil == "ended":
        life.job["status"]["jobStatus"] = "FAILED"
    elif spoil == "first":
        life.job["metadata"]["generation"] = 1
    life.job["status"].setdefault("conditions", []).append(
        {"type": JobCondition.EDIT_IGNORED.value, "status": "True", "reason": "TakesEffectLater", "message": "old"}
    )
    assert quiet(life.look())


def test_the_submitter_in_the_head_is_no_edit() -> None:
    life = Life(mode="SidecarMode")
    assert life.cluster["metadata"]["annotations"] == {ANNOTATION_NO_HEAD_RESTART: "true"}
    life.edit_job(counts(replicas=3), *ALL)
    draft = life.look()
    assert raised(draft) == {"/spec/workerGroupSpecs/0/replicas": 3}
    assert draft.plan.events == []


def test_long_lists_of_fields_are_cut() -> None:
    def change(spec: Body) -> None:
        spec["workerGroupSpecs"] += [group(f"g{number}") for number in range(8)]

    assert "workerGroupSpecs[g4] and 3 more: not applied" in told(Life().edit_job(change, "workerGroupSpecs").look())
