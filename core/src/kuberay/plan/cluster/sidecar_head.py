"""When a head pod that submits a RayJob itself (SidecarMode) counts as ready: by its Ray container, as long as that runs.

Source: spec rayjob.md 3.5, cases.md RJ-12. To Kubernetes, a submitter that has ended makes its pod unready for good.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kuberay.api import names
from kuberay.api.conditions import FALSE, TRUE, ClusterReason
from kuberay.api.objects import Condition, ContainerStatus, Pod
from kuberay.plan.build.head_once import head_submits


def as_counted(pods: Sequence[Pod], labels: Mapping[str, str]) -> Sequence[Pod]:
    """The pods of a RayCluster with these labels, the head without a submitter that has ended."""
    if not head_submits(labels):
        return pods
    return [
        without_submitter(pod) if pod.metadata.labels.get(names.LABEL_NODE_TYPE) == names.HEAD else pod for pod in pods
    ]


def without_submitter(pod: Pod) -> Pod:
    """The head pod as if it had no submitter, once that has ended; also while it is about to be restarted."""
    statuses = pod.status.container_statuses
    submitter = next((status for status in statuses if status.name == names.SUBMITTER_CONTAINER), None)
    if submitter is None or not _has_ended(submitter):
        return pod
    others = [status for status in statuses if status is not submitter]
    all_ready = bool(others) and all(status.ready for status in others)
    conditions = [_ready(condition) if all_ready else condition for condition in pod.status.conditions]
    status = msgspec.structs.replace(pod.status, container_statuses=others, conditions=conditions)
    return msgspec.structs.replace(pod, status=status)


def _has_ended(submitter: ContainerStatus) -> bool:
    state = submitter.state
    return state.terminated is not None or (state.running is None and submitter.last_state.terminated is not None)


def _ready(condition: Condition) -> Condition:
    """Kubernetes' words about containers that are not ready no longer hold; others (a lost node) do."""
    if (condition.type, condition.status, condition.reason) != ("Ready", FALSE, ClusterReason.CONTAINERS_NOT_READY):
        return condition
    return msgspec.structs.replace(condition, status=TRUE, reason="", message="")
