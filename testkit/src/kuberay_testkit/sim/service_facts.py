"""What rules know about a RayService without asking the operator: where its traffic goes, and who answers it.

Nothing here uses the operator's own decisions: a mistake there must not repeat itself here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.kinds import HTTP_ROUTE, POD, RAYCLUSTER, SERVICE

from kuberay_testkit.sim.cluster_facts import children
from kuberay_testkit.sim.endpoints import is_ready, ready_pods, selected
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Key, Stored

INCREMENTAL = "NewClusterWithIncrementalUpgrade"


def strategy_of(spec: Mapping[str, Any]) -> str:
    """``spec.upgradeStrategy.type``, or what it means when it is not there."""
    return str((spec.get("upgradeStrategy") or {}).get("type") or "NewCluster")


def side(service: Stored, name: str) -> Mapping[str, Any]:
    """``activeServiceStatus`` or ``pendingServiceStatus``; *name* is the first word."""
    status = service.body.get("status") or {}
    return status.get(f"{name}ServiceStatus") or {}


def cluster_of(service: Stored, name: str) -> str:
    """The RayCluster of one side; empty when there is none."""
    return str(side(service, name).get("rayClusterName") or "")


def named(service: Stored) -> set[str]:
    """The RayClusters its status names."""
    return {cluster_of(service, name) for name in ("active", "pending")} - {""}


def clusters(server: SimServer, service: Stored) -> list[Stored]:
    """The RayClusters that a RayService made, also those that have to go."""
    return list(children(server, service.uid, RAYCLUSTER))


def conditions(service: Stored) -> dict[str, str]:
    """Status by type."""
    told = (service.body.get("status") or {}).get("conditions") or ()
    return {str(each["type"]): str(each["status"]) for each in told}


def route_weights(route: Stored) -> dict[str, int]:
    """By Service, what an HTTPRoute asks for."""
    rules = route.body["spec"].get("rules") or ()
    return {str(each["name"]): int(each.get("weight", 1)) for rule in rules for each in rule.get("backendRefs") or ()}


def route_of(server: SimServer, service: Stored) -> Stored | None:
    """The HTTPRoute of a RayService."""
    return server.store.get(Key(HTTP_ROUTE, service.key.namespace, f"{service.key.name}-httproute"))


def fronts(world: ServeWorld, service: Stored) -> list[str]:
    """The Services that its requests reach at this moment: by the gateway, or its own serve service."""
    namespace, name = service.key.namespace, service.key.name
    if strategy_of(service.body["spec"]) == INCREMENTAL:
        weights = world.gateways.weights(namespace, f"{name}-httproute")
        return [front for front, weight in weights.items() if weight]
    template = service.body["spec"].get("serveService") or {}
    return [str((template.get("metadata") or {}).get("name") or f"{name}-serve-svc")]


def backends(world: ServeWorld, namespace: str, front: str) -> list[str]:
    """The pods that stand behind a Service and answer well."""
    service = world.server.store.get(Key(SERVICE, namespace, front))
    if service is None:
        return []
    pods = selected(world.server, service)
    return [pod.key.name for pod in pods if is_ready(pod) and not pod.deleting and world.heads.works(pod)]


def served(world: ServeWorld, service: Stored) -> bool:
    """Whether every request finds a pod that answers it well, wherever the weights send it."""
    found = fronts(world, service)
    return bool(found) and all(backends(world, service.key.namespace, front) for front in found)


def reached(world: ServeWorld, service: Stored) -> bool:
    """As `served`, of the pods that kube-proxy knows of, which is told late."""
    found = fronts(world, service)
    return bool(found) and all(_reaches(world, service.key.namespace, front) for front in found)


def _reaches(world: ServeWorld, namespace: str, front: str) -> bool:
    pods = (world.server.store.by_uid(uid) for uid in ready_pods(world.server, namespace, front))
    return any(pod is not None and world.heads.works(pod) for pod in pods)


def endpoints(world: ServeWorld, service: Stored) -> int:
    """What ``numServeEndpoints`` must say: distinct pods that slices of its serve services call ready."""
    names = [f"{name}-serve-svc" for name in named(service)]
    if strategy_of(service.body["spec"]) != INCREMENTAL:
        names = fronts(world, service)
    return len({uid for name in names for uid in ready_pods(world.server, service.key.namespace, name)})


def pods_of_cluster(server: SimServer, cluster: Stored) -> list[Stored]:
    """The pods of a RayCluster, also those that have to go."""
    return list(children(server, cluster.uid, POD))
