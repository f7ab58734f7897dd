"""How the deletion of pods is written and told.

Source: spec raycluster.md 4.4-4.9 and 7. Pods that are terminating already are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kuberay.api.conditions import ClusterReason
from kuberay.api.kinds import POD
from kuberay.api.objects import Pod
from kuberay.plan.cluster.pod_health import state_text
from kuberay.plan.model import Delete, Event, Write

Failed = Callable[[str], Event]


def delete_pod(pod: Pod, done: Event | None, failed: Failed, marker: str) -> Delete:
    """One deletion; *done* and *failed* are its events."""
    return Delete(
        kind=POD, namespace=pod.namespace, name=pod.name, uid=pod.uid, done=done, failed=failed, marker=marker
    )


def unhealthy_head(pod: Pod) -> Delete:
    """The head is beyond repair (4.7)."""
    what = f"head Pod {pod.namespace}/{pod.name}; {state_text(pod)}"
    return delete_pod(
        pod,
        deleted("DeletedHeadPod", f"Deleted {what}"),
        failure("FailedToDeleteHeadPod", f"Failed deleting {what}"),
        ClusterReason.FAILED_DELETE_HEAD_POD,
    )


def unhealthy_worker(pod: Pod) -> Delete:
    """A worker is beyond repair (4.7)."""
    what = f"worker Pod {pod.namespace}/{pod.name}; {state_text(pod)}"
    return _worker(pod, f"Deleted {what}", f"Failed deleting {what}")


def named_worker(pod: Pod) -> Delete:
    """A worker that the autoscaler named."""
    what = f"pod {pod.namespace}/{pod.name}"
    return _worker(pod, f"Deleted {what}", f"Failed deleting {what}")


def surplus_worker(pod: Pod) -> Delete:
    """One worker more than wanted."""
    what = f"Pod {pod.namespace}/{pod.name}"
    return _worker(pod, f"Deleted {what}", f"Failed deleting {what}")


def replica_worker(pod: Pod, group: str, reason: str) -> Delete:
    """One host of a multi-host replica that goes as a whole."""
    what = f"worker Pod {pod.namespace}/{pod.name} for group {group}"
    return _worker(pod, f"Deleted {what}: {reason}", f"Failed deleting {what}; {state_text(pod)}")


def outdated_worker(pod: Pod, group: str) -> Delete:
    """A worker that a rolling upgrade replaces."""
    what = f"worker Pod {pod.namespace}/{pod.name}"
    return _worker(pod, f'Deleted {what}: the spec of worker group "{group}" has changed', f"Failed deleting {what}")


def outdated_head(pod: Pod) -> Delete:
    """The head, which a rolling upgrade replaces."""
    what = f"head Pod {pod.namespace}/{pod.name}: the spec of the head group has changed"
    return delete_pod(
        pod,
        deleted("DeletedHeadPod", f"Deleted {what}"),
        failure("FailedToDeleteHeadPod", f"Failed deleting {what}"),
        ClusterReason.FAILED_DELETE_HEAD_POD,
    )


def leftover_worker(pod: Pod, group: str) -> Delete:
    """A worker whose group is no longer in the spec (RC-03)."""
    what = f"worker Pod {pod.namespace}/{pod.name}"
    reason = f'worker group "{group}" is no longer in the spec'
    return _worker(pod, f"Deleted {what}: {reason}", f"Failed deleting {what} ({reason})")


def suspended_group(pods: Iterable[Pod], cluster: str, group: str) -> list[Delete]:
    """All pods of a suspended group, told once."""
    pods = living(pods)
    if not pods:
        return []
    place = f"{pods[0].namespace}/{cluster}"
    done = deleted("DeletedWorkerPod", f"Deleted all pods for suspended worker group {group} in RayCluster {place}")
    failed = failure(
        "FailedToDeleteWorkerPodCollection",
        f"Failed deleting worker Pods for suspended group {group} in RayCluster {place}",
    )
    return _all(pods, done, failed, ClusterReason.FAILED_DELETE_WORKER_POD)


def all_pods(pods: Iterable[Pod], done: Event | None, failed_note: str) -> list[Delete]:
    """Every pod of the cluster, told once."""
    failed = failure("FailedToDeletePodCollection", failed_note)
    return _all(living(pods), done, failed, ClusterReason.FAILED_DELETE_ALL_PODS)


def living(pods: Iterable[Pod]) -> list[Pod]:
    """Those that are not terminating."""
    return [pod for pod in pods if not pod.deleting]


def deleted(reason: str, note: str) -> Event:
    """A Normal event about a deletion."""
    return Event(reason, note, action="Delete")


def failure(reason: str, note: str, action: str = "Delete") -> Failed:
    """Makes the Warning event ``<note>, <error>``."""
    return lambda error: Event(reason, f"{note}, {error}", type="Warning", action=action)


def tell_once(writes: Sequence[Write]) -> list[Write]:
    """The writes with one event per reason: that of the first write, counting the others."""
    counts: dict[tuple[str, str], int] = {}
    for write in writes:
        if write.done is not None:
            key = (write.done.type, write.done.reason)
            counts[key] = counts.get(key, 0) + write.done.count
    told: list[Write] = []
    for write in writes:
        if write.done is None:
            told.append(write)
            continue
        count = counts.pop((write.done.type, write.done.reason), 0)
        if count == write.done.count:
            told.append(write)
        else:
            told.append(replace(write, done=replace(write.done, count=count) if count else None))
    return told


def _worker(pod: Pod, done: str, failed: str) -> Delete:
    return delete_pod(
        pod,
        deleted("DeletedWorkerPod", done),
        failure("FailedToDeleteWorkerPod", failed),
        ClusterReason.FAILED_DELETE_WORKER_POD,
    )


def _all(pods: Sequence[Pod], done: Event | None, failed: Failed, marker: str) -> list[Delete]:
    return [delete_pod(pod, done if index == 0 else None, failed, marker) for index, pod in enumerate(pods)]
