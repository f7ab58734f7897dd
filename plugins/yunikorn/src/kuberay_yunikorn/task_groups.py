"""The gang of an owner as YuniKorn reads it: a list of task groups, how many pods of which size each must hold.

Source: spec plugins.md 2 and 5. A group without pods is left out: YuniKorn refuses a list with a ``minMember`` of 0 as a
whole, and then there is no gang at all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kuberay.api.names import HEAD_GROUP, LABEL_GANG, SUBMITTER_GROUP
from kuberay.hooks import OwnerContext
from kuberay.hooks.gang import add_requests
from kuberay.hooks.types import GroupSize, Manifest
from kuberay.plan.build.context import pod_requests

from kuberay_yunikorn.config import YunikornSettings

ANNOTATION_GROUPS = "yunikorn.apache.org/task-groups"
ANNOTATION_GROUP_NAME = "yunikorn.apache.org/task-group-name"

TaskGroup = dict[str, Any]


def has_gang(ctx: OwnerContext) -> bool:
    """Whether the pods of *ctx* are a gang. The label counts by its presence; without a cluster of its own a RayJob has none."""
    return LABEL_GANG in ctx.labels and ctx.cluster_spec is not None


def size_of(ctx: OwnerContext, group: GroupSize) -> int:
    """How many pods of *group* the gang holds."""
    if group.name in (HEAD_GROUP, SUBMITTER_GROUP):
        return 1
    settings = ctx.settings if isinstance(ctx.settings, YunikornSettings) else YunikornSettings()
    return group.desired if settings.gang_size == "desired" else group.minimum


def task_groups(ctx: OwnerContext) -> list[TaskGroup]:
    """One task group per group of expected pods, the submitter's last, in the form and key order of KubeRay."""
    found = []
    for group, template in zip(ctx.groups, _templates(ctx), strict=True):
        members = size_of(ctx, group)
        if members:
            found.append(_task_group(group.name, members, _sum(group.requests, group.sidecars), template))
    return found


def written(groups: Sequence[TaskGroup]) -> str:
    """The annotation's value: compact JSON."""
    return json.dumps(groups, separators=(",", ":"), ensure_ascii=False)


def of_pod(ctx: OwnerContext, group: str, pod: Manifest) -> tuple[str, bool]:
    """The annotation of a pod of the owner, and whether *group* is one of its task groups.

    What the owner's annotation says is taken as it is: a user's own text, or what its RayJob was given. In what was worked
    out here the head's size is that of *pod*, with the containers that other plugins added: a placeholder that is smaller
    than its pod is thrown away. The head is made first, and YuniKorn takes a gang from the first pod it sees.
    """
    own, given = task_groups(ctx), ctx.annotations.get(ANNOTATION_GROUPS, "")
    if given:
        known = read(given)
        if known is None or not _worked_out(known, own):
            return given, known is None or any(each.get("name") == group for each in known)
        own = known
    if group == HEAD_GROUP:
        sidecars = next((each.sidecars for each in ctx.groups if each.name == group), {})
        size = _sum(pod_requests(pod), sidecars)
        own = [{**each, "minResource": size} if each["name"] == group else each for each in own]
    return written(own), any(each["name"] == group for each in own)


def read(value: str) -> list[TaskGroup] | None:
    """The task groups of an annotation; None when it is no JSON list of objects."""
    try:
        groups = json.loads(value)
    except ValueError:
        return None
    return groups if isinstance(groups, list) and all(isinstance(group, dict) for group in groups) else None


def _worked_out(known: Sequence[TaskGroup], own: Sequence[TaskGroup]) -> bool:
    """Whether *known* is what this plugin gave the RayJob of the RayCluster whose groups are *own*."""
    rest = known[len(own) :]
    return list(known[: len(own)]) == list(own) and all(group.get("name") == SUBMITTER_GROUP for group in rest)


def _templates(ctx: OwnerContext) -> Iterator[Mapping[str, Any]]:
    """The pod templates of ``ctx.groups``, in their order."""
    if ctx.cluster_spec is not None:
        yield (ctx.cluster_spec.get("headGroupSpec") or {}).get("template") or {}
        for group in ctx.cluster_spec.get("workerGroupSpecs") or ():
            yield group.get("template") or {}
    if any(group.name == SUBMITTER_GROUP for group in ctx.groups):
        yield ctx.spec.get("submitterPodTemplate") or {}


def _task_group(name: str, members: int, resources: Mapping[str, str], template: Mapping[str, Any]) -> TaskGroup:
    spec = template.get("spec") or {}
    group: TaskGroup = {"minResource": dict(resources)}
    for key in ("nodeSelector", "affinity"):
        if spec.get(key):
            group[key] = spec[key]
    group["name"] = name
    if spec.get("tolerations"):
        group["tolerations"] = spec["tolerations"]
    group["minMember"] = members
    return group


def _sum(*amounts: Mapping[str, str]) -> dict[str, str]:
    return dict(sorted(add_requests(amounts).items()))
