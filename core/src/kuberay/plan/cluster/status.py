"""What the status of a RayCluster says after a pass, and whether saying it is worth a write now.

Source: spec raycluster.md 5; cases.md RC-19. A status is written whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from kuberay.api.conditions import ClusterCondition, is_true
from kuberay.api.names import LABEL_NODE_TYPE, WORKER
from kuberay.api.objects import Pod, RayObject
from kuberay.api.times import format_time, parse_time
from kuberay.hooks.types import GroupSize
from kuberay.plan.cluster.children import Children
from kuberay.plan.cluster.conditions import conditions_of
from kuberay.plan.cluster.form import ClusterForm
from kuberay.plan.cluster.pod_health import is_ready

READY = "ready"
SUSPENDED = "suspended"

PROGRESS_INTERVAL = timedelta(seconds=10)
"""The longest that progress stays untold while pods keep changing; transitions are told at once."""
FIRST_WORD = timedelta(seconds=5)
"""How long after its first pod a RayCluster that starts as it should may be without any status: most of what could be said
then is news of the past when the pods come up quickly."""
BACKLOG = 6
"""So many times longer while many objects wait: pods that run by now are seen to run late."""
QUIET_AT_FIRST = timedelta(seconds=3)
QUIET_WHEN_STARTING = timedelta(seconds=2)
QUIET_WHEN_READY = timedelta(seconds=0.5)
"""How long pods must have been unchanged before progress is written: for the first time, before and after the first
readiness."""

_PROGRESS = (
    "readyWorkerReplicas",
    "availableWorkerReplicas",
    "workerGroups",
    "resources",
    "observedGeneration",
    "desiredCPU",
    "desiredMemory",
    "desiredGPU",
    "desiredTPU",
)
"""What may wait for more news of the same kind: counts, and what follows from the spec alone."""
_COMPARED = (
    "state",
    "reason",
    *_PROGRESS,
    "desiredWorkerReplicas",
    "minWorkerReplicas",
    "maxWorkerReplicas",
    "endpoints",
    "head",
    "fallbacks",
)
"""What makes a difference, besides the conditions. Beyond 5.7: a new generation, desired resources, our own fields."""


_OF_A_START = frozenset(
    (
        ClusterCondition.HEAD_POD_READY,
        ClusterCondition.PROVISIONED,
        ClusterCondition.SUSPENDING,
        ClusterCondition.SUSPENDED,
    )
)
"""Conditions that a RayCluster has from its first pass on."""


def all_ready(pods: Sequence[Pod]) -> bool:
    """Whether there are pods and all are ready."""
    return bool(pods) and all(is_ready(pod) for pod in pods)


def compute_status(
    obj: RayObject,
    form: ClusterForm,
    children: Children,
    conditions: list[dict[str, Any]],
    *,
    groups: Sequence[GroupSize],
    suspended: bool,
    troubled: bool,
    now: datetime,
) -> dict[str, Any]:
    """The whole new status. *groups* are the sizes wanted now, head first. *troubled* says that this pass could not do
    what it should: then nothing becomes ready."""
    old = obj.status
    pods = children.pods
    workers = [pod for pod in pods if pod.metadata.labels.get(LABEL_NODE_TYPE) == WORKER]
    counters = {
        "readyWorkerReplicas": sum(_says_ready(pod) for pod in workers),
        "availableWorkerReplicas": sum(pod.status.phase == "Running" for pod in workers),
        "desiredWorkerReplicas": form.desired_workers,
        "minWorkerReplicas": form.minimum_workers,
        "maxWorkerReplicas": form.maximum_workers,
    }
    state, reason = old.get("state", ""), old.get("reason", "")
    if not troubled and len(pods) == form.desired_workers + 1 and all_ready(pods):
        state, reason = READY, ""
    if suspended and not pods:
        state = SUSPENDED
    status: dict[str, Any] = {name: count for name, count in counters.items() if count}
    status.update(form.resources)
    status.update(_by_group(form, children, groups, suspended=suspended or bool(form.spec.suspend)))
    if state:
        status["state"] = state
    if reason:
        status["reason"] = reason
    endpoints = {**(old.get("endpoints") or {}), **_endpoints(children.head_service_body)}
    if endpoints:
        status["endpoints"] = endpoints
    head = _head(children)
    if head or not old.get("head"):
        # Applied as `{}`, a head that had members becomes null, which the API server refuses; left out, it just goes.
        status["head"] = head
    if conditions:
        status["conditions"] = conditions
    times = dict(old.get("stateTransitionTimes") or {})
    written = format_time(now)
    if state and state != old.get("state", ""):
        times[state] = written
    if times:
        status["stateTransitionTimes"] = times
    status["lastUpdateTime"] = written
    status["observedGeneration"] = obj.metadata.generation
    return status


def differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether *new* is worth a write (5.7): times alone are not."""
    return any(_value(old, name) != _value(new, name) for name in _COMPARED) or _conditions(old) != _conditions(new)


