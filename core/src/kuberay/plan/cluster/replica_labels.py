"""How workers of a group are numbered and named, and in which order surplus ones go.

Source: spec raycluster.md 0.2, 3.3 and 4.5.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kuberay.api import names
from kuberay.api.cluster import WorkerGroupSpec
from kuberay.api.objects import Pod
from kuberay.plan.build.pods import PodPlace
from kuberay.plan.cluster.pod_health import is_ready, unschedulable_since

_LAST = 2**31
"""Counts as the index of a pod without one."""


def label_number(pod: Pod, label: str) -> int | None:
    """A label as a whole number; None when there is none that makes sense."""
    text = pod.metadata.labels.get(label, "")
    return int(text) if text.isascii() and text.isdigit() else None


def replica_index(pod: Pod) -> int | None:
    """The replica index label."""
    return label_number(pod, names.LABEL_REPLICA_INDEX)


def had_one_host(pod: Pod) -> bool:
    """Whether the pod was a whole replica when it was made: of a group that had one host a replica then."""
    labels = pod.metadata.labels
    return (
        names.LABEL_REPLICA_INDEX in labels
        and names.LABEL_REPLICA_NAME not in labels
        and names.LABEL_HOST_INDEX not in labels
    )


def free_indices(used: Iterable[int | None]) -> Iterator[int]:
    """Whole numbers from 0 up that are not used."""
    taken = set(used)
    number = 0
    while True:
        if number not in taken:
            yield number
        number += 1


def worker_prefix(cluster: str, group: WorkerGroupSpec) -> str:
    """``generateName`` of a group's pods."""
    return names.pod_name_prefix(f"{cluster}-{group.group_name}", names.WORKER)


def worker_place(
    cluster: str, group: WorkerGroupSpec, name: str, index: int | None, *, host: int | None = None, replica: str = ""
) -> PodPlace:
    """The place of one worker; *host* and *replica* only in groups of several hosts a replica."""
    return PodPlace(
        node_type="worker",
        group=group,
        group_name=group.group_name,
        name=name,
        generate_name=worker_prefix(cluster, group),
        replica_index=index,
        host_index=host,
        replica_name=replica,
    )


def victim_rank(hosts: Sequence[Pod], *, going: bool) -> tuple[int, int, str]:
    """Sorts surplus replicas, victims first: those that go anyway, those that find no node, those not ready, then the
    highest index."""
    index = replica_index(hosts[0])
    order = -(_LAST if index is None else index)
    if going:
        kind = 0
    elif any(unschedulable_since(pod) for pod in hosts):
        kind = 1
    else:
        kind = 3 if all(is_ready(pod) for pod in hosts) else 2
    return (kind, order, hosts[0].name)
