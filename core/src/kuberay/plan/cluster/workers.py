"""Which workers of a group are created and deleted when each pod counts for itself.

Source: spec raycluster.md 4.5, cases.md AS-01, AS-02 and RC-03.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api import names
from kuberay.api.cluster import WorkerGroupSpec
from kuberay.api.objects import Pod
from kuberay.plan.cluster import deletions
from kuberay.plan.cluster.drain import draining_since, let_go, let_go_together
from kuberay.plan.cluster.multihost import by_replica, decide_multi_host
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.pod_health import deletion_reason, is_over
from kuberay.plan.cluster.replica_labels import (
    free_indices,
    label_number,
    replica_index,
    victim_rank,
    worker_place,
    worker_prefix,
)
from kuberay.plan.cluster.rolling import is_going, is_rolled, replica, roll
from kuberay.plan.model import Write


def decide_workers(cluster: ClusterPass) -> PodDecision:
    """All groups of the spec, then pods of groups that are gone from it."""
    decision = PodDecision()
    seen: set[str] = set()
    for group in cluster.form.spec.worker_group_specs:
        seen.add(group.group_name)
        pods = cluster.children.groups.get(group.group_name, [])
        if group.suspend:
            decision.delete += deletions.suspended_group(pods, cluster.name, group.group_name)
        elif group.num_of_hosts > 1 and cluster.indexed:
            decision.merge(decide_multi_host(cluster, group, pods))
        else:
            decision.merge(_decide_group(cluster, group, pods))
    for name, pods in cluster.children.groups.items():
        if name not in seen:
            decision.delete += _removed_group(cluster, name, pods)
    return decision


def workers_without_head(cluster: ClusterPass) -> PodDecision:
    """What is left of a cluster whose head never comes back: workers stay as they are, but for groups that are suspended
    (a RayJob's deletion rule says it so)."""
    decision = PodDecision()
    for group in cluster.form.spec.worker_group_specs:
        pods = cluster.children.groups.get(group.group_name, [])
        if group.suspend:
            decision.delete += deletions.suspended_group(pods, cluster.name, group.group_name)
            continue
        for pod in pods:
            if not is_over(pod):
                host = label_number(pod, names.LABEL_HOST_INDEX)
                place = worker_place(cluster.name, group, pod.name, replica_index(pod), host=host)
                decision.keep.append((place, pod))
    return decision


def removed_groups(cluster: ClusterPass) -> list[str]:
    """Names of groups that still have pods although the spec no longer names them."""
    known = {group.group_name for group in cluster.form.spec.worker_group_specs}
    return sorted(name for name in cluster.children.groups if name not in known)


def _removed_group(cluster: ClusterPass, name: str, pods: list[Pod]) -> list[Write]:
    """Replicas of several hosts leave as one; their number may differ from pod to pod, nobody knows it any more."""
    replicas, single = by_replica(pods)
    writes: list[Write] = []
    for hosts in [*replicas.values(), *([pod] for pod in single)]:
        leaving = [(pod, deletions.leftover_worker(pod, name)) for pod in deletions.living(hosts)]
        writes += let_go_together(cluster, leaving)
    return writes


def _decide_group(cluster: ClusterPass, group: WorkerGroupSpec, pods: list[Pod]) -> PodDecision:
    """Named pods never count, so that no bystander goes for them, and neither do those that are drained; ended ones do
    not count either and are replaced at once; terminating ones count until they are gone."""
    decision = PodDecision()
    named = set(group.workers_to_delete)
    running: list[Pod] = []
    drained: list[Pod] = []
    for pod in pods:
        if pod.name in named:
            if not pod.deleting:
                decision.delete.append(deletions.named_worker(pod))
            continue
        if not pod.deleting and deletion_reason(pod, names.WORKER):
            decision.delete.append(deletions.unhealthy_worker(pod))
        elif draining_since(pod) is not None:
            drained.append(pod)
            if not pod.deleting:
                outdated = pod.name in cluster.outdated
                delete = deletions.outdated_worker(pod, group.group_name) if outdated else deletions.surplus_worker(pod)
                decision.delete += let_go(cluster, pod, delete)
            continue
        if not is_over(pod):
            running.append(pod)
    surplus = len(running) - cluster.desired_replicas(group) * group.num_of_hosts
    if is_rolled(cluster, pods):
        surplus = -_roll(cluster, group, decision, pods, running)
    elif surplus > 0 and cluster.picks_victims:
        going = {write.name for write in decision.delete}
        victims = sorted(running, key=lambda pod: victim_rank([pod], going=pod.deleting or pod.name in going))[:surplus]
        _take_out(running, victims)
        for pod in victims:
            if not pod.deleting and pod.name not in going:
                decision.delete += let_go(cluster, pod, deletions.surplus_worker(pod))
    decision.keep += [(worker_place(cluster.name, group, pod.name, replica_index(pod)), pod) for pod in running]
    if surplus < 0:
        indices = free_indices(replica_index(pod) for pod in (*running, *drained))
        # Without index labels the number only spreads names; counting on from the pods there are is as good.
        numbers = indices if cluster.indexed else iter(range(len(running), len(running) - surplus))
        prefix = worker_prefix(cluster.name, group)
        for _ in range(-surplus):
            number = next(numbers)
            name = cluster.namer.pod(prefix, group.group_name, number, 0)
            decision.create.append(worker_place(cluster.name, group, name, number if cluster.indexed else None))
    return decision


def _roll(
    cluster: ClusterPass, group: WorkerGroupSpec, decision: PodDecision, pods: list[Pod], running: list[Pod]
) -> int:
    """One step of the group's rolling upgrade. Takes those that leave out of *running* and returns how many to make."""
    ending = {write.name for write in decision.delete}
    replicas = [replica(cluster, pod.name, [pod], going=is_going(pod, ending)) for pod in running]
    existing = sum(not is_over(pod) for pod in pods)
    step = roll(cluster, group, replicas, existing=existing, per_replica=group.num_of_hosts)
    leaving = [pod for found in step.leave for pod in found.pods]
    _take_out(running, leaving)
    for pod in leaving:
        decision.delete += let_go(cluster, pod, deletions.outdated_worker(pod, group.group_name))
    return step.create


def _take_out(running: list[Pod], leaving: Sequence[Pod]) -> None:
    """Groups may have thousands of pods: one walk, instead of one for each that leaves."""
    gone = {pod.name for pod in leaving}
    running[:] = [pod for pod in running if pod.name not in gone]
