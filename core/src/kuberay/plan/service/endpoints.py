"""How many pods are behind the serve services, as Kubernetes says in EndpointSlices.

Source: spec rayservice.md 5.3.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.kinds import ENDPOINT_SLICE, SERVICE
from kuberay.api.objects import EndpointSlice, Pod
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.services import made_by_the_cluster, serve_service_name
from kuberay.plan.service.sides import Side, both_sides


def count(draft: Draft) -> int:
    """Ready pods, each once, behind the service that clients use; with a service per RayCluster, behind both of these, too."""
    found = [_ready_behind(draft, serve_service_name(draft))]
    if draft.strategy.own_services:
        found += [_ready_of(draft, side) for side in both_sides(draft) if side is not None and side.cluster is not None]
    return len(frozenset().union(*found))


def backends(draft: Draft, side: Side) -> int:
    """How many pods of a side would serve. Where it has a service of its own, those that are behind it already: whoever sends
    requests there, a gateway for example, knows no others."""
    serving = frozenset(pod.uid for pod in side.pods if _serves(pod)) if side.exists else frozenset()
    return len(serving & _ready_of(draft, side) if draft.strategy.own_services else serving)


def _ready_of(draft: Draft, side: Side) -> frozenset[str]:
    """Pods behind the side's own service."""
    if side.cluster is not None and made_by_the_cluster(side.cluster):
        # Its EndpointSlices are labelled otherwise and not watched.
        return frozenset(pod.uid for pod in side.pods if _serves(pod))
    return _ready_behind(draft, names.serve_service_name(side.name))


def _serves(pod: Pod) -> bool:
    return is_ready(pod) and not pod.deleting and pod.metadata.labels.get(names.LABEL_SERVE) == "true"


def _ready_behind(draft: Draft, service: str) -> frozenset[str]:
    """Their UIDs; a pod may have several addresses."""
    view = draft.observed.view
    live = view.get(SERVICE, draft.obj.namespace, service)
    if live is None:
        return frozenset()
    slices = view.owned(live.uid, ENDPOINT_SLICE)
    return frozenset().union(*(each.ready for each in slices if isinstance(each, EndpointSlice) and not each.deleting))
