"""What invariants know about a cluster without asking the operator: who owns a pod, whether it lives, what was asked for.

Nothing here uses the operator's own decisions: a mistake there must not repeat itself here.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER, Kind
from kuberay.api.names import ANNOTATION_DRAINING_SINCE, LABEL_GROUP

from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Stored


def controller_uid(stored: Stored) -> str:
    """UID of the owner that manages the object; empty without one."""
    return next((str(owner["uid"]) for owner in stored.owners() if owner.get("controller")), "")


def over(stored: Stored) -> bool:
    """Whether nothing of the pod runs any more."""
    return (stored.body.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def alive(stored: Stored) -> bool:
    """Neither being deleted nor finished."""
    return not stored.deleting and not over(stored)


def children(server: SimServer, uid: str, kind: Kind) -> Iterator[Stored]:
    """Objects of *kind* whose controller is *uid*."""
    for stored in server.store.dependents(uid):
        if stored.key.kind == kind and controller_uid(stored) == uid:
            yield stored


def live_children(server: SimServer, uid: str, kind: Kind) -> Iterator[Stored]:
    """Those of `children` that are `alive`."""
    return (stored for stored in children(server, uid, kind) if alive(stored))


def group_of(pod: Stored) -> str:
    """The group a pod belongs to, as its label says."""
    return str((pod.metadata.get("labels") or {}).get(LABEL_GROUP, ""))


def draining(pod: Stored) -> bool:
    """Whether the pod has been chosen to go and only finishes its work."""
    return ANNOTATION_DRAINING_SINCE in (pod.metadata.get("annotations") or {})


def live_in_group(server: SimServer, uid: str, group: str) -> list[Stored]:
    """Live pods of one group of a cluster, without those that are drained."""
    return [pod for pod in live_children(server, uid, POD) if group_of(pod) == group and not draining(pod)]


def groups_of(spec: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """The worker groups of a spec by name; of two of one name, which is refused, the last."""
    return {str(group.get("groupName")): group for group in spec.get("workerGroupSpecs") or ()}


def wanted_workers(spec: Mapping[str, Any]) -> dict[str, int]:
    """Worker pods per group that a RayCluster's spec asks for when the cluster is not suspended."""
    wanted: dict[str, int] = {}
    for name, group in groups_of(spec).items():
        replicas = group.get("replicas")
        least, most = group.get("minReplicas") or 0, group.get("maxReplicas", 2**31 - 1)
        count = max(min(max(least if replicas is None else replicas, least), most), least)
        wanted[name] = 0 if group.get("suspend") else count * int(group.get("numOfHosts") or 1)
    return wanted


def surge(spec: Mapping[str, Any], group: str) -> int:
    """How many more pods a rolling upgrade may have for a while. Surges are numbers here, not percentages."""
    strategy = spec.get("upgradeStrategy") or {}
    hosts = int((groups_of(spec).get(group) or {}).get("numOfHosts") or 1)
    return int(strategy.get("maxSurge") or 0) * hosts if strategy.get("type") == "Rolling" else 0


def refused(spec: Mapping[str, Any]) -> bool:
    """Whether a spec is one of those that stories break on purpose."""
    groups = spec.get("workerGroupSpecs") or ()
    names = [group.get("groupName") for group in groups]
    upside_down = any((group.get("minReplicas") or 0) > group.get("maxReplicas", 2**31 - 1) for group in groups)
    return upside_down or len(set(names)) < len(names)


def made_from(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a spec whose change makes other pods: all but scaling, tolerations, gates and the strategy itself."""
    kept = copy.deepcopy({name: value for name, value in spec.items() if name != "upgradeStrategy"})
    for group in (kept.get("headGroupSpec") or {}, *(kept.get("workerGroupSpecs") or ())):
        for name in ("replicas", "minReplicas", "maxReplicas", "scaleStrategy"):
            group.pop(name, None)
        pod = (group.get("template") or {}).get("spec") or {}
        for name in ("tolerations", "schedulingGates"):
            pod.pop(name, None)
    return kept


class SpecHistory:
    """Which specs each RayCluster has had: an operator may act on what it was told, and may be told late."""

    def __init__(self, memory: float) -> None:
        """*memory*: for how many seconds after its end a spec may still be acted on."""
        self.memory = memory
        self._specs: dict[str, list[tuple[float, Mapping[str, Any]]]] = {}

    def __call__(self, server: SimServer, change: Change) -> None:
        """Note a spec; to be told of every commit."""
        stored = change.stored
        if stored.key.kind != RAYCLUSTER or change.type == "DELETED":
            return
        spec = stored.body.get("spec") or {}
        history = self._specs.setdefault(stored.uid, [])
        if not history or history[-1][1] != spec:
            history.append((server.clock.elapsed(), spec))

    def __contains__(self, uid: str) -> bool:
        return uid in self._specs

    def recent(self, uid: str, now: float) -> list[Mapping[str, Any]]:
        """Specs in force at some time within the memory, oldest first."""
        return self.since(uid, now - self.memory)

    def since(self, uid: str, moment: float) -> list[Mapping[str, Any]]:
        """Specs in force at *moment* or later."""
        history = self._specs[uid]
        return [
            spec
            for number, (_, spec) in enumerate(history)
            if number + 1 == len(history) or history[number + 1][0] >= moment
        ]
