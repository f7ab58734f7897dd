"""What a rolling upgrade promises, checked after every commit: never too few workers that work, never too many at all.

Computed from specs and pods alone, so that the operator's arithmetic is put to the test.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kuberay.api.kinds import POD
from kuberay.api.names import LABEL_NODE_TYPE, WORKER

from kuberay_testkit.sim.cluster_facts import (
    SpecHistory,
    alive,
    children,
    controller_uid,
    draining,
    group_of,
    over,
    wanted_workers,
)
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Stored


class RollingBounds:
    """With the strategy Rolling a group never has more than its wanted pods and ``maxSurge``, terminating ones included,
    and an operator takes no working pod when fewer than the wanted ones without ``maxUnavailable`` would be left.

    Groups of single hosts whose sizes are numbers, not percentages.
    """

    def __init__(self, operators: Collection[str], history: SpecHistory) -> None:
        self._operators = operators
        self._history = history

    def __call__(self, server: SimServer, change: Change) -> None:
        stored, before = change.stored, change.previous
        if stored.key.kind != POD or (stored.metadata.get("labels") or {}).get(LABEL_NODE_TYPE) != WORKER:
            return
        uid, group = controller_uid(stored), group_of(stored)
        if uid not in self._history:
            return
        specs = self._history.recent(uid, server.clock.elapsed())
        if not all(_strategy(spec).get("type") == "Rolling" for spec in specs):
            return
        pods = [pod for pod in children(server, uid, POD) if group_of(pod) == group and not over(pod)]
        if change.type == "ADDED":
            most = max(wanted_workers(spec).get(group, 0) + int(_strategy(spec).get("maxSurge", 0)) for spec in specs)
            assert len(pods) <= most, f"{len(pods)} pods in group {group}, where at most {most} may be"
        if before is None or server.acting not in self._operators or not _works(before) or _works(stored):
            return
        least = min(
            wanted_workers(spec).get(group, 0) - int(_strategy(spec).get("maxUnavailable", 1)) for spec in specs
        )
        left = sum(_works(pod) for pod in pods)
        assert left >= least, f"{left} pods of group {group} work, where at least {least} must"


def _strategy(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    return spec.get("upgradeStrategy") or {}


def _works(pod: Stored) -> bool:
    """Ready, and not chosen to go."""
    conditions = (pod.body.get("status") or {}).get("conditions") or ()
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and alive(pod) and not draining(pod)
