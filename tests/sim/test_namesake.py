"""A RayCluster made while what belonged to a former one of its name is still being collected."""

from __future__ import annotations

import pytest
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER, ROLE, ROLE_BINDING, SECRET, SERVICE, SERVICE_ACCOUNT
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.play import AUTOSCALER, Plugins
from kuberay_testkit.sim.users import NAMESPACE


@pytest.mark.parametrize("pause", [0.0, 0.05, 0.5, 3.0])
def test_nothing_of_the_former_one_is_used(pause: float) -> None:
    """No pod starts with a token or a service account that goes with the former cluster."""

    async def run() -> None:
        async with RayWorld(seed=1, pod_grace=5.0) as world:
            watch_over(world)
            SimOperator(world=world, hooks=Plugins.load([AUTOSCALER]).hooks).start()
            options = {"enableInTreeAutoscaling": True, "authOptions": {"mode": "token"}, "rayVersion": "2.54.0"}
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=2, **options))
            await world.rest(quiet=30)
            world.server.delete(RAYCLUSTER, NAMESPACE, "rc")
            await world.pass_time(pause)
            uid = world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=2, **options))["metadata"][
                "uid"
            ]
            await world.rest(quiet=60)
            found = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
            assert found is not None
            assert found["status"]["state"] == "ready"
            for kind in (POD, SERVICE, SECRET, SERVICE_ACCOUNT, ROLE, ROLE_BINDING):
                for body in world.server.objects(kind, NAMESPACE):
                    (owner,) = body["metadata"]["ownerReferences"]
                    assert owner["uid"] == uid, body["metadata"]["name"]
            assert world.server.count(verb="create", resource="pods") == 2 * 3, "and no pod was made twice"
            for event in world.server.objects(EVENT, NAMESPACE):
                assert event["type"] == "Normal" or "a former RayCluster of this name" in event["note"]

    run_sim(run)
