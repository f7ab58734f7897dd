"""Which pods were made from another spec than the present one, and what those say that are up to date without saying so.

Source: docs/upgrades.md, cases.md RC-04. Only with the upgrade strategy Rolling; an operator's upgrade changes no more
than annotations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kuberay.api import names, quantity
from kuberay.api.cluster import GroupSpec, WorkerGroupSpec
from kuberay.api.kinds import POD
from kuberay.api.objects import Container, Pod
from kuberay.plan.build.group_hash import known_scheme, resizing, same_but_size
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import is_over
from kuberay.plan.cluster.replica_labels import had_one_host
from kuberay.plan.cluster.resize import allowed, resize, resize_state
from kuberay.plan.cluster.rolling import bounds
from kuberay.plan.model import Patch, Write


@dataclass(slots=True)
class Outdated:
    """Names of outdated pods, and what is written about and to others."""

    pods: set[str] = field(default_factory=set)
    resizing: set[str] = field(default_factory=set)
    """Pods that get the right size in place, now or in a later step."""
    writes: list[Write] = field(default_factory=list)


def find_outdated(cluster: ClusterPass, head_annotations: Mapping[str, str]) -> Outdated:
    """All pods of the spec's groups. *head_annotations* are what a new head would say about its making."""
    found = Outdated()
    spec, hashes = cluster.form.spec, cluster.form.group_hashes
    for group in spec.worker_group_specs:
        wanted = hashes[group.group_name]
        others: list[Pod] = []
        for pod in cluster.children.groups.get(group.group_name, ()):
            told = _told(pod)
            if told == wanted or is_over(pod) or _left_alone(cluster, group, pod):
                continue
            if _is_up_to_date(pod, group, told):
                if not pod.deleting:
                    found.writes.append(_annotate(pod, {names.ANNOTATION_GROUP_HASH: wanted}))
            else:
                others.append(pod)
        if others:
            _replace_or_resize(cluster, group, wanted, others, found)
    head = cluster.children.head
    if head is not None and not is_over(head):
        _look_at_head(cluster, head, head_annotations, found)
    return found


def _look_at_head(cluster: ClusterPass, head: Pod, annotations: Mapping[str, str], found: Outdated) -> None:
    """Once nothing is outdated, the head says that the whole spec is in use: for the day Recreate is chosen."""
    group, wanted = cluster.form.spec.head_group_spec, cluster.form.group_hashes[names.HEAD_GROUP]
    live, told = head.metadata.annotations, _told(head)
    if told != wanted:
        same_spec = not told and all(live.get(key) == value for key, value in annotations.items())
        if not same_spec and not _is_up_to_date(head, group, told):
            _replace_or_resize(cluster, group, wanted, [head], found)
            return
    says = {names.ANNOTATION_GROUP_HASH: wanted}
    if not found.pods and not found.resizing:
        says |= annotations
    if not head.deleting and any(live.get(key) != value for key, value in says.items()):
        found.writes.append(_annotate(head, says))


def _replace_or_resize(cluster: ClusterPass, group: GroupSpec, wanted: str, pods: list[Pod], found: Outdated) -> None:
    """A pod that has the wrong size and nothing else wrong keeps running where its size can be changed; a few at a time."""
    if not allowed(cluster):
        found.pods |= {pod.name for pod in pods}
        return
    is_worker = isinstance(group, WorkerGroupSpec)
    possible: list[Pod] = []
    steps = _steps(cluster, group) if isinstance(group, WorkerGroupSpec) else 1
    for pod in pods:
        told = _told(pod)
        if pod.deleting or not same_but_size(told, wanted):
            found.pods.add(pod.name)
            continue
        state = resize_state(cluster, pod, group, names.WORKER if is_worker else names.HEAD)
        if state == "impossible":
            found.pods.add(pod.name)
        elif state == "done":
            found.writes.append(_annotate(pod, {names.ANNOTATION_GROUP_HASH: wanted}))
        else:
            found.resizing.add(pod.name)
            if state == "possible":
                possible.append(pod)
            else:
                steps -= 1
    for pod in possible[: max(steps, 0)]:
        marked = resizing(wanted)
        # Marked first, so that a pod between two sizes is never taken for one of either.
        if _told(pod) != marked:
            found.writes.append(_annotate(pod, {names.ANNOTATION_GROUP_HASH: marked}))
        else:
            found.writes.append(resize(pod, group))


def _steps(cluster: ClusterPass, group: WorkerGroupSpec) -> int:
    """How many pods of *group* may be changed at a time."""
    strategy = cluster.form.spec.upgrade_strategy
    assert strategy is not None
    return max(sum(bounds(strategy, cluster.desired_replicas(group))), 1) * group.num_of_hosts


def _told(pod: Pod) -> str:
    return pod.metadata.annotations.get(names.ANNOTATION_GROUP_HASH, "")


def _annotate(pod: Pod, annotations: Mapping[str, str]) -> Patch:
    # The UID keeps a later pod of the same name from being taken for this one.
    body = {"metadata": {"uid": pod.uid, "annotations": dict(annotations)}}
    return Patch(kind=POD, namespace=pod.namespace, name=pod.name, body=body)


def _left_alone(cluster: ClusterPass, group: WorkerGroupSpec, pod: Pod) -> bool:
    """Hosts without a replica name, made by an operator that did not index, are nobody's to replace (4.6)."""
    if not cluster.indexed or group.num_of_hosts <= 1 or pod.metadata.labels.get(names.LABEL_REPLICA_NAME):
        return False
    return not had_one_host(pod)


def _is_up_to_date(pod: Pod, group: GroupSpec, told: str) -> bool:
    """*told* differs from what is wanted. A hash of another way of hashing says nothing against the pod; a pod that says
    nothing was made before the strategy was chosen and shows in its containers what it was made from."""
    return not known_scheme(told) if told else _same_containers(pod, group)


def _same_containers(pod: Pod, group: GroupSpec) -> bool:
    live = {container.name: container for container in pod.spec.containers}
    return all(
        _same(live.get(container.get("name") or ""), container) for container in group.pod_spec.get("containers") or ()
    )


def _same(live: Container | None, wanted: Mapping[str, Any]) -> bool:
    """Whether *live* has the image and the amounts that the user wrote; what others added does not count."""
    if live is None or live.image != (wanted.get("image") or ""):
        return False
    resources = wanted.get("resources") or {}
    limits = live.resources.limits if live.resources else {}
    requests = live.resources.requests if live.resources else {}
    return _has(limits, resources.get("limits") or {}) and _has(requests, resources.get("requests") or {})


def _has(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    try:
        return all(
            name in live and quantity.parse(live[name]) == quantity.parse(amount) for name, amount in wanted.items()
        )
    except ValueError:
        return False
