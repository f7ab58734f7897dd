"""How a rolling upgrade is told: conditions while it goes on, why it is stuck, and events at its beginning and end.

Source: docs/upgrades.md. Texts change with the pods only, never with the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from kuberay.api.cluster import WorkerGroupSpec
from kuberay.api.conditions import ClusterCondition, ClusterReason, find_condition
from kuberay.api.objects import Pod
from kuberay.api.times import parse_time
from kuberay.plan.cluster.conditions import Conditions
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import is_over, is_ready
from kuberay.plan.cluster.pod_trouble import find_trouble
from kuberay.plan.cluster.resize import REFUSED, why_not_yet
from kuberay.plan.cluster.rolling import is_going, works
from kuberay.plan.cluster.rolling_head import outdated_head_pod, refused, serves_alone
from kuberay.plan.model import Event

PROGRESSING = "Progressing"
STUCK = "Stuck"
_FINAL = ("Invalid", "Forbidden", "BadRequest", "MethodNotAllowed")
"""What the API server would say again."""
_SERVES_ALONE = (
    "Serve runs no replica on a worker yet; where it never will, set spec.upgradeStrategy.allowHeadRestart to true, or "
    "delete the head pod, and accept that nothing serves until the new head does"
)
HEAD_RESTART_NOT_ALLOWED = "HeadRestartNotAllowed"


def clear_rolling(conditions: Conditions, stays: str = "") -> list[Event]:
    """No pods are replaced one by one: the strategy is another one, or the cluster is suspended. *stays* is why Recreate
    leaves an outdated head alone. Returns the events that are news."""
    conditions.remove(ClusterCondition.ROLLING_UPGRADE)
    return _set_head_outdated(conditions, stays)


def set_rolling(conditions: Conditions, cluster: ClusterPass, held: str) -> list[Event]:
    """Sets or removes both conditions, and returns the events that are news. *held* is what keeps pods from being made."""
    head = outdated_head_pod(cluster)
    why = refused(cluster, head) if head is not None else ""
    stays = f"the head pod {head.name} is not of the present spec: {why}" if head is not None and why else ""
    events = _set_head_outdated(conditions, stays)
    before = find_condition(conditions.items, ClusterCondition.ROLLING_UPGRADE)
    others = cluster.outdated - {head.name} if head is not None and why else cluster.outdated
    begun = parse_time(before["lastTransitionTime"]) if before is not None else None
    if begun is None and (others or cluster.resizing):
        begun = cluster.observed.now.replace(microsecond=0)
    rolled = _rolled_groups(cluster, begun)
    sentences = [*_groups(cluster, rolled), *_head(cluster, head, why)]
    if not sentences:
        conditions.remove(ClusterCondition.ROLLING_UPGRADE)
        if before is not None:
            note = f"RayCluster {cluster.place}: all pods that may be replaced are of the present spec"
            events.append(_event("RollingUpgradeCompleted", note))
        return events
    told = "; ".join(sentences)
    stuck = _why_stuck(cluster, rolled, held)
    reason = REFUSED if _resize_refused(cluster, before) else STUCK if stuck else PROGRESSING
    conditions.set_present(ClusterCondition.ROLLING_UPGRADE, (reason, f"{told}; {stuck}" if stuck else told))
    if before is None:
        events.append(_event("RollingUpgradeStarted", f"RayCluster {cluster.place}: {told}"))
    if reason == STUCK and (before is None or before.get("reason") != STUCK):
        events.append(_event("RollingUpgradeStuck", f"RayCluster {cluster.place}: {told}; {stuck}", warning=True))
    return events


def _set_head_outdated(conditions: Conditions, stays: str) -> list[Event]:
    if conditions.set_present(ClusterCondition.HEAD_OUTDATED, (HEAD_RESTART_NOT_ALLOWED, stays) if stays else None):
        return [_event("HeadPodOutdated", stays, warning=True)]
    return []


def _head(cluster: ClusterPass, head: Pod | None, why: str) -> Iterator[str]:
    if head is not None and not why:
        yield "the head is replaced when all workers are ready" + (
            f", one of which must serve beside it: {_SERVES_ALONE}" if serves_alone(cluster) else ""
        )
    elif any(pod.name in cluster.resizing for pod in cluster.children.heads):
        yield "CPU and memory of the head are being changed in place"


def _rolled_groups(cluster: ClusterPass, begun: datetime | None) -> list[WorkerGroupSpec]:
    """Groups with outdated pods, and those whose last new pods have yet to become ready. What was made before the upgrade
    *begun* is none of its business."""
    return [
        group
        for group in cluster.form.spec.worker_group_specs
        if not group.suspend and _is_rolled(cluster, group, begun)
    ]


def _is_rolled(cluster: ClusterPass, group: WorkerGroupSpec, begun: datetime | None) -> bool:
    pods = _pods(cluster, group)
    if any(pod.name in cluster.outdated for pod in pods):
        return True
    if begun is None:
        return False
    staying = [pod for pod in pods if not is_going(pod)]
    if len(staying) < _wanted(cluster, group):
        return True
    made = [pod.metadata.creation_timestamp for pod in staying if not works(cluster, pod)]
    return any(time is not None and time >= begun for time in made)


def _wanted(cluster: ClusterPass, group: WorkerGroupSpec) -> int:
    return cluster.desired_replicas(group) * group.num_of_hosts


def _groups(cluster: ClusterPass, rolled: Sequence[WorkerGroupSpec]) -> Iterator[str]:
    """How far each group is."""
    names = {group.group_name for group in rolled}
    for group in cluster.form.spec.worker_group_specs:
        pods, name = _pods(cluster, group), group.group_name
        if name in names:
            new = [pod for pod in pods if pod.name not in cluster.outdated and not is_going(pod)]
            wanted = _wanted(cluster, group)
            told = f"group {name}: {len(new)} of {wanted} pods are of the new spec"
            ready = sum(is_ready(pod) for pod in new)
            yield told if len(new) < wanted else f"{told}, {ready} of them ready"
        resized = [pod for pod in pods if pod.name in cluster.resizing]
        if resized:
            told = f"group {name}: CPU and memory of {len(resized)} pods are being changed in place"
            yield told + "".join(f" (pod {pod.name}: {why})" for pod in resized[:1] if (why := why_not_yet(pod)))


def _why_stuck(cluster: ClusterPass, rolled: Sequence[WorkerGroupSpec], held: str) -> str:
    """What is wrong with the first new pod that does not become ready while nothing else moves; empty while there is
    hope."""
    now = cluster.observed.now
    if rolled and held:
        return f"no pods are made: {held}"
    for group in rolled:
        pods = _pods(cluster, group)
        if any(is_going(pod) for pod in pods):
            continue
        for pod in pods:
            waits = pod.name not in cluster.outdated and not works(cluster, pod)
            trouble = find_trouble(pod, now) if waits else None
            if trouble is None:
                continue
            if trouble.due <= now:
                return f"stuck because pod {pod.name} does not become ready: {trouble.text}"
            cluster.due.append(trouble.due - now)
    return ""


def _resize_refused(cluster: ClusterPass, before: Mapping[str, Any] | None) -> bool:
    """Whether the API server has refused to change a pod's size in place, now or earlier in this upgrade."""
    failed = cluster.observed.failure
    if failed is not None and failed.marker == ClusterReason.FAILED_RESIZE_POD and failed.reason in _FINAL:
        return True
    return before is not None and before.get("reason") == REFUSED


def _pods(cluster: ClusterPass, group: WorkerGroupSpec) -> list[Pod]:
    return [pod for pod in cluster.children.groups.get(group.group_name, ()) if not is_over(pod)]


def _event(reason: str, note: str, *, warning: bool = False) -> Event:
    return Event(reason, note, type="Warning" if warning else "Normal", action="Upgrade")
