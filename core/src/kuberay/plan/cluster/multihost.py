"""Which replicas of a multi-host group are created and deleted: all hosts of a replica come and go together.

Source: spec raycluster.md 4.6.
"""

from __future__ import annotations

from kuberay.api import names
from kuberay.api.cluster import WorkerGroupSpec
from kuberay.api.objects import Pod
from kuberay.plan.cluster import deletions
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.pod_health import deletion_reason
from kuberay.plan.cluster.replica_labels import (
    free_indices,
    label_number,
    replica_index,
    victim_rank,
    worker_place,
    worker_prefix,
)


def decide_multi_host(cluster: ClusterPass, group: WorkerGroupSpec, pods: list[Pod]) -> PodDecision:
    """Replicas that are incomplete, unhealthy or named go as a whole and do not count. Pods without a replica name
    (of an operator that did not index) are left alone."""
    decision = PodDecision()
    replicas: dict[str, list[Pod]] = {}
    for pod in pods:
        replica = pod.metadata.labels.get(names.LABEL_REPLICA_NAME)
        if replica:
            replicas.setdefault(replica, []).append(pod)
    named = set(group.workers_to_delete)
    valid: dict[str, list[Pod]] = {}
    for replica, hosts in replicas.items():
        reason = _why_not_valid(group, hosts, named)
        if reason:
            _delete(decision, group, hosts, reason)
        else:
            valid[replica] = hosts
    surplus = len(valid) - group.desired_replicas()
    if surplus > 0 and cluster.picks_victims:
        victims = sorted(
            valid, key=lambda name: victim_rank(valid[name], going=all(pod.deleting for pod in valid[name]))
        )
        for replica in victims[:surplus]:
            _delete(decision, group, valid.pop(replica), "scaling down")
    for replica, hosts in valid.items():
        index = replica_index(hosts[0])
        for pod in hosts:
            host = label_number(pod, names.LABEL_HOST_INDEX)
            decision.keep.append((worker_place(cluster.name, group, pod.name, index, host=host, replica=replica), pod))
    if surplus < 0:
        _create(cluster, decision, group, -surplus, valid, replicas)
    return decision


def _why_not_valid(group: WorkerGroupSpec, hosts: list[Pod], named: set[str]) -> str:
    if len(hosts) < group.num_of_hosts:
        return "cleanup of incomplete multi-host group"
    for pod in hosts:
        reason = deletion_reason(pod, names.WORKER)
        if reason:
            return reason
    if any(pod.name in named for pod in hosts):
        return "autoscaler scale-down request"
    return ""


def _delete(decision: PodDecision, group: WorkerGroupSpec, hosts: list[Pod], reason: str) -> None:
    decision.delete += [deletions.replica_worker(pod, group.group_name, reason) for pod in deletions.living(hosts)]


def _create(
    cluster: ClusterPass,
    decision: PodDecision,
    group: WorkerGroupSpec,
    count: int,
    valid: dict[str, list[Pod]],
    replicas: dict[str, list[Pod]],
) -> None:
    prefix = worker_prefix(cluster.name, group)
    indices = free_indices(replica_index(hosts[0]) for hosts in valid.values())
    for _ in range(count):
        index = next(indices)
        replica = cluster.namer.replica(group.group_name, index, replicas)
        for host in range(group.num_of_hosts):
            name = cluster.namer.pod(prefix, group.group_name, index, host)
            decision.create.append(worker_place(cluster.name, group, name, index, host=host, replica=replica))
