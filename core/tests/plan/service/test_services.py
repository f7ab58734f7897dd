"""When the services of a RayService are made, follow the spec, and change over (spec rayservice.md 4, rows 33, 34, 99-101, 136)."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE
from kuberay.hooks.service_upgrade import ServiceUpgradeContext, UpgradeStep

from core.tests.plan.service.strategies_for_tests import Hooks
from core.tests.plan.service.worlds import Body, World, new_world, serving

OURS = ("s-head-svc", "s-serve-svc")
SCRIPTED: Body = {"upgradeStrategy": {"type": "Scripted"}}


def changed(world: World, **fields: Any) -> Body:
    return {**copy.deepcopy(world.service["spec"]["rayClusterConfig"]), **fields}


def service(world: World, name: str = "s-serve-svc") -> Body:
    found: Body = world.objects[SERVICE, name]
    return found


def services(world: World) -> set[str]:
    return {name for kind, name in world.objects if kind == SERVICE and name.startswith("s-") and name in OURS}


def target(world: World, name: str = "s-serve-svc") -> str:
    return str(service(world, name)["spec"]["selector"]["ray.io/cluster"])


def upgraded(world: World) -> World:
    """The same world with another RayCluster that is ready, not looked at yet."""
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"))
    world.settle()
    world.add_pods(world.pending)
    return world


def test_there_is_none_before_a_cluster_is_ready() -> None:
    """4 and 2.2."""
    world = new_world().settle()
    world.silent.add(world.pending)
    world.add_pods(world.pending)
    world.settle()
    assert services(world) == set()
    world.silent.clear()
    world.settle()
    assert services(world) == set(OURS)
    owners = [service(world, name)["metadata"]["ownerReferences"][0] for name in OURS]
    assert {(owner["kind"], owner["name"], owner["controller"]) for owner in owners} == {("RayService", "s", True)}


def test_a_deleted_service_is_made_again_at_once() -> None:
    """Scenario serve-service-deleted, while Serve cannot be asked either."""
    world = serving()
    world.silent.add(world.active)
    for name in OURS:
        del world.objects[SERVICE, name]
    world.settle()
    assert services(world) == set(OURS)
    assert target(world) == world.active


def test_services_change_over_in_the_pass_that_promotes() -> None:
    """Row 34 and 3.3: one write each, in place; until then they lead to the old cluster."""
    world = serving()
    old, uid = world.active, service(world)["metadata"]["uid"]
    service(world)["spec"]["clusterIP"] = "10.96.0.7"
    upgraded(world)
    pending = world.pending
    seen = []
    while world.one_pass():
        seen.append((target(world), target(world, "s-head-svc"), world.active))
    assert set(seen) == {(old, old, old), (pending, pending, pending)}
    assert service(world)["metadata"]["uid"] == uid
    assert service(world)["spec"]["clusterIP"] == "10.96.0.7"
    assert service(world, "s-head-svc")["spec"]["selector"]["ray.io/identifier"] == f"{pending}-head"


def test_a_promotion_whose_status_was_lost_is_made_up_for() -> None:
    """Row 15: the operator ends between the services and the status, and the spec is edited meanwhile."""
    world = upgraded(serving())
    world.settle()
    stored = copy.deepcopy(world.status)
    new, old = world.active, next(name for name in world.clusters() if name != world.active)
    stored["pendingServiceStatus"] = stored["activeServiceStatus"]
    stored["activeServiceStatus"] = {"rayClusterName": old}
    world.service["status"] = stored
    world.silent.add(new)
    world.edit(rayClusterConfig=changed(world, rayVersion="3.0.0"))
    world.one_pass()
    assert world.active == new
    assert world.pending not in ("", old, new)


def test_a_serve_service_that_cannot_change_over_promotes_nothing() -> None:
    world = upgraded(serving())
    old = world.active
    world.refuse_writes["Apply", "Service"] = "forbidden"
    for _ in range(6):
        world.one_pass()
    assert (world.active, target(world)) == (old, old)
    assert world.condition("RayServiceWaiting") == ("True", "Forbidden")
    assert "Failed to update the service default/s-serve-svc, forbidden" in world.notes("FailedToUpdateService")
    world.refuse_writes.clear()
    world.settle()
    assert world.active != old
    assert target(world) == world.active


@pytest.mark.parametrize(
    ("template", "place", "value"),
    [
        pytest.param({"metadata": {"annotations": {"lb": "internal"}}}, ("metadata", "annotations", "lb"), "internal"),
        pytest.param({"metadata": {"labels": {"team": "blue"}}}, ("metadata", "labels", "team"), "blue"),
        pytest.param({"spec": {"type": "LoadBalancer"}}, ("spec", "type"), "LoadBalancer"),
        pytest.param({"spec": {"sessionAffinity": "ClientIP"}}, ("spec", "sessionAffinity"), "ClientIP"),
        pytest.param(
            {"spec": {"ports": [{"name": "serve", "port": 80, "targetPort": 8000}]}}, ("spec", "ports", 0, "port"), 80
        ),
    ],
    ids=["annotation", "label", "type", "field", "port"],
)
def test_the_serve_service_follows_its_template(template: Body, place: tuple[Any, ...], value: Any) -> None:
    """RS-18: at once, in place, without another cluster."""
    world = serving()
    uid, cluster = service(world)["metadata"]["uid"], world.active
    service(world)["spec"]["clusterIP"] = "10.96.0.7"
    world.edit(serveService=template)
    world.settle()
    found: Any = service(world)
    for key in place:
        found = found[key]
    assert found == value
    assert (service(world)["metadata"]["uid"], service(world)["spec"]["clusterIP"]) == (uid, "10.96.0.7")
    assert (world.active, world.pending) == (cluster, "")
    assert world.notes("UpdatedService") == ["Updated the service default/s-serve-svc"]


def test_a_port_follows_with_the_cluster_that_offers_it() -> None:
    """RS-18: the serve container port 8000 -> 9000 needs another cluster, and the services change with it."""
    world = serving()
    config = changed(world)
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = [{"name": "serve", "containerPort": 9000}]
    world.edit(rayClusterConfig=config)
    world.settle()
    before = [port["port"] for port in service(world)["spec"]["ports"]]
    world.add_pods(world.pending)
    world.settle()
    after = [port["port"] for port in service(world)["spec"]["ports"]]
    assert (before, after) == ([8000], [9000])
    head = {port["name"]: port["port"] for port in service(world, "s-head-svc")["spec"]["ports"]}
    assert head["serve"] == 9000


def test_an_edit_by_hand_is_undone_but_additions_stay() -> None:
    """Row 33 says KubeRay leaves a service alone; what the spec says is kept here."""
    world = serving()
    service(world)["spec"]["selector"]["ray.io/cluster"] = "other"
    service(world)["metadata"]["annotations"] = {"added-by": "a load balancer"}
    world.settle()
    assert target(world) == world.active
    assert service(world)["metadata"]["annotations"] == {"added-by": "a load balancer"}


def test_a_settled_service_is_not_written() -> None:
    world = serving()
    world.writes.clear()
    world.advance(600).settle()
    assert world.notes("UpdatedService") == []
    assert world.status_writes == serving().status_writes


def test_headless_cannot_change_and_says_so() -> None:
    world = serving()
    assert service(world, "s-head-svc")["spec"]["clusterIP"] == "None"
    world.service["spec"]["rayClusterConfig"]["headGroupSpec"]["serviceType"] = "LoadBalancer"
    world.edit(upgradeStrategy={"type": "None"})
    world.settle()
    assert service(world, "s-head-svc")["spec"]["clusterIP"] == "None"
    assert "type" not in service(world, "s-head-svc")["spec"]
    (note,) = set(world.notes("ServiceNotUpdated"))
    assert "default/s-head-svc cannot change between headless and not headless" in note


def test_a_renamed_serve_service() -> None:
    """Row 136. The one of the former name goes on leading to the pods that serve, which KubeRay's does not."""
    world = serving()
    world.edit(serveService={"metadata": {"name": "mine"}})
    world.settle()
    assert target(world, "mine") == world.active
    assert world.notes("CreatedService")[-1] == "Created the service default/mine"
    upgraded(world)
    world.settle()
    assert (target(world, "mine"), target(world)) == (world.active, world.active)


