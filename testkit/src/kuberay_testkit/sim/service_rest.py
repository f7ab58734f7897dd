"""What must be true of every RayService when nothing fails any more and all time has passed that anybody waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, RAYCLUSTER, RAYSERVICE, SERVICE
from kuberay.api.names import HEAD, LABEL_NODE_TYPE

from kuberay_testkit.sim.cluster_facts import children
from kuberay_testkit.sim.endpoints import is_ready
from kuberay_testkit.sim.serve_heads import keeps_state
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.service_facts import (
    INCREMENTAL,
    cluster_of,
    clusters,
    conditions,
    endpoints,
    pods_of_cluster,
    reached,
    route_of,
    route_weights,
    served,
    strategy_of,
)
from kuberay_testkit.sim.store import Key, Stored
from kuberay_testkit.sim.story import image_of


def expect_rest(world: ServeWorld) -> None:
    """Every RayService serves what it says last, the way its strategy brings it there, or is suspended and has nothing."""
    for service in world.server.store.all_of(RAYSERVICE):
        try:
            assert not service.deleting, "its deletion does not end"
            if service.body["spec"].get("suspend"):
                _expect_suspended(world, service)
            else:
                _expect_serving(world, service)
        except AssertionError as error:
            error.add_note(f"RayService {service.key.name} rests with {_told(service)}")
            raise


def _told(service: Stored) -> str:
    status = service.body.get("status") or {}
    told = {each["type"]: (each["status"], each["reason"], each["message"]) for each in status.get("conditions") or ()}
    names = {name: cluster_of(service, name) for name in ("active", "pending")}
    return f"{strategy_of(service.body['spec'])}, {names}, {told}"


def _expect_suspended(world: ServeWorld, service: Stored) -> None:
    found = conditions(service)
    assert (found.get("Suspended"), found.get("Suspending")) == ("True", "False"), "it is not suspended"
    left = [
        str(each.key)
        for kind in (RAYCLUSTER, SERVICE, GATEWAY, HTTP_ROUTE)
        for each in children(world.server, service.uid, kind)
    ]
    assert not left, f"it is suspended and still has {', '.join(left)}"


def _expect_serving(world: ServeWorld, service: Stored) -> None:
    spec, status, server = service.body["spec"], service.body.get("status") or {}, world.server
    active = cluster_of(service, "active")
    assert active, "it has no active RayCluster"
    assert not cluster_of(service, "pending"), "an upgrade does not end"
    names = [cluster.key.name for cluster in clusters(server, service)]
    assert names == [active], f"its RayClusters are {names}, where only {active} is used"
    cluster = server.store.get(Key(RAYCLUSTER, service.key.namespace, active))
    assert cluster is not None
    _expect_config(world, service, cluster)
    _expect_spec(world, service, cluster)
    assert served(world, service), "nobody serves it"
    assert reached(world, service), "no endpoint serves it"
    found = conditions(service)
    assert found.get("Ready") == "True", "it is not Ready"
    assert found.get("UpgradeInProgress") == "False", "it calls itself in an upgrade"
    assert found.get("RollbackInProgress") in (None, "False"), "it calls itself in a rollback"
    assert status.get("serviceStatus") == "Running", f"serviceStatus is {status.get('serviceStatus')}"
    if strategy_of(spec) != "Rolling" or _replaces_head(spec, cluster):
        # Otherwise it waits for its user to say that the head may go.
        assert found.get("RayServiceWaiting") in (None, "False"), "it says that it waits"
    told, there = status.get("numServeEndpoints") or 0, endpoints(world, service)
    assert told == there, f"numServeEndpoints is {told}, where {there} pods serve"
    generation = service.metadata["generation"]
    assert status.get("observedGeneration") == generation, f"observedGeneration is not {generation}"
    if strategy_of(spec) == INCREMENTAL:
        route = route_of(server, service)
        weights = route_weights(route) if route is not None else {}
        assert weights == {f"{active}-serve-svc": 100}, f"its route has the weights {weights}"
    _expect_head_label(world, spec, cluster)


def _expect_config(world: ServeWorld, service: Stored, cluster: Stored) -> None:
    serve = world.heads.serve_of(cluster.key.namespace, cluster.key.name)
    assert serve is not None, "its Serve was told nothing"
    wanted = yaml.safe_load(service.body["spec"]["serveConfigV2"])
    configured = [each.config for each in serve.applications.values()]
    assert configured == wanted["applications"], f"its Serve runs {configured}"
    statuses = {name: each.status for name, each in serve.applications.items()}
    assert set(statuses.values()) == {"RUNNING"}, f"its applications are {statuses}"
    assert serve.capacity in (None, 100), f"its Serve has {serve.capacity} % of its capacity"
    told = ((service.body["status"].get("activeServiceStatus") or {}).get("applicationStatuses")) or {}
    assert {name: each.get("status") for name, each in told.items()} == statuses, f"it tells of {told}"


def _expect_spec(world: ServeWorld, service: Stored, cluster: Stored) -> None:
    """Which version of the RayCluster serves; with None any that there ever was."""
    strategy = strategy_of(service.body["spec"])
    wanted, found = service.body["spec"]["rayClusterConfig"], cluster.body["spec"]
    if strategy == "None":
        return
    groups = [group["groupName"] for group in wanted.get("workerGroupSpecs") or ()]
    there = [group["groupName"] for group in found.get("workerGroupSpecs") or ()]
    assert there == groups, f"its RayCluster has the groups {there}, not {groups}"
    images = _images(wanted)
    assert _images(found) == images, f"its RayCluster has the images {_images(found)}, not {images}"
    heads = strategy != "Rolling" or _replaces_head(service.body["spec"], cluster)
    for pod in pods_of_cluster(world.server, cluster):
        group = "" if pod.labels.get(LABEL_NODE_TYPE) == HEAD else pod.labels.get("ray.io/group", "")
        if group or heads:
            image = image_of(pod.body)
            assert image == images[group], f"pod {pod.key.name} has the image {image}, not {images[group]}"
    if not found.get("enableInTreeAutoscaling"):
        sizes = {group["groupName"]: group.get("replicas") for group in found.get("workerGroupSpecs") or ()}
        expected = {group["groupName"]: group.get("replicas") for group in wanted.get("workerGroupSpecs") or ()}
        assert sizes == expected, f"its groups have {sizes} workers, not {expected}"


def _replaces_head(spec: Mapping[str, Any], cluster: Stored) -> bool:
    """Whether Rolling may."""
    return keeps_state(cluster) or bool((spec.get("upgradeStrategy") or {}).get("allowHeadRestart"))


def _images(spec: Mapping[str, Any]) -> dict[str, str]:
    """By group; the head's is the empty name."""
    groups = {group["groupName"]: image_of(group["template"]) for group in spec.get("workerGroupSpecs") or ()}
    return {"": image_of(spec["headGroupSpec"]["template"]), **groups}


def _expect_head_label(world: ServeWorld, spec: Mapping[str, Any], cluster: Stored) -> None:
    """The head serves when its proxy answers, unless the user wants it out of it."""
    for pod in pods_of_cluster(world.server, cluster):
        if pod.labels.get(LABEL_NODE_TYPE) == HEAD and is_ready(pod):
            wanted = "false" if spec.get("excludeHeadPodFromServeSvc") else str(world.heads.proxy_answers(pod)).lower()
            assert pod.labels.get("ray.io/serve") == wanted, f"the head's label is {pod.labels.get('ray.io/serve')}"
