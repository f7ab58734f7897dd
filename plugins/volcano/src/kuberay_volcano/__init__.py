"""Volcano gang scheduling: a PodGroup before the first pod, and pods that name it.

Every RayCluster and RayJob is scheduled as a gang while this plugin is on. Source: spec plugins.md 2 and 4.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.kinds import RAYJOB
from kuberay.api.names import LABEL_GANG
from kuberay.hooks import (
    FinishContext,
    OwnerContext,
    PodContext,
    PolicyRule,
    Problem,
    Wait,
    Watch,
    hookimpl,
)
from kuberay.hooks.types import Manifest

from kuberay_volcano import marks, podgroup
from kuberay_volcano.config import VolcanoSettings

kuberay_hook_api = (1, 0)


@hookimpl
def settings() -> type[VolcanoSettings]:
    return VolcanoSettings


@hookimpl
def rbac_rules() -> Sequence[PolicyRule]:
    verbs = ("create", "delete", "get", "list", "patch", "update", "watch")
    return [PolicyRule((podgroup.POD_GROUP.group,), (podgroup.POD_GROUP.plural,), verbs)]


@hookimpl
def watches() -> Sequence[Watch]:
    return [Watch(podgroup.POD_GROUP)]


@hookimpl
def validate(ctx: OwnerContext) -> Sequence[Problem]:
    """The tier label must be a number; KubeRay stalls on it without a word."""
    if podgroup.belongs_to_job(ctx):
        return []
    try:
        podgroup.network_topology(ctx.labels)
    except ValueError as error:
        return [Problem(f"metadata.labels[{podgroup.LABEL_TIER}]", str(error))]
    return []


@hookimpl
def pre_create_pods(ctx: OwnerContext) -> Sequence[Manifest] | Wait | None:
    """The owner's PodGroup, sized to the spec. A RayCluster of a RayJob is in the job's; a job without a cluster has none."""
    if podgroup.belongs_to_job(ctx) or ctx.cluster_spec is None:
        return None
    if ctx.spec.get("suspend") is True:
        return [podgroup.build(ctx, podgroup.NOTHING)]
    return [podgroup.build(ctx, podgroup.wanted(ctx))]


@hookimpl
def finish(ctx: FinishContext) -> Sequence[Manifest] | None:
    """Give back what the gang no longer uses: all of it when the cluster is gone, else down to what still runs."""
    owner = ctx.owner
    if ctx.reason == "Deleted" or podgroup.belongs_to_job(owner) or owner.cluster_spec is None:
        return None
    if owner.kind != RAYJOB:
        return [podgroup.build(owner, podgroup.NOTHING)] if ctx.reason == "Suspended" else None
    if not owner.status.get("rayClusterName"):
        return None
    size = podgroup.still_used(owner, ctx.cluster_groups) if ctx.cluster_alive else podgroup.NOTHING
    return [podgroup.build(owner, size)]


@hookimpl
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest:
    pod["spec"]["schedulerName"] = "volcano"
    return marks.mark(ctx.owner, pod, ctx.group)


@hookimpl
def mutate_cluster(ctx: PodContext, cluster: Manifest) -> Manifest:
    return marks.mark(ctx.owner, cluster, "")


@hookimpl
def diagnose(ctx: OwnerContext) -> Sequence[str]:
    if ctx.cluster_spec is None:
        if LABEL_GANG not in ctx.labels:
            return []
        return [
            f"The label {LABEL_GANG} has no effect: this RayJob runs on a cluster it does not own, so it has no gang."
        ]
    if ctx.spec.get("suspend") is True:
        return []
    size = podgroup.wanted(ctx)
    needed = ", ".join(f"{amount} {name}" for name, amount in size.resources.items()) or "no resources"
    place = f"queue {queue!r}" if (queue := ctx.labels.get(podgroup.LABEL_QUEUE)) else "the default queue"
    return [
        f"Volcano starts pods only when {place} has room for {size.members} together ({needed}): "
        f"see PodGroup {podgroup.group_name(ctx)}."
    ]
