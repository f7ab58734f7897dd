"""How upgrades go: which strategy, what is done of what it decides, and what is said meanwhile (spec rayservice.md 2.6 and 3)."""

from __future__ import annotations

import copy
import json
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.gates import INCREMENTAL_UPGRADE
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, RAYCLUSTER
from kuberay.api.times import format_time
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, Share, UpgradeStep
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import ServeConfigCall, ServeProbe

from core.tests.plan.service.strategies_for_tests import Decide, Hooks
from core.tests.plan.service.worlds import START, Body, World, new_world, running, serving

INCREMENTAL = "NewClusterWithIncrementalUpgrade"
OPTIONS = {"gatewayClassName": "c", "stepSizePercent": 10, "intervalSeconds": 1}


def changed(world: World, version: str = "2.99.0", **fields: Any) -> Body:
    return {**copy.deepcopy(world.service["spec"]["rayClusterConfig"]), "rayVersion": version, **fields}


def edit(world: World, version: str = "2.99.0") -> World:
    """Ask for another RayCluster."""
    world.edit(rayClusterConfig=changed(world, version))
    return world.settle()


def stay(ctx: ServiceUpgradeContext) -> UpgradeStep:
    """Promotes the first RayCluster and then does nothing."""
    return UpgradeStep(promote=ctx.active is None and ctx.pending is not None and ctx.pending.ready)


def upgrading(decide: Decide | None = None, *, capacities: tuple[int | None, int | None] = (100, 0)) -> World:
    """A RayService with a scripted strategy whose second RayCluster has its pods; *decide* decides from now on."""
    hooks = Hooks(stay, capacities)
    world = new_world(world={"hooks": hooks}, upgradeStrategy={"type": "Scripted"}).settle()
    world.add_pods(world.pending)
    world.settle()
    edit(world)
    world.add_pods(world.pending)
    world.settle()
    assert world.active
    assert world.pending
    world.puts.clear()
    world.events.clear()
    if decide is not None:
        hooks.decide = decide
    return world


def share(world: World, key: str) -> tuple[int | None, int | None]:
    side = world.status[f"{key}ServiceStatus"]
    return side.get("targetCapacity"), side.get("trafficRoutedPercent")


def route(weight: int) -> Body:
    return {
        "apiVersion": "gateway.networking.k8s.io/v1",
        "kind": "HTTPRoute",
        "metadata": {"name": "s-httproute"},
        "spec": {"weight": weight},
    }


GATEWAY_BODY: Body = {
    "apiVersion": "gateway.networking.k8s.io/v1",
    "kind": "Gateway",
    "metadata": {"name": "s-gateway"},
    "spec": {"gatewayClassName": "c"},
}


# Which strategy


def test_zero_downtime_switched_off_keeps_the_cluster() -> None:
    """3.1: ENABLE_ZERO_DOWNTIME=false counts where no type is named."""
    seen = {}
    for type_ in (None, "NewCluster"):
        world = serving(
            world={"config": PlanConfig(operator_version="1.0.0", enable_zero_downtime=False)},
            upgradeStrategy={"type": type_} if type_ else None,
        )
        seen[type_] = bool(edit(world).pending)
    assert seen == {None: False, "NewCluster": True}


def test_the_gate_off_makes_incremental_like_none() -> None:
    """Row 118 and 3.1."""
    strategy = {"type": INCREMENTAL, "clusterUpgradeOptions": OPTIONS}
    world = serving(world={"gates": {INCREMENTAL_UPGRADE: False}}, upgradeStrategy=strategy)
    edit(world)
    assert (world.pending, world.condition("PluginMissing")) == ("", ("True", "GateOff"))
    assert world.condition("RayClusterConfigEditIgnored") is not None


