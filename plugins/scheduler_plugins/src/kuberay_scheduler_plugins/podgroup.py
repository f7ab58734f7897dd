"""The PodGroup of a RayCluster: whether it has one, and how many pods with which resources must fit at once.

Source: spec plugins.md 6, cases SP-01 and SP-03. The group of a RayJob is that of its RayCluster, so it goes with it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from kuberay.api import quantity
from kuberay.api.conditions import ClusterCondition, is_true
from kuberay.api.kinds import Kind
from kuberay.api.names import LABEL_GANG
from kuberay.hooks import OwnerContext
from kuberay.hooks.gang import GangSize, add_requests, gang_size
from kuberay.hooks.types import Manifest

from kuberay_scheduler_plugins.config import SchedulerPluginsSettings

POD_GROUP = Kind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")

LABEL_POD_GROUP = "scheduling.x-k8s.io/pod-group"
ANNOTATION_SUBMITTER = "ray.io/submitter-requests"
"""On a RayCluster that a RayJob made: what the pod requests that will submit the job, a JSON object of quantities."""

IDLE = GangSize(1)
"""For a cluster that is suspended, or no longer asks for a gang. 1 is the least that the kind allows: with no number at all the controller of
scheduler-plugins would report the group as finished, for good."""


def settings_of(ctx: OwnerContext) -> SchedulerPluginsSettings:
    """The administrator's settings, else the defaults."""
    return ctx.settings if isinstance(ctx.settings, SchedulerPluginsSettings) else SchedulerPluginsSettings()


def asks_for_gang(ctx: OwnerContext) -> bool:
    """Whether the label is there; its value does not count."""
    return LABEL_GANG in ctx.labels


def size_of(ctx: OwnerContext) -> GangSize:
    """The pods of a RayCluster that must fit at once.

    Until they have all been ready once, there must also be room for the pod that submits the RayJob. Otherwise clusters
    could take all room there is, and each would wait for ever for a submitter that finds none. Later the submitter has its
    place, and a replaced pod must not have to find room for it again.
    """
    autoscaled = (ctx.cluster_spec or {}).get("enableInTreeAutoscaling") is True
    size = gang_size(ctx.groups, at_minimum=autoscaled and settings_of(ctx).autoscaling_reserve == "minimum")
    if is_true(ctx.status.get("conditions") or (), ClusterCondition.PROVISIONED):
        return size
    return GangSize(size.members, add_requests([size.resources, submitter_of(ctx.annotations)]))


def submitter_of(annotations: Mapping[str, str]) -> dict[str, str]:
    """What the submitter will request, by resource name. Raises ValueError when the annotation is not readable."""
    text = annotations.get(ANNOTATION_SUBMITTER)
    if not text:
        return {}
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(f'must be a JSON object of quantities, like {{"cpu":"500m"}}, not {text!r}')
    return {str(name): quantity.canonical(amount) for name, amount in found.items()}


def build(ctx: OwnerContext, size: GangSize) -> Manifest:
    """The PodGroup of a RayCluster. It has no status: that is written by the controller of scheduler-plugins."""
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": ctx.name,
            "namespace": ctx.namespace,
            "ownerReferences": [ctx.owner_reference],
        },
        "spec": {"minMember": size.members, "minResources": dict(size.resources)},
    }
