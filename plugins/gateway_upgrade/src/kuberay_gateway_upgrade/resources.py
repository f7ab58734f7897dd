"""The Gateway and the HTTPRoute of a RayService, and whether whoever serves them has taken them as they are now.

Source: spec rayservice.md 3.4. An absent kind looks like an absent object: the operator waits for its CRD.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, SERVICE, Kind
from kuberay.hooks import OwnerContext
from kuberay.hooks.service_upgrade import ServiceSide
from kuberay.hooks.types import Manifest
from kuberay.plan.build.serve_services import SERVE_PORT

from kuberay_gateway_upgrade.options import Options


def gateway_name(owner: OwnerContext) -> str:
    return f"{owner.name}-gateway"


def route_name(owner: OwnerContext) -> str:
    return f"{owner.name}-httproute"


def gateway(owner: OwnerContext, options: Options) -> Manifest:
    """One listener for HTTP. Made before any RayCluster is active."""
    listener = {"name": "http", "protocol": "HTTP", "port": 80}
    spec = {"gatewayClassName": options.gateway_class, "listeners": [listener]}
    return _object(owner, GATEWAY, gateway_name(owner), spec)


def http_route(owner: OwnerContext, backends: Sequence[tuple[ServiceSide, int]]) -> Manifest:
    """All requests, to the sides by weight."""
    return _route(owner, [(_service(side), side.serve_port, weight) for side, weight in backends])


def left_behind(owner: OwnerContext) -> Sequence[Manifest]:
    """The route that another strategy finds: to the RayService's own serve service, which follows every switch from then on.
    Nothing where there is no route, or no such service yet."""
    template = (owner.spec.get("serveService") or {}).get("metadata") or {}
    service = _live(owner, SERVICE, template.get("name") or f"{owner.name}-serve-svc")
    if service is None or _live(owner, HTTP_ROUTE, route_name(owner)) is None:
        return ()
    ports = service["spec"].get("ports") or ()
    port = next((each["port"] for each in ports if each.get("name") == SERVE_PORT), ports[0]["port"] if ports else None)
    return () if port is None else [_route(owner, [(service["metadata"]["name"], port, 100)])]


def _route(owner: OwnerContext, backends: Sequence[tuple[str, int, int]]) -> Manifest:
    """*backends*: services, their ports and weights."""
    references = [
        {"name": name, "namespace": owner.namespace, "port": port, "weight": weight} for name, port, weight in backends
    ]
    rule = {"matches": [{"path": {"type": "PathPrefix", "value": "/"}}], "backendRefs": references}
    parent = {"name": gateway_name(owner), "namespace": owner.namespace}
    return _object(owner, HTTP_ROUTE, route_name(owner), {"parentRefs": [parent], "rules": [rule]})


def routed(owner: OwnerContext, side: ServiceSide) -> int | None:
    """The weight of a side in the route as it is applied; None without a route, or a backend of that side in it."""
    route = _live(owner, HTTP_ROUTE, route_name(owner))
    rules = (route.get("spec") or {}).get("rules") or [{}] if route is not None else [{}]
    found = [each.get("weight", 1) for each in rules[0].get("backendRefs") or () if each.get("name") == _service(side)]
    return found[-1] if found else None


def not_ready(owner: OwnerContext) -> str:
    """What is missing until weights have an effect, in one sentence; empty when the last ones are in force."""
    name = gateway_name(owner)
    found = _live(owner, GATEWAY, name)
    if found is None:
        return f"Gateway {name} is not there yet: the kinds of the Gateway API have to be installed"
    conditions = (found.get("status") or {}).get("conditions") or ()
    why = _missing(conditions, ("Accepted", "Programmed"), found)
    if why:
        return f"Gateway {name} {why}: a controller has to serve its GatewayClass"
    route = _live(owner, HTTP_ROUTE, route_name(owner))
    if route is None:
        return f"HTTPRoute {route_name(owner)} is not there yet"
    told = [parent for parent in (route.get("status") or {}).get("parents") or () if _is_ours(parent, owner)]
    reasons = [_missing(parent.get("conditions") or (), ("Accepted", "ResolvedRefs"), route) for parent in told]
    if "" in reasons:
        return ""
    why = next(iter(reasons), "has not been looked at")
    return f"HTTPRoute {route_name(owner)} {why} by Gateway {name}"


def _service(side: ServiceSide) -> str:
    return side.serve_service or f"{side.cluster}-serve-svc"


def _object(owner: OwnerContext, kind: Kind, name: str, spec: Manifest) -> Manifest:
    metadata = {"name": name, "namespace": owner.namespace}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec}


def _live(owner: OwnerContext, kind: Kind, name: str) -> Manifest | None:
    """The object, unless it is on its way out."""
    for each in owner.children(kind):
        metadata = each["metadata"]
        if metadata["name"] == name and not metadata.get("deletionTimestamp"):
            return each
    return None


def _is_ours(parent: Mapping[str, Any], owner: OwnerContext) -> bool:
    reference = parent.get("parentRef") or {}
    return (
        reference.get("name") == gateway_name(owner) and reference.get("namespace", owner.namespace) == owner.namespace
    )


def _missing(conditions: Sequence[Mapping[str, Any]], types: Sequence[str], obj: Manifest) -> str:
    """What the conditions lack, as a verb phrase. One about an earlier generation says nothing about these weights; that
    matters when the controller is down while its data plane goes on with the old ones."""
    by_type = {each.get("type"): each for each in conditions}
    generation = obj["metadata"].get("generation") or 0
    for name in types:
        found = by_type.get(name)
        if found is None:
            return f"is not {name} yet"
        if found.get("status") != "True":
            return f"is not {name} ({found.get('reason') or 'no reason given'})"
        if found.get("observedGeneration", generation) < generation:
            return f"is not {name} yet as it is now"
    return ""