def test_without_the_plugin_nothing_that_runs_is_touched() -> None:
    """The condition names the package; back on another type everything goes on."""
    world = serving()
    before = copy.deepcopy(world.cluster(world.active))
    config = changed(world, enableInTreeAutoscaling=True)
    strategy = {"type": INCREMENTAL, "clusterUpgradeOptions": OPTIONS}
    world.edit(rayClusterConfig=config, upgradeStrategy=strategy)
    world.settle()
    assert world.condition("PluginMissing") == ("True", "PluginNotEnabled")
    assert "pip install kuberay-gateway-upgrade" in world.message("PluginMissing")
    assert world.condition("RayServiceWaiting") == ("True", "PluginMissing")
    assert (world.pending, world.cluster(world.active)["spec"]) == ("", before["spec"])
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")
    world.edit(upgradeStrategy={"type": "NewCluster"})
    world.settle()
    assert (world.condition("PluginMissing"), bool(world.pending)) == (None, True)


def test_without_the_plugin_no_first_cluster_is_made() -> None:
    world = new_world(
        cluster={"enableInTreeAutoscaling": True},
        upgradeStrategy={"type": INCREMENTAL, "clusterUpgradeOptions": OPTIONS},
    ).settle()
    assert (world.pending, world.clusters()) == ("", [])
    assert world.condition("PluginMissing") == ("True", "PluginNotEnabled")
    assert world.condition("Ready") == ("False", "Initializing")


def test_a_type_nobody_offers_is_refused() -> None:
    """Scenario invalid-after-edit; and back."""
    world = serving()
    world.edit(upgradeStrategy={"type": "Sideways"})
    world.settle()
    assert world.condition("Ready") == ("False", "ValidationFailed")
    world.edit(upgradeStrategy=None)
    world.settle()
    assert world.condition("Ready") == ("True", "NonZeroServeEndpoints")


# NewCluster


def test_a_new_cluster_takes_over_when_its_applications_run() -> None:
    """Row 157 and the table of 3.3."""
    world = serving()
    old = world.active
    edit(world)
    assert world.condition("UpgradeInProgress") == ("True", "BothActivePendingClustersExist")
    world.after_put = running("DEPLOYING")
    new = world.pending
    world.add_pods(new)
    world.settle()
    assert (world.active, world.pending) == (old, new)
    world.applications[new] = running()
    world.settle()
    assert (world.active, world.pending) == (new, "")
    assert world.condition("UpgradeInProgress") == ("False", "NoPendingCluster")
    assert world.status["activeServiceStatus"]["applicationStatuses"]["app"]["status"] == "RUNNING"


def test_a_revert_goes_back_to_the_cluster_that_serves() -> None:
    """Scenario upgrade-reverted, where KubeRay makes a third cluster."""
    world = serving()
    old, config = world.active, copy.deepcopy(world.service["spec"]["rayClusterConfig"])
    edit(world)
    dropped = world.pending
    world.edit(rayClusterConfig=config)
    world.settle()
    assert (world.active, world.pending) == (old, "")
    world.advance(61).settle()
    assert world.clusters() == [old]
    assert dropped != old


def test_a_second_edit_replaces_the_pending_cluster() -> None:
    """RS-10 and row 158: no cluster without a reference or a date of deletion remains."""
    world = edit(serving())
    old, second = world.active, world.pending
    edit(world, "3.0.0")
    assert world.pending not in (old, second)
    assert world.active == old
    stray = [name for name in world.clusters() if name not in (old, world.pending)]
    assert stray == [second]
    assert "ray.io/delete-after" in world.cluster(second)["metadata"]["annotations"]
    world.advance(61).settle()
    assert world.clusters() == sorted((old, world.pending))


def test_a_broken_first_cluster_is_replaced_whatever_the_strategy() -> None:
    """2.6 (iv): with None, KubeRay ignores the correction."""
    world = new_world(upgradeStrategy={"type": "None"}).settle()
    first = world.pending
    edit(world)
    assert world.pending not in ("", first)


