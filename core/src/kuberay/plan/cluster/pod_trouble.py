"""What keeps one pod from being ready or from going, in Kubernetes' own words, and from when on that is worth telling.

A pod that merely starts is in no trouble: each kind of trouble counts only after the time a healthy start may take.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from kuberay.api.conditions import FALSE, TRUE, UNKNOWN, TroubleReason
from kuberay.api.objects import Condition, ContainerStateDetail, ContainerStatus, Pod
from kuberay.api.times import format_time
from kuberay.plan.build.wait_gcs import NAME as WAIT_GCS
from kuberay.plan.cluster.pod_health import describe, is_over, is_ready, pod_condition

SCHEDULING = timedelta(seconds=10)
"""The scheduler found no node."""
STARTING = timedelta(seconds=10)
"""A container cannot start; a registry may have failed once."""
UNSEEN = timedelta(seconds=120)
"""No scheduler has looked at the pod."""
AWAITING_HEAD = timedelta(seconds=120)
PROBING = timedelta(seconds=120)
"""A container runs and its probe says no."""
PREPARING = timedelta(seconds=300)
"""Volumes are mounted and images pulled; those of Ray are large."""
GOING = timedelta(seconds=30)
"""Beyond the moment at which the pod should have been gone."""

_PULL = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"})
_PREPARING = frozenset({"", "ContainerCreating", "PodInitializing"})
_LONGEST_DETAIL = 500


@dataclass(frozen=True, slots=True)
class Trouble:
    """*text* says what is wrong, *detail* adds somebody else's words. It counts from *due* on."""

    reason: TroubleReason
    text: str
    due: datetime
    detail: str = ""
    keeps_detail: bool = False
    """The detail differs from try to try: one that was told already is as good."""


def find_trouble(pod: Pod, now: datetime) -> Trouble | None:
    """The first thing that is wrong with *pod*, in the order in which a pod starts; None for a pod that is ready or
    replaced anyway."""
    if pod.deleting:
        return _going(pod)
    if is_ready(pod) or is_over(pod):
        return None
    born = pod.metadata.creation_timestamp or now
    lost = _node_lost(pod)
    if lost:
        return Trouble(TroubleReason.NODE_LOST, lost, _since(pod_condition(pod, "Ready"), born) + SCHEDULING)
    scheduled = pod_condition(pod, "PodScheduled")
    if scheduled is not None and scheduled.status == FALSE:
        gated = scheduled.reason == "SchedulingGated"
        reason = TroubleReason.SCHEDULING_GATED if gated else TroubleReason.UNSCHEDULABLE
        text = _one_line(scheduled.message) or "the scheduler gives no reason"
        return Trouble(reason, text, _since(scheduled, born) + SCHEDULING)
    if not pod.spec.node_name and pod.status.phase in ("", "Pending") and scheduled is None:
        return Trouble(TroubleReason.NOT_SCHEDULED, "no scheduler has taken it up", born + UNSEEN)
    started = _since(scheduled, born)
    for status in pod.status.init_container_statuses:
        trouble = _container(pod, status, started, first=True)
        if trouble is not None:
            return trouble
    for status in pod.status.container_statuses:
        trouble = _container(pod, status, started, first=False)
        if trouble is not None:
            return trouble
    if pod.status.phase == "Running":
        return _unready(pod, born)
    return Trouble(TroubleReason.CONTAINERS_CREATING, "its containers are still being made", started + PREPARING)


def _container(pod: Pod, status: ContainerStatus, started: datetime, *, first: bool) -> Trouble | None:
    """*first* says that it is an init container."""
    state, name = status.state, status.name
    if state.waiting is not None:
        return _waiting(status, state.waiting, started)
    if state.terminated is not None:
        return _ended(pod, status, state.terminated, started, first=first)
    if status.ready or state.running is None:
        return None
    if status.restart_count >= 2 and status.last_state.terminated is not None:
        return _crashes(status, status.last_state.terminated, started)
    begun = state.running.started_at or started
    if name == WAIT_GCS:
        text = f"the init container {name} waits for the head to answer"
        return Trouble(TroubleReason.WAITING_FOR_HEAD, text, begun + AWAITING_HEAD)
    if first:
        text = f"the init container {name} has not ended yet"
        return Trouble(TroubleReason.CONTAINERS_CREATING, text, begun + PREPARING)
    since = max(begun, _since(pod_condition(pod, "Ready"), begun))
    return Trouble(TroubleReason.CONTAINERS_NOT_READY, f"container {name} runs but is not ready", since + PROBING)


