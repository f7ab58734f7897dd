"""When replicas of a worker group run in another group because their own pods find no node, and when they go back.

Beyond KubeRay: ``fallback`` of a worker group. What was handed over stands in ``status.fallbacks`` before it is acted on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from kuberay.api import names
from kuberay.api.cluster import WorkerGroupSpec
from kuberay.api.objects import Pod
from kuberay.api.times import format_time, parse_time
from kuberay.hooks.types import GroupSize
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import is_over, is_ready, unschedulable_since
from kuberay.plan.model import Event

RETURN = "ray.io/fallback-return-at"
"""Annotation of a RayCluster, an RFC 3339 time: what was handed over before it goes back."""
CONDITION = "WorkerGroupFallback"
"""True while replicas of one group run in another one."""


@dataclass(frozen=True, slots=True)
class Handover:
    """One entry of ``status.fallbacks``."""

    group: str
    to: str
    replicas: int
    since: str
    returning: bool = False

    def as_dict(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"groupName": self.group, "fallbackGroupName": self.to, "replicas": self.replicas}
        entry["since"] = self.since
        return {**entry, "returning": True} if self.returning else entry


@dataclass(slots=True)
class FallbackDecision:
    """What holds in this pass, and what the status should say after it."""

    shifted: dict[str, int] = field(default_factory=dict)
    """Replicas wanted now of groups that gave or took some. Follows from the stored handovers alone."""
    handovers: list[Handover] = field(default_factory=list)
    """For ``status.fallbacks``; acted on when they are stored."""
    promised: dict[str, int] = field(default_factory=dict)
    """How many more of them a fallback group gets by this pass, by its name."""
    events: list[Event] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def told(self) -> tuple[str, str] | None:
        """Reason and message of the condition; None when all replicas run where they belong."""
        if not self.handovers:
            return None
        sentences = []
        for entry in self.handovers:
            count = f"{entry.replicas} replica{'s' if entry.replicas > 1 else ''} of worker group {entry.group}"
            if entry.returning:
                sentences.append(f"{count} are going back from worker group {entry.to}")
            else:
                sentences.append(
                    f"{count} run in worker group {entry.to} since {entry.since}, because their pods found no node; "
                    f"to try again, set the annotation {RETURN} to the present time"
                )
        reason = "Returning" if all(entry.returning for entry in self.handovers) else "Unschedulable"
        return reason, "; ".join([*sentences, *self.notes])


def decide_fallback(cluster: ClusterPass) -> FallbackDecision:
    """Looks at each group with a fallback. Costs nothing for a cluster without one."""
    stored = {entry.group: entry for entry in _stored(cluster.observed.obj.status)}
    if not stored and not cluster.form.has_fallback:
        return FallbackDecision()
    decision = FallbackDecision()
    asked = _return_asked(cluster, decision)
    for group in cluster.form.spec.worker_group_specs:
        target = cluster.form.spec.group(group.fallback.group_name) if group.fallback is not None else None
        if target is not None and not group.suspend and not target.suspend:
            _decide_group(cluster, group, target, stored.get(group.group_name), asked, decision)
    return decision


def shifted_sizes(groups: Sequence[GroupSize], cluster: ClusterPass) -> list[GroupSize]:
    """The group sizes that gangs and totals should see."""
    hosts = {group.group_name: group.num_of_hosts for group in cluster.form.spec.worker_group_specs}
    return [
        replace(size, desired=cluster.shifted[size.name] * hosts[size.name]) if size.name in cluster.shifted else size
        for size in groups
    ]


def _decide_group(
    cluster: ClusterPass,
    group: WorkerGroupSpec,
    target: WorkerGroupSpec,
    stored: Handover | None,
    asked: datetime | None,
    decision: FallbackDecision,
) -> None:
    now, wanted = cluster.observed.now, group.desired_replicas()
    replicas = _replicas(cluster, group)
    taken = decision.shifted.get(target.group_name, target.desired_replicas())
    room = max(0, target.upper - taken)
    away = min(stored.replicas, wanted, room) if stored is not None and stored.to == target.group_name else 0
    stuck = _stuck(cluster, group, replicas)
    if stored is not None and away and stored.returning:
        missing = wanted - sum(all(is_ready(pod) for pod in hosts) for hosts in replicas.values())
        extra = max(0, min(away, missing))
        _shift(decision, group, target, wanted, taken + extra)
        if extra and stuck >= extra:
            # Still no node for those that are left: they stay where they are, and the annotation, which is older now,
            # asks for nothing more. Others that are only starting are waited for: they would be the next to go.
            decision.handovers.append(Handover(group.group_name, target.group_name, extra, format_time(now)))
            decision.events.append(_event("WorkerGroupFallback", group, target, extra, "still finds no node for"))
        elif extra:
            decision.handovers.append(replace(stored, replicas=away))
        else:
            decision.events.append(_event("WorkerGroupFallbackEnded", group, target, away, "has nodes again for"))
        return
    if away:
        _shift(decision, group, target, wanted - away, taken + away)
    # Those that were handed over and are not deleted yet count once only.
    stuck -= min(stuck, max(0, len(replicas) - (wanted - away)))
    promised = decision.promised.get(target.group_name, 0)
    more = max(0, min(stuck, wanted - away, room - away - promised))
    if more and _is_rolled(cluster, group, replicas):
        decision.notes.append(f"worker group {group.group_name} hands no more over while it is being upgraded")
        more = 0
    elif stuck > more:
        decision.notes.append(
            f"worker group {target.group_name} is at its maxReplicas {target.upper} and takes no more"
        )
    if more:
        decision.promised[target.group_name] = promised + more
        decision.handovers.append(Handover(group.group_name, target.group_name, away + more, format_time(now)))
        decision.events.append(_event("WorkerGroupFallback", group, target, more, "finds no node for"))
    elif away and stored is not None:
        returning = asked is not None and stored.since < format_time(asked)
        decision.handovers.append(replace(stored, replicas=away, returning=returning))


def _shift(decision: FallbackDecision, group: WorkerGroupSpec, target: WorkerGroupSpec, own: int, others: int) -> None:
    decision.shifted[group.group_name] = own
    decision.shifted[target.group_name] = others


def _replicas(cluster: ClusterPass, group: WorkerGroupSpec) -> dict[str, list[Pod]]:
    """Live pods of the group by replica; where each pod counts for itself, by name."""
    found: dict[str, list[Pod]] = {}
    for pod in cluster.children.groups.get(group.group_name, ()):
        if not pod.deleting and not is_over(pod):
            found.setdefault(pod.metadata.labels.get(names.LABEL_REPLICA_NAME) or pod.name, []).append(pod)
    return found


def _stuck(cluster: ClusterPass, group: WorkerGroupSpec, replicas: Mapping[str, list[Pod]]) -> int:
    """How many replicas have a pod that found no node for long enough; asks for a look when the next one will."""
    assert group.fallback is not None
    patience, count = timedelta(seconds=group.fallback.after_seconds), 0
    for hosts in replicas.values():
        since = min((time for pod in hosts if (time := unschedulable_since(pod)) is not None), default=None)
        if since is None:
            continue
        left = since + patience - cluster.observed.now
        if left <= timedelta(0):
            count += 1
        else:
            cluster.due.append(left)
    return count


def _is_rolled(cluster: ClusterPass, group: WorkerGroupSpec, replicas: Mapping[str, list[Pod]]) -> bool:
    """Whether pods of another spec still work. New pods that find no node stop a rolling upgrade; with each of them run
    elsewhere it would go on and take down the pods that have nodes, one by one."""
    wanted = cluster.form.group_hashes.get(group.group_name)
    if wanted is None:
        return False
    return any(
        is_ready(pod) and pod.metadata.annotations.get(names.ANNOTATION_GROUP_HASH) != wanted
        for hosts in replicas.values()
        for pod in hosts
    )


def _return_asked(cluster: ClusterPass, decision: FallbackDecision) -> datetime | None:
    text = cluster.observed.obj.metadata.annotations.get(RETURN)
    if not text:
        return None
    try:
        return parse_time(text)
    except ValueError:
        decision.notes.append(f"the annotation {RETURN} is ignored: {text!r} is not an RFC 3339 time")
        return None


def _stored(status: Mapping[str, Any]) -> list[Handover]:
    return [
        Handover(
            group=entry["groupName"],
            to=entry.get("fallbackGroupName", ""),
            replicas=entry.get("replicas", 0),
            since=entry.get("since", ""),
            returning=bool(entry.get("returning")),
        )
        for entry in status.get("fallbacks") or ()
    ]


def _event(reason: str, group: WorkerGroupSpec, target: WorkerGroupSpec, count: int, why: str) -> Event:
    where = "instead" if reason == "WorkerGroupFallback" else "no longer"
    replicas = f"{count} replica{'s' if count > 1 else ''}"
    note = f"Worker group {group.group_name} {why} {replicas}, which {where} run in worker group {target.group_name}"
    return Event(reason, note, type="Warning" if reason == "WorkerGroupFallback" else "Normal", action="Fallback")
