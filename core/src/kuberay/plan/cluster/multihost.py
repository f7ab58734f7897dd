"""Which replicas of a multi-host group are created and deleted: all hosts of a replica come and go together.

Source: spec raycluster.md 4.6.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api import names
from kuberay.api.cluster import WorkerGroupSpec
from kuberay.api.objects import Pod
from kuberay.plan.cluster import deletions, rolling
from kuberay.plan.cluster.drain import draining_since, let_go_together
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.pod_health import deletion_reason, is_over
from kuberay.plan.cluster.replica_labels import (
    free_indices,
    had_one_host,
    label_number,
    replica_index,
    victim_rank,
    worker_place,
    worker_prefix,
)
from kuberay.plan.cluster.rolling import is_going, is_rolled

_SCALING_DOWN = "scaling down"
_OUTDATED = "the spec of its worker group has changed"


def by_replica(pods: Sequence[Pod]) -> tuple[dict[str, list[Pod]], list[Pod]]:
    """Hosts by the name of their replica, and pods that have none."""
    replicas: dict[str, list[Pod]] = {}
    single = []
    for pod in pods:
        replica = pod.metadata.labels.get(names.LABEL_REPLICA_NAME)
        if replica:
            replicas.setdefault(replica, []).append(pod)
        else:
            single.append(pod)
    return replicas, single


def decide_multi_host(cluster: ClusterPass, group: WorkerGroupSpec, pods: list[Pod]) -> PodDecision:
    """Replicas that are incomplete, unhealthy or named go as a whole and do not count. So do those from before
    ``numOfHosts`` was raised. Pods of an operator that did not index are left alone."""
    decision = PodDecision()
    replicas, single = by_replica(pods)
    replicas |= {pod.name: [pod] for pod in single if had_one_host(pod)}
    named = set(group.workers_to_delete)
    valid: dict[str, list[Pod]] = {}
    drained: list[list[Pod]] = []
    for replica, hosts in replicas.items():
        reason = _why_not_valid(group, hosts, named, cluster.outdated)
        if reason:
            _delete(decision, group, hosts, reason)
        elif any(draining_since(pod) is not None for pod in hosts):
            drained.append(hosts)
            outdated = any(pod.name in cluster.outdated for pod in hosts)
            _let_go(cluster, decision, group, hosts, _OUTDATED if outdated else _SCALING_DOWN)
        else:
            valid[replica] = hosts
    surplus = len(valid) - cluster.desired_replicas(group)
    if is_rolled(cluster, pods):
        surplus = -_roll(cluster, group, decision, replicas, valid)
    elif surplus > 0 and cluster.picks_victims:
        victims = sorted(
            valid, key=lambda name: victim_rank(valid[name], going=all(pod.deleting for pod in valid[name]))
        )
        for replica in victims[:surplus]:
            _let_go(cluster, decision, group, valid.pop(replica), _SCALING_DOWN)
    for replica, hosts in valid.items():
        index = replica_index(hosts[0])
        for pod in hosts:
            host = label_number(pod, names.LABEL_HOST_INDEX)
            decision.keep.append((worker_place(cluster.name, group, pod.name, index, host=host, replica=replica), pod))
    if surplus < 0:
        used = [replica_index(hosts[0]) for hosts in (*valid.values(), *drained)]
        _create(cluster, decision, group, -surplus, used, replicas)
    return decision


def _roll(
    cluster: ClusterPass,
    group: WorkerGroupSpec,
    decision: PodDecision,
    replicas: dict[str, list[Pod]],
    valid: dict[str, list[Pod]],
) -> int:
    """One step of the group's rolling upgrade. Takes those that leave out of *valid* and returns how many to make."""
    found = [
        rolling.replica(
            cluster,
            name,
            hosts,
            going=all(is_going(pod) for pod in hosts),
            complete=len(hosts) >= group.num_of_hosts,
        )
        for name, hosts in valid.items()
    ]
    existing = sum(not all(is_over(pod) for pod in hosts) for hosts in replicas.values())
    step = rolling.roll(cluster, group, found, existing=existing)
    for leaving in step.leave:
        _let_go(cluster, decision, group, valid.pop(leaving.name), _OUTDATED)
    return step.create


def _why_not_valid(group: WorkerGroupSpec, hosts: list[Pod], named: set[str], outdated: set[str]) -> str:
    # Replicas of another spec may have had another number of hosts; they go as the upgrade gets to them.
    if len(hosts) < group.num_of_hosts and not all(pod.name in outdated for pod in hosts):
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


def _let_go(cluster: ClusterPass, decision: PodDecision, group: WorkerGroupSpec, hosts: list[Pod], reason: str) -> None:
    leaving = [(pod, deletions.replica_worker(pod, group.group_name, reason)) for pod in deletions.living(hosts)]
    decision.delete += let_go_together(cluster, leaving)


def _create(
    cluster: ClusterPass,
    decision: PodDecision,
    group: WorkerGroupSpec,
    count: int,
    used: list[int | None],
    replicas: dict[str, list[Pod]],
) -> None:
    prefix = worker_prefix(cluster.name, group)
    indices = free_indices(used)
    for _ in range(count):
        index = next(indices)
        replica = cluster.namer.replica(group.group_name, index, replicas)
        for host in range(group.num_of_hosts):
            name = cluster.namer.pod(prefix, group.group_name, index, host)
            decision.create.append(worker_place(cluster.name, group, name, index, host=host, replica=replica))
