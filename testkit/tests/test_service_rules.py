"""Each rule about RayServices can fail: a deliberately wrong operator breaks it, and a right one does not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from kuberay.api.kinds import HTTP_ROUTE, POD, RAYCLUSTER, RAYSERVICE, SERVICE
from kuberay_testkit.builders import SERVE_CONFIG, build_rayservice
from kuberay_testkit.sim.gateways import SimGateways
from kuberay_testkit.sim.serve_heads import Put
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.service_facts import INCREMENTAL
from kuberay_testkit.sim.service_rules import ServiceRules

SERVED = yaml.safe_load(SERVE_CONFIG)
OTHER = SERVE_CONFIG.replace("v1", "v2")
OPTIONS = {"stepSizePercent": 10, "intervalSeconds": 1, "gatewayClassName": "sim"}


class Lab:
    """A world without an operator, at a moment of one's choosing. What is done inside `operator` an operator does."""

    def __init__(self, **spec: Any) -> None:
        self.world = ServeWorld(seed=1)
        self.server = self.world.server
        self.now = 100.0
        self.server.clock.elapsed = lambda: self.now  # type: ignore[method-assign]
        self.works: set[str] = set()
        self.world.heads.works = lambda pod: pod.key.name in self.works  # type: ignore[method-assign]
        self.rules = ServiceRules(self.world)
        self.service = self.server.create(build_rayservice("rs", **spec))

    @contextlib.contextmanager
    def operator(self) -> Iterator[None]:
        self.server.acting = "operator"
        try:
            yield
        finally:
            self.server.acting = ""

    def later(self, seconds: float) -> None:
        self.now += seconds
        self.server.patch(RAYSERVICE, "default", "rs", {"metadata": {"annotations": {"at": str(self.now)}}})

    def edit(self, **spec: Any) -> None:
        self.server.patch(RAYSERVICE, "default", "rs", {"spec": spec})

    def status(self, active: str = "", pending: str = "", conditions: Any = (), **sides: Any) -> None:
        status = {
            "conditions": [{"type": kind, "status": value} for kind, value in dict(conditions).items()],
            "activeServiceStatus": {"rayClusterName": active, **sides.get("of_active", {})},
            "pendingServiceStatus": {"rayClusterName": pending, **sides.get("of_pending", {})},
        }
        with self.operator():
            self.server.set_status(RAYSERVICE, "default", "rs", status)

    def owned(self, kind: str, api: str, name: str, owner: dict[str, Any], **body: Any) -> dict[str, Any]:
        reference = {key: owner[key] for key in ("kind", "apiVersion")}
        reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"], "controller": True}
        metadata = {"name": name, "ownerReferences": [reference], **body.pop("metadata", {})}
        with self.operator():
            return self.server.apply({"kind": kind, "apiVersion": api, "metadata": metadata, **body})

    def cluster(self, name: str) -> dict[str, Any]:
        spec = self.service["spec"]["rayClusterConfig"]
        return self.owned("RayCluster", "ray.io/v1", name, self.service, spec=spec)

    def delete_cluster(self, name: str) -> None:
        with self.operator():
            self.server.delete(RAYCLUSTER, "default", name)

    def schedule(self, name: str) -> None:
        note = {"metadata": {"annotations": {"ray.io/delete-after": "2026-01-01T00:00:00Z"}}}
        with self.operator():
            self.server.patch(RAYCLUSTER, "default", name, note)

    def route(self, **weights: int) -> None:
        backends = [{"name": f"{name}-serve-svc", "weight": weight} for name, weight in weights.items()]
        spec = {"parentRefs": [{"name": "rs-gateway"}], "rules": [{"backendRefs": backends}]}
        self.owned("HTTPRoute", "gateway.networking.k8s.io/v1", "rs-httproute", self.service, spec=spec)

    def backend(self, cluster: dict[str, Any]) -> str:
        """A pod of the cluster that serves, by the cluster's name."""
        name = f"{cluster['metadata']['name']}-head"
        labels = {"ray.io/cluster": cluster["metadata"]["name"], "ray.io/serve": "true"}
        spec = {"containers": [{"name": "ray", "image": "i"}]}
        self.owned("Pod", "v1", name, cluster, metadata={"labels": labels}, spec=spec)
        self.works.add(name)
        self.world.kubelet.start("default", name)
        return name

    def select(self, cluster: str, name: str = "rs-serve-svc") -> None:
        spec = {"selector": {"ray.io/cluster": cluster, "ray.io/serve": "true"}, "ports": [{"port": 8000}]}
        self.owned("Service", "v1", name, self.service, spec=spec)
        self.world.endpoints.settle()

    def put(self, cluster: dict[str, Any], config: Any = SERVED, **more: Any) -> None:
        metadata = cluster["metadata"]
        put = Put("default", metadata["name"], metadata["uid"], "head", self.now, self.now, {**config, **more})
        for heard in self.world.heads.put:
            heard(put)

    @contextlib.contextmanager
    def broken(self, match: str) -> Iterator[None]:
        self.world.verify()
        yield
        with pytest.raises(AssertionError, match=match):
            self.world.verify()

    def fine(self) -> None:
        self.world.verify()


