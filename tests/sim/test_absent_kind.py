"""A plugin whose CRD is not installed: pods wait and the object says for what; once it is there, all goes on (VO-06)."""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.registry import POD_GROUP
from kuberay_testkit.sim.users import NAMESPACE


def status(world: RayWorld) -> dict[str, Any]:
    cluster = world.server.peek(RAYCLUSTER, NAMESPACE, "gang")
    assert cluster is not None
    return dict(cluster.get("status") or {})


def test_an_absent_kind_is_waited_for_and_named() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            world.server.unregister(POD_GROUP)
            SimOperator(world=world, hooks=PluginManager(load(["volcano"]))).start()
            labels = {"ray.io/gang-scheduling-enabled": "true"}
            world.server.create(build_raycluster("gang", namespace=NAMESPACE, groups=1, labels=labels))
            await world.rest(quiet=30)
            waiting = next(c for c in status(world)["conditions"] if c["type"] == "PodsWaiting")
            assert "podgroups.scheduling.volcano.sh is not served" in waiting["message"]
            assert world.server.objects(POD, NAMESPACE) == []
            world.server.register(POD_GROUP)
            await world.until(lambda: status(world).get("state") == "ready", within=600)
            assert "PodsWaiting" not in {c["type"] for c in status(world)["conditions"]}

    run_sim(run)
