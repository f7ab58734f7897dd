"""Which workers of a group are created and deleted when each pod counts for itself.

Source: spec raycluster.md 4.5, cases.md AS-01, AS-02 and RC-03.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.cluster import WorkerGroupSpec
from kuberay.api.objects import Pod
from kuberay.plan.cluster import deletions
from kuberay.plan.cluster.drain import let_go
from kuberay.plan.cluster.multihost import decide_multi_host
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.pod_health import deletion_reason, is_over
from kuberay.plan.cluster.replica_labels import free_indices, replica_index, victim_rank, worker_place, worker_prefix


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
            for pod in deletions.living(pods):
                decision.delete += let_go(cluster, pod, deletions.leftover_worker(pod, name))
    return decision


def removed_groups(cluster: ClusterPass) -> list[str]:
    """Names of groups that still have pods although the spec no longer names them."""
    known = {group.group_name for group in cluster.form.spec.worker_group_specs}
    return sorted(name for name in cluster.children.groups if name not in known)


def _decide_group(cluster: ClusterPass, group: WorkerGroupSpec, pods: list[Pod]) -> PodDecision:
    """Named pods never count, so that no bystander goes for them; ended ones do not count either and are replaced at
    once; terminating ones count until they are gone."""
    decision = PodDecision()
    named = set(group.workers_to_delete)
    running: list[Pod] = []
    for pod in pods:
        if pod.name in named:
            if not pod.deleting:
                decision.delete.append(deletions.named_worker(pod))
            continue
        if not pod.deleting and deletion_reason(pod, names.WORKER):
            decision.delete.append(deletions.unhealthy_worker(pod))
        if not is_over(pod):
            running.append(pod)
    surplus = len(running) - group.desired_pods()
    if surplus > 0 and cluster.picks_victims:
        going = {write.name for write in decision.delete}
        victims = sorted(running, key=lambda pod: victim_rank([pod], going=pod.deleting or pod.name in going))[:surplus]
        for pod in victims:
            running.remove(pod)
            if not pod.deleting and pod.name not in going:
                decision.delete += let_go(cluster, pod, deletions.surplus_worker(pod))
    decision.keep += [(worker_place(cluster.name, group, pod.name, replica_index(pod)), pod) for pod in running]
    if surplus < 0:
        indices = free_indices(replica_index(pod) for pod in running)
        # Without index labels the number only spreads names; counting on from the pods there are is as good.
        numbers = indices if cluster.indexed else iter(range(len(running), len(running) - surplus))
        prefix = worker_prefix(cluster.name, group)
        for _ in range(-surplus):
            number = next(numbers)
            name = cluster.namer.pod(prefix, group.group_name, number, 0)
            decision.create.append(worker_place(cluster.name, group, name, number if cluster.indexed else None))
    return decision