def serving(**spec: Any) -> tuple[Lab, dict[str, Any]]:
    """A service that has been served for long by the head of one RayCluster."""
    lab = Lab(**spec)
    lab.status("one")
    cluster = lab.cluster("one")
    lab.backend(cluster)
    lab.select("one")
    lab.later(60)
    lab.fine()
    return lab, cluster


# -- RayClusters


def test_a_cluster_is_named_before_it_is_made() -> None:
    lab = Lab()
    with lab.broken("the status of rs names none"):
        lab.cluster("one")


def test_two_that_are_named_are_fine_a_third_is_not() -> None:
    lab = Lab()
    lab.status("one", "two")
    lab.cluster("one")
    lab.cluster("two")
    lab.fine()
    with lab.broken("names {"):
        lab.cluster("three")


@pytest.mark.parametrize("scheduled", [True, False])
def test_one_that_is_used_no_more_is_not_forgotten(scheduled: bool) -> None:
    lab = Lab()
    lab.status("one", "two")
    lab.cluster("one")
    lab.cluster("two")
    lab.status("two")
    lab.later(4)
    lab.fine()
    if scheduled:
        lab.schedule("one")
        lab.later(60)
        lab.fine()
    else:
        with lab.broken("named by no status for 6.0 s"):
            lab.later(2)


def test_one_that_is_used_is_not_deleted() -> None:
    lab, _ = serving()
    with lab.broken("which RayService rs names"):
        lab.delete_cluster("one")


@pytest.mark.parametrize(
    ("delay", "after", "too_early"),
    [(30, 20, True), (30, 31, False), (0, 0, False), (None, 59, True), (None, 60, False)],
)
def test_one_that_is_used_no_more_stays_for_the_delay(delay: int | None, after: float, too_early: bool) -> None:
    lab = Lab(rayClusterDeletionDelaySeconds=delay) if delay is not None else Lab()
    lab.status("one")
    lab.cluster("one")
    lab.status("two")
    lab.schedule("one")
    lab.server.clock.advance(after)
    if too_early:
        with lab.broken("was deleted"):
            lab.delete_cluster("one")
    else:
        lab.delete_cluster("one")
        lab.fine()


def test_a_suspended_service_lets_all_go_at_once() -> None:
    lab, _ = serving()
    lab.status("", "", {"Suspending": "True"})
    lab.delete_cluster("one")
    lab.fine()


# -- traffic


def test_a_switch_to_pods_that_do_not_serve() -> None:
    lab, _ = serving()
    with lab.broken("nobody serves RayService rs"):
        lab.select("two")


def test_a_switch_to_pods_that_serve() -> None:
    lab, _ = serving()
    lab.status("one", "two")
    lab.backend(lab.cluster("two"))
    lab.select("two")
    lab.later(1)
    assert lab.rules.checks > 0
    lab.fine()


def test_an_endpoint_that_serves_is_needed_too() -> None:
    """Which kube-proxy is told of late: the old pods must not go before."""
    lab, _ = serving()
    lab.status("one", "two")
    lab.backend(lab.cluster("two"))
    spec = {"selector": {"ray.io/cluster": "two", "ray.io/serve": "true"}, "ports": [{"port": 8000}]}
    lab.owned("Service", "v1", "rs-serve-svc", lab.service, spec=spec)
    with lab.broken("no endpoint of RayService rs"), lab.operator():
        lab.server.delete(POD, "default", "one-head")


@pytest.mark.parametrize("what", ["label", "pod"])
def test_the_operator_takes_the_last_pod(what: str) -> None:
    lab, _ = serving()
    with lab.broken("nobody serves RayService rs"), lab.operator():
        if what == "pod":
            lab.server.delete(POD, "default", "one-head")
        else:
            lab.server.patch(POD, "default", "one-head", {"metadata": {"labels": {"ray.io/serve": "false"}}})


@pytest.mark.parametrize("what", ["pod", "service", "cluster", "container"])
def test_what_others_take_is_not_the_operators_fault(what: str) -> None:
    lab, _ = serving()
    match what:
        case "pod":
            lab.server.delete(POD, "default", "one-head")
        case "service":
            lab.server.delete(SERVICE, "default", "rs-serve-svc")
        case "cluster":
            lab.server.delete(RAYCLUSTER, "default", "one")
        case "container":
            lab.works.clear()
            lab.world.kubelet.set_container("default", "one-head", "ray", {"terminated": {"exitCode": 1}})
    lab.later(1)
    lab.fine()


