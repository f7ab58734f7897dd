"""The PodGroup of an owner: its name, its size, and what labels of the owner say about queue, priority and topology.

Source: spec plugins.md 2 (arithmetic) and 4.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kuberay.api.kinds import RAYCLUSTER, RAYJOB, Kind
from kuberay.api.names import LABEL_GANG, LABEL_ORIGIN_CRD, LABEL_ORIGIN_NAME, LABEL_PRIORITY_CLASS
from kuberay.hooks import OwnerContext
from kuberay.hooks.gang import GangSize, add_requests, gang_size, submitter_requests
from kuberay.hooks.types import GroupSize, Manifest

from kuberay_volcano.config import VolcanoSettings

POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")

LABEL_DOMAIN = "volcano.sh/"
LABEL_QUEUE = "volcano.sh/queue-name"
LABEL_TOPOLOGY = "volcano.sh/network-topology-mode"
LABEL_TIER = "volcano.sh/network-topology-highest-tier-allowed"

NOT_COPIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The only annotation of the owner the group does not get: it would be the text of another object."""

SIDECAR_SUBMITTER = {"cpu": "500m", "memory": "200Mi"}
"""Requests of the submitter container that SidecarMode puts into the head pod."""


def belongs_to_job(ctx: OwnerContext) -> bool:
    """Whether *ctx* is a RayCluster that a RayJob made: then the group is the RayJob's."""
    return ctx.kind == RAYCLUSTER and ctx.labels.get(LABEL_ORIGIN_CRD) == RAYJOB.kind and bool(_job_name(ctx))


def group_name(ctx: OwnerContext) -> str:
    """``ray-<RayJob or RayCluster>-pg``."""
    return f"ray-{_job_name(ctx) if belongs_to_job(ctx) else ctx.name}-pg"


def asks_for_volcano(ctx: OwnerContext) -> bool:
    """Whether the owner itself asks for a gang or says something to Volcano, rather than being scheduled like all others."""
    return LABEL_GANG in ctx.labels or any(key.startswith(LABEL_DOMAIN) for key in ctx.labels)


def is_scheduled(ctx: OwnerContext) -> bool:
    """Whether the owner is Volcano's to schedule: everybody, but where Volcano is not installed only who asks for it."""
    return ctx.serves(POD_GROUP) or asks_for_volcano(ctx)


def wanted(ctx: OwnerContext) -> GangSize:
    """The size the spec asks for. The submitter's resources count, but not its pod: it starts when the gang runs."""
    size = still_used(ctx, ctx.groups)
    extra = [submitter_requests(ctx.groups)]
    if ctx.kind == RAYJOB and ctx.spec.get("submissionMode") == "SidecarMode":
        extra.append(SIDECAR_SUBMITTER)
    return GangSize(size.members, add_requests([size.resources, *extra]))


def still_used(ctx: OwnerContext, live: Sequence[GroupSize]) -> GangSize:
    """The size of head and workers, by the *live* RayCluster's groups when a RayJob has finished; of an autoscaled cluster
    the minimum, unless the administrator chose otherwise."""
    settings = ctx.settings if isinstance(ctx.settings, VolcanoSettings) else VolcanoSettings()
    autoscaled = (ctx.cluster_spec or {}).get("enableInTreeAutoscaling") is True
    return gang_size(live, at_minimum=autoscaled and settings.autoscaling_reserve == "minimum")


def network_topology(labels: Mapping[str, str]) -> Manifest | None:
    """``spec.networkTopology``, or None. Raises ValueError when the tier label is no whole number."""
    if LABEL_TOPOLOGY not in labels:
        return None
    topology: Manifest = {"mode": labels[LABEL_TOPOLOGY]}
    tier = labels.get(LABEL_TIER)
    if tier is not None:
        if not re.fullmatch(r"[+-]?[0-9]+", tier):
            raise ValueError(f"must be a whole number, not {tier!r}")
        topology["highestTierAllowed"] = int(tier)
    return topology


def build(ctx: OwnerContext, size: GangSize) -> Manifest:
    """The PodGroup of *ctx*. It has no status: that is the scheduler's to write."""
    spec: Manifest = {"minMember": size.members, "minResources": dict(size.resources)}
    if queue := ctx.labels.get(LABEL_QUEUE):
        spec["queue"] = queue
    if priority := ctx.labels.get(LABEL_PRIORITY_CLASS):
        spec["priorityClassName"] = priority
    if topology := network_topology(ctx.labels):
        spec["networkTopology"] = topology
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.kind,
        "metadata": {
            "name": group_name(ctx),
            "namespace": ctx.namespace,
            "annotations": {key: value for key, value in ctx.annotations.items() if key != NOT_COPIED},
            "ownerReferences": [ctx.owner_reference],
        },
        "spec": spec,
    }


def _job_name(ctx: OwnerContext) -> str:
    return ctx.labels.get(LABEL_ORIGIN_NAME, "")
