"""People create, edit and delete; requests fail, watches break, the operator is killed: the outcome is always the same."""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from random import Random

from kuberay.api.kinds import JOB, POD, RAYCLUSTER, RAYJOB, SERVICE
from kuberay.api.names import LABEL_CLUSTER, LABEL_GROUP
from kuberay_testkit.sim.calls import missing_permissions
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.users import NAMESPACE, Script, outcome_of, shape, write_script

TROUBLE = 150.0
"""Seconds in which things fail; then everything works again and the cluster must come to rest."""


@dataclass
class Played:
    """What one run ended with."""

    shape: dict[str, Counter[str]]
    crashes: int = 0


def expect_outcome(world: RayWorld, script: Script) -> None:
    """The script's own idea of what must be there, whatever the operator thinks."""
    pods: Counter[tuple[str, str]] = Counter()
    for pod in world.server.objects(POD, NAMESPACE):
        labels = pod["metadata"].get("labels") or {}
        if labels.get(LABEL_CLUSTER, "").startswith("rc"):
            pods[labels[LABEL_CLUSTER], labels[LABEL_GROUP]] += 1
    assert pods == +script.pods
    jobs = {
        job["metadata"]["name"]: (job["status"].get("jobDeploymentStatus"), job["status"].get("failed") or 0)
        for job in world.server.objects(RAYJOB, NAMESPACE)
    }
    assert jobs == script.jobs


def play(seed: int, *, faults: Faults | None = None, crash: bool = False) -> Played:
    """One run of the script of *seed*; every check that holds for all runs is made here."""

    async def run() -> Played:
        script, random, crashes = write_script(seed), Random(f"crashes {seed}"), 0
        async with RayWorld(seed=seed, faults=faults, outcome=outcome_of, pod_grace=2.0) as world:
            watch_over(world, memory=5.0 if faults is None and not crash else 3600.0)
            rules = operator_rules()
            world.server.restrict("operator", rules)
            operator = SimOperator(world=world)
            playing = world.start(lambda _: script.play(world.server), client="users").main
            if crash:
                while not playing.done() and crashes < 12:
                    process = operator.start(crash_at=random.randint(1, 150))
                    if await process.wait_crash():
                        crashes += 1
                    await world.pass_time(random.uniform(0, 3))
            operator.start()
            await playing
            await world.pass_time(max(0.0, TROUBLE - world.server.clock.elapsed()))
            world.server.faults.stop()
            await world.rest(quiet=150)
            expect_outcome(world, script)
            outcome = shape(world.server)
            assert missing_permissions(operator.calls(), rules) == set()
            assert [str(call) for call in await operator.idle_calls()] == [], "a settled cluster costs nothing"

            for kind in (RAYJOB, RAYCLUSTER):
                for obj in world.server.objects(kind, NAMESPACE):
                    world.server.delete(kind, NAMESPACE, obj["metadata"]["name"])
            await world.rest(quiet=150)
            for kind in (RAYJOB, RAYCLUSTER, POD, SERVICE, JOB):
                assert world.server.objects(kind, NAMESPACE) == [], f"{kind} were orphaned"
            return Played(outcome, crashes)

    return run_sim(run, seed=seed)


@functools.cache
def undisturbed(seed: int) -> dict[str, Counter[str]]:
    """What the script of *seed* leads to when nothing fails."""
    return play(seed).shape


def test_converges_without_faults(seed: int) -> None:
    undisturbed(seed)


def test_converges_to_the_same_with_faults(seed: int) -> None:
    troubled = play(seed, faults=Faults.mixture(seed, intensity=0.1, client="operator"))
    assert troubled.shape == undisturbed(seed)


def test_converges_to_the_same_with_many_faults(seed: int) -> None:
    troubled = play(seed, faults=Faults.mixture(seed, intensity=0.5, client="operator"))
    assert troubled.shape == undisturbed(seed)


def test_converges_to_the_same_when_the_operator_is_killed_again_and_again(seed: int) -> None:
    killed = play(seed, crash=True)
    assert killed.crashes > 0
    assert killed.shape == undisturbed(seed)


def test_converges_to_the_same_with_faults_and_kills(seed: int) -> None:
    troubled = play(seed, faults=Faults.mixture(seed, intensity=0.2, client="operator"), crash=True)
    assert troubled.shape == undisturbed(seed)