def test_a_strategy_that_accepts_downtime_may_have_it() -> None:
    lab, _ = serving(upgradeStrategy={"type": "Recreate"})
    with lab.operator():
        lab.server.delete(POD, "default", "one-head")
    lab.fine()


def incremental() -> tuple[Lab, SimGateways]:
    lab = Lab(upgradeStrategy={"type": INCREMENTAL, "clusterUpgradeOptions": OPTIONS})
    lab.owned("Gateway", "gateway.networking.k8s.io/v1", "rs-gateway", lab.service, spec={"listeners": []})
    lab.status("one", "two", of_active={"targetCapacity": 100}, of_pending={"targetCapacity": 0})
    for name in ("one", "two"):
        lab.backend(lab.cluster(name))
        lab.select(name, f"{name}-serve-svc")
    lab.route(one=100, two=0)
    lab.world.gateways.settle()
    lab.later(60)
    lab.fine()
    return lab, lab.world.gateways


def test_weights_make_a_hundred() -> None:
    lab, _ = incremental()
    lab.status("one", "two", of_active={"targetCapacity": 100}, of_pending={"targetCapacity": 20})
    lab.route(one=90, two=10)
    lab.fine()
    with lab.broken("weights of rs-httproute"):
        lab.route(one=90, two=20)


def test_capacity_comes_before_traffic() -> None:
    lab, _ = incremental()
    with lab.broken("10 % of the traffic go to the pending RayCluster two, which has 0 %"):
        lab.route(one=90, two=10)


def test_capacity_goes_after_traffic() -> None:
    lab, _ = incremental()
    with lab.broken("100 % of the traffic go to the active RayCluster one, which has 80 %"):
        lab.status("one", "two", of_active={"targetCapacity": 80}, of_pending={"targetCapacity": 0})


def test_every_share_of_the_traffic_is_served() -> None:
    lab, gateways = incremental()
    lab.status("one", "two", of_active={"targetCapacity": 100}, of_pending={"targetCapacity": 10})
    lab.works.discard("two-head")
    lab.route(one=90, two=10)
    with lab.broken("nobody serves RayService rs"):
        gateways.settle()


def test_a_route_that_is_deleted_by_others_is_not_the_operators_fault() -> None:
    lab, _ = incremental()
    lab.server.delete(HTTP_ROUTE, "default", "rs-httproute")
    lab.later(1)
    lab.fine()


# -- configurations


def test_a_configuration_that_its_user_wrote() -> None:
    lab, cluster = serving()
    lab.put(cluster)
    lab.fine()
    with lab.broken("nobody wrote"):
        lab.put(cluster, {"applications": []})


def test_a_capacity_that_nobody_asked_for() -> None:
    lab, cluster = serving()
    with lab.broken("a capacity that nobody asked for"):
        lab.put(cluster, target_capacity=100)


def test_a_configuration_is_sent_once() -> None:
    lab, cluster = serving()
    lab.put(cluster)
    lab.edit(serveConfigV2=OTHER)
    lab.put(cluster, yaml.safe_load(OTHER))
    lab.fine()
    with lab.broken("3 configurations, where 2 had a reason"):
        lab.put(cluster, yaml.safe_load(OTHER))


def test_what_was_lost_is_sent_again() -> None:
    lab, cluster = serving()
    lab.put(cluster)
    for heard in lab.world.heads.lost:
        heard("default", "one")
    lab.put(cluster)
    lab.fine()


def test_each_capacity_is_sent_once() -> None:
    lab, _ = incremental()
    cluster = lab.server.peek(RAYCLUSTER, "default", "two")
    assert cluster is not None
    for capacity in (0, 20, 40):
        lab.put(cluster, target_capacity=capacity)
    lab.fine()
    with lab.broken("4 configurations, where 3 had a reason"):
        lab.put(cluster, target_capacity=40)


@pytest.mark.parametrize("edited", [False, True])
def test_what_is_written_for_another_cluster_is_not_for_this_one(edited: bool) -> None:
    lab, cluster = serving()
    lab.put(cluster)
    other = {**lab.service["spec"]["rayClusterConfig"], "rayVersion": "9.9.9"}
    lab.edit(serveConfigV2=OTHER, **({"rayClusterConfig": other} if edited else {}))
    if not edited:
        lab.put(cluster, yaml.safe_load(OTHER))
        lab.fine()
    else:
        with lab.broken("written for another RayCluster"):
            lab.put(cluster, yaml.safe_load(OTHER))
