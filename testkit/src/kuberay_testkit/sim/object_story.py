"""What happens alike to the RayClusters of a RayJob and of a RayService: pods that are killed, crash or lose their node.

`JobStory` and `ServiceTroubles` say whose pods those are, and add what is special to their kinds.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from kuberay.api.kinds import POD
from kuberay.api.names import HEAD, WORKER

from kuberay_testkit.sim.status import APIError
from kuberay_testkit.sim.story import NAMESPACE, Action
from kuberay_testkit.sim.world import SimWorld


class ObjectStory(ABC):
    """Moves of one object that happen *at* some time, before *until*; those that end by themselves do so before that, too."""

    ON_NODES: ClassVar[Sequence[str]] = (HEAD, WORKER)
    """Types of the pods whose nodes may be lost, as `_to_pod` takes them."""

    def __init__(self, name: str, random: Random) -> None:
        self.name = name
        self.random = random
        self.actions: list[Action] = []
        self.suspended = False

    # -- what a kind says itself

    @abstractmethod
    def create(self, at: float, until: float) -> None:
        """Made for the first time, or again."""

    @abstractmethod
    def delete(self, at: float, until: float) -> None:
        """Deleted by its user."""

    @abstractmethod
    def suspend(self, at: float, until: float) -> None:
        """Suspended by its user."""

    @abstractmethod
    def resume(self, at: float, until: float) -> None:
        """Resumed by its user."""

    @abstractmethod
    def _to_pod(self, at: float, what: str, node_type: str, do: Callable[[SimWorld, str], object]) -> None:
        """To one of its pods of that type."""

    # -- people

    def flip_suspend(self, at: float, until: float) -> None:
        for _ in range(self.random.randint(2, 4)):
            (self.resume if self.suspended else self.suspend)(at, until)
            at = self._later(at, until, 0.05, 3)

    def replace(self, at: float, until: float) -> None:
        """Deleted and made anew under the same name."""
        self.delete(at, until)
        self.create(self._later(at, until, 0.0, 1), until)

    # -- nodes

    def kill_head(self, at: float, _until: float) -> None:
        self._to_pod(at, "kill the head of", HEAD, lambda world, name: world.server.delete(POD, NAMESPACE, name))

    def kill_worker(self, at: float, _until: float) -> None:
        self._to_pod(at, "kill a worker of", WORKER, lambda world, name: world.server.delete(POD, NAMESPACE, name))

    def crash_head(self, at: float, _until: float) -> None:
        """Its Ray container ends, and starts again where pods may."""

        def crash(world: SimWorld, name: str) -> None:
            pod = world.server.peek(POD, NAMESPACE, name) or {}
            if (pod.get("status") or {}).get("containerStatuses"):
                state = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
                world.kubelet.set_container(NAMESPACE, name, pod["spec"]["containers"][0]["name"], state, restarts=1)
                if pod["spec"].get("restartPolicy", "Always") == "Always":
                    loop = asyncio.get_running_loop()
                    loop.call_later(5.0, _start_again, world, name, pod["metadata"]["uid"])

        self._to_pod(at, "crash the head of", HEAD, crash)

    def lose_node(self, at: float, until: float) -> None:
        """A pod is Unknown, is told to go and does not, until its node is removed."""
        lost: list[str] = []

        def lose(world: SimWorld, name: str) -> None:
            lost.append((world.server.peek(POD, NAMESPACE, name) or {})["metadata"]["uid"])
            world.kubelet.lose(NAMESPACE, name)

        self._to_pod(at, "lose a node of", self.random.choice(self.ON_NODES), lose)

        def give_up(world: SimWorld) -> None:
            for uid in lost:
                world.kubelet.give_up(uid)

        self._try(self._later(at, until, 1, 40), "remove a node of", give_up)

    # -- how

    def _add(self, at: float, what: str, do: Callable[[SimWorld], object]) -> None:
        self.actions.append(Action(at, f"{what} {self.name}", do, self.name))

    def _try(self, at: float, what: str, do: Callable[[SimWorld], object]) -> None:
        """For what may have gone by then."""

        def attempt(world: SimWorld) -> None:
            try:
                do(world)
            except APIError as error:
                if error.reason != "NotFound":
                    raise

        self._add(at, what, attempt)

    def _later(self, at: float, until: float, least: float, most: float) -> float:
        """Some time after *at*, but before the next move."""
        return min(at + self.random.uniform(least, most), max(at, until - 0.001))


def hit_one(
    world: SimWorld, pods: Sequence[Mapping[str, Any]], pick: float, do: Callable[[SimWorld, str], object]
) -> None:
    """Do it to one of those that live; *pick*, from 0 to 1, says to which."""
    pods = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    pods = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")]
    if pods:
        do(world, pods[int(pick * len(pods))]["metadata"]["name"])


def _start_again(world: SimWorld, name: str, uid: str) -> None:
    stored = world.server.store.by_uid(uid)
    if stored is None or stored.deleting or (stored.body.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return
    world.kubelet.start(NAMESPACE, name)
