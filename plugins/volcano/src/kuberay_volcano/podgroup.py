"""The PodGroup of an owner: its name, its size, and what labels of the owner say about queue, priority and topology.

Source: spec plugins.md 2 (arithmetic) and 4. Where KubeRay multiplies resources by unclamped replicas while it counts
clamped ones, both are of the pods wanted here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kuberay.api import quantity
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, Kind
from kuberay.api.names import (
    HEAD_GROUP,
    LABEL_ORIGIN_CRD,
    LABEL_ORIGIN_NAME,
    LABEL_PRIORITY_CLASS,
    SUBMITTER_GROUP,
)
from kuberay.hooks import OwnerContext
from kuberay.hooks.types import GroupSize, Manifest

from kuberay_volcano.config import VolcanoSettings

POD_GROUP = Kind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")

LABEL_QUEUE = "volcano.sh/queue-name"
LABEL_TOPOLOGY = "volcano.sh/network-topology-mode"
LABEL_TIER = "volcano.sh/network-topology-highest-tier-allowed"

NOT_COPIED = "kubectl.kubernetes.io/last-applied-configuration"
"""The only annotation of the owner the group does not get: it would be the text of another object."""

SIDECAR_SUBMITTER = {"cpu": "500m", "memory": "200Mi"}
"""Requests of the submitter container that SidecarMode puts into the head pod."""


@dataclass(frozen=True, slots=True)
class Size:
    """How many pods must fit at once, and what they request together (canonical quantities)."""

    members: int
    resources: Mapping[str, str] = field(default_factory=dict)


NOTHING = Size(0)


def belongs_to_job(ctx: OwnerContext) -> bool:
    """Whether *ctx* is a RayCluster that a RayJob made: then the group is the RayJob's."""
    return ctx.kind == RAYCLUSTER and ctx.labels.get(LABEL_ORIGIN_CRD) == RAYJOB.kind and bool(_job_name(ctx))


def group_name(ctx: OwnerContext) -> str:
    """``ray-<RayJob or RayCluster>-pg``."""
    return f"ray-{_job_name(ctx) if belongs_to_job(ctx) else ctx.name}-pg"


def wanted(ctx: OwnerContext) -> Size:
    """The size the spec asks for. The submitter's resources count, but not its pod: it starts when the gang runs."""
    size = _sum(ctx, ctx.groups)
    mode = ctx.spec.get("submissionMode")
    extra = [group.requests for group in ctx.groups if group.name == SUBMITTER_GROUP]
    if ctx.kind == RAYJOB and mode == "SidecarMode":
        extra.append(SIDECAR_SUBMITTER)
    return Size(size.members, _add([size.resources, *extra]))


def still_used(ctx: OwnerContext, live: Sequence[GroupSize]) -> Size:
    """The size of what is left of a finished RayJob's cluster, by the *live* RayCluster's groups."""
    return _sum(ctx, live)


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


def build(ctx: OwnerContext, size: Size) -> Manifest:
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


def _sum(ctx: OwnerContext, groups: Sequence[GroupSize]) -> Size:
    """Head and workers; of an autoscaled cluster the minimum, unless the administrator chose otherwise."""
    settings = ctx.settings if isinstance(ctx.settings, VolcanoSettings) else VolcanoSettings()
    autoscaled = (ctx.cluster_spec or {}).get("enableInTreeAutoscaling") is True
    at_minimum = autoscaled and settings.autoscaling_reserve == "minimum"
    members = 0
    amounts: list[Mapping[str, str]] = []
    for group in groups:
        if group.name == SUBMITTER_GROUP:
            continue
        count = 1 if group.name == HEAD_GROUP else group.minimum if at_minimum else group.desired
        if count:
            members += count
            amounts.append({name: quantity.multiply(amount, count) for name, amount in group.requests.items()})
    return Size(members, _add(amounts))


def _add(amounts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    names = dict.fromkeys(name for each in amounts for name in each)
    return {name: quantity.add_all(each[name] for each in amounts if name in each) for name in names}
