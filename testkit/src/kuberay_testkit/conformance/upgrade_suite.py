"""What cases about upgrades of RayServices share: a service, an edit that needs new pods, and who is served meanwhile."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import yaml
from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE

from kuberay_testkit.builders import build_group, build_rayservice
from kuberay_testkit.conformance.subjects import StrategyUnderTest
from kuberay_testkit.conformance.suite import Suite
from kuberay_testkit.lab import NAMESPACE, Lab, Manifest
from kuberay_testkit.sim.serve import FAILS, SECONDS
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.service_facts import backends, cluster_of, side
from kuberay_testkit.sim.store import Change, Key, Stored

NAME = "serve"
LONGEST = 3600.0
"""Virtual seconds that an upgrade may take."""


class UpgradeSuite(Suite):
    """One RayService ``serve``."""

    serves = True

    def strategy(self) -> StrategyUnderTest:
        """The factory that an author writes."""
        raise NotImplementedError

    def subject(self) -> StrategyUnderTest:
        return self.strategy()

    # -- the service

    def service(self, *, options: Mapping[str, Any] | None = None, **spec: Any) -> Manifest:
        """A RayService with the strategy; *options* in place of the subject's."""
        strategy = self.strategy()
        chosen = {"type": strategy.type, **(strategy.options if options is None else options)}
        return build_rayservice(
            NAME,
            groups=[build_group("workers", 2)],
            cluster=strategy.cluster,
            **{
                "upgradeStrategy": chosen,
                "serveConfigV2": config("v1"),
                "rayClusterDeletionDelaySeconds": 10,
                **spec,
            },
        )

    def upgrade(self, lab: Lab, tag: str = "-2", *, fails: bool = False) -> None:
        """Edit the image of all pods, and the configuration of Serve."""
        cluster = copy.deepcopy(self.service()["spec"]["rayClusterConfig"])
        for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
            group["template"]["spec"]["containers"][0]["image"] += tag
        lab.edit(RAYSERVICE, NAME, rayClusterConfig=cluster, serveConfigV2=config(f"v{tag}", fails=fails))

    def go_back(self, lab: Lab) -> None:
        """Edit the spec to what it was at first."""
        spec = self.service()["spec"]
        lab.edit(RAYSERVICE, NAME, rayClusterConfig=spec["rayClusterConfig"], serveConfigV2=spec["serveConfigV2"])

    def annotate(self, lab: Lab, name: str, value: str | None) -> None:
        lab.server.patch(RAYSERVICE, NAMESPACE, NAME, {"metadata": {"annotations": {name: value}}})

    # -- what is there

    def stored(self, lab: Lab) -> Stored:
        found = lab.server.store.get(Key(RAYSERVICE, NAMESPACE, NAME))
        assert found is not None
        return found

    def active(self, lab: Lab) -> str:
        return cluster_of(self.stored(lab), "active")

    def pending(self, lab: Lab) -> str:
        return cluster_of(self.stored(lab), "pending")

    def images(self, lab: Lab) -> set[str]:
        """The tags of all pods that are there."""
        return {pod["spec"]["containers"][0]["image"].partition("2.52.0")[2] for pod in lab.pods()}

    def weights(self, world: ServeWorld) -> Mapping[str, int]:
        """Where requests go now, in percent by Service."""
        asked = self.strategy().weights
        return {f"{NAME}-serve-svc": 100} if asked is None else asked(world, NAME)

    def served(self, world: ServeWorld) -> bool:
        """Whether every request finds a pod that answers it."""
        fronts = [front for front, weight in self.weights(world).items() if weight]
        return bool(fronts) and all(backends(world, NAMESPACE, front) for front in fronts)

    async def serving(self, lab: Lab, **service: Any) -> str:
        """Make the service, and wait until it serves; the name of its RayCluster."""
        lab.create(self.service(**service))
        world = world_of(lab)
        await lab.until(lambda: bool(self.active(lab)) and self.served(world), "a RayService that serves", LONGEST)
        await lab.world.pass_time(20)
        return self.active(lab)

    async def upgraded(self, lab: Lab, before: str) -> str:
        """Until the upgrade is over and only one RayCluster is left; its name."""
        await lab.until(
            lambda: self.active(lab) not in ("", before) and not self.pending(lab), "the end of the upgrade", LONGEST
        )
        await lab.rest(quiet=60)
        found = [each["metadata"]["name"] for each in lab.all(RAYCLUSTER)]
        assert found == [self.active(lab)], f"RayClusters after the upgrade: {found}\n{lab.describe()}"
        assert self.served(world_of(lab)), f"nobody is served after the upgrade\n{lab.describe()}"
        return self.active(lab)

    # -- what must hold at every moment

    def watch_over(self, lab: Lab) -> None:
        """From now on: whoever is served stays served, weights are whole, and no side carries more than it has room for."""
        world = world_of(lab)

        def always(server: SimServer, change: Change) -> None:
            found = server.store.get(Key(RAYSERVICE, NAMESPACE, NAME))
            if found is None or found.deleting or found.body["spec"].get("suspend"):
                return
            weights = self.weights(world)
            assert sum(weights.values()) == 100, f"weights are {dict(weights)}"
            if self.strategy().keeps_serving:
                assert self.served(world), f"requests to {dict(weights)} find no pod that answers"
            shares = [side(found, name) for name in ("active", "pending")]
            routed = [each["trafficRoutedPercent"] for each in shares if "trafficRoutedPercent" in each]
            if len(routed) == 2:
                assert sum(routed) == 100, f"trafficRoutedPercent of both sides: {routed}"

        lab.world.always(always)

    async def everything(self, lab: Lab) -> None:
        first = await self.serving(lab)
        self.upgrade(lab)
        second = await self.upgraded(lab, first)
        self.upgrade(lab, "-3")
        await lab.until(lambda: bool(self.pending(lab)), "a pending RayCluster", LONGEST)
        await lab.world.pass_time(10)
        self.upgrade(lab, "-4")
        await self.upgraded(lab, second)
        # A pod without a replica of Serve is told of after two minutes.
        await lab.rest(quiet=150)


def world_of(lab: Lab) -> ServeWorld:
    assert isinstance(lab.world, ServeWorld)
    return lab.world


def config(version: str, *, fails: bool = False) -> str:
    """``serveConfigV2`` of one application with two replicas."""
    application = {
        "name": "app",
        "import_path": f"app:{version}",
        "args": {SECONDS: 2.0, FAILS: fails},
        "deployments": [{"name": "Model", "num_replicas": 2}],
    }
    return yaml.safe_dump({"applications": [application]}, sort_keys=False)
