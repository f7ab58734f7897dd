"""Which deletions an operator may make, checked after every commit: each pod it ends must have given a reason.

Reasons are derived from specs and pods alone, so that the operator's own idea of them is put to the test.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kuberay.api import kinds
from kuberay.api.conditions import ClusterCondition
from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE
from kuberay.api.names import ANNOTATION_FT_DELETION_TIMEOUT, HEAD, LABEL_NODE_TYPE, LABEL_REPLICA_NAME, WORKER
from kuberay.api.times import parse_time

from kuberay_testkit.sim.cluster_facts import (
    SpecHistory,
    children,
    controller_uid,
    draining,
    group_of,
    groups_of,
    live_in_group,
    made_from,
    over,
    refused,
    wanted_workers,
)
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Stored

_RAY_KINDS = (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)

_OWNERLESS = (*_RAY_KINDS, kinds.LEASE, kinds.EVENT)
"""What an operator writes without owning it."""


_PATIENCE = 300
"""Seconds that the deletion of a RayCluster may take without an annotation."""


class OnlyItsOwn:
    """An operator changes, besides Ray objects, nothing but what such an object owns, by UID; of what its Jobs own in turn
    it ends pods."""

    def __init__(self, operators: Collection[str]) -> None:
        """*operators*: names of their clients."""
        self._operators = operators
        self._ours: set[str] = set()

    def __call__(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind in _RAY_KINDS or (stored.key.kind == JOB and controller_uid(stored) in self._ours):
            self._ours.add(stored.uid)
        if server.acting not in self._operators or stored.key.kind in _OWNERLESS:
            return
        for version in (stored, change.previous):
            if version is not None:
                owner = controller_uid(version)
                assert owner in self._ours, (
                    f"{server.acting} touched {stored.key}, which belongs to {owner or 'nobody'}"
                )


class JustifiedDeletions:
    """A live, healthy pod that nothing recent asked to go is never deleted by an operator."""

    def __init__(self, operators: Collection[str], history: SpecHistory) -> None:
        self._operators = operators
        self._history = history
        self._made: dict[str, float] = {}
        self._left: dict[tuple[str, str], list[float]] = {}

    def __call__(self, server: SimServer, change: Change) -> None:
        stored, now = change.stored, server.clock.elapsed()
        if stored.key.kind != POD:
            return
        if change.type == "ADDED":
            self._made[stored.uid] = now
            return
        before = change.previous
        if before is None:
            return
        if draining(before):
            return  # That it may go was looked at when it was chosen.
        going = not before.deleting and (change.type == "DELETED" or stored.deleting or draining(stored))
        uid = controller_uid(before)
        if going and server.acting in self._operators and uid in self._history:
            owner = server.store.by_uid(uid)
            if owner is not None and not owner.deleting:
                assert self._reason(server, uid, before), f"{server.acting} deleted the healthy pod {stored.key.name}"
        if uid and not over(before) and (going or over(stored)):
            self._left.setdefault((uid, group_of(before)), []).append(now)

    def _reason(self, server: SimServer, uid: str, pod: Stored) -> str:
        """Why the pod may go; empty when nothing says so."""
        now = server.clock.elapsed()
        if _unhealthy(pod):
            return "unhealthy"
        if _ended(server, uid):
            return "ended by its lifecycle"
        group = group_of(pod)
        # The head says for all pods which spec they are from.
        heads = [other for other in children(server, uid, POD) if _node_type(other) == HEAD]
        begun = min(self._made.get(each.uid, 0.0) for each in (pod, *heads))
        for spec in self._history.recent(uid, now):
            if refused(spec):
                continue
            if spec.get("suspend"):
                return "suspended"
            if self._recreated(uid, begun, spec):
                return "made from another spec"
            if _node_type(pod) == WORKER:
                reason = self._worker_reason(server, uid, pod, group, spec)
                if reason:
                    return reason
        return ""

    def _recreated(self, uid: str, begun: float, spec: Mapping[str, Any]) -> bool:
        """Whether the pods were made from another spec than *spec*, in force at *begun* or later."""
        strategy = (spec.get("upgradeStrategy") or {}).get("type")
        if strategy in (None, "None"):
            return False
        wanted = made_from(spec)
        return any(made_from(old) != wanted for old in self._history.since(uid, begun - self._history.memory))

    def _worker_reason(self, server: SimServer, uid: str, pod: Stored, group_name: str, spec: Mapping[str, Any]) -> str:
        group = groups_of(spec).get(group_name)
        if group is None:
            return "its group was removed"
        if group.get("suspend"):
            return "its group is suspended"
        hosts = _replica_of(server, uid, pod, group)
        named = (group.get("scaleStrategy") or {}).get("workersToDelete") or ()
        if any(host.key.name in named for host in hosts):
            return "named"
        if any(_unhealthy(host) for host in hosts):
            return "another host of its replica is unhealthy"
        if len(hosts) < int(group.get("numOfHosts") or 1) or any(host.deleting for host in hosts):
            return "its replica is incomplete"
        if spec.get("enableInTreeAutoscaling"):
            return ""
        # The pod itself is on its way by now; others may have gone since the operator last looked.
        since = server.clock.elapsed() - self._history.memory
        left = sum(at >= since for at in self._left.get((uid, group_name), ()))
        there = len(live_in_group(server, uid, group_name)) + 1 + left
        return "one more than wanted" if there > wanted_workers(spec)[group_name] else ""


def _ended(server: SimServer, uid: str) -> bool:
    """Whether the cluster's ``lifecycle`` has ended it; an end that is called off while pods go runs on."""
    cluster = server.store.by_uid(uid)
    status = (cluster.body.get("status") or {}) if cluster is not None else {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    ended = conditions.get(ClusterCondition.LIFECYCLE_ENDED)
    return ended == "True" or (ended == "False" and conditions.get(ClusterCondition.SUSPENDING) == "True")


def _node_type(pod: Stored) -> str:
    return str((pod.metadata.get("labels") or {}).get(LABEL_NODE_TYPE))


def _unhealthy(pod: Stored) -> bool:
    """Ended, or its Ray container has and will not be started again."""
    if over(pod):
        return True
    spec, status = pod.body["spec"], pod.body.get("status") or {}
    if spec.get("restartPolicy") != "Never":
        return False
    ray = spec["containers"][0]["name"]
    return any(
        each["name"] == ray and "terminated" in (each.get("state") or {})
        for each in status.get("containerStatuses") or ()
    )


def _replica_of(server: SimServer, uid: str, pod: Stored, group: Mapping[str, Any]) -> list[Stored]:
    """All pods of the multi-host replica that *pod* is one of, *pod* as it was before it had to go."""
    if int(group.get("numOfHosts") or 1) == 1:
        return [pod]
    replica = (pod.metadata.get("labels") or {}).get(LABEL_REPLICA_NAME)
    others = [
        other
        for other in children(server, uid, POD)
        if (other.metadata.get("labels") or {}).get(LABEL_REPLICA_NAME) == replica and other.uid != pod.uid
    ]
    return [pod, *others]


def finalizer_last(server: SimServer, change: Change) -> None:
    """A finalizer of ours goes only when no pod of the cluster that was ever started runs any more, or when the time is over
    that a deletion may take (spec raycluster.md 6.1): pods that could not be told to go by then are collected."""
    stored, before = change.stored, change.previous
    if stored.key.kind != RAYCLUSTER or before is None or not before.deleting:
        return
    had = [name for name in before.metadata.get("finalizers") or () if name.startswith("ray.io/")]
    kept = () if change.type == "DELETED" else stored.metadata.get("finalizers") or ()
    if set(had) <= set(kept):
        return
    metadata = before.metadata
    seconds = int((metadata.get("annotations") or {}).get(ANNOTATION_FT_DELETION_TIMEOUT, _PATIENCE))
    if (server.now() - parse_time(metadata["deletionTimestamp"])).total_seconds() >= seconds:
        return
    pods = list(children(server, stored.uid, POD))
    heads = [pod for pod in pods if _node_type(pod) == HEAD]
    if heads and not any("startTime" in (head.body.get("status") or {}) for head in heads):
        return  # Workers that run without a head have stored nothing.
    running = [
        pod.key.name
        for pod in pods
        if not over(pod) and _node_type(pod) in (HEAD, WORKER) and "startTime" in (pod.body.get("status") or {})
    ]
    assert not running, f"the finalizer {had[0]} went while {', '.join(running)} still ran"