@pytest.mark.parametrize("type_", ["NewCluster", "None"])
def test_an_active_cluster_deleted_by_hand_is_replaced(type_: str) -> None:
    """2.6 (v): whatever the strategy; and it says so."""
    world = serving(upgradeStrategy={"type": type_})
    old = world.active
    world.delete(RAYCLUSTER, old)
    world.set_endpoints("s-serve-svc", [])
    world.settle()
    assert world.pending not in ("", old)
    assert world.condition("Ready") == ("False", "ZeroServeEndpoints")
    assert world.condition("RayServiceWaiting") == ("True", "RayClusterDeleted")
    assert f"RayCluster default/{old} was deleted" in world.message("RayServiceWaiting")
    world.add_pods(world.pending)
    world.settle()
    world.follow_selector()
    world.settle()
    assert (world.pending, world.condition("Ready")) == ("", ("True", "NonZeroServeEndpoints"))
    assert world.active != old


def test_an_active_cluster_deleted_during_an_abort_is_replaced_once() -> None:
    """There is nothing to go back to, and no name is spent on each pass."""
    world = serving(annotations={"ray.io/upgrade-aborted": "true"})
    world.delete(RAYCLUSTER, world.active)
    world.settle()
    first = world.pending
    world.advance(300).settle()
    assert (world.pending, world.clusters()) == (first, [first])


def test_a_pause_keeps_the_switch_back() -> None:
    world = serving()
    old = world.active
    edit(world)
    world.annotate(upgrade_paused="true")
    world.add_pods(world.pending)
    world.settle()
    assert world.active == old
    assert world.condition("RayServiceWaiting") == ("True", "UpgradePaused")
    world.annotate(upgrade_paused=None)
    world.settle()
    assert world.active != old
    assert world.condition("RayServiceWaiting") is None


def test_an_abort_goes_back_and_stays_there() -> None:
    world = edit(serving())
    old = world.active
    world.annotate(upgrade_aborted="true")
    world.settle()
    world.advance(61).settle()
    assert (world.active, world.pending, world.clusters()) == (old, "", [old])
    assert world.condition("RayServiceWaiting") == ("True", "UpgradeAborted")
    world.annotate(upgrade_aborted=None)
    world.settle()
    assert world.pending


def test_the_switch_waits_for_a_pod_behind_the_new_cluster() -> None:
    world = serving()
    old = world.active
    edit(world)
    new = world.pending
    world.unhealthy.add(f"{new}-head")
    world.add_pods(new, workers=0)
    world.settle()
    assert (world.active, world.pending) == (old, new)
    assert world.last.waiting == f"no pod of RayCluster {new} is ready to serve"
    world.advance(301).settle()
    assert world.condition("RayServiceWaiting") == ("True", "UpgradeWaiting")
    world.unhealthy.clear()
    world.settle()
    assert world.active == new


def test_a_pending_cluster_in_trouble_is_told_in_its_own_words() -> None:
    """Scenario upgrade-pending-fails: nothing in KubeRay says why."""
    world = edit(serving())
    new = world.pending
    world.set_cluster_condition(new, "PodsNotReady", "True", "Unschedulable", "0/3 nodes are available")
    world.settle()
    assert world.condition("RayServiceWaiting") == ("True", "Unschedulable")
    assert world.message("RayServiceWaiting") == f"RayCluster default/{new}: 0/3 nodes are available"


def test_a_head_that_takes_long_is_told() -> None:
    world = new_world().settle()
    world.advance(299).settle()
    assert world.condition("RayServiceWaiting") is None
    world.advance(2).settle()
    assert world.condition("RayServiceWaiting") == ("True", "HeadNotReady")


def test_a_new_first_cluster_waits_for_a_name_to_be_stored() -> None:
    """2.2: two passes; whoever continues uses the same name."""
    world = new_world()
    world.one_pass()
    world.one_pass()
    assert (bool(world.pending), world.clusters()) == (True, [])
    name = world.pending
    world.settle()
    assert world.clusters() == [name]


# Rolling and Recreate