def _ended(
    pod: Pod, status: ContainerStatus, ended: ContainerStateDetail, started: datetime, *, first: bool
) -> Trouble | None:
    """An init container has to end; another one that will not be started again keeps the pod from being ready."""
    well, policy = ended.exit_code == 0, pod.spec.restart_policy
    if first and well:
        return None
    if not first and (policy == "Never" or (policy == "OnFailure" and well)):
        text = f"container {status.name} has ended with {describe(ended)} and is not started again"
        return Trouble(
            TroubleReason.CONTAINER_ENDED, text, (ended.finished_at or started) + STARTING, _last_line(ended)
        )
    return _crashes(status, ended, started) if status.restart_count >= 2 else None


def _waiting(status: ContainerStatus, waiting: ContainerStateDetail, started: datetime) -> Trouble | None:
    if waiting.reason in _PREPARING:
        return None
    # A container that cannot even be started takes turns between both, with the number of a new container each time.
    if waiting.reason == "CrashLoopBackOff" or (waiting.reason == "RunContainerError" and status.restart_count >= 2):
        return _crashes(status, status.last_state.terminated, started)
    detail = _one_line(waiting.message)
    if waiting.reason in _PULL:
        # The kubelet's words alternate between the error and "Back-off pulling …", which may hold the error or not.
        quick, error, cause = detail.partition("ErrImagePull: ")
        text = f"container {status.name} cannot pull its image"
        vague = not error and quick.startswith("Back-off")
        return Trouble(TroubleReason.IMAGE_PULL, text, started + STARTING, cause if error else quick, vague)
    text = f"container {status.name} cannot start ({waiting.reason})"
    return Trouble(TroubleReason.CONTAINER_CANNOT_START, text, started + STARTING, detail)


def _crashes(status: ContainerStatus, ended: ContainerStateDetail | None, started: datetime) -> Trouble:
    """How often is not said: it would be another text each time."""
    last = f", last with {describe(ended)}" if ended is not None else ""
    text = f"container {status.name} ends again and again{last}"
    return Trouble(TroubleReason.CRASH_LOOP, text, started, _last_line(ended), keeps_detail=True)


def _unready(pod: Pod, born: datetime) -> Trouble:
    """All containers are fine and the pod is not: a readiness gate."""
    ready = pod_condition(pod, "Ready")
    text = _one_line(ready.message) if ready is not None else ""
    reason = TroubleReason.CONTAINERS_NOT_READY
    return Trouble(reason, text or "it runs but is not ready", _since(ready, born) + PROBING)


def _going(pod: Pod) -> Trouble:
    """A pod that is being deleted; ``deletionTimestamp`` is when it should be gone."""
    deadline = pod.metadata.deletion_timestamp
    assert deadline is not None
    lost = _node_lost(pod)
    if lost:
        return Trouble(TroubleReason.NODE_LOST, f"{lost}; it counts until it is gone", deadline)
    target = pod_condition(pod, "DisruptionTarget")
    if target is not None and target.status == TRUE:
        preempted = target.reason == "PreemptionByScheduler"
        reason = TroubleReason.PREEMPTED if preempted else TroubleReason.EVICTED
        return Trouble(reason, "it has to go", _since(target, deadline) + STARTING, _one_line(target.message))
    holders = f"; finalizers {', '.join(pod.metadata.finalizers)} hold it" if pod.metadata.finalizers else ""
    text = f"it should have been gone by {format_time(deadline)}{holders}"
    return Trouble(TroubleReason.STUCK_TERMINATING, text, deadline + GOING)


def _node_lost(pod: Pod) -> str:
    """Whether Kubernetes gave the pod up because its node is silent; empty when not."""
    ready, target = pod_condition(pod, "Ready"), pod_condition(pod, "DisruptionTarget")
    silent = (
        pod.status.phase == "Unknown"
        or (ready is not None and ready.status == UNKNOWN)
        or "NodeLost" in (pod.status.reason, ready.reason if ready is not None else "")
        or (target is not None and target.reason == "DeletionByTaintManager")
        # The node controller takes readiness away without a reason; a kubelet always gives one.
        or (ready is not None and ready.status == FALSE and not ready.reason and _all_run(pod))
    )
    return f"its node {pod.spec.node_name} does not answer".replace("  ", " ") if silent else ""


def _all_run(pod: Pod) -> bool:
    return bool(pod.status.container_statuses) and all(status.ready for status in pod.status.container_statuses)


def _since(condition: Condition | None, otherwise: datetime) -> datetime:
    return condition.last_transition_time or otherwise if condition is not None else otherwise


def _last_line(ended: ContainerStateDetail | None) -> str:
    """The last line of the container's termination message."""
    lines = list(_lines(ended.message)) if ended is not None else []
    return lines[-1][:_LONGEST_DETAIL] if lines else ""


def _lines(text: str) -> Iterator[str]:
    return (line.strip() for line in text.splitlines() if line.strip())


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_DETAIL]
