"""The worlds in which ``kuberay why`` and ``kuberay diff`` play a RayService's plan: as it is, or as a file lets one assume."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kuberay.api import names
from kuberay.api.conditions import TRUE, ClusterCondition, is_true, set_condition
from kuberay.api.kinds import ENDPOINT_SLICE, GATEWAY, HTTP_ROUTE, POD, RAYCLUSTER, RAYSERVICE, SERVICE, Kind
from kuberay.api.objects import RayObject
from kuberay.api.service import ServeApplicationStatus
from kuberay.api.times import format_time
from kuberay.cli.diff_job_world import Other, Rules
from kuberay.operator.foresight import Foresight
from kuberay.operator.outside import Outside
from kuberay.operator.world import World
from kuberay.plan.build.dashboard import dashboard_address
from kuberay.plan.service import plan_service

Manifest = dict[str, Any]

SIDES = ("activeServiceStatus", "pendingServiceStatus")


@dataclass(slots=True)
class ServiceSituation:
    """A RayService and what stands around it: its RayClusters, their pods and services, endpoints, gateways."""

    service: Manifest
    others: list[Other] = field(default_factory=list)

    @property
    def active(self) -> str:
        """The RayCluster that serves; empty when there is none."""
        return cluster_of(self.service.get("status") or {}, SIDES[0])

    def edited(self, service: Manifest) -> ServiceSituation:
        """The same with another version of the RayService."""
        return ServiceSituation(service, self.others)

    def foresight(self, rules: Rules, *, all_goes_well: bool = True, silent: Collection[str] = ()) -> Foresight:
        """A world of it, ready to be looked at. The dashboards of *silent* RayClusters give no answer."""
        metadata = self.service["metadata"]
        namespace = metadata["namespace"]
        world = World(format_time(rules.now))
        for kind, body in [(RAYSERVICE, self.service), *self.others]:
            world.put(kind, namespace, copy.deepcopy(body))
        addresses = _dashboards(world, rules)
        told = {
            addresses[name]: side.get("applicationStatuses") or {}
            for name, side in _sides(self.service.get("status") or {})
            if name in addresses
        }
        outside = Outside(
            {address: _as_asked(applications) for address, applications in told.items()},
            all_goes_well=all_goes_well,
            silent={addresses[name] for name in silent if name in addresses},
            proxies=_proxies(world),
        )
        return Foresight(
            plan_service,
            RAYSERVICE,
            namespace,
            metadata["name"],
            world,
            rules.config,
            rules.gates,
            rules.hooks,
            outside=outside,
        )


def running(service: Manifest, rules: Rules) -> ServiceSituation:
    """A file says nothing of RayClusters: the service is taken to have been started, and to serve."""
    situation = ServiceSituation({key: value for key, value in copy.deepcopy(service).items() if key != "status"})
    foresight = situation.foresight(rules)
    foresight.around = lambda: get_ready(foresight, rules)
    foresight.settle(rules.now)
    body = foresight.body
    assert body is not None
    others = [(kind, other) for (kind, _, _), other in foresight.world.bodies.items() if kind != RAYSERVICE]
    return ServiceSituation(body, others)


def get_ready(foresight: Foresight, rules: Rules) -> bool:
    """All goes well: RayClusters become ready, applications run, services have endpoints, gateways do as they are told.
    Whether anything changed."""
    world, changed = foresight.world, False
    for (kind, namespace, name), body in list(world.bodies.items()):
        if kind == RAYCLUSTER and not body["spec"].get("suspend"):
            for other, wanted in _of_a_ready_cluster(name, body, rules):
                changed |= _put(world, other, namespace, wanted)
        elif kind in (GATEWAY, HTTP_ROUTE) and body.get("status") != (status := _of_a_gateway(kind, body)):
            changed |= _put(world, kind, namespace, {**body, "status": status})
    for (kind, namespace, _), body in list(world.bodies.items()):
        if kind == SERVICE and (slice_ := _endpoints(world, body)) is not None:
            changed |= _put(world, ENDPOINT_SLICE, namespace, slice_)
    if foresight.outside is not None:
        for applications in foresight.outside.applications.values():
            for name, app in applications.items():
                if app.get("status") != ServeApplicationStatus.RUNNING:
                    applications[name] = {**app, "status": ServeApplicationStatus.RUNNING.value, "message": ""}
                    changed = True
    return changed


def cluster_of(status: Mapping[str, Any], side: str) -> str:
    """Name of the RayCluster of a side; empty when it has none."""
    return str((status.get(side) or {}).get("rayClusterName") or "")


def _sides(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key in SIDES:
        if name := cluster_of(status, key):
            yield name, status[key]


def _dashboards(world: World, rules: Rules) -> dict[str, str]:
    """Addresses of dashboards by RayCluster."""
    found = {}
    for key in [key for key in world.bodies if key[0] == RAYCLUSTER]:
        cluster = world.get(*key)
        assert isinstance(cluster, RayObject)
        address = dashboard_address(world, cluster, rules.config.cluster_domain)
        if address is not None:
            found[cluster.name] = address
    return found


def _proxies(world: World) -> dict[str, bool]:
    """Heads are labelled as their proxies were found to be."""
    labels = {
        name: body["metadata"].get("labels") or {} for (kind, _, name), body in world.bodies.items() if kind == POD
    }
    return {name: found[names.LABEL_SERVE] == "true" for name, found in labels.items() if names.LABEL_SERVE in found}


def _as_asked(applications: Mapping[str, Any]) -> dict[str, Any]:
    """What the status says of applications, as Serve said it."""
    return {
        name: {
            "status": app.get("status") or "",
            "message": app.get("message") or "",
            "deployments": app.get("serveDeploymentStatuses") or {},
        }
        for name, app in applications.items()
    }


def _put(world: World, kind: Kind, namespace: str, body: Manifest) -> bool:
    """Store *body* unless it is there as it is."""
    live = world.bodies.get((kind, namespace, body["metadata"]["name"]))
    if live is not None and all(live.get(key) == value for key, value in body.items() if key != "metadata"):
        return False
    if live is not None:
        body = {**body, "metadata": {**live["metadata"], **body["metadata"]}}
    world.put(kind, namespace, copy.deepcopy(body))
    return True


def _of_a_ready_cluster(name: str, cluster: Manifest, rules: Rules) -> Iterator[Other]:
    """The RayCluster with its status, its head service, its head, and a worker that serves."""
    status = dict(cluster.get("status") or {})
    conditions = status.get("conditions") or []
    if not is_true(conditions, ClusterCondition.HEAD_POD_READY):
        ready = ClusterCondition.HEAD_POD_READY.value
        conditions = set_condition(conditions, ready, TRUE, "HeadPodRunningAndReady", "", rules.now)
    rolled = [each for each in conditions if each.get("type") not in _UNDER_WAY]
    service = (status.get("head") or {}).get("serviceName") or names.head_service_name(name, _custom_service(cluster))
    status |= {
        "conditions": rolled,
        "state": "ready",
        "observedGeneration": cluster["metadata"].get("generation", 1),
        "head": {**(status.get("head") or {}), "serviceName": service},
    }
    yield RAYCLUSTER, {**cluster, "status": status}
    labels = {names.LABEL_CLUSTER: name}
    owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": name, "uid": cluster["metadata"]["uid"]}
    owned: Manifest = {"labels": labels, "ownerReferences": [{**owner, "controller": True}]}
    ports = [{"name": "dashboard", "port": 8265}]
    yield SERVICE, {"metadata": {**owned, "name": service}, "spec": {"ports": ports, "clusterIP": "None"}}
    for number, role in enumerate((names.HEAD, names.WORKER), 1):
        pod_labels = {**labels, names.LABEL_NODE_TYPE: role}
        if role == names.WORKER:
            pod_labels[names.LABEL_SERVE] = "true"
        container = f"ray-{role}"
        yield (
            POD,
            {
                "metadata": {**owned, "labels": pod_labels, "name": f"{name}-{role}"},
                "spec": {"containers": [{"name": container}]},
                "status": {
                    "phase": "Running",
                    "podIP": f"10.0.0.{number}",
                    "conditions": [{"type": "Ready", "status": "True"}],
                    "containerStatuses": [{"name": container, "ready": True, "state": {"running": {}}}],
                },
            },
        )


_UNDER_WAY = (ClusterCondition.ROLLING_UPGRADE.value, ClusterCondition.PODS_NOT_READY.value)


def _custom_service(cluster: Manifest) -> str:
    service = (cluster["spec"].get("headGroupSpec") or {}).get("headService") or {}
    return str((service.get("metadata") or {}).get("name") or "")


def _of_a_gateway(kind: Kind, body: Manifest) -> Manifest:
    if kind == GATEWAY:
        return {"conditions": [{"type": type_, "status": "True"} for type_ in ("Accepted", "Programmed")]}
    conditions = [{"type": type_, "status": "True"} for type_ in ("Accepted", "ResolvedRefs")]
    return {
        "parents": [{"parentRef": parent, "conditions": conditions} for parent in body["spec"].get("parentRefs") or ()]
    }


def _endpoints(world: World, service: Manifest) -> Manifest | None:
    """Who is behind a serve service; None for others, and while nobody is."""
    selector = (service.get("spec") or {}).get("selector") or {}
    if names.LABEL_SERVE not in selector:
        return None
    pods = [
        body["metadata"]["uid"]
        for (kind, _, _), body in world.bodies.items()
        if kind == POD and selector.items() <= (body["metadata"].get("labels") or {}).items()
    ]
    if not pods:
        return None
    metadata = service["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Service",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "metadata": {"name": f"{metadata['name']}-foretold", "ownerReferences": [owner]},
        "endpoints": [{"conditions": {"ready": True}, "targetRef": {"uid": uid}} for uid in pods],
    }