@pytest.mark.parametrize("type_", ["Rolling", "Recreate"])
def test_one_cluster_is_edited_in_place(type_: str) -> None:
    """Neither needs a second RayCluster."""
    world = serving(upgradeStrategy={"type": type_})
    cluster = world.active
    edit(world)
    assert (world.active, world.pending, world.clusters()) == (cluster, "", [cluster])
    assert world.cluster(cluster)["spec"]["rayVersion"] == "2.99.0"
    assert world.cluster(cluster)["spec"]["upgradeStrategy"]["type"] == type_


def test_a_rolling_upgrade_comes_before_the_configuration() -> None:
    """What is meant for the new pods is not given to the old ones; and how the upgrade goes is said."""
    world = serving(upgradeStrategy={"type": "Rolling"})
    cluster = world.active
    world.set_cluster_condition(cluster, "RollingUpgrade", "True", "Progressing", "1 of 2")
    world.edit(serveConfigV2=world.service["spec"]["serveConfigV2"].replace("mod.app", "mod.new"))
    world.settle()
    assert len(world.puts) == 1
    assert world.last.waiting == f"RayCluster default/{cluster}: 1 of 2"
    world.set_cluster_condition(cluster, "RollingUpgrade", "True", "Stuck", "1 of 2; stuck")
    world.settle()
    assert len(world.puts) == 2


@pytest.mark.parametrize("annotation", ["paused", "aborted"])
def test_an_edit_in_place_can_be_held(annotation: str) -> None:
    world = serving(upgradeStrategy={"type": "Rolling"})
    world.annotate(**{f"upgrade_{annotation}": "true"})
    before = world.cluster(world.active)["spec"]
    edit(world)
    assert world.cluster(world.active)["spec"] == before
    assert world.condition("RayServiceWaiting") == ("True", "UpgradePaused")


# What a strategy decides


def test_what_a_strategy_sees() -> None:
    world = upgrading()
    world.unhealthy.add(f"{world.active}-head")
    world.annotate(upgrade_paused="true")
    world.settle()
    for cluster in (world.active, world.pending):
        world.follow_selector(f"{cluster}-serve-svc")
    world.settle()
    seen = world.hooks.seen[-1]
    assert (seen.active.cluster, seen.pending.cluster) == (world.active, world.pending)
    assert (seen.active.relation, seen.pending.relation) == ("differs", "same")
    assert (seen.active.backends, seen.pending.backends) == (1, 2)
    assert (seen.active.ready, seen.pending.ready, seen.pending.head_ready) == (True, True, True)
    assert (seen.active.share, seen.pending.share) == (Share(100), Share(0))
    assert (seen.pending.serve_service, seen.pending.serve_port) == (f"{world.pending}-serve-svc", 8000)
    assert (seen.paused, seen.aborted, seen.rolling_back, seen.served_by) == (True, False, False, "")
    assert seen.owner.cluster_spec == world.service["spec"]["rayClusterConfig"]


def test_a_pod_serves_once_it_is_behind_the_service_of_its_cluster() -> None:
    """A gateway follows EndpointSlices: it knows no pod that is not in one, and none that is gone counts."""
    world = upgrading()

    def seen() -> int:
        world.settle()
        found: int = world.hooks.seen[-1].pending.backends
        return found

    service, pods = f"{world.pending}-serve-svc", [f"{world.pending}-head", f"{world.pending}-worker-0"]
    assert seen() == 0
    world.set_endpoints(service, pods[:1], origin=world.pending)
    assert seen() == 1
    world.set_endpoints(service, pods, origin=world.pending)
    assert seen() == 2
    world.set_ready(world.pending, ready=False, role="worker")
    assert seen() == 1


def test_pods_count_where_the_cluster_makes_the_service_itself() -> None:
    """4.4: its EndpointSlices cannot be told from those of any RayCluster."""
    world = upgrading()
    world.cluster(world.pending)["metadata"]["annotations"]["ray.io/enable-serve-service"] = "true"
    before = world.status.get("numServeEndpoints", 0)
    world.edit(rayClusterDeletionDelaySeconds=5)
    world.settle()
    assert world.hooks.seen[-1].pending.backends == 2
    assert world.status["numServeEndpoints"] == before + 2


