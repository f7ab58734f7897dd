"""What the stories of single objects are made of: actions at their times, and what they do to pods and specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import LABEL_CLUSTER, LABEL_NODE_TYPE

from kuberay_testkit.sim.world import SimWorld

NAMESPACE = "lab"

Do = Callable[[SimWorld], object]


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that happens, *at* seconds after the start."""

    at: float
    what: str
    do: Do
    story: str = ""
    """Whose it is: what belongs to one object happens in order, one after the other."""


@dataclass(slots=True)
class Hit:
    """Does something to one pod of a cluster, if there is one, and knows which it was."""

    cluster: str
    node_type: str
    pick: float
    do: Callable[[SimWorld, str], object]
    waiting: bool = False
    """Only a pod that has not started."""
    uid: str = ""

    def __call__(self, world: SimWorld) -> None:
        pods = pods_of(world, self.cluster, LABEL_NODE_TYPE, self.node_type)
        pods = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        if self.waiting:
            pods = [pod for pod in pods if "startTime" not in (pod.get("status") or {})]
        if pods:
            chosen = pods[int(self.pick * len(pods))]["metadata"]
            self.uid = chosen["uid"]
            self.do(world, chosen["name"])

    def start(self, world: SimWorld) -> None:
        """It runs again, unless it is gone or going or over."""
        stored = world.server.store.by_uid(self.uid)
        if stored is None or stored.deleting:
            return
        if (stored.body.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
            world.kubelet.start(NAMESPACE, stored.key.name)

    def give_up(self, world: SimWorld) -> None:
        """The node it was on is no more."""
        world.kubelet.give_up(self.uid)


def pods_of(world: SimWorld, cluster: str, label: str, value: str) -> list[dict[str, Any]]:
    """The cluster's own pods with that label, by name."""
    pods = world.server.objects(POD, NAMESPACE, f"{LABEL_CLUSTER}={cluster},{label}={value}")
    return [pod for pod in pods if pod["metadata"].get("ownerReferences")]


def patch_spec(world: SimWorld, cluster: str, **spec: Any) -> None:
    """A merge patch, as kubectl or an autoscaler sends it."""
    world.server.patch(RAYCLUSTER, NAMESPACE, cluster, {"spec": spec})


def wanted_pods(group: Mapping[str, Any]) -> int:
    """How many pods a group of a spec asks for."""
    if group.get("suspend"):
        return 0
    least, most, replicas = group.get("minReplicas") or 0, group.get("maxReplicas"), group.get("replicas")
    count = max(least if replicas is None else replicas, least)
    return (count if most is None else min(count, max(most, least))) * int(group.get("numOfHosts") or 1)


def image_of(template: Mapping[str, Any]) -> str:
    """The image of the Ray container."""
    return str(template["spec"]["containers"][0]["image"])
