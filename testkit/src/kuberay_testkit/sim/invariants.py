"""What must never happen in a cluster an operator works on, checked after every commit (`SimWorld.always`).

Each invariant holds whatever fails: lost answers, late events, killed processes, two replicas.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB
from kuberay.api.names import HEAD, LABEL_NODE_TYPE, WORKER

from kuberay_testkit.sim.cluster_facts import (
    SpecHistory,
    children,
    controller_uid,
    group_of,
    live_children,
    live_in_group,
    over,
    surge,
    wanted_workers,
)
from kuberay_testkit.sim.deletion_rules import JustifiedDeletions, OnlyItsOwn, finalizer_last
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.status_rules import SteadyStatus
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.world import SimWorld

OPERATORS = ("operator", "operator-a", "operator-b")
"""Clients that are operators, in simulations that do not say otherwise."""


class PodBudget:
    """No pod is created beyond what some recent spec of the cluster asked for."""

    def __init__(self, history: SpecHistory) -> None:
        self._history = history

    def __call__(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind != POD or change.type != "ADDED":
            return
        uid, labels = controller_uid(stored), stored.metadata.get("labels") or {}
        if labels.get(LABEL_NODE_TYPE) != WORKER or uid not in self._history:
            return
        group = group_of(stored)
        live = len(live_in_group(server, uid, group))
        specs = self._history.recent(uid, server.clock.elapsed())
        most = max(wanted_workers(spec).get(group, 0) + surge(spec, group) for spec in specs)
        assert live <= most, f"{live} live pods in group {group}, where at most {most} were ever wanted lately"


def one_head(server: SimServer, change: Change) -> None:
    """A cluster never has two head pods that run: a new one waits until nothing of the old one is left."""
    stored = change.stored
    if stored.key.kind != POD or change.type != "ADDED":
        return
    if (stored.metadata.get("labels") or {}).get(LABEL_NODE_TYPE) != HEAD:
        return
    heads = [
        pod.key.name
        for pod in children(server, controller_uid(stored), POD)
        if not over(pod) and (pod.metadata.get("labels") or {}).get(LABEL_NODE_TYPE) == HEAD
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
    """One submitter Job per attempt: never a second one for the same job id in the same cluster, unless somebody else
    deleted the first."""

    def __init__(self, operators: Collection[str]) -> None:
        self._operators = operators
        self._made: Counter[tuple[str, ...]] = Counter()

    def __call__(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind != JOB or change.type == "MODIFIED":
            return
        owner = server.store.by_uid(controller_uid(stored))
        if owner is None or owner.key.kind != RAYJOB:
            return
        status = owner.body.get("status") or {}
        attempt = (owner.uid, str(status.get("jobId")), str(status.get("rayClusterName")))
        if change.type == "ADDED":
            self._made[attempt] += 1
            assert self._made[attempt] == 1, f"a second submitter of RayJob {owner.key.name} for job {attempt[1]}"
        elif server.acting not in self._operators:
            self._made[attempt] = 0


def watch_over(world: SimWorld, *, memory: float = 5.0, operators: Collection[str] = OPERATORS) -> None:
    """Check all of them from now on. *memory*: for how many seconds an operator may act on a spec that is no more."""
    history = SpecHistory(memory)
    world.always(history)
    for invariant in (
        PodBudget(history),
        one_head,
        one_cluster_per_job,
        OneSubmitter(operators),
        OnlyItsOwn(operators),
        JustifiedDeletions(operators, history),
        SteadyStatus(),
        finalizer_last,
    ):
        world.always(invariant)
