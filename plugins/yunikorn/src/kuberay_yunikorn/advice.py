"""What users are told: labels that have no effect, gangs that are none, and what pods wait for.

Source: cases.md YU-05; hooks `warn` and `diagnose`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuberay.api import quantity
from kuberay.api.names import HEAD_GROUP, LABEL_GANG, SUBMITTER_GROUP
from kuberay.hooks import OwnerContext, Problem
from kuberay.hooks.gang import add_requests

from kuberay_yunikorn.application import (
    LABEL_APP_ID,
    LABEL_QUEUE,
    TARGET_APP_ID,
    TARGET_QUEUE,
    application,
    cluster_of,
)
from kuberay_yunikorn.task_groups import ANNOTATION_GROUPS, has_gang, read, size_of

_GANG_PATH = f"metadata.labels[{LABEL_GANG}]"
_GROUPS_PATH = f"metadata.annotations[{ANNOTATION_GROUPS}]"


def warnings(ctx: OwnerContext) -> Iterator[Problem]:
    """Everything about *ctx* that has not the effect its user may expect."""
    for wanted, short in ((LABEL_APP_ID, TARGET_APP_ID), (LABEL_QUEUE, TARGET_QUEUE)):
        if ctx.labels.get(wanted):
            continue
        if ctx.annotations.get(wanted):
            yield Problem(f"metadata.annotations[{wanted}]", "has no effect as an annotation: make it a label")
        elif ctx.labels.get(short):
            yield Problem(f"metadata.labels[{short}]", f"does not reach the pods: use the label {wanted}")
    if LABEL_GANG not in ctx.labels:
        if ctx.annotations.get(ANNOTATION_GROUPS):
            yield Problem(_GROUPS_PATH, f"has no effect without the label {LABEL_GANG}")
        return
    if not has_gang(ctx):
        yield Problem(_GANG_PATH, "has no effect: this RayJob runs on a cluster it does not own, so it has no gang")
        return
    if ctx.labels[LABEL_GANG].lower() == "false":
        yield Problem(_GANG_PATH, "turns gang scheduling on whatever its value is: remove the label to turn it off")
    if given := ctx.annotations.get(ANNOTATION_GROUPS):
        yield from _faults(ctx, given)
    elif _only_the_head(ctx):
        yield Problem(
            _GANG_PATH,
            "the gang is the head alone, because no worker group has minReplicas: set it to what must fit at once",
        )


def _faults(ctx: OwnerContext, given: str) -> Iterator[Problem]:
    """Why YuniKorn would throw the user's own task groups away."""
    groups = read(given)
    if groups is None:
        yield Problem(_GROUPS_PATH, "is no JSON list of objects, so YuniKorn forms no gang")
        return
    for number, group in enumerate(groups):
        members = group.get("minMember")
        if not group.get("name") or not isinstance(group.get("minResource"), dict):
            fault = "needs a name and minResource"
        elif not isinstance(members, int) or members < 1:
            fault = "needs a minMember of 1 or more"
        else:
            continue
        yield Problem(_GROUPS_PATH, f"task group {number} {fault}, or YuniKorn forms no gang")
    named = {group.get("name") for group in groups}
    missing = [group.name for group in ctx.groups if size_of(ctx, group) and group.name not in named]
    if missing:
        yield Problem(_GROUPS_PATH, f"pods of {', '.join(missing)} are in no task group of that name, so in no gang")


def _only_the_head(ctx: OwnerContext) -> bool:
    workers = [group for group in ctx.groups if group.name not in (HEAD_GROUP, SUBMITTER_GROUP)]
    return any(group.desired for group in workers) and not any(size_of(ctx, group) for group in workers)


def reason_to_wait(ctx: OwnerContext) -> str:
    """What Pending pods of a RayCluster wait for, in one sentence."""
    queue = ctx.labels.get(LABEL_QUEUE)
    place = f"queue {queue!r}" if queue else "the queue that its placement rules choose"
    name = application(ctx, cluster_of(ctx))
    see = f"application {name!r}" if name else "the namespace's application"
    if not has_gang(ctx):
        return f"Pods that are Pending wait for YuniKorn to find room in {place}: see {see}."
    sizes = [(group, size_of(ctx, group)) for group in ctx.groups]
    amounts = [
        {name: quantity.multiply(amount, size) for name, amount in group.requests.items()}
        for group, size in sizes
        if size
    ]
    needed = ", ".join(f"{amount} {name}" for name, amount in add_requests(amounts).items()) or "no resources"
    together = f"{sum(size for _, size in sizes)} together ({needed})"
    return f"Pods that are Pending wait until {place} of YuniKorn has room for {together}: see {see}."