def test_first_capacities() -> None:
    """3.4: 100 for the first cluster, 0 for one beside another that serves; 100 again when that one is gone."""
    world = upgrading()
    assert (share(world, "active"), share(world, "pending")) == ((100, None), (0, None))
    world = upgrading()
    world.hooks.decide = lambda ctx: UpgradeStep(give_up=ctx.pending is not None)
    world.delete(RAYCLUSTER, world.active)
    world.one_pass()
    assert share(world, "pending") == (100, None)


def test_a_capacity_counts_once_serve_has_accepted_it() -> None:
    """Row 92: with the text the cluster has, and its event told once."""
    world = upgrading(lambda ctx: UpgradeStep(pending=Share(capacity=30), active=Share(capacity=70)))
    world.silent |= {world.active, world.pending}
    world.one_pass()
    world.one_pass()
    assert (share(world, "active"), share(world, "pending")) == ((100, None), (0, None))
    world.silent.clear()
    world.settle()
    assert (share(world, "active"), share(world, "pending")) == ((70, None), (30, None))
    sent = {name: json.loads(body) for name, body in world.puts}
    app = {"name": "app", "import_path": "mod.app"}
    assert sent == {
        world.active: {"applications": [app], "target_capacity": 70},
        world.pending: {"applications": [app], "target_capacity": 30},
    }
    assert len(world.puts) == 2
    assert sorted(world.notes("UpdatedServeTargetCapacity")) == sorted(
        f"Updated target_capacity of serve applications to to the RayCluster default/{name}" for name in sent
    )


def test_a_capacity_step_never_sends_what_is_not_for_that_cluster() -> None:
    """RS-09: the old cluster gets its own text with another capacity, after a restart as well."""
    world = upgrading(lambda ctx: UpgradeStep(active=Share(capacity=50)))
    config = world.service["spec"]["serveConfigV2"]
    world.edit(serveConfigV2=config.replace("mod.app", "mod.new"))
    world.results.clear()
    world.settle()
    paths = {
        name: [json.loads(body)["applications"][0]["import_path"] for cluster, body in world.puts if cluster == name]
        for name in (world.active, world.pending)
    }
    assert paths == {world.active: ["mod.app"], world.pending: ["mod.new"]}
    assert [json.loads(body)["target_capacity"] for name, body in world.puts if name == world.pending] == [0]


def test_what_was_lost_comes_before_a_capacity() -> None:
    """Two requests at once could arrive in either order."""
    world = upgrading().advance(60)
    world.applications[world.pending] = {}
    world.refuse_puts = "not now"
    world.hooks.decide = lambda ctx: UpgradeStep(pending=Share(capacity=50))
    for _ in range(3):
        world.one_pass()
    sent = [json.loads(p.config)["target_capacity"] for p in world.last.probes if isinstance(p, ServeConfigCall)]
    assert sent == [0]
    world.refuse_puts = ""
    world.settle()
    assert [json.loads(body)["target_capacity"] for name, body in world.puts if name == world.pending] == [0, 50]


def test_a_full_capacity_is_what_serve_has_without_one() -> None:
    """3.4: an absent one is stored as 100; nothing needs to be sent for that."""
    world = upgrading(capacities=(100, None))
    del world.service["status"]["activeServiceStatus"]["targetCapacity"]
    world.hooks.decide = lambda ctx: UpgradeStep(active=Share(capacity=100))
    world.settle()
    assert (share(world, "active"), world.puts) == ((100, None), [])


def test_an_answer_from_before_a_capacity_does_not_make_ready() -> None:
    """Traffic must not go to replicas that are only being started."""
    world = upgrading()
    asked_before = world.plan().probes
    world.after_put = running("DEPLOYING")
    world.hooks.decide = lambda ctx: UpgradeStep(pending=Share(capacity=50))
    world.hooks.seen.clear()
    world.settle()
    after = [ctx.pending.ready for ctx in world.hooks.seen if ctx.pending and ctx.pending.share.capacity == 50]
    assert after
    assert not any(after)
    asked = {
        capacity: next(p.asked_for for p in probes if p.service.startswith(world.pending))
        for capacity, probes in (
            (50, [p for p in world.plan().probes if isinstance(p, ServeProbe)]),
            (0, [p for p in asked_before if isinstance(p, ServeProbe)]),
        )
    }
    assert asked[50] != asked[0]


