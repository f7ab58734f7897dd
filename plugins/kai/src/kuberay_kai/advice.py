"""What users of KAI are told: a queue that is missing or in the wrong place, groups KAI cannot count, what pods wait for.

Source: cases.md KA-03; hooks `warn` and `diagnose`. KAI's pod grouper makes the gang from the RayCluster it finds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kuberay.api.names import HEAD_GROUP, SUBMITTER_GROUP
from kuberay.hooks import OwnerContext, Problem

LABEL_QUEUE = "kai.scheduler/queue"
FORMER_KEYS = ("runai/queue", "scheduling.run.ai/queue-name")
"""Names of former versions, which people still copy."""
LABEL_PROJECT = "project"
"""KAI takes a queue's name from it where there is no queue label."""

_PATH = f"metadata.labels[{LABEL_QUEUE}]"


def warnings(ctx: OwnerContext) -> Iterator[Problem]:
    """Everything about *ctx* that has not the effect its user may expect. A RayJob without a cluster of its own has no pods for KAI."""
    if ctx.cluster_spec is None:
        return
    if not ctx.labels.get(LABEL_QUEUE):
        yield from _no_queue(ctx)
    yield from _uncountable(ctx)


def _no_queue(ctx: OwnerContext) -> Iterator[Problem]:
    misplaced = _misplaced(ctx)
    if misplaced:
        yield Problem(
            _PATH, f"is missing; {misplaced} has no effect: make it the label {LABEL_QUEUE} of this {ctx.kind.kind}"
        )
        return
    if ctx.labels.get(LABEL_PROJECT):
        return
    templates = dict(_templates(ctx))
    without = [
        name
        for name, template in templates.items()
        if not any((_metadata(template, "labels")).get(key) for key in (LABEL_QUEUE, LABEL_PROJECT))
    ]
    if not without:
        return
    who = "pods" if len(without) == len(templates) else f"pods of {', '.join(without)}"
    yield Problem(_PATH, f"is missing, so {who} go to KAI's default-queue, and stay Pending where there is none")


def _misplaced(ctx: OwnerContext) -> str:
    """Where a queue is named that KAI does not look at; empty: nowhere."""
    for key in (LABEL_QUEUE, *FORMER_KEYS):
        if ctx.annotations.get(key):
            return f"metadata.annotations[{key}]"
    for key in FORMER_KEYS:
        if ctx.labels.get(key):
            return f"metadata.labels[{key}]"
    for name, template in _templates(ctx):
        if _metadata(template, "annotations").get(LABEL_QUEUE) and not _metadata(template, "labels").get(LABEL_QUEUE):
            return f"the annotation {LABEL_QUEUE} in the pod template of {name}"
    return ""


def _uncountable(ctx: OwnerContext) -> Iterator[Problem]:
    """Worker groups for which KAI would want other pods than there will be."""
    for number, group in enumerate((ctx.cluster_spec or {}).get("workerGroupSpecs") or ()):
        path = f"{ctx.cluster_path}.workerGroupSpecs[{number}]"
        replicas, least = group.get("replicas") or 0, group.get("minReplicas") or 0
        if replicas < least:
            yield Problem(
                f"{path}.replicas",
                f"{replicas} is less than minReplicas ({least}), for which KAI makes no PodGroup, so that all pods stay "
                f"Pending: set it to {least} or more",
            )
        elif group.get("suspend") is True and (replicas or least):
            yield Problem(
                f"{path}.suspend",
                "KAI waits for the pods of suspended groups, too: set replicas and minReplicas to 0 as well",
            )


def reason_to_wait(ctx: OwnerContext) -> str:
    """What Pending pods of a RayCluster wait for, in one sentence."""
    queue = ctx.labels.get(LABEL_QUEUE)
    place = f"queue {queue!r}" if queue else "their queue"
    see = f"kubectl get queues.scheduling.run.ai; kubectl get podgroups.scheduling.run.ai -n {ctx.namespace}"
    return f"Pods that are Pending wait until {place} of KAI has room for {_gang(ctx)} pods together: see {see}."


def _gang(ctx: OwnerContext) -> int:
    """How many pods KAI wants at once: of a fixed group without minReplicas all, of others the least."""
    autoscaled = (ctx.cluster_spec or {}).get("enableInTreeAutoscaling") is True
    workers = (group for group in ctx.groups if group.name not in (HEAD_GROUP, SUBMITTER_GROUP))
    return 1 + sum(group.minimum if autoscaled or group.minimum else group.desired for group in workers)


def _templates(ctx: OwnerContext) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The pod templates that KAI schedules, by group."""
    cluster = ctx.cluster_spec or {}
    yield HEAD_GROUP, (cluster.get("headGroupSpec") or {}).get("template") or {}
    for group in cluster.get("workerGroupSpecs") or ():
        yield str(group.get("groupName", "")), group.get("template") or {}


def _metadata(template: Mapping[str, Any], part: str) -> Mapping[str, str]:
    return (template.get("metadata") or {}).get(part) or {}
