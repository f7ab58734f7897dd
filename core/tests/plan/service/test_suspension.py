"""Suspend and resume (spec rayservice.md 2.4, rows 69 to 71)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, RAYCLUSTER, SERVICE
from kuberay.hooks.calls import NoHooks
from kuberay.hooks.types import Watch

from core.tests.plan.service.worlds import NS, World, new_world, running, serving

FALSE_IN_PROGRESS = ("False", "SuspendInProgress")
FALSE_COMPLETE = ("False", "SuspendComplete")


class GatewayHooks(NoHooks):
    """What the plugin for upgrades through a gateway has watched."""

    def watches(self) -> list[Watch]:
        return [Watch(GATEWAY), Watch(HTTP_ROUTE)]


def owned(world: World) -> list[str]:
    """Objects of which the RayService is the controller."""
    uid = world.service["metadata"]["uid"]
    return sorted(
        f"{kind.kind} {name}"
        for (kind, name), body in world.objects.items()
        if any(owner["uid"] == uid for owner in body["metadata"].get("ownerReferences") or [])
    )


def upgrading_behind_a_gateway() -> World:
    world = serving(world={"hooks": GatewayHooks()})
    uid = world.service["metadata"]["uid"]
    owner = {"apiVersion": "ray.io/v1", "kind": "RayService", "name": "s", "uid": uid, "controller": True}
    for kind in ("Gateway", "HTTPRoute"):
        metadata: dict[str, Any] = {"name": f"s-{kind.lower()}", "ownerReferences": [owner]}
        world.create({"kind": kind, "apiVersion": "gateway.networking.k8s.io/v1", "metadata": metadata, "spec": {}})
    world.service["spec"]["rayClusterConfig"]["rayVersion"] = "2.99.0"
    world.edited()
    return world.settle()


def test_all_is_deleted_in_stages_each_stored_before_the_next() -> None:
    world = upgrading_behind_a_gateway()
    active, pending = world.active, world.pending
    before = owned(world)
    assert len(before) == 6
    world.edit(suspend=True)

    world.one_pass()
    assert owned(world) == before, "nothing is deleted before it is stored that everything will be"
    told = {
        type_: world.condition(type_) for type_ in ("Suspending", "Ready", "UpgradeInProgress", "RollbackInProgress")
    }
    assert told == {
        "Suspending": ("True", "SuspendRequested"),
        "Ready": FALSE_IN_PROGRESS,
        "UpgradeInProgress": FALSE_IN_PROGRESS,
        "RollbackInProgress": FALSE_IN_PROGRESS,
    }
    assert world.message("Suspending") == (
        "Spec.Suspend is true; will delete all Kubernetes resources owned by this RayService."
    )
    assert world.message("Ready") == "RayService is suspending."
    assert world.message("UpgradeInProgress") == "No upgrade in progress."
    assert world.message("RollbackInProgress") == "No rollback in progress."
    assert (world.active, world.pending) == ("", "")
    assert not {"numServeEndpoints", "serviceStatus"} & set(world.status)

    world.one_pass()
    assert owned(world) == []
    assert world.condition("Suspending") == ("True", "SuspendInProgress")
    assert world.message("Suspending") == (
        "Waiting for all Kubernetes resources owned by this RayService to be deleted."
    )
    assert sorted(world.notes("DeletedRayCluster")) == sorted(
        f"Deleted the RayCluster {NS}/{name} during suspend" for name in (active, pending)
    )
    assert sorted(world.notes("DeletedService")) == [
        f"Deleted the Service {NS}/{name} during suspend" for name in ("s-head-svc", "s-serve-svc")
    ]
    assert world.notes("DeletedGateway") == [f"Deleted the Gateway {NS}/s-gateway during suspend"]
    assert world.notes("DeletedHTTPRoute") == [f"Deleted the HTTPRoute {NS}/s-httproute during suspend"]

    world.settle()
    told = {
        type_: world.condition(type_)
        for type_ in ("Suspending", "Suspended", "Ready", "UpgradeInProgress", "RollbackInProgress")
    }
    assert told == {
        "Suspending": FALSE_COMPLETE,
        "Suspended": ("True", "SuspendComplete"),
        "Ready": FALSE_COMPLETE,
        "UpgradeInProgress": FALSE_COMPLETE,
        "RollbackInProgress": FALSE_COMPLETE,
    }
    assert world.message("Suspended") == "All owned resources have been deleted."
    assert world.message("Ready") == "RayService is suspended."
    writes = world.status_writes
    world.advance(7200).settle()
    assert (world.status_writes, world.last.probes, world.last.requeue_after) == (writes, [], None)


def test_one_created_suspended_never_makes_anything() -> None:
    world = new_world(suspend=True).settle()
    assert world.condition("Suspended") == ("True", "SuspendComplete")
    assert owned(world) == []
    assert world.events == []


def test_what_takes_time_to_go_is_waited_for_and_deleted_once() -> None:
    world = serving()
    name = world.active
    world.cluster(name)["metadata"]["finalizers"] = ["example.com/cleanup"]
    world.edit(suspend=True)
    world.settle()
    assert world.condition("Suspending") == ("True", "SuspendInProgress")
    assert len(world.notes("DeletedRayCluster")) == 1
    world.cluster(name)["metadata"]["finalizers"] = []
    world.delete(RAYCLUSTER, name)
    world.settle()
    assert world.condition("Suspended") == ("True", "SuspendComplete")


def test_the_stored_decision_holds_whatever_the_spec_says_meanwhile() -> None:
    world = serving()
    old = world.active
    world.edit(suspend=True)
    world.one_pass()
    world.edit(suspend=False)
    world.one_pass()
    assert world.clusters() == []
    world.settle()
    assert world.condition("Suspending") == FALSE_COMPLETE
    assert world.condition("Suspended") == ("False", "RayServiceResumed")
    assert world.clusters() == [world.pending]
    assert world.pending != old


def test_a_delete_that_fails_leaves_the_conditions_and_is_tried_again() -> None:
    world = serving()
    world.edit(suspend=True)
    world.one_pass()
    world.refuse_writes = {("Delete", "Service"): "webhook"}
    for _ in range(3):
        world.one_pass()
    assert world.condition("Suspending") == ("True", "SuspendRequested")
    assert f"Failed to delete the Service {NS}/s-head-svc during suspend: webhook" in world.notes(
        "FailedToDeleteService"
    )
    assert world.condition("RayServiceWaiting") == ("True", "Forbidden")
    world.refuse_writes = {}
    world.settle()
    assert world.condition("Suspended") == ("True", "SuspendComplete")
    assert world.condition("RayServiceWaiting") is None


def test_row_69_resuming_begins_anew_with_the_newest_spec() -> None:
    world = serving()
    old = world.active
    world.edit(suspend=True)
    world.settle()
    world.service["spec"]["rayClusterConfig"]["rayVersion"] = "2.99.0"
    world.edited()
    world.advance(3600).settle()
    world.edit(suspend=False)
    world.one_pass()
    assert world.condition("Suspended") == ("False", "RayServiceResumed")
    assert world.message("Suspended") == "Spec.Suspend is false; RayService has resumed."
    now = world.now.strftime("%Y-%m-%dT%H:%M:%SZ")
    for type_ in ("Ready", "UpgradeInProgress"):
        (found,) = [each for each in world.status["conditions"] if each["type"] == type_]
        assert (found["status"], found["reason"], found["lastTransitionTime"]) == ("False", "Initializing", now)
        assert found["message"] == "RayService is initializing after resuming from suspend."
    assert world.pending, "the name of the next RayCluster is chosen in the same pass"
    assert world.pending != old
    world.settle()
    assert world.cluster(world.pending)["spec"]["rayVersion"] == "2.99.0"
    world.add_pods(world.pending)
    world.settle()
    world.follow_selector()
    world.settle()
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")


def test_row_70_rs_17_the_generation_is_observed_as_soon_as_suspending_is_said() -> None:
    """RS-17."""
    world = serving()
    world.service["metadata"]["generation"] = 5
    world.service["status"]["observedGeneration"] = 2
    world.service["spec"]["suspend"] = True
    world.one_pass()
    assert world.status["observedGeneration"] == 5
    (suspending,) = [each for each in world.status["conditions"] if each["type"] == "Suspending"]
    assert suspending["observedGeneration"] == 5


def test_rs_17_the_generation_is_observed_again_on_resume() -> None:
    world = new_world(suspend=True).settle()
    world.edit(suspend=False)
    world.one_pass()
    assert world.status["observedGeneration"] == world.service["metadata"]["generation"] == 2


def test_row_71_a_suspended_one_observes_nothing() -> None:
    world = new_world(suspend=True).settle()
    world.service["metadata"]["generation"] = 9
    world.service["status"]["observedGeneration"] = 4
    world.settle()
    assert world.status["observedGeneration"] == 4
    assert world.last.stages == []


@pytest.mark.parametrize("moment", ["suspending", "suspended"])
def test_a_spec_that_becomes_wrong_keeps_no_suspension_from_ending(moment: str) -> None:
    world = serving()
    world.edit(suspend=True)
    world.one_pass()
    if moment == "suspended":
        world.settle()
    world.edit(upgradeStrategy={"type": "Sideways"})
    world.settle()
    assert world.condition("Suspended") == ("True", "SuspendComplete")
    assert world.condition("Ready") == ("False", "ValidationFailed")
    assert owned(world) == []
    world.edit(upgradeStrategy=None)
    world.settle()
    assert world.condition("Ready") == FALSE_COMPLETE
    assert world.message("Ready") == "RayService is suspended."
    world.edit(suspend=False)
    world.settle()
    assert world.clusters() == [world.pending]


def test_only_what_the_service_controls_is_deleted() -> None:
    world = serving()
    world.create({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s-mine", "labels": {}}, "spec": {}})
    world.edit(suspend=True)
    world.settle()
    assert (SERVICE, "s-mine") in world.objects
    assert world.condition("Suspended") == ("True", "SuspendComplete")


def test_an_ignored_edit_is_no_longer_told_of() -> None:
    world = serving(upgradeStrategy={"type": "None"})
    world.service["spec"]["rayClusterConfig"]["rayVersion"] = "2.99.0"
    world.edited()
    world.settle()
    assert world.condition("RayClusterConfigEditIgnored") is not None
    world.edit(suspend=True)
    world.settle()
    assert world.condition("RayClusterConfigEditIgnored") is None


def test_suspending_while_the_first_cluster_is_pending() -> None:
    world = new_world().settle()
    world.after_put = running("DEPLOYING")
    world.add_pods(world.pending)
    world.settle()
    world.edit(suspend=True)
    world.settle()
    assert owned(world) == []
    assert world.condition("Suspended") == ("True", "SuspendComplete")
