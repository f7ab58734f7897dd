"""A batch scheduler in a simulated cluster: pods of a gang start when all of it can, and never before.

What a gang is, the caller says with functions of manifests; so any scheduler's objects and marks will do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from kuberay.api.kinds import POD, Kind

from kuberay_testkit.sim.cluster_facts import over
from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.kubelet import SimKubelet
from kuberay_testkit.sim.podstatus import Wish
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

Manifest = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class GangRules:
    """Which pods wait, and for what."""

    scheduler_name: str
    group: Kind | None = None
    """The kind of gang objects; None: pods say themselves what gang they are in."""
    gang_of: Callable[[Manifest], str]
    """From a pod, its gang (with `group`, the object's name); empty: none."""
    gang_size: Callable[[Manifest], int] | None = None
    """From a gang object, or without `group` from a pod, how many pods must fit at once."""
    reserves: Literal["pods", "placeholders"] = "pods"
    """``placeholders``: the scheduler holds places by itself, so no pod waits for others to be made."""

    def behave(self, server: SimServer, pod: Manifest) -> Wish | None:
        """For a `SimKubelet`: a pod is held while its gang is not there or not complete; one that has started goes on."""
        return Wish(hold=True) if self.why_held(server, pod) else None

    def why_held(self, server: SimServer, pod: Manifest) -> str:
        """Why *pod* is not started, in one sentence; empty when it is."""
        if pod["spec"].get("schedulerName") != self.scheduler_name or "startTime" in (pod.get("status") or {}):
            return ""
        gang, namespace = self.gang_of(pod), pod["metadata"]["namespace"]
        if not gang:
            return ""
        said = pod
        if self.group is not None:
            found = server.peek(self.group, namespace, gang)
            if found is None:
                return f"{self.group.kind} {namespace}/{gang}, which the pod names, is not there"
            said = found
        if self.gang_size is None or self.reserves == "placeholders":
            return ""
        size, members = self.gang_size(said), len(self.members(server, namespace, gang))
        return "" if members >= size else f"gang {gang} needs {size} pods at once and {members} are there"

    def members(self, server: SimServer, namespace: str, gang: str) -> list[Stored]:
        """The pods of a gang that are there: neither ended nor being deleted."""
        return [
            pod
            for pod in server.store.all_of(POD, namespace)
            if not pod.deleting and not over(pod) and self.gang_of(pod.copy()) == gang
        ]


class SimGangs(Controller):
    """Lets the kubelet look again at pods that wait whenever a pod or a gang object changes."""

    def __init__(self, server: SimServer, kubelet: SimKubelet, rules: GangRules) -> None:
        self.kubelet = kubelet
        self.rules = rules
        super().__init__(server, delay=(0.05, 0.3))

    def observe(self, change: Change) -> None:
        if change.stored.key.kind == POD or change.stored.key.kind == self.rules.group:
            self.enqueue(change.stored.key)

    def sync(self, key: Key) -> None:
        for pod in self.server.store.all_of(POD, key.namespace):
            if not pod.deleting and "startTime" not in (pod.body.get("status") or {}):
                self.kubelet.enqueue(pod.key, 0.0)
