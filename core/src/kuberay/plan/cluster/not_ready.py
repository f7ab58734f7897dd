"""Why a RayCluster is not ready: what is wrong with its pods, by group and reason, for ``PodsNotReady`` and for people.

Source: spec raycluster.md 5; cases.md RC-09. Texts are stable: no counters and no durations, so that a cluster that stays
as it is costs no status write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kuberay.api import names
from kuberay.api.conditions import ClusterCondition, ClusterReason, TroubleReason, find_condition
from kuberay.api.names import HEAD_GROUP
from kuberay.api.objects import Pod
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.cluster.pod_trouble import STARTING, Trouble, find_trouble
from kuberay.plan.model import ExpectedPod, WriteFailure

_MOST_NAMES = 3
_MOST_LINES = 20
_CREATE_MARKERS = (ClusterReason.FAILED_CREATE_HEAD_POD, ClusterReason.FAILED_CREATE_WORKER_POD)


@dataclass(frozen=True, slots=True)
class NotReady:
    """One line per group and reason; *reason* is that of the first."""

    reason: str
    lines: Sequence[str]

    @property
    def told(self) -> tuple[str, str]:
        """Reason and message of the condition."""
        return self.reason, "\n".join(self.lines)

    @property
    def sentence(self) -> str:
        return "; ".join(self.lines)


def why_not_ready(
    cluster: ClusterPass, failure: WriteFailure | None, expected: Sequence[ExpectedPod]
) -> NotReady | None:
    """What is wrong for long enough now. When that will be so for more pods is added to ``cluster.due``."""
    now = cluster.observed.now
    found: list[tuple[Pod, Trouble]] = []
    for pod in cluster.children.pods:
        if not pod.deleting:
            if is_ready(pod):
                continue
            young = (pod.metadata.creation_timestamp or now) + STARTING - now
            if young > timedelta(0):
                # Not worth the look yet; most pods are ready before it is.
                cluster.due.append(young)
                continue
        trouble = find_trouble(pod, now)
        if trouble is None:
            continue
        if trouble.due <= now:
            found.append((pod, trouble))
        else:
            cluster.due.append(trouble.due - now)
    refused = _refused(failure, expected)
    if not found and refused is None:
        return None
    order = [group.name for group in cluster.form.groups]
    lines = aggregate(found, order, _told_before(cluster.observed.obj.status))
    if refused is not None:
        lines.insert(0, refused)
    more = [f"and {len(lines) - _MOST_LINES} more"] if len(lines) > _MOST_LINES else []
    return NotReady(lines[0][0], [text for _, text in lines[:_MOST_LINES]] + more)


def with_diagnosis(not_ready: NotReady | None, sentences: Sequence[str]) -> NotReady | None:
    """The same with what plugins say about it (hook ``diagnose``)."""
    if not sentences:
        return not_ready
    told = [" ".join(sentence.split()) for sentence in sentences]
    if not_ready is None:
        return NotReady(TroubleReason.PLUGIN_DIAGNOSIS, told)
    return NotReady(not_ready.reason, [*not_ready.lines, *told])


def group_of(pod: Pod) -> str:
    """The worker group the pod belongs to, or ``headgroup``."""
    labels = pod.metadata.labels
    return HEAD_GROUP if labels.get(names.LABEL_NODE_TYPE) == names.HEAD else labels.get(names.LABEL_GROUP, "")


def aggregate(
    found: Iterable[tuple[Pod, Trouble]], order: Sequence[str], before: Sequence[str] = ()
) -> list[tuple[str, str]]:
    """Reason and line per group and reason. Groups in the order given; those that only wait for the head come last.
    *before* are the lines told last, of which a detail may stay."""
    members: dict[tuple[bool, int, str, str], list[tuple[Pod, Trouble]]] = {}
    for pod, trouble in found:
        group = group_of(pod)
        rank = order.index(group) if group in order else len(order)
        key = (trouble.reason == TroubleReason.WAITING_FOR_HEAD, rank, group, str(trouble.reason))
        members.setdefault(key, []).append((pod, trouble))
    lines = []
    for (_, _, group, reason), those in sorted(members.items(), key=lambda item: item[0]):
        trouble = those[0][1]
        told = f"{_who(group, [pod.name for pod, _ in those])}: {reason}: {trouble.text}"
        line = f"{told}: {trouble.detail}" if trouble.detail else told
        if trouble.keeps_detail:
            line = next((old for old in before if old == told or old.startswith(f"{told}: ")), line)
        lines.append((reason, line))
    return lines


def _who(group: str, pods: Sequence[str]) -> str:
    if group == HEAD_GROUP:
        return f"head pod {', '.join(pods)}"
    if len(pods) == 1:
        return f"pod {pods[0]} of group {group}"
    named = ", ".join(pods[:_MOST_NAMES])
    more = f" and {len(pods) - _MOST_NAMES} more" if len(pods) > _MOST_NAMES else ""
    return f"{len(pods)} pods of group {group} ({named}{more})"


def _told_before(status: Mapping[str, Any]) -> list[str]:
    condition = find_condition(status.get("conditions") or (), ClusterCondition.PODS_NOT_READY)
    return str(condition.get("message", "")).split("\n") if condition is not None else []


def _refused(failure: WriteFailure | None, expected: Sequence[ExpectedPod]) -> tuple[str, str] | None:
    """Pods that the API server does not take, in its words."""
    if failure is None or failure.marker not in _CREATE_MARKERS:
        return None
    group = next((pod.group for pod in expected if pod.name == failure.name), "")
    missing = sum(pod.group == group and not pod.exists for pod in expected)
    who = "the head pod" if group == HEAD_GROUP else f"{missing} pod{'s' if missing != 1 else ''} of group {group}"
    reason = _refusal(failure)
    # The name of the pod that was tried adds nothing.
    _, forbidden, cause = failure.message.partition(" is forbidden: ")
    text = " ".join((cause if forbidden else failure.message).split())
    return str(reason), f"{who}: {reason}: {text}"


def _refusal(failure: WriteFailure) -> TroubleReason:
    text = failure.message
    if "exceeded quota" in text:
        return TroubleReason.QUOTA_EXCEEDED
    if "cannot create resource" in text:
        return TroubleReason.NOT_PERMITTED
    if "admission webhook" in text or failure.reason == "Forbidden":
        return TroubleReason.ADMISSION_REFUSED
    if failure.reason in ("Invalid", "BadRequest"):
        return TroubleReason.POD_INVALID
    return TroubleReason.CREATE_FAILED
