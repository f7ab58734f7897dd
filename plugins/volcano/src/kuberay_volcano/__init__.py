"""Volcano gang scheduling: a PodGroup before the first pod, and pods that name it.

Every RayCluster and RayJob is scheduled as a gang while this plugin is on; where Volcano itself is not installed (its CRD is
missing), only those wait for it that ask for it. Source: spec plugins.md 2 and 4, cases.md VO-02 to VO-07.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.names import LABEL_GANG
from kuberay.hooks import (
    FinishContext,
    OwnerContext,
    PodContext,
    PolicyRule,
    Problem,
    Watch,
    hookimpl,
)
from kuberay.hooks.gang import NOTHING
from kuberay.hooks.types import Manifest

from kuberay_volcano import marks, podgroup
from kuberay_volcano.config import VolcanoSettings

kuberay_hook_api = (1, 0)

SCHEDULER_NAME = "volcano"


@hookimpl
def settings() -> type[VolcanoSettings]:
    return VolcanoSettings


@hookimpl
def batch_scheduler() -> str:
    return SCHEDULER_NAME


@hookimpl
def rbac_rules() -> Sequence[PolicyRule]:
    verbs = ("create", "get", "list", "patch", "watch")
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
def warn(ctx: OwnerContext) -> Sequence[Problem]:
    """A gang of a cluster that is not the RayJob's own would be somebody else's."""
    if ctx.kind != RAYJOB or ctx.cluster_spec is not None or LABEL_GANG not in ctx.labels:
        return []
    return [
        Problem(
            f"metadata.labels[{LABEL_GANG}]",
            "has no effect: the RayJob runs on a RayCluster it does not own, so it has no gang",
        )
    ]


@hookimpl
def pre_create_pods(ctx: OwnerContext) -> Sequence[Manifest] | None:
    """The owner's PodGroup, sized to the spec. A RayCluster of a RayJob is in the job's; a job without a cluster has none."""
    if podgroup.belongs_to_job(ctx) or ctx.cluster_spec is None or not podgroup.is_scheduled(ctx):
        return None
    if ctx.spec.get("suspend") is True:
        return [podgroup.build(ctx, NOTHING)]
    return [podgroup.build(ctx, podgroup.wanted(ctx))]


@hookimpl
def extra_resources(ctx: OwnerContext) -> Sequence[Manifest] | None:
    """The PodGroup of a RayJob that runs follows its cluster, as that of a RayCluster does."""
    if ctx.kind != RAYJOB or ctx.status.get("jobDeploymentStatus") != JobDeploymentStatus.RUNNING:
        return None
    return pre_create_pods(ctx)


@hookimpl
def finish(ctx: FinishContext) -> Sequence[Manifest] | None:
    """Give back what the gang no longer uses: all of it when the cluster is gone, else down to what still runs."""
    owner = ctx.owner
    if ctx.reason == "Deleted" or podgroup.belongs_to_job(owner) or owner.cluster_spec is None:
        return None
    if not podgroup.is_scheduled(owner):
        return None
    if owner.kind != RAYJOB:
        return [podgroup.build(owner, NOTHING)] if ctx.reason == "Suspended" else None
    if not owner.status.get("rayClusterName"):
        return None
    size = podgroup.still_used(owner, ctx.cluster_groups) if ctx.cluster_alive else NOTHING
    return [podgroup.build(owner, size)]


@hookimpl
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest | None:
    if not podgroup.is_scheduled(ctx.owner):
        return None
    pod["spec"]["schedulerName"] = SCHEDULER_NAME
    return marks.mark(ctx.owner, pod, ctx.group)


@hookimpl
def mutate_cluster(ctx: PodContext, cluster: Manifest) -> Manifest | None:
    return marks.mark(ctx.owner, cluster, "") if podgroup.is_scheduled(ctx.owner) else None


@hookimpl
def diagnose(ctx: OwnerContext) -> Sequence[str]:
    if ctx.kind != RAYCLUSTER or ctx.spec.get("suspend") is True or not podgroup.is_scheduled(ctx):
        return []
    name, place = podgroup.group_name(ctx), "the default queue"
    if queue := ctx.labels.get(podgroup.LABEL_QUEUE):
        place = f"queue {queue!r}"
    size = podgroup.wanted(ctx)
    needed = ", ".join(f"{amount} {resource}" for resource, amount in size.resources.items()) or "no resources"
    return [
        f"Volcano starts pods only when {place} has room for {size.members} together ({needed}): see PodGroup {name}."
    ]
