"""What must never happen in a cluster an operator works on, checked after every commit (`SimWorld.always`).

Each invariant holds whatever fails: lost answers, late events, killed processes, two replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, Kind
from kuberay.api.names import HEAD, LABEL_GROUP, LABEL_NODE_TYPE, WORKER

from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Stored
from kuberay_testkit.sim.world import SimWorld


def controller_uid(stored: Stored) -> str:
    """UID of the owner that manages the object; empty without one."""
    return next((str(owner["uid"]) for owner in stored.owners() if owner.get("controller")), "")


def alive(stored: Stored) -> bool:
    """Neither being deleted nor finished."""
    phase = (stored.body.get("status") or {}).get("phase")
    return not stored.deleting and phase not in ("Succeeded", "Failed")


def live_children(server: SimServer, uid: str, kind: Kind) -> Iterator[Stored]:
    for stored in server.store.all_of(kind):
        if controller_uid(stored) == uid and alive(stored):
            yield stored


def wanted_workers(spec: Mapping[str, Any]) -> dict[str, int]:
    """Worker pods per group that a RayCluster's spec asks for when nothing is suspended."""
    wanted: dict[str, int] = {}
    for group in spec.get("workerGroupSpecs") or ():
        replicas = group.get("replicas")
        least, most = group.get("minReplicas") or 0, group.get("maxReplicas", 2**31 - 1)
        count = min(max(least if replicas is None else replicas, least), most)
        wanted[group["groupName"]] = count * int(group.get("numOfHosts") or 1)
    return wanted


class PodBudget:
    """No pod is created beyond what some spec of the cluster asked for within the last *memory* seconds: an operator may
    act on what it was told, and may be told late."""

    def __init__(self, memory: float) -> None:
        self._memory = memory
        self._wanted: dict[str, list[tuple[float, dict[str, int]]]] = {}

    def __call__(self, server: SimServer, change: Change) -> None:
        stored, now = change.stored, server.clock.elapsed()
        if stored.key.kind == RAYCLUSTER:
            self._wanted.setdefault(stored.uid, []).append((now, wanted_workers(stored.body.get("spec") or {})))
        if stored.key.kind != POD or change.type != "ADDED":
            return
        uid, labels = controller_uid(stored), stored.metadata.get("labels") or {}
        if labels.get(LABEL_NODE_TYPE) != WORKER or uid not in self._wanted:
            return
        group = labels.get(LABEL_GROUP, "")
        live = sum(
            (pod.metadata.get("labels") or {}).get(LABEL_GROUP) == group for pod in live_children(server, uid, POD)
        )
        most = max(wanted.get(group, 0) for wanted in self._remembered(uid, now))
        assert live <= most, f"{live} live pods in group {group}, where at most {most} were ever wanted lately"

    def _remembered(self, uid: str, now: float) -> Iterator[dict[str, int]]:
        """Specs in force at some time within the memory."""
        history = self._wanted[uid]
        for number, (_, wanted) in enumerate(history):
            if number + 1 == len(history) or history[number + 1][0] >= now - self._memory:
                yield wanted


def one_head(server: SimServer, change: Change) -> None:
    """A cluster never has two live head pods."""
    stored = change.stored
    if stored.key.kind != POD or change.type != "ADDED":
        return
    if (stored.metadata.get("labels") or {}).get(LABEL_NODE_TYPE) != HEAD:
        return
    heads = [
        pod.key.name
        for pod in live_children(server, controller_uid(stored), POD)
        if (pod.metadata.get("labels") or {}).get(LABEL_NODE_TYPE) == HEAD
    ]
    assert len(heads) <= 1, f"two live head pods: {', '.join(heads)}"


def one_cluster_per_job(server: SimServer, change: Change) -> None:
    """A RayJob never has two clusters of its own that are not being deleted."""
    stored = change.stored
    if stored.key.kind != RAYCLUSTER or change.type != "ADDED":
        return
    owner = server.store.by_uid(controller_uid(stored))
    if owner is not None and owner.key.kind == RAYJOB:
        clusters = [cluster.key.name for cluster in live_children(server, owner.uid, RAYCLUSTER)]
        assert len(clusters) <= 1, f"two live clusters of RayJob {owner.key.name}: {', '.join(clusters)}"


class OneSubmitter:
    """One submitter Job per attempt: never a second one for the same job id."""

    def __init__(self) -> None:
        self._made: Counter[tuple[str, str]] = Counter()

    def __call__(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind != JOB or change.type != "ADDED":
            return
        owner = server.store.by_uid(controller_uid(stored))
        if owner is None or owner.key.kind != RAYJOB:
            return
        attempt = (owner.uid, str((owner.body.get("status") or {}).get("jobId")))
        self._made[attempt] += 1
        assert self._made[attempt] == 1, f"a second submitter of RayJob {owner.key.name} for job {attempt[1]}"


def watch_over(world: SimWorld, *, memory: float = 5.0) -> None:
    """Check all of them from now on; *memory* as in `PodBudget`."""
    for invariant in (PodBudget(memory), one_head, one_cluster_per_job, OneSubmitter()):
        world.always(invariant)
