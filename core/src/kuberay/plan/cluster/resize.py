"""When a pod's CPU and memory are changed while it runs, instead of replacing it, and how far that is.

Source: docs/upgrades.md. Ray fixes its own resources when it starts, so a size counts as changed only where Ray would
have been started the same way; everything that Kubernetes would refuse is replaced right away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from kuberay.api import quantity
from kuberay.api.cluster import GroupSpec
from kuberay.api.conditions import TRUE, ClusterCondition, ClusterReason, find_condition
from kuberay.api.gates import STATUS_CONDITIONS
from kuberay.api.kinds import POD
from kuberay.api.objects import Condition, Container, Pod
from kuberay.plan.build.start_params import complete
from kuberay.plan.cluster.deletions import failure
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import pod_condition
from kuberay.plan.model import Event, Patch

RESIZABLE = ("cpu", "memory")
REFUSED = "ResizeRefused"
"""Reason of ``RollingUpgrade`` after the API server has refused a change of size: until the upgrade is done, pods are
replaced instead."""

DEFERRED_FOR = timedelta(minutes=5)
"""How long a node may have no room for the new size until the pod is replaced, elsewhere perhaps."""

State = Literal["done", "under way", "possible", "impossible"]
Amounts = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """CPU and memory of one container. Requests that are not written follow the limits, as in Kubernetes."""

    limits: Amounts
    requests: Amounts

    @property
    def guaranteed(self) -> bool:
        return all(name in self.limits and self.requests.get(name) == self.limits[name] for name in RESIZABLE)


def allowed(cluster: ClusterPass) -> bool:
    """Whether sizes may be changed in place at all. What was refused once must be remembered, and conditions do that."""
    if not cluster.observed.config.resize_in_place or not cluster.observed.gate(STATUS_CONDITIONS):
        return False
    told = find_condition(cluster.observed.obj.status.get("conditions") or (), ClusterCondition.ROLLING_UPGRADE)
    return told is None or told.get("reason") != REFUSED


def resize_state(cluster: ClusterPass, pod: Pod, group: GroupSpec, node_type: str) -> State:
    """What of the change from the live sizes of *pod* to those of *group*, from which it differs in nothing else."""
    pairs = _pairs(pod, group)
    if pairs is None:
        return "impossible"
    pending = _true(pod, "PodResizePending")
    if pending is not None and _given_up(cluster, pending):
        return "impossible"
    if any(live != wanted for live, wanted in pairs):
        return "possible" if _possible(pod, group, node_type, pairs) else "impossible"
    seen = pod.status.observed_generation
    unseen = 0 < seen < pod.metadata.generation
    return "under way" if unseen or pending or _true(pod, "PodResizeInProgress") else "done"


def why_not_yet(pod: Pod) -> str:
    """What the kubelet says about a change of size that is not done; empty when it says nothing."""
    found = _true(pod, "PodResizePending") or _true(pod, "PodResizeInProgress")
    return " ".join(f"{found.reason} {found.message}".split()) if found is not None else ""


def resize(pod: Pod, group: GroupSpec) -> Patch:
    """Asks for the sizes of *group*. Containers go by their place, which never changes; their names are checked."""
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/uid", "value": pod.uid}]
    numbers = {container.name: number for number, container in enumerate(pod.spec.containers)}
    for container in group.pod_spec.get("containers") or ():
        number = numbers[container["name"]]
        path = f"/spec/containers/{number}"
        operations.append({"op": "test", "path": f"{path}/name", "value": container["name"]})
        for kind, amounts in _written(container).items():
            operations += [
                {"op": "replace", "path": f"{path}/resources/{kind}/{name}", "value": quantity.canonical(amounts[name])}
                for name in RESIZABLE
                if name in amounts
            ]
    what = f"Pod {pod.namespace}/{pod.name}"
    return Patch(
        kind=POD,
        namespace=pod.namespace,
        name=pod.name,
        subresource="resize",
        operations=operations,
        done=Event("ResizedPod", f"Changed CPU and memory of {what} in place", action="Upgrade"),
        failed=failure("FailedToResizePod", f"Failed to change CPU and memory of {what} in place", "Upgrade"),
        marker=ClusterReason.FAILED_RESIZE_POD,
    )


def _pairs(pod: Pod, group: GroupSpec) -> list[tuple[Size, Size]] | None:
    """Live and wanted size of each container of *group*; None when they cannot be compared."""
    live = {container.name: container for container in pod.spec.containers}
    pairs = []
    for container in group.pod_spec.get("containers") or ():
        found = live.get(container.get("name") or "")
        if found is None:
            return None
        try:
            pairs.append((_live(found), _wanted(container)))
        except ValueError:
            return None
    return pairs


def _possible(pod: Pod, group: GroupSpec, node_type: str, pairs: Sequence[tuple[Size, Size]]) -> bool:
    """Kubernetes neither adds nor takes away amounts in place, keeps the class of service and may refuse to take memory
    from a limit."""
    if pod.status.phase != "Running":
        return False
    for live, wanted in pairs:
        if live.limits.keys() != wanted.limits.keys() or live.requests.keys() != wanted.requests.keys():
            return False
        if live.guaranteed != wanted.guaranteed:
            return False
        if "memory" in wanted.limits and wanted.limits["memory"] < live.limits["memory"]:
            return False
    for container in group.pod_spec.get("containers") or ():
        if any(policy.get("restartPolicy") == "RestartContainer" for policy in container.get("resizePolicy") or ()):
            return False
    return _same_to_ray(group, node_type, pairs[0][0])


def _same_to_ray(group: GroupSpec, node_type: str, live: Size) -> bool:
    """Whether ``ray start`` had been called with the same parameters."""
    ray = group.ray_container
    resources = ray.get("resources") or {}
    before = {
        kind: {
            name: quantity.canonical(amounts[name]) if name in RESIZABLE else amount
            for name, amount in resources[kind].items()
        }
        for kind, amounts in (("limits", live.limits), ("requests", live.requests))
        if resources.get(kind)
    }
    containers = [{**ray, "resources": {**resources, **before}}]
    old = group.model_copy(
        update={"template": {**group.template, "spec": {**group.pod_spec, "containers": containers}}}
    )
    return complete(old, node_type=node_type, gcs_address="") == complete(group, node_type=node_type, gcs_address="")


def _live(container: Container) -> Size:
    resources = container.resources
    return _size(resources.limits if resources else {}, resources.requests if resources else {})


def _wanted(container: Mapping[str, Any]) -> Size:
    return _size(**_written(container))


def _written(container: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    return {"limits": limits, "requests": {**limits, **(resources.get("requests") or {})}}


def _size(limits: Amounts, requests: Amounts) -> Size:
    return Size(
        {name: quantity.parse(limits[name]) for name in RESIZABLE if name in limits},
        {name: quantity.parse(requests[name]) for name in RESIZABLE if name in requests},
    )


def _true(pod: Pod, type_: str) -> Condition | None:
    found = pod_condition(pod, type_)
    return found if found is not None and found.status == TRUE else None


def _given_up(cluster: ClusterPass, pending: Condition) -> bool:
    """Whether the node can never take the new size, or has had no room for it for long."""
    if pending.reason == "Infeasible":
        return True
    since, now = pending.last_transition_time, cluster.observed.now
    if since is None:
        return False
    if now >= since + DEFERRED_FOR:
        return True
    cluster.due.append(since + DEFERRED_FOR - now)
    return False
