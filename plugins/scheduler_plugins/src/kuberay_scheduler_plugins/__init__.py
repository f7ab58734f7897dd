"""Coscheduling by scheduler-plugins: a PodGroup before the first pod of a RayCluster that asks for it, kept in step.

The label ``ray.io/gang-scheduling-enabled`` asks for it; all pods go to the scheduler. Source: spec plugins.md 2 and 6.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

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
from kuberay.hooks.gang import submitter_requests
from kuberay.hooks.types import Manifest

from kuberay_scheduler_plugins import podgroup
from kuberay_scheduler_plugins.config import SCHEDULER_NAME, SchedulerPluginsSettings

kuberay_hook_api = (1, 0)


@hookimpl
def settings() -> type[SchedulerPluginsSettings]:
    return SchedulerPluginsSettings


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
    """What a RayJob said about its submitter must still be readable on its RayCluster."""
    if ctx.kind != RAYCLUSTER or not podgroup.asks_for_gang(ctx):
        return []
    try:
        podgroup.submitter_of(ctx.annotations)
    except ValueError as error:
        return [Problem(f"metadata.annotations[{podgroup.ANNOTATION_SUBMITTER}]", str(error))]
    return []


@hookimpl
def pre_create_pods(ctx: OwnerContext) -> Sequence[Manifest] | None:
    """The PodGroup of a RayCluster that asks for one. A RayJob has none of its own: its RayCluster has.

    When the label is taken off, the group stays and holds nobody back: pods that name it would never start without it.
    """
    if ctx.kind != RAYCLUSTER:
        return None
    if not podgroup.asks_for_gang(ctx):
        return [podgroup.build(ctx, podgroup.IDLE)] if ctx.children(podgroup.POD_GROUP) else None
    if ctx.spec.get("suspend") is True:
        return [podgroup.build(ctx, podgroup.IDLE)]
    return [podgroup.build(ctx, podgroup.size_of(ctx))]


@hookimpl
def finish(ctx: FinishContext) -> Sequence[Manifest] | None:
    """A suspended RayCluster asks for nothing. A RayJob that ends leaves the group to its RayCluster, which goes or stays."""
    owner = ctx.owner
    if owner.kind != RAYCLUSTER or ctx.reason != "Suspended" or not podgroup.asks_for_gang(owner):
        return None
    return [podgroup.build(owner, podgroup.IDLE)]


@hookimpl
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest:
    """Every pod goes to the scheduler; those of a RayCluster that asks for a gang name its PodGroup.

    The submitter of a RayJob names none: it starts when the gang runs, and must not wait for it nor make it wait.
    """
    pod["spec"]["schedulerName"] = podgroup.settings_of(ctx.owner).scheduler_name
    if ctx.owner.kind == RAYCLUSTER and podgroup.asks_for_gang(ctx.owner):
        labels = pod.setdefault("metadata", {}).get("labels") or {}
        pod["metadata"]["labels"] = {**labels, podgroup.LABEL_POD_GROUP: ctx.owner.name}
    return pod


@hookimpl
def mutate_cluster(ctx: PodContext, cluster: Manifest) -> Manifest | None:
    """Tells the RayCluster of a RayJob what the submitter's pod will request, for `podgroup.size_of`."""
    requests = submitter_requests(ctx.owner.groups)
    if not podgroup.asks_for_gang(ctx.owner) or not requests:
        return None
    metadata = cluster.setdefault("metadata", {})
    note = json.dumps(dict(requests), sort_keys=True, separators=(",", ":"))
    metadata["annotations"] = {**(metadata.get("annotations") or {}), podgroup.ANNOTATION_SUBMITTER: note}
    return cluster


@hookimpl
def warn(ctx: OwnerContext) -> Sequence[Problem]:
    """A gang of a cluster that is not the RayJob's own would be somebody else's."""
    if ctx.kind != RAYJOB or ctx.cluster_spec is not None or not podgroup.asks_for_gang(ctx):
        return []
    return [
        Problem(
            f"metadata.labels[{LABEL_GANG}]",
            "has no effect: the RayJob runs on a RayCluster it does not own; put the label on that RayCluster",
        )
    ]


@hookimpl
def diagnose(ctx: OwnerContext) -> Sequence[str]:
    if ctx.kind != RAYCLUSTER or not podgroup.asks_for_gang(ctx) or ctx.spec.get("suspend") is True:
        return []
    size = podgroup.size_of(ctx)
    needed = ", ".join(f"{amount} {resource}" for resource, amount in size.resources.items()) or "no resources"
    return [
        f"{podgroup.settings_of(ctx).scheduler_name} starts pods only when there is room for {size.members} together "
        f"({needed}): see PodGroup {ctx.name}."
    ]
