"""Fallback between worker groups while requests fail and the operator is killed: replicas are handed over once, stay
until asked back, and the pods that run are left alone."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import LABEL_GROUP
from kuberay.api.times import format_time
from kuberay.plan.cluster.fallback import RETURN
from kuberay_testkit.builders import build_group, build_pod_template, build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.deletion_rules import OnlyItsOwn
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import OPERATORS, one_head
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change

NAMESPACE = "default"
HOLD = {"fake-kubelet.kuberay.dev/hold": "true"}
WANTED = 4
AFTER = 30


@dataclass
class Scheduler:
    """Gives so many pods of the group ``spot`` a node, and tells the others that there is none."""

    world: RayWorld
    nodes: int

    async def run(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(0.5)

    def _look(self) -> None:
        pods = self.world.server.objects(POD, NAMESPACE, labels=f"{LABEL_GROUP}=spot")
        running = sum(pod.get("status", {}).get("phase") == "Running" for pod in pods)
        for pod in pods:
            name, status = pod["metadata"]["name"], pod.get("status", {})
            if status.get("phase") == "Running" or "deletionTimestamp" in pod["metadata"]:
                continue
            if running < self.nodes:
                running += 1
                self.world.kubelet.start(NAMESPACE, name)
            elif not any(c["type"] == "PodScheduled" for c in status.get("conditions", [])):
                self.world.kubelet.set_unschedulable(NAMESPACE, name)


def never_too_many(server: SimServer, change: Change) -> None:
    """A replica is replaced, never doubled, except while it goes back."""
    if change.stored.key.kind == POD and change.type == "ADDED":
        cluster = server.peek(RAYCLUSTER, NAMESPACE, "rc") or {}
        returning = any(entry.get("returning") for entry in cluster.get("status", {}).get("fallbacks") or ())
        workers = server.objects(POD, NAMESPACE, labels="ray.io/node-type=worker")
        alive = [pod for pod in workers if "deletionTimestamp" not in pod["metadata"]]
        assert returning or len(alive) <= WANTED, "more workers than the spec asks for"


@dataclass
class Story:
    """What was seen at each stage: pods per group, and what ran before and still ran after the handover."""

    stages: list[dict[str, int]]
    kept: bool
    idle: list[str]


def groups_now(world: RayWorld) -> dict[str, int]:
    pods = world.server.objects(POD, NAMESPACE, labels="ray.io/node-type=worker")
    return dict(Counter(pod["metadata"]["labels"][LABEL_GROUP] for pod in pods))


def story(seed: int, *, faults: Faults | None = None, crashes: bool = False) -> Story:
    async def run() -> Story:
        random = Random(f"fallback {seed}")
        async with RayWorld(seed=seed, faults=faults, pod_grace=1.5) as world:
            for rule in (one_head, OnlyItsOwn(OPERATORS), never_too_many):
                world.always(rule)
            world.server.restrict("operator", operator_rules())
            spot = build_group("spot", 3, template=build_pod_template(annotations=HOLD))
            spot["fallback"] = {"groupName": "steady", "afterSeconds": AFTER}
            body = build_raycluster("rc", namespace=NAMESPACE)
            body["spec"]["workerGroupSpecs"] = [spot, build_group("steady", 1)]
            scheduler = Scheduler(world, nodes=1)
            scheduling = world.start(lambda _: scheduler.run(), client="scheduler").main
            operator = SimOperator(world=world)
            operator.start()
            world.server.create(body)

            async def wait(seconds: float) -> None:
                parts = 4 if crashes else 1
                for _ in range(parts):
                    if crashes:
                        await operator.kill()
                        operator.start()
                    await world.pass_time(seconds * random.uniform(0.9, 1.1) / parts)

            await wait(AFTER / 2)
            running = {
                pod["metadata"]["name"]
                for pod in world.server.objects(POD, NAMESPACE)
                if pod.get("status", {}).get("phase") == "Running"
            }
            await wait(8 * AFTER)
            stages = [groups_now(world)]
            kept = running <= {pod["metadata"]["name"] for pod in world.server.objects(POD, NAMESPACE)}
            scheduler.nodes = 3
            await wait(8 * AFTER)
            stages.append(groups_now(world))
            asked = {"annotations": {RETURN: format_time(world.server.now())}}
            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"metadata": asked})
            await wait(8 * AFTER)
            world.server.faults.stop()
            await world.pass_time(200)
            stages.append(groups_now(world))
            cluster: dict[str, Any] = world.server.peek(RAYCLUSTER, NAMESPACE, "rc") or {}
            assert cluster["status"]["state"] == "ready"
            assert "fallbacks" not in cluster["status"]
            idle = [str(call) for call in await operator.idle_calls()]
            scheduling.cancel()
            return Story(stages, kept, idle)

    return run_sim(run, seed=seed)


EXPECTED = [{"spot": 1, "steady": 3}, {"spot": 1, "steady": 3}, {"spot": 3, "steady": 1}]


@functools.cache
def undisturbed(seed: int) -> Story:
    return story(seed)


def test_handed_over_once_kept_and_given_back_when_asked(seed: int) -> None:
    told = undisturbed(seed)
    assert told.stages == EXPECTED
    assert told.kept
    assert told.idle == []


def test_the_same_with_faults(seed: int) -> None:
    told = story(seed, faults=Faults.mixture(seed, intensity=0.1, client="operator"))
    assert told.stages == EXPECTED


def test_the_same_with_an_operator_killed_again_and_again(seed: int) -> None:
    told = story(seed, crashes=True)
    assert told.stages == EXPECTED
    assert told.kept