def test_a_refused_capacity_is_told_once() -> None:
    world = upgrading(lambda ctx: UpgradeStep(pending=Share(capacity=30)))
    world.refuse_puts = "no"
    for _ in range(5):
        world.advance(3).settle()
    cluster = f"default/{world.pending}"
    note = f"Failed to update target_capacity of serve applications to the RayCluster {cluster}: no"
    assert world.notes("FailedToUpdateTargetCapacity") == [note]
    assert world.condition("RayServiceWaiting") == ("True", "ServeConfigRefused")
    assert share(world, "pending") == (0, None)


def test_traffic_counts_when_its_objects_are_applied() -> None:
    """3.4: Gateway first, then the route; events word for word; owner and namespace are filled in."""
    moved = START + timedelta(minutes=1)
    step = UpgradeStep(
        manifests=[GATEWAY_BODY, route(75)],
        active=Share(traffic=75),
        pending=Share(traffic=25, moved=moved),
    )
    world = upgrading(lambda ctx: step)
    world.refuse_writes["Apply", "HTTPRoute"] = "webhook"
    world.one_pass()
    world.one_pass()
    assert (share(world, "active"), share(world, "pending")) == ((100, None), (0, None))
    assert (GATEWAY, "s-gateway") in world.objects
    assert world.notes("FailedToCreateHTTPRoute")[0] == (
        "Failed to create the HTTPRoute for RayService default/s-httproute: webhook"
    )
    world.refuse_writes.clear()
    world.settle()
    assert (share(world, "active"), share(world, "pending")) == ((100, 75), (0, 25))
    assert world.status["pendingServiceStatus"]["lastTrafficMigratedTime"] == format_time(moved)
    assert world.notes("CreatedGateway") == ["Created Gateway for RayService default/s-gateway"]
    assert world.notes("CreatedHTTPRoute") == ["Created HTTPRoute for RayService default/s-httproute"]
    body = world.objects[HTTP_ROUTE, "s-httproute"]
    assert [(owner["kind"], owner["name"]) for owner in body["metadata"]["ownerReferences"]] == [("RayService", "s")]
    step = UpgradeStep(manifests=[GATEWAY_BODY, route(50)])
    world.hooks.decide = lambda ctx: step
    world.settle()
    assert world.notes("UpdatedHTTPRoute") == ["Updated the HTTPRoute default/s-httproute"]
    assert world.notes("UpdatedGateway") == []


@pytest.mark.parametrize(
    ("kind", "exists", "note"),
    [
        ("Gateway", False, "Failed to create Gateway for RayService default/s-gateway: e"),
        ("Gateway", True, "Failed to update the Gateway default/s-gateway: e"),
        ("HTTPRoute", True, "Failed to update the HTTPRoute default/s-httproute: e"),
    ],
)
def test_objects_that_cannot_be_written(kind: str, exists: bool, note: str) -> None:
    """6.2."""
    world = upgrading(lambda ctx: UpgradeStep(manifests=[GATEWAY_BODY, route(75)]))
    if exists:
        world.settle()
        changed_gateway = {**GATEWAY_BODY, "spec": {"gatewayClassName": "d"}}
        world.hooks.decide = lambda ctx: UpgradeStep(manifests=[changed_gateway, route(50)])
    world.refuse_writes["Apply", kind] = "e"
    world.one_pass()
    assert note in world.notes(f"FailedTo{'Update' if exists else 'Create'}{kind}")


def test_an_object_of_a_kind_nobody_watches_is_the_strategys_fault() -> None:
    world = upgrading(lambda ctx: UpgradeStep(manifests=[{"apiVersion": "v1", "kind": "Pod"}], promote=True))
    world.settle()
    assert world.condition("PluginFailed") is not None
    assert "of no kind that a watch names" in world.message("PluginFailed")
    assert world.pending


