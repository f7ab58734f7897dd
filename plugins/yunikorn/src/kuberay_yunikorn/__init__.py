"""YuniKorn: pods name their application, queue and task group; YuniKorn itself makes a gang of them.

No objects, no further permissions. Gangs are opted into by the label ``ray.io/gang-scheduling-enabled``. Source: spec
plugins.md 2 and 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.hooks import OwnerContext, PodContext, Problem, hookimpl
from kuberay.hooks.types import Manifest

from kuberay_yunikorn import advice
from kuberay_yunikorn.application import ANNOTATION_POLICY, annotate, cluster_of, label
from kuberay_yunikorn.config import YunikornSettings
from kuberay_yunikorn.task_groups import (
    ANNOTATION_GROUP_NAME,
    ANNOTATION_GROUPS,
    has_gang,
    of_pod,
    task_groups,
    written,
)

kuberay_hook_api = (1, 0)

SCHEDULER = "yunikorn"


@hookimpl
def settings() -> type[YunikornSettings]:
    return YunikornSettings


@hookimpl
def batch_scheduler() -> str:
    return SCHEDULER


@hookimpl
def warn(ctx: OwnerContext) -> Sequence[Problem]:
    return list(advice.warnings(ctx))


@hookimpl
def mutate_pod(ctx: PodContext, pod: Manifest) -> Manifest:
    owner = ctx.owner
    pod["spec"]["schedulerName"] = SCHEDULER
    pod.setdefault("metadata", {})
    label(owner, pod, cluster_of(owner))
    if has_gang(owner):
        groups, member = of_pod(owner, ctx.group, pod)
        annotate(pod, **{ANNOTATION_GROUPS: groups}, **({ANNOTATION_GROUP_NAME: ctx.group} if member else {}))
        policy = owner.annotations.get(ANNOTATION_POLICY)
        if policy and ANNOTATION_POLICY not in pod["metadata"]["annotations"]:
            annotate(pod, **{ANNOTATION_POLICY: policy})
    return pod


@hookimpl
def mutate_cluster(ctx: PodContext, cluster: Manifest) -> Manifest:
    owner = ctx.owner
    label(owner, cluster, str(cluster["metadata"].get("name") or cluster_of(owner)))
    if has_gang(owner):
        annotate(
            cluster, **{ANNOTATION_GROUPS: owner.annotations.get(ANNOTATION_GROUPS) or written(task_groups(owner))}
        )
    return cluster


@hookimpl
def diagnose(ctx: OwnerContext) -> Sequence[str]:
    if ctx.cluster_spec is None or ctx.spec.get("suspend") is True:
        return []
    return [*(f"{problem}." for problem in advice.warnings(ctx)), advice.reason_to_wait(ctx)]