def test_a_cluster_without_a_serve_port_is_not_promoted() -> None:
    """4.2: requests could not be led to it, so the old one goes on serving."""
    world = serving()
    old, config = world.active, changed(world)
    config["headGroupSpec"]["template"]["spec"]["containers"][0]["ports"] = [{"name": "web", "containerPort": 1}]
    world.edit(rayClusterConfig=config)
    world.settle()
    world.add_pods(world.pending)
    world.settle()
    assert (world.active, target(world)) == (old, old)
    assert world.condition("RayServiceWaiting") == ("True", "NoServePort")
    assert "Please specify a port named 'serve'" in world.message("RayServiceWaiting")


def test_the_services_outlive_a_cluster_that_was_deleted_by_hand() -> None:
    world = serving()
    old = world.active
    world.delete(RAYCLUSTER, old)
    world.settle()
    assert services(world) == set(OURS)
    world.add_pods(world.pending)
    world.settle()
    assert target(world) == world.active != old


def promote_when_ready(ctx: ServiceUpgradeContext) -> UpgradeStep:
    return UpgradeStep(promote=ctx.pending is not None and ctx.pending.ready and ctx.active is None)


def own(**fields: Any) -> World:
    """A RayService whose strategy has a service for each RayCluster; its first one has pods."""
    world = new_world(world={"hooks": Hooks(promote_when_ready)}, **{**SCRIPTED, **fields}).settle()
    world.add_pods(world.pending)
    return world.settle()