def write_delay(
    old: Mapping[str, Any], new: Mapping[str, Any], now: datetime, pods: Sequence[Pod], *, busy: bool = False
) -> timedelta:
    """How long *new* may wait for more news; a mere start waits longer while others wait for their turn (*busy*).

    Progress waits until the pods have been quiet for a moment, but no longer than `PROGRESS_INTERVAL` after the first
    change that is still untold: a burst of pods becoming ready is told once, and a slow start is told as it goes.
    """
    written = old.get("lastUpdateTime")
    changes = sorted(_changes(pods))
    if not changes:
        return timedelta(0)
    if not written and _just_starts(old, new):
        patience = BACKLOG if busy else 1
        return max(min(changes[0] + patience * FIRST_WORD, changes[-1] + patience * QUIET_AT_FIRST) - now, timedelta(0))
    if not written or not _only_progress(old, new):
        return timedelta(0)
    try:
        last_write = parse_time(written)
    except ValueError:
        return timedelta(0)
    was_ready = is_true(new.get("conditions") or (), ClusterCondition.PROVISIONED)
    quiet = changes[-1] + (QUIET_WHEN_READY if was_ready else QUIET_WHEN_STARTING)
    untold = next((change for change in changes if change > last_write), changes[-1])
    return max(min(untold + PROGRESS_INTERVAL, quiet) - now, timedelta(0))


def _changes(pods: Sequence[Pod]) -> Iterator[datetime]:
    """When pods changed in a way that counts here (to the second, as Kubernetes tells it)."""
    for pod in pods:
        times = [condition.last_transition_time for condition in pod.status.conditions]
        yield from (found for found in (*times, pod.metadata.creation_timestamp) if found is not None)


def _just_starts(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether nothing was ever told, and there is nothing to tell but that the pods are being started."""
    return not old.get("conditions") and not new.get("state") and _conditions(new).keys() <= _OF_A_START


def _only_progress(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Pod counts are progress at any time; before the first readiness so is all that is told about the head."""
    changed = {name for name in _COMPARED if _value(old, name) != _value(new, name)}
    before, after = _conditions(old), _conditions(new)
    types = {kind for kind in before.keys() | after.keys() if before.get(kind) != after.get(kind)}
    known, told = before.get(ClusterCondition.PODS_NOT_READY), after.get(ClusterCondition.PODS_NOT_READY)
    if known is not None and (told is None or told.get("reason") == known.get("reason")):
        # Pods leave this trouble one by one.
        types.discard(ClusterCondition.PODS_NOT_READY)
    if is_true(new.get("conditions") or (), ClusterCondition.PROVISIONED):
        return changed <= set(_PROGRESS) and not types
    return changed <= {*_PROGRESS, "head", "endpoints"} and types <= {ClusterCondition.HEAD_POD_READY}


def _by_group(form: ClusterForm, children: Children, groups: Sequence[GroupSize], *, suspended: bool) -> dict[str, Any]:
    """``workerGroups`` and ``resources``: KubeRay only has sums over all groups, and of pods that are wanted."""
    counts = []
    ready = [[children.head] if children.head is not None and _says_ready(children.head) else []]
    for group in groups[1:]:
        pods = children.groups.get(group.name, ())
        ready.append([pod for pod in pods if _says_ready(pod)])
        available = sum(pod.status.phase == "Running" for pod in pods)
        counts.append({"name": group.name, "desired": group.desired, "ready": len(ready[-1]), "available": available})
    requested = form.totals([0 if suspended else group.desired for group in groups])
    allocatable = form.allocatable(ready)
    found: dict[str, Any] = {"workerGroups": counts} if counts else {}
    totals = {name: total for name, total in (("requested", requested), ("allocatable", allocatable)) if total}
    return {**found, "resources": totals} if totals else found


def _value(status: Mapping[str, Any], name: str) -> Any:
    """A field, where absent, zero and empty are the same."""
    return status.get(name) or None


def _conditions(status: Mapping[str, Any]) -> dict[str, Any]:
    return {condition["type"]: condition for condition in conditions_of(dict(status))}


def _says_ready(pod: Pod) -> bool:
    return pod.status.phase == "Running" and any(
        condition.type == "Ready" and condition.status == "True" for condition in pod.status.conditions
    )


def _endpoints(service: Mapping[str, Any]) -> dict[str, str]:
    found = {}
    for port in (service.get("spec") or {}).get("ports") or ():
        if port.get("name"):
            found[port["name"]] = str(port.get("nodePort") or port.get("targetPort") or port.get("port"))
    return found


def _head(children: Children) -> dict[str, str]:
    pod = children.head
    address = pod.status.pod_ip if pod is not None else ""
    head = {"podIP": address, "podName": pod.name if pod is not None else ""}
    if children.head_service is not None:
        own = (children.head_service_body.get("spec") or {}).get("clusterIP", "")
        head["serviceIP"] = address if own == "None" else own
        head["serviceName"] = children.head_service.name
    return {key: value for key, value in head.items() if value}
