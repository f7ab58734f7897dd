"""What failing nodes, dashboards, proxies and gateways do to one RayService, and people who delete what belongs to it.

These are the moves of `ServiceStory` that need not know what its spec says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, POD, RAYCLUSTER, RAYSERVICE, SERVICE
from kuberay.api.names import HEAD, LABEL_NODE_TYPE, WORKER

from kuberay_testkit.sim.object_story import ObjectStory, hit_one
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.service_facts import cluster_of
from kuberay_testkit.sim.store import Key
from kuberay_testkit.sim.story import NAMESPACE, pods_of
from kuberay_testkit.sim.world import SimWorld


class ServiceTroubles(ObjectStory):
    """Moves of one RayService."""

    def __init__(self, name: str, random: Random) -> None:
        super().__init__(name, random)
        self.unwell = 0
        """How often a dashboard was, so that a configuration may have been sent again."""

    # -- people who delete

    def delete_cluster(self, at: float, _until: float) -> None:
        side = self.random.choice(("active", "pending"))

        def delete(world: SimWorld) -> None:
            name = self._cluster(world, side)
            if name:
                world.server.delete(RAYCLUSTER, NAMESPACE, name)

        self._try(at, f"delete the {side} cluster of", delete)

    def delete_service(self, at: float, _until: float) -> None:
        which = self.random.choice((f"{self.name}-serve-svc", f"{self.name}-head-svc"))
        self._try(at, f"delete {which} of", lambda world: world.server.delete(SERVICE, NAMESPACE, which))

    def delete_gateway(self, at: float, _until: float) -> None:
        kind, name = self.random.choice(((GATEWAY, "gateway"), (HTTP_ROUTE, "httproute")))
        self._try(
            at, f"delete the {name} of", lambda world: world.server.delete(kind, NAMESPACE, f"{self.name}-{name}")
        )

    # -- Serve, dashboards and gateways

    def restart_dashboard(self, at: float, _until: float) -> None:
        seconds = self.random.uniform(2, 40)
        self._to_serve(at, "restart", lambda world, name: world.heads.restart_dashboard(NAMESPACE, name, seconds))

    def hang(self, at: float, _until: float) -> None:
        seconds = self.random.uniform(5, 40)
        self._to_serve(at, "let hang", lambda world, name: world.heads.hang(NAMESPACE, name, seconds))

    def fall_behind(self, at: float, until: float) -> None:
        seconds = self.random.uniform(1, 20)
        self._to_serve(at, "slow down", lambda world, name: world.heads.fall_behind(NAMESPACE, name, seconds))
        later = self._later(at, until, 5, 60)
        self._to_serve(later, "speed up", lambda world, name: world.heads.fall_behind(NAMESPACE, name, 0.0))

    def break_proxy(self, at: float, _until: float) -> None:
        seconds, node_type = self.random.uniform(2, 30), self.random.choice((HEAD, WORKER))

        def break_it(world: SimWorld, name: str) -> None:
            pod = world.server.store.get(Key(POD, NAMESPACE, name))
            if pod is not None and isinstance(world, ServeWorld):
                world.heads.break_proxy(pod, seconds)

        self._to_pod(at, "break a proxy of", node_type, break_it)

    def fail_applications(self, at: float, until: float) -> None:
        side = self.random.choice(("active", "pending"))
        failed: list[str] = []

        def fail(world: ServeWorld, name: str) -> None:
            failed.append(name)
            world.heads.fail_applications(NAMESPACE, name)

        def heal(world: ServeWorld, _name: str) -> None:
            for name in failed:
                world.heads.heal_applications(NAMESPACE, name)

        self._to_serve(at, "make unhealthy", fail, side)
        self._to_serve(self._later(at, until, 3, 40), "heal", heal)

    def trouble_gateway(self, at: float, until: float) -> None:
        """The gateway's controller is away, or says no, for a while."""
        how = self.random.choice(("hold", "refuse"))
        self._to_serve(at, f"{how}: the gateway of", lambda world, _: getattr(world.gateways, how)())
        self._to_serve(
            self._later(at, until, 1, 20), "the gateway is back for", lambda world, _: world.gateways.serve()
        )

    # -- how

    def _patch(self, world: SimWorld, change: Mapping[str, Any]) -> None:
        world.server.patch(RAYSERVICE, NAMESPACE, self.name, change)

    def _annotate(self, at: float, what: str, annotation: str, value: str | None) -> None:
        change = {"metadata": {"annotations": {annotation: value}}}
        self._try(at, what, lambda world: self._patch(world, change))

    def _cluster(self, world: SimWorld, side: str) -> str:
        stored = world.server.store.get(Key(RAYSERVICE, NAMESPACE, self.name))
        return cluster_of(stored, side) if stored is not None else ""

    def _to_serve(self, at: float, what: str, do: Callable[[ServeWorld, str], object], side: str = "") -> None:
        """To the Serve of one of the clusters, if it is there."""
        sides = (side,) if side else self.random.choice((("active", "pending"), ("pending", "active")))
        self.unwell += 1

        def act(world: SimWorld) -> None:
            assert isinstance(world, ServeWorld)
            do(world, next((name for name in (self._cluster(world, each) for each in sides) if name), ""))

        self._add(at, f"{what} Serve of", act)

    def _to_pod(self, at: float, what: str, node_type: str, do: Callable[[SimWorld, str], object]) -> None:
        """To a pod of one of the clusters."""
        pick, sides = self.random.random(), self.random.choice((("active", "pending"), ("pending", "active")))

        def hit(world: SimWorld) -> None:
            name = next((name for name in (self._cluster(world, each) for each in sides) if name), "")
            pods = pods_of(world, name, LABEL_NODE_TYPE, node_type)
            hit_one(world, pods, pick, do)

        self._try(at, what, hit)
