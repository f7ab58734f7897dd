"""How RayServices and RayClusters that are no longer used go (spec rayservice.md 2.3 and 2.7)."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kuberay.api import names
from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE
from kuberay.api.times import format_time, parse_time
from kuberay.plan.model import Delete, Patch

from core.tests.plan.service.worlds import NS, Body, World, new_world, serving

DELETE_AFTER = names.ANNOTATION_DELETE_AFTER


def switched(**service: Any) -> tuple[World, str]:
    """A second RayCluster has taken over; and the name of the first one."""
    world = serving(**service)
    old = world.active
    world.service["spec"]["rayClusterConfig"]["rayVersion"] = "2.99.0"
    world.edited()
    world.settle()
    world.add_pods(world.pending)
    world.one_pass()
    while world.active == old:
        world.one_pass()
    return world, old


def deadline(world: World, cluster: str) -> Any:
    return parse_time(world.cluster(cluster)["metadata"]["annotations"][DELETE_AFTER])


@pytest.mark.parametrize(
    ("seconds", "expected"), [(None, 60), (5, 5), (600, 600)], ids=["row 27: absent", "row 29: 5", "RS-15: 600"]
)
def test_rs_15_a_cluster_that_is_no_longer_used_goes_after_the_delay_and_not_earlier(
    seconds: int | None, expected: int
) -> None:
    """RS-15."""
    spec = {} if seconds is None else {"rayClusterDeletionDelaySeconds": seconds}
    world, old = switched(**spec)
    moment = world.now
    world.settle()
    assert deadline(world, old) == moment + timedelta(seconds=expected)
    assert world.last.requeue_after == timedelta(seconds=expected)
    world.advance(expected - 1).settle()
    assert old in world.clusters()
    world.advance(1).settle()
    assert world.clusters() == [world.active]
    assert world.notes("DeletedRayCluster") == [f"Deleted the RayCluster {NS}/{old}"]


def test_row_28_rs_15_a_delay_of_zero_is_at_once() -> None:
    world, old = switched(rayClusterDeletionDelaySeconds=0)
    world.settle()
    assert world.clusters() == [world.active]
    assert world.notes("DeletedRayCluster") == [f"Deleted the RayCluster {NS}/{old}"]


def test_rs_15_no_part_of_a_second_is_lost() -> None:
    world, old = switched()
    world.advance(0.4)
    moment = world.now
    world.settle()
    assert deadline(world, old) >= moment + timedelta(seconds=60)


def test_rs_15_neither_a_restart_nor_an_edit_of_the_delay_moves_the_time() -> None:
    world, old = switched(rayClusterDeletionDelaySeconds=100)
    world.settle()
    stored = deadline(world, old)
    world.edit(rayClusterDeletionDelaySeconds=1)
    world.advance(50)
    restarted = World(objects=world.objects, applications=world.applications, now=world.now)
    restarted._version = world._version
    restarted.settle()
    assert deadline(restarted, old) == stored
    restarted.advance(50).settle()
    assert restarted.clusters() == [restarted.active]


def test_rs_15_a_negative_delay_is_refused() -> None:
    world = new_world(rayClusterDeletionDelaySeconds=-1).settle()
    assert world.condition("Ready") == ("False", "ValidationFailed")


@pytest.mark.parametrize(("delay", "counts"), [(600, 600), (-1, 60), (True, 60), ("x", 60)])
def test_rs_15_the_delay_counts_although_something_else_is_refused(delay: Any, counts: int) -> None:
    world, old = switched()
    world.edit(rayClusterDeletionDelaySeconds=delay, upgradeStrategy={"type": "Sideways"}, serveConfigV2=7)
    moment = world.now
    world.settle()
    assert deadline(world, old) == moment + timedelta(seconds=counts)


@pytest.mark.parametrize("text", ["", "tomorrow", "2024-01-01T00:00:00"])
def test_a_time_that_nobody_can_read_is_set_anew(text: str) -> None:
    world, old = switched()
    world.cluster(old)["metadata"]["annotations"][DELETE_AFTER] = text
    moment = world.now
    world.settle()
    assert deadline(world, old) == moment + timedelta(seconds=60)


def test_a_cluster_that_is_used_again_stays() -> None:
    world = serving()
    world.cluster(world.active)["metadata"]["annotations"][DELETE_AFTER] = format_time(world.now)
    world.settle()
    assert world.clusters() == [world.active]
    assert DELETE_AFTER not in world.cluster(world.active)["metadata"]["annotations"]


def test_nothing_is_deleted_by_an_outdated_status() -> None:
    """Another replica may have made the cluster the pending one a moment ago: then the first write fails, and the delete
    never happens."""
    world, old = switched(rayClusterDeletionDelaySeconds=0)
    plan = world.plan()
    guard, deletes = plan.stages[0], plan.stages[1]
    (check,) = guard
    assert isinstance(check, Patch)
    assert (check.kind, check.must_exist) == (RAYSERVICE, True)
    assert check.resource_version == world.service["metadata"]["resourceVersion"]
    assert [(type(write), write.name) for write in deletes] == [(Delete, old)]


@pytest.mark.parametrize(
    "change",
    [
        lambda metadata: metadata.update(ownerReferences=[]),
        lambda metadata: metadata["ownerReferences"][0].update(uid="another"),
        lambda metadata: metadata["labels"].pop(names.LABEL_ORIGIN_NAME),
        lambda metadata: metadata["labels"].update({names.LABEL_ORIGIN_CRD: "RayJob"}),
    ],
    ids=["no owner", "another owner", "no label", "another kind's label"],
)
def test_only_clusters_with_label_and_owner_are_tidied(change: Any) -> None:
    world, old = switched(rayClusterDeletionDelaySeconds=0)
    change(world.cluster(old)["metadata"])
    world.settle()
    assert old in world.clusters()
    assert DELETE_AFTER not in world.cluster(old)["metadata"]["annotations"]


def test_a_delete_that_fails_is_told_and_keeps_nothing_else_waiting() -> None:
    world, old = switched(rayClusterDeletionDelaySeconds=0)
    world.refuse_writes = {("Delete", "RayCluster"): "webhook"}
    world.settle()
    told = f"Failed to delete the RayCluster {NS}/{old}: webhook"
    assert told in world.notes("FailedToDeleteRayCluster")
    assert world.last.requeue_after == timedelta(seconds=30)
    assert world.condition("UpgradeInProgress") == ("False", "NoPendingCluster")
    world.refuse_writes = {}
    world.settle()
    assert world.clusters() == [world.active]


# The RayService itself


def test_row_74_the_finalizer_comes_before_everything_else() -> None:
    world = new_world()
    (stage,) = world.plan().stages
    (patch,) = stage
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"finalizers": [names.RAYSERVICE_FINALIZER]}}
    assert world.last.status is None
    world.settle()
    assert world.service["metadata"]["finalizers"] == [names.RAYSERVICE_FINALIZER]
    assert world.service["metadata"]["generation"] == 1


def test_others_finalizers_stay() -> None:
    world = new_world()
    world.service["metadata"]["finalizers"] = ["example.com/x"]
    world.settle()
    assert world.service["metadata"]["finalizers"] == ["example.com/x", names.RAYSERVICE_FINALIZER]
    world.delete(RAYSERVICE, "s")
    world.settle()
    assert world.service["metadata"]["finalizers"] == ["example.com/x"]


def going(finalizers: bool = True, **service: Any) -> World:
    """A RayService with two RayClusters that takes time to go."""
    world, _ = switched(**service)
    if finalizers:
        for name in world.clusters():
            world.cluster(name)["metadata"]["finalizers"] = ["example.com/cleanup"]
    world.delete(RAYSERVICE, "s")
    return world


def test_row_76_and_77_clusters_go_first_at_once_and_then_the_service() -> None:
    world = going()
    world.settle()
    assert world.clusters() == []
    assert world.service["metadata"]["finalizers"] == [names.RAYSERVICE_FINALIZER]
    assert len(world.notes("DeletedRayCluster")) == 2
    assert "s-" in world.last.waiting
    for kind, name in list(world.objects):
        if kind == RAYCLUSTER:
            world.objects[kind, name]["metadata"]["finalizers"] = []
            world.delete(kind, name)
    world.settle()
    assert (RAYSERVICE, "s") not in world.objects


def test_without_clusters_it_goes_in_one_pass() -> None:
    world = new_world(upgradeStrategy={"type": "Sideways"}).settle()
    world.delete(RAYSERVICE, "s")
    world.one_pass()
    assert (RAYSERVICE, "s") not in world.objects


@pytest.mark.parametrize(
    "obstacle", ["clusters that stay", "deletes that are refused"], ids=["clusters that stay", "deletes refused"]
)
def test_it_goes_after_five_minutes_whatever_becomes_of_its_clusters(obstacle: str) -> None:
    world = going()
    if obstacle == "deletes that are refused":
        world.refuse_writes = {("Delete", "RayCluster"): "webhook"}
    world.settle()
    assert world.last.requeue_after == timedelta(minutes=5)
    world.advance(299).settle()
    assert (RAYSERVICE, "s") in world.objects
    world.advance(1).settle()
    assert (RAYSERVICE, "s") not in world.objects


@pytest.mark.parametrize(
    "spec", [{"managedBy": "kueue.x-k8s.io/multikueue"}, {"rayClusterConfig": 5}, {"suspend": True}], ids=str
)
def test_it_goes_whatever_its_spec_says(spec: Body) -> None:
    world = going(finalizers=False)
    world.service["spec"] |= spec
    world.settle()
    assert (RAYSERVICE, "s") not in world.objects
    assert world.clusters() == []


def test_no_status_is_written_on_the_way_out() -> None:
    world = going()
    assert world.plan().status is None


def test_a_write_that_fails_is_a_condition_and_changes_nothing_else() -> None:
    world = serving()
    world.refuse_writes = {("Apply", "Service"): "no"}
    before = {key: value for key, value in world.status.items() if key not in ("conditions", "lastUpdateTime")}
    world.service["spec"]["serveService"] = {"metadata": {"annotations": {"lb": "internal"}}}
    world.edited()
    world.one_pass()
    assert world.condition("RayServiceWaiting") == ("True", "Forbidden")
    assert world.message("RayServiceWaiting") == "Service s-serve-svc: no"
    after = {key: value for key, value in world.status.items() if key not in ("conditions", "lastUpdateTime")}
    assert after == before
    world.refuse_writes = {}
    world.settle()
    assert world.condition("RayServiceWaiting") is None
