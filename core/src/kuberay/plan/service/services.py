"""Head and serve services of a RayService: made when a RayCluster serves the first time, and always kept from then on.

Source: spec rayservice.md 4, cases RS-18 and GW-05. They follow the spec at once, and the active RayCluster when it changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE, SERVICE
from kuberay.api.objects import Child, RayObject
from kuberay.plan.build.context import owner_reference
from kuberay.plan.build.serve_services import service_head_service, service_serve_service
from kuberay.plan.build.services import NO_SERVE_PORT, changes_headless, keep_form
from kuberay.plan.model import Apply, Manifest, Patch, Write
from kuberay.plan.service.draft import ACTIVE, Draft
from kuberay.plan.service.sides import Side, both_sides, side_of
from kuberay.plan.service_apply import apply_service


def serve_service_name(draft: Draft) -> str:
    """The service that clients use: the user's name for it, or the usual one."""
    return draft.spec.serve_service_name or names.serve_service_name(draft.obj.name)


def served_by(draft: Draft) -> str:
    """The RayCluster that the serve service selects now; empty when there is no such service of ours."""
    live = _live(draft, serve_service_name(draft))
    selector = (live.body().get("spec") or {}).get("selector") if live is not None else None
    return str((selector or {}).get(names.LABEL_CLUSTER) or "")


def unservable(draft: Draft, side: Side) -> str:
    """Why no serve service can lead to that side; empty when one can."""
    spec = side.spec
    return NO_SERVE_PORT if spec is not None and _serve_service(draft, side, spec) is None else ""


def keep(draft: Draft) -> None:
    """Bring those of the RayService up to date."""
    active = side_of(draft, ACTIVE)
    spec = active.spec if active is not None else None
    if active is None or spec is None:
        # Nothing has served yet, or the RayCluster is gone: what is there stays until another one takes over.
        return
    writes: list[Write] = [*_former(draft, active)]
    if not draft.strategy.own_services or _live(draft, serve_service_name(draft)) is not None:
        body = _serve_service(draft, active, spec)
        if body is None:
            draft.hold("NoServePort", NO_SERVE_PORT)
        else:
            writes.append(_apply(draft, body))
    owner = owner_reference(RAYSERVICE, draft.obj)
    head = service_head_service(
        draft.obj.name,
        draft.obj.namespace,
        active.name,
        spec,
        draft.spec.ray_cluster_config,
        owner,
        cluster_ip=draft.observed.config.head_cluster_ip_service,
    )
    writes.append(_apply(draft, head))
    draft.write(*writes)


def keep_own(draft: Draft) -> None:
    """One serve service for each RayCluster, where the strategy sends requests to them itself (3.4)."""
    writes: list[Write] = []
    for side in both_sides(draft):
        if side is None or side.cluster is None or not side.exists or side.spec is None:
            continue
        if made_by_the_cluster(side.cluster):
            continue
        body = service_serve_service(
            side.name,
            draft.obj.namespace,
            side.name,
            side.spec,
            owner_reference(RAYCLUSTER, side.cluster),
            service_type=draft.spec.ray_cluster_config.head_group_spec.service_type,
        )
        if body is None:
            draft.hold("NoServePort", NO_SERVE_PORT)
            continue
        writes.append(_own_apply(side.cluster, body))
    draft.write(*writes)


def made_by_the_cluster(cluster: RayObject) -> bool:
    """Whether the RayCluster makes a serve service of that name by itself (4.4)."""
    return cluster.metadata.annotations.get(names.ANNOTATION_SERVE_SERVICE) == "true"


def _serve_service(draft: Draft, side: Side, spec: RayClusterSpec) -> Manifest | None:
    return service_serve_service(
        draft.obj.name,
        draft.obj.namespace,
        side.name,
        spec,
        owner_reference(RAYSERVICE, draft.obj),
        service_type=draft.spec.ray_cluster_config.head_group_spec.service_type,
        template=draft.spec.serve_service,
    )


def _former(draft: Draft, active: Side) -> list[Write]:
    """A serve service from before ``serveService`` was renamed stays, and goes on leading to the pods that serve."""
    label, current = f"{draft.obj.name}-serve", serve_service_name(draft)
    wanted = {names.LABEL_CLUSTER: active.name, names.LABEL_SERVE: "true"}
    writes: list[Write] = []
    for live in draft.observed.view.owned(draft.obj.uid, SERVICE):
        if live.metadata.labels.get(names.LABEL_SERVE) != label or live.name == current or live.deleting:
            continue
        if isinstance(live, Child) and (live.body().get("spec") or {}).get("selector") != wanted:
            body = {"metadata": {"uid": live.uid}, "spec": {"selector": wanted}}
            writes.append(Patch(kind=SERVICE, namespace=live.namespace, name=live.name, body=body, optional=True))
    return writes


def _live(draft: Draft, name: str) -> Child | None:
    """The RayService's own service of that name."""
    live = draft.observed.view.get(SERVICE, draft.obj.namespace, name)
    return live if isinstance(live, Child) and draft.controls(live) else None


def _apply(draft: Draft, body: dict[str, Any]) -> Apply:
    live = _live(draft, body["metadata"]["name"])
    _keep_form(draft, body, live.body() if live is not None else None)
    return apply_service(draft.obj.namespace, body, exists=live is not None, guarded=True)


def _keep_form(draft: Draft, body: dict[str, Any], live: Mapping[str, Any] | None) -> None:
    """Kubernetes lets no service become headless or cease to be; the rest of it still follows."""
    if live is None or not changes_headless(live, body):
        return
    keep_form(body["spec"], live.get("spec") or {})
    if draft.obj.status.get("observedGeneration") != draft.obj.metadata.generation:
        note = (
            f"Service {draft.obj.namespace}/{body['metadata']['name']} cannot change between headless and not headless; "
            "delete it to have it made anew"
        )
        draft.event("ServiceNotUpdated", note, action="Update", warning=True)


def _own_apply(cluster: RayObject, body: dict[str, Any]) -> Apply:
    """Nothing is told of it, as in KubeRay."""
    return Apply(kind=SERVICE, namespace=cluster.namespace, name=body["metadata"]["name"], body=body, guarded=True)