def test_a_strategy_that_raises_stops_nothing_else() -> None:
    def boom(ctx: ServiceUpgradeContext) -> UpgradeStep:
        raise RuntimeError("boom")

    world = upgrading(boom)
    before = (world.active, world.pending)
    world.applications[world.active] = running("UNHEALTHY")
    world.settle()
    assert (world.active, world.pending) == before
    assert "boom" in world.message("PluginFailed")
    assert world.status["activeServiceStatus"]["applicationStatuses"]["app"]["status"] == "UNHEALTHY"


def test_promotion_keeps_what_the_side_carries() -> None:
    """3.4: active := pending, with its shares; pending := {}."""
    world = upgrading(lambda ctx: UpgradeStep(pending=Share(capacity=100, traffic=100), promote=False))
    world.settle()
    new = world.pending
    world.hooks.decide = lambda ctx: UpgradeStep(promote=ctx.pending is not None)
    world.settle()
    assert (world.active, world.pending, share(world, "active")) == (new, "", (100, 100))
    assert share(world, "pending") == (None, None)


def test_a_rollback_is_a_condition_until_its_end() -> None:
    """3.5: its first message stays; at the end it is removed, and a third spec gets its cluster in the same pass."""
    world = upgrading(lambda ctx: UpgradeStep(rolling_back=True, message="first"))
    world.settle()
    world.hooks.decide = lambda ctx: UpgradeStep(rolling_back=True, message="second")
    world.settle()
    assert world.condition("RollbackInProgress") == ("True", "DesiredClusterSpecChanged")
    assert world.message("RollbackInProgress") == "first"
    assert world.hooks.seen[-1].rolling_back
    former = world.pending
    world.edit(rayClusterConfig=changed(world, "3.0.0"))
    world.settle()
    assert world.pending == former
    world.hooks.decide = lambda ctx: UpgradeStep(give_up=ctx.pending is not None, rolling_back=True, message="third")
    world.one_pass()
    assert world.condition("RollbackInProgress") is None
    assert world.pending not in ("", former)
    assert world.condition("UpgradeInProgress") == ("True", "BothActivePendingClustersExist")


def test_a_cancelled_rollback_removes_the_condition() -> None:
    """Row 105."""
    world = upgrading(lambda ctx: UpgradeStep(rolling_back=True, message="m"))
    world.settle()
    world.hooks.decide = lambda ctx: UpgradeStep()
    world.settle()
    assert world.condition("RollbackInProgress") is None
    assert world.pending


def test_when_to_look_again_and_why_it_waits() -> None:
    world = upgrading(lambda ctx: UpgradeStep(waiting="traffic waits", look_after=timedelta(seconds=7)))
    world.settle()
    assert world.last.requeue_after == timedelta(seconds=7)
    assert world.last.waiting == "traffic waits"
    assert world.condition("RayServiceWaiting") is None
    world.advance(301).settle()
    assert world.condition("RayServiceWaiting") == ("True", "UpgradeWaiting")


def test_a_strategy_exchanged_in_the_middle_gives_all_capacity_back() -> None:
    """3.4: in KubeRay the new cluster would run with a part of its replicas for good."""
    world = upgrading(
        lambda ctx: UpgradeStep(
            active=Share(capacity=50, traffic=50), pending=Share(capacity=50, traffic=50, moved=START)
        )
    )
    world.settle()
    new = world.pending
    old = world.active
    world.puts.clear()
    world.refuse_puts = "not now"
    world.edit(upgradeStrategy={"type": "NewCluster"})
    world.settle()
    assert (world.active, world.pending) == (old, new)
    world.refuse_puts = ""
    world.settle()
    assert (world.active, world.pending) == (new, "")
    assert share(world, "active") == (None, None)
    assert "lastTrafficMigratedTime" not in world.status["activeServiceStatus"]
    assert "target_capacity" not in json.loads(next(body for name, body in world.puts if name == new))
