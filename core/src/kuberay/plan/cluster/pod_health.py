"""When a pod is ready, when it is beyond repair and must be replaced, and when it no longer fills its place.

Source: spec raycluster.md 4.7 and 5.3.
"""

from __future__ import annotations

from datetime import datetime

from kuberay.api.objects import Condition, ContainerStateDetail, ContainerStatus, Pod

_LONGEST_MESSAGE = 300
"""Characters of Kubernetes' own words in an event of 1,024."""


def is_over(pod: Pod) -> bool:
    """Whether the pod has ended for good: nothing of it runs, whatever its restart policy says."""
    return pod.status.phase in ("Failed", "Succeeded")


def is_ready(pod: Pod) -> bool:
    """Running, and Ready unless nothing is said about readiness (5.3)."""
    if pod.status.phase != "Running":
        return False
    return all(condition.status == "True" for condition in pod.status.conditions if condition.type == "Ready")


def pod_condition(pod: Pod, type_: str) -> Condition | None:
    """The pod's condition of that type, whatever its status."""
    return next((condition for condition in pod.status.conditions if condition.type == type_), None)


def unschedulable_since(pod: Pod) -> datetime | None:
    """Since when the scheduler has found no node for the pod; None when it has one, or was not looked at."""
    if pod.status.phase not in ("", "Pending"):
        return None
    scheduled = pod_condition(pod, "PodScheduled")
    if scheduled is None or (scheduled.status, scheduled.reason) != ("False", "Unschedulable"):
        return None
    return scheduled.last_transition_time or pod.metadata.creation_timestamp


def ray_terminated(pod: Pod) -> ContainerStateDetail | None:
    """How the Ray container ended, when it is terminated now."""
    if not pod.spec.containers:
        return None
    name = pod.spec.containers[0].name
    for status in pod.status.container_statuses:
        if status.name == name:
            return status.state.terminated
    return None


def head_started(pod: Pod) -> bool:
    """Whether the Ray container of a head runs or has run; what is not told counts as started once the pod runs."""
    name = pod.spec.containers[0].name if pod.spec.containers else ""
    for status in pod.status.container_statuses:
        if status.name == name:
            return _started(status)
    return pod.status.phase not in ("", "Pending")


def _started(status: ContainerStatus) -> bool:
    state = status.state
    return bool(state.running or state.terminated or status.last_state.terminated or status.restart_count)


def deletion_reason(pod: Pod, node_type: str) -> str:
    """Why the pod should be deleted, in one or two sentences; empty when it should stay."""
    phase = pod.status.phase
    if is_over(pod):
        return (
            f"The {node_type} Pod {pod.name} status is {phase}{_given_reason(pod)} which is a terminal state. KubeRay will "
            "delete the Pod and create new Pods in the next reconciliation if necessary."
        )
    if phase == "Running" and pod.spec.restart_policy == "Never":
        terminated = ray_terminated(pod)
        if terminated is not None:
            return (
                f"The Pod status of the {node_type} Pod {pod.name} is {phase}, and the Ray container terminated status "
                f"is {describe(terminated)}. The container is unable to restart due to its restart policy "
                f"{pod.spec.restart_policy}, so KubeRay will delete it."
            )
    return ""


def _given_reason(pod: Pod) -> str:
    """Why Kubernetes ended the pod, an eviction for example: with the pod goes the only other place that says it."""
    if not pod.status.reason:
        return ""
    message = " ".join(pod.status.message.split())[:_LONGEST_MESSAGE].rstrip(". ")
    return f" ({pod.status.reason}: {message})" if message else f" ({pod.status.reason})"


def describe(terminated: ContainerStateDetail | None) -> str:
    """A terminated state in a few words."""
    if terminated is None:
        return "none"
    reason = f" ({terminated.reason})" if terminated.reason else ""
    return f"exit code {terminated.exit_code}{reason}"


def state_text(pod: Pod) -> str:
    """Phase, restart policy and Ray container state, as events tell them."""
    return (
        f"Pod status: {pod.status.phase}{_given_reason(pod)}; Pod restart policy: {pod.spec.restart_policy}; "
        f"Ray container terminated status: {describe(ray_terminated(pod))}"
    )
