"""What of a RayCluster exists: its pods by role and group, and its head service.

Source: spec raycluster.md 4.1 and 2.5. Only what the cluster controls counts; a label alone makes nothing ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from kuberay.api import names
from kuberay.api.kinds import POD, SERVICE
from kuberay.api.objects import Child, Pod
from kuberay.plan.cluster.pod_health import is_over
from kuberay.plan.cluster.sidecar_head import as_counted
from kuberay.plan.observed import Observed


@dataclass(slots=True)
class Children:
    """Pods are in name order; terminating ones are included."""

    pods: Sequence[Pod]
    heads: list[Pod] = field(default_factory=list)
    groups: dict[str, list[Pod]] = field(default_factory=dict)
    """Worker pods by the value of their group label (empty when they have none)."""
    services: Mapping[str, Child] = field(default_factory=dict)
    """Owned services by name."""
    head_service: Child | None = None
    head_service_body: Mapping[str, Any] = field(default_factory=dict)
    """The whole live head service."""

    @property
    def head(self) -> Pod | None:
        """The head pod that counts: one that has not ended, if there is one."""
        return next((pod for pod in self.heads if not is_over(pod)), self.heads[0] if self.heads else None)


def observe_children(observed: Observed, wanted_service: str) -> Children:
    """*wanted_service* is the name the head service should have; a live one under another name is found too."""
    obj, view = observed.obj, observed.view
    pods = cast("Sequence[Pod]", view.owned(obj.uid, POD))
    children = Children(pods=as_counted(pods, obj.metadata.labels))
    for pod in children.pods:
        labels = pod.metadata.labels
        if labels.get(names.LABEL_NODE_TYPE) == names.HEAD:
            children.heads.append(pod)
        else:
            children.groups.setdefault(labels.get(names.LABEL_GROUP, ""), []).append(pod)
    children.services = {service.name: service for service in cast("Sequence[Child]", view.owned(obj.uid, SERVICE))}
    service = children.services.get(wanted_service)
    if service is None:
        service = next((s for s in children.services.values() if _is_head_service(s, obj.name)), None)
    if service is None:
        named = view.get(SERVICE, obj.namespace, wanted_service)
        service = named if isinstance(named, Child) and _is_head_service(named, obj.name) else None
    if service is not None:
        children.head_service = service
        children.head_service_body = service.body()
    return children


def _is_head_service(service: Child, cluster: str) -> bool:
    labels = service.metadata.labels
    return (
        labels.get(names.LABEL_CLUSTER) == cluster
        and labels.get(names.LABEL_NODE_TYPE) == names.HEAD
        and labels.get(names.LABEL_IDENTIFIER) == names.identifier(cluster, names.HEAD)
    )
