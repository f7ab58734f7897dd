"""Whether the head is exposed by an Ingress or, on OpenShift, a Route: made, kept right, and removed when turned off.

Source: spec raycluster.md 6.3, 6.4 and 7. An object of that name that the cluster does not own is left alone.
"""

from __future__ import annotations

from datetime import timedelta

from kuberay.api import names
from kuberay.api.kinds import INGRESS, RAYCLUSTER, ROUTE, Kind
from kuberay.api.objects import Object
from kuberay.plan.build.context import owner_reference
from kuberay.plan.build.pods import head_service_name
from kuberay.plan.build.routes import ingress, route
from kuberay.plan.cluster.deletions import failure
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.trouble import Trouble, warning
from kuberay.plan.cluster.unwatched import is_absent
from kuberay.plan.model import Apply, Delete, Event, Write

CONFLICT_CHECK = timedelta(seconds=60)
"""How often a name that others hold is looked at: their object need not carry a label that is watched."""


def decide_routes(cluster: ClusterPass) -> tuple[list[Write], Trouble | None]:
    """Writes, and what is in the way."""
    config = cluster.observed.config
    wanted: Kind | None = None
    if cluster.form.spec.head_group_spec.enable_ingress:
        wanted = ROUTE if config.use_routes else INGRESS
    writes: list[Write] = []
    for kind in (INGRESS, ROUTE) if config.openshift else (INGRESS,):
        if kind is not wanted:
            writes += _removal(cluster, kind)
    if wanted is None:
        return writes, None
    name = _name(cluster, wanted)
    live = cluster.observed.view.get(wanted, cluster.namespace, name) if name else None
    trouble = _trouble(cluster, wanted, name, live)
    if trouble is None:
        writes.append(_apply(cluster, wanted, name, live))
    return writes, trouble


def _name(cluster: ClusterPass, kind: Kind) -> str:
    return names.ingress_name(cluster.name) if kind is INGRESS else names.route_name(cluster.name, cluster.namespace)


def _trouble(cluster: ClusterPass, kind: Kind, name: str, live: Object | None) -> Trouble | None:
    reason = f"FailedToCreate{kind.kind}"
    if not name:
        note = f"the namespace {cluster.namespace} is too long: it leaves no room for the name of a Route"
        return warning("NoName", reason, note, action="Create")
    if live is None or _is_ours(cluster, live) or is_absent(cluster, kind, name, CONFLICT_CHECK):
        return None
    place = f"{kind.kind} {cluster.namespace}/{name}"
    note = f"{place} already exists and is not owned by this RayCluster; not modifying it"
    return warning("NotOwned", reason, note, action="Create")


def _apply(cluster: ClusterPass, kind: Kind, name: str, live: Object | None) -> Apply:
    obj = cluster.observed.obj
    service = cluster.children.head_service
    build = ingress if kind is INGRESS else route
    body = build(
        cluster.name,
        cluster.namespace,
        cluster.form.spec,
        obj.metadata.annotations,
        owner_reference(RAYCLUSTER, obj),
        service.name if service is not None else head_service_name(cluster.name, cluster.form.spec),
    )
    what, place = kind.kind, f"{kind.kind.lower()} {cluster.namespace}/{name}"
    exists = live is not None and _is_ours(cluster, live)
    failed = (
        failure(f"FailedToUpdate{what}", f"Failed updating {place}", action="Update")
        if exists
        else failure(f"FailedToCreate{what}", f"Failed creating {place}", action="Create")
    )
    return Apply(
        kind=kind,
        namespace=cluster.namespace,
        name=name,
        body=body,
        done=Event(f"Created{what}", f"Created {place}", action="Create"),
        updated=Event(f"Updated{what}", f"Updated {place}", action="Update"),
        failed=failed,
        yields=True,
    )


def _removal(cluster: ClusterPass, kind: Kind) -> list[Write]:
    owned = cluster.observed.view.owned(cluster.observed.obj.uid, kind)
    if not owned:
        return []
    name = _name(cluster, kind)
    place = f"{kind.kind.lower()} {cluster.namespace}/{name}"
    return [
        Delete(
            kind=kind,
            namespace=child.namespace,
            name=child.name,
            uid=child.uid,
            done=Event(f"Deleted{kind.kind}", f"Deleted {place}", action="Delete"),
            failed=failure(f"FailedToDelete{kind.kind}", f"Failed deleting {place}"),
        )
        for child in owned
        if child.name == name and not child.deleting
    ]


def _is_ours(cluster: ClusterPass, live: Object) -> bool:
    controller = live.metadata.controller
    return controller is not None and controller.uid == cluster.observed.obj.uid