def test_services_of_each_cluster() -> None:
    """Rows 99 and 100: none without a RayCluster; owned by it; no event tells of it; no serve service of the RayService."""
    world = new_world(world={"hooks": Hooks(promote_when_ready)}, **SCRIPTED)
    world.one_pass()
    world.one_pass()
    assert not [name for kind, name in world.objects if kind == SERVICE]
    world = own()
    name = f"{world.active}-serve-svc"
    body = service(world, name)
    assert body["spec"]["selector"] == {"ray.io/cluster": world.active, "ray.io/serve": "true"}
    assert body["metadata"]["labels"] == {
        "ray.io/originated-from-cr-name": world.active,
        "ray.io/originated-from-crd": "RayService",
        "ray.io/serve": f"{world.active}-serve",
    }
    assert [(o["kind"], o["name"]) for o in body["metadata"]["ownerReferences"]] == [("RayCluster", world.active)]
    assert services(world) == {"s-head-svc"}
    assert world.notes("CreatedService") == ["Created the service default/s-head-svc"]


def test_services_of_each_cluster_have_all_ports_that_serve() -> None:
    """GW-05."""
    ports = [{"name": "serve", "containerPort": 8000}, {"name": "serve-grpc", "containerPort": 9000}]
    world = new_world(world={"hooks": Hooks(promote_when_ready)}, **SCRIPTED)
    container = world.service["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]["containers"][0]
    container["ports"] = ports
    world.settle()
    world.add_pods(world.pending)
    world.settle()
    found = service(world, f"{world.active}-serve-svc")["spec"]["ports"]
    assert {port["name"]: port["port"] for port in found} == {"serve": 8000, "serve-grpc": 9000}


def test_services_of_both_clusters_during_an_upgrade() -> None:
    """Row 101: what is there is not written again."""
    world = own()
    versions = service(world, f"{world.active}-serve-svc")["metadata"]["resourceVersion"]
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"))
    world.settle()
    assert world.pending
    assert {f"{name}-serve-svc" for name in (world.active, world.pending)} <= {
        n for k, n in world.objects if k == SERVICE
    }
    assert service(world, f"{world.active}-serve-svc")["metadata"]["resourceVersion"] == versions


def test_a_cluster_that_has_a_serve_service_of_its_own_keeps_it() -> None:
    """4.4: both would have one name; the RayCluster's is used."""
    world = own(annotations={"ray.io/enable-serve-service": "true"})
    assert (SERVICE, f"{world.active}-serve-svc") not in world.objects


def test_a_serve_service_from_before_is_kept_right_with_services_of_each_cluster() -> None:
    """Clients may still use it after the strategy was changed."""
    world = serving(world={"hooks": Hooks(promote_when_ready)})
    world.edit(**SCRIPTED)
    world.settle()
    service(world)["spec"]["selector"]["ray.io/cluster"] = "gone"
    world.settle()
    assert target(world) == world.active


@pytest.mark.parametrize("incremental", [False, True], ids=["one service", "a service for each"])
def test_endpoints_are_pods_counted_once(incremental: bool) -> None:
    """5.3: ready pods of all slices, each once; with services for each RayCluster, of both."""
    world = own() if incremental else serving(workers=2)
    if not incremental:
        world.set_endpoints("s-serve-svc", [f"{world.active}-head", f"{world.active}-worker-0", f"{world.active}-head"])
        world.settle()
        assert world.status["numServeEndpoints"] == 2
        return
    world.edit(rayClusterConfig=changed(world, rayVersion="2.99.0"))
    world.settle()
    world.add_pods(world.pending)
    world.settle()
    world.set_endpoints(f"{world.active}-serve-svc", [f"{world.active}-worker-0"])
    world.set_endpoints(f"{world.pending}-serve-svc", [f"{world.pending}-worker-0", f"{world.pending}-head"])
    world.settle()
    assert world.status["numServeEndpoints"] == 3


def test_without_endpoints_the_service_is_not_ready_and_says_why() -> None:
    """Scenario no-endpoints."""
    world = serving()
    world.set_endpoints("s-serve-svc", [])
    world.settle()
    assert world.condition("Ready") == ("False", "ZeroServeEndpoints")
    assert ("serviceStatus" in world.status, "numServeEndpoints" in world.status) == (False, False)
    assert world.condition("RayServiceWaiting") is None
    world.advance(61).settle()
    assert world.condition("RayServiceWaiting") == ("True", "NoServeEndpoints")
    assert world.message("RayServiceWaiting") == "no pod behind service default/s-serve-svc is ready"
    world.follow_selector()
    world.settle()
    assert world.condition("RayServiceWaiting") is None
    assert world.status["serviceStatus"] == "Running"


def test_pods_of_another_service_do_not_count() -> None:
    world = serving()
    world.create({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s-serve-svc-2"}, "spec": {}})
    before = world.status["numServeEndpoints"]
    world.set_endpoints("s-serve-svc-2", [name for kind, name in world.objects if kind == POD])
    world.settle()
    assert world.status["numServeEndpoints"] == before
