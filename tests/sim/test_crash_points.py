"""The operator is killed at every single request boundary of a small story; the next one finishes it, and nothing doubles."""

from __future__ import annotations

import functools
from collections import Counter

from boundaries import Kills
from kuberay.api.kinds import JOB, POD, RAYCLUSTER
from kuberay_testkit.builders import build_raycluster, build_rayjob
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.users import NAMESPACE, shape


def story(crash_at: int | None) -> tuple[dict[str, Counter[str]], int]:
    """A cluster that is scaled and a job that runs to its end, with a kill at *crash_at*. Returns what is there in the end
    and how many request boundaries the undisturbed operator passed until then."""

    async def run() -> tuple[dict[str, Counter[str]], int]:
        async with RayWorld(seed=1) as world:
            watch_over(world, memory=60.0)
            operator = SimOperator(world=world)
            process = operator.start(crash_at=crash_at)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=2))
            world.server.create(build_rayjob("rj", namespace=NAMESPACE, shutdownAfterJobFinishes=True))
            await world.pass_time(2)
            groups = build_raycluster("rc", groups=1)["spec"]["workerGroupSpecs"]
            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"workerGroupSpecs": groups}})
            for _ in range(2):
                await world.rest(quiet=30)
                if process.transport.crashed.is_set() and operator.process is process:
                    await operator.kill()
                    operator.start()
            assert len(world.server.objects(JOB, NAMESPACE)) == 1
            assert len(world.server.objects(POD, NAMESPACE)) == 3
            return shape(world.server), process.transport.boundaries

    return run_sim(run, seed=1)


@functools.cache
def undisturbed() -> tuple[dict[str, Counter[str]], int]:
    return story(None)


def test_killed_at_any_boundary_it_ends_the_same(kills: Kills) -> None:
    """By default only a part of all of them."""
    expected, boundaries = undisturbed()
    for boundary in kills(boundaries):
        found, _ = story(boundary)
        assert found == expected, f"killed at boundary {boundary}"
