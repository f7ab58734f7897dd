"""Rolling upgrades while requests fail and the operator is killed: the bounds hold after every commit, and all is replaced
in the end that had to be, and nothing else."""

from __future__ import annotations

import copy
import functools
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import ANNOTATION_GROUP_HASH, HEAD, LABEL_GROUP, LABEL_NODE_TYPE
from kuberay.plan.build.pods import PodFactory
from kuberay.plan.config import PlanConfig
from kuberay_testkit.builders import build_group, build_pod_template, build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.cluster_facts import SpecHistory
from kuberay_testkit.sim.deletion_rules import JustifiedDeletions, OnlyItsOwn
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import OPERATORS, one_head
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.rolling_rules import RollingBounds
from kuberay_testkit.sim.status_rules import SteadyStatus

NAMESPACE = "default"
SHARES = 25
STRATEGIES: tuple[dict[str, int], ...] = (
    {},
    {"maxUnavailable": 0, "maxSurge": 1},
    {"maxUnavailable": 2},
    {"maxUnavailable": 1, "maxSurge": 2},
)


@dataclass
class End:
    """What one run ended with."""

    images: dict[str, list[str]]
    untouched: bool
    """Whether the group that nobody edited kept its pods."""
    first: int
    """How many request boundaries the first process had passed when the upgrade began."""
    boundaries: int


def watch(world: RayWorld, memory: float) -> None:
    history = SpecHistory(memory)
    rules = (RollingBounds(OPERATORS, history), one_head, OnlyItsOwn(OPERATORS), JustifiedDeletions(OPERATORS, history))
    for rule in (history, *rules, SteadyStatus()):
        world.always(rule)


def worker_groups(image: str) -> list[dict[str, Any]]:
    return [
        build_group("a", 3, template=build_pod_template(image=image)),
        build_group("b", 2, template=build_pod_template(image="old")),
    ]


def found_images(world: RayWorld) -> dict[str, list[str]]:
    images: dict[str, list[str]] = {}
    for pod in world.server.objects(POD, NAMESPACE):
        group = pod["metadata"]["labels"][LABEL_GROUP]
        images.setdefault(group, []).append(pod["spec"]["containers"][0]["image"])
    return {group: sorted(found) for group, found in images.items()}


def names_of(world: RayWorld, group: str) -> set[str]:
    pods = world.server.objects(POD, NAMESPACE, labels=f"{LABEL_GROUP}={group}")
    return {pod["metadata"]["name"] for pod in pods}


def story(seed: int, *, crash_at: int | None = None, faults: Faults | None = None, crashes: bool = False) -> End:
    """One group gets a new image, in the middle of it another one, then the head gets one as well. What happens when is
    the same for every *crash_at* of a seed."""

    async def run() -> End:
        strategy = {"type": "Rolling", "allowHeadRestart": True, **STRATEGIES[seed % len(STRATEGIES)]}
        random = Random(f"rolling {seed}")
        async with RayWorld(seed=seed, faults=faults, pod_grace=1.5) as world:
            watch(world, memory=600.0)
            body = build_raycluster("rc", namespace=NAMESPACE, upgradeStrategy=strategy)
            body["spec"]["workerGroupSpecs"] = worker_groups("old")
            body["spec"]["headGroupSpec"]["template"] = build_pod_template("ray-head", image="old")
            operator = SimOperator(world=world)
            process = operator.start(crash_at=crash_at)
            world.server.create(body)
            await world.pass_time(12)
            before, first = names_of(world, "b"), process.transport.boundaries

            async def step(seconds: float) -> None:
                """Time passes, and a killed operator comes back."""
                if crashes:
                    await operator.kill()
                    operator.start(crash_at=random.randint(1, 60))
                await world.pass_time(seconds)
                if process.transport.crashed.is_set() and operator.process is process:
                    await operator.kill()
                    operator.start()

            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"workerGroupSpecs": worker_groups("new")}})
            for _ in range(random.randint(1, 4)):
                await step(random.uniform(0.5, 3))
            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"workerGroupSpecs": worker_groups("newer")}})
            for _ in range(random.randint(1, 4)):
                await step(random.uniform(0.5, 3))
            head = copy.deepcopy(body["spec"]["headGroupSpec"])
            head["template"]["spec"]["containers"][0]["image"] = "newer"
            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"headGroupSpec": head}})
            await step(20)
            world.server.faults.stop()
            await operator.kill()
            operator.start()
            await world.rest(quiet=20 if crash_at else 150)
            if not crash_at:
                assert [str(call) for call in await operator.idle_calls()] == [], "a settled cluster costs nothing"
            cluster = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
            assert cluster is not None
            assert cluster["status"]["state"] == "ready"
            types = {condition["type"] for condition in cluster["status"]["conditions"]}
            assert not types & {"RollingUpgrade", "HeadOutdated"}
            return End(found_images(world), names_of(world, "b") == before, first, process.transport.boundaries)

    return run_sim(run, seed=seed)


DONE = {"headgroup": ["newer"], "a": ["newer"] * 3, "b": ["old"] * 2}


@functools.cache
def boundaries() -> range:
    """Those at which a kill falls into the upgrade."""
    end = story(0)
    return range(end.first, end.boundaries)


def test_undisturbed(seed: int) -> None:
    end = story(seed)
    assert end.images == DONE
    assert end.untouched


def test_killed_at_any_boundary(seed: int) -> None:
    """The boundaries are shared out among that many seeds; fewer seeds try a part of them."""
    for boundary in boundaries()[seed % SHARES :: SHARES]:
        end = story(0, crash_at=boundary)
        assert end.images == DONE, f"killed at boundary {boundary}"


def test_with_faults_and_crashes(seed: int) -> None:
    for number in range(4 * seed, 4 * seed + 4):
        end = story(number, faults=Faults.mixture(number, intensity=0.1, client="operator"), crashes=number % 2 == 1)
        assert end.images == DONE, f"story {number}"


@pytest.mark.parametrize("strategy", [None, "None", "Recreate", "Rolling"])
def test_an_operator_that_builds_other_pods_touches_none(strategy: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """RC-04: after the operator's own upgrade the pods are the same, and nothing but a head's annotations was written."""

    async def run() -> None:
        async with RayWorld(seed=7) as world:
            watch(world, memory=5.0)
            spec = {"upgradeStrategy": {"type": strategy}} if strategy else {}
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups={"a": 2, "b": 1}, **spec))
            operator = SimOperator(world=world)
            operator.start()
            await world.rest(quiet=30)
            before = {pod["metadata"]["uid"]: pod for pod in world.server.objects(POD, NAMESPACE)}
            assert len(before) == 4
            await operator.stop()

            build = PodFactory.build

            def other(self: PodFactory, place: Any) -> Any:
                built = build(self, place)
                variable = {"name": "NEW_IN_THIS_VERSION", "value": "1"}
                built.pod["spec"]["containers"][0].setdefault("env", []).append(variable)
                return built

            with monkeypatch.context() as patched:
                patched.setattr(PodFactory, "build", other)
                operator.config = replace(PlanConfig(), operator_version="99.0.0")
                begun = len(world.server.calls)
                operator.start()
                await world.rest(quiet=150)
            writes = [
                call
                for call in world.server.calls[begun:]
                if call.client == "operator" and call.verb not in ("get", "list", "watch") and call.resource == "pods"
            ]
            assert len(writes) == (strategy in ("Recreate", "Rolling"))
            after = {pod["metadata"]["uid"]: pod for pod in world.server.objects(POD, NAMESPACE)}
            assert after.keys() == before.keys()
            for uid, pod in after.items():
                assert pod["spec"] == before[uid]["spec"]
                is_head = pod["metadata"]["labels"][LABEL_NODE_TYPE] == HEAD
                assert is_head or pod["metadata"].get("annotations") == before[uid]["metadata"].get("annotations")

    run_sim(run, seed=7)


def resized(crash_at: int | None) -> tuple[bool, set[str], int]:
    """Workers get more CPUs while they run, with a kill at *crash_at*: whether the pods are the same, how many CPUs they
    have in the end, and how many boundaries the first process passed."""

    def groups(cpu: str) -> list[dict[str, Any]]:
        pinned = {"num-cpus": "1", "memory": "1000000000"}
        return [build_group("a", 2, rayStartParams=pinned, template=build_pod_template(cpu=cpu))]

    async def run() -> tuple[bool, set[str], int]:
        async with RayWorld(seed=3) as world:
            watch(world, memory=600.0)
            world.server.restrict("operator", operator_rules())
            operator = SimOperator(world=world, config=PlanConfig(resize_in_place=True))
            process = operator.start(crash_at=crash_at)
            strategy = {"type": "Rolling"}
            world.server.create(
                build_raycluster("rc", namespace=NAMESPACE, groups=groups("1"), upgradeStrategy=strategy)
            )
            await world.pass_time(12)
            before = names_of(world, "a")
            world.server.patch(RAYCLUSTER, NAMESPACE, "rc", {"spec": {"workerGroupSpecs": groups("2")}})
            await world.pass_time(5)
            if process.transport.crashed.is_set():
                await operator.kill()
                operator.start()
            await world.rest(quiet=20)
            pods = world.server.objects(POD, NAMESPACE, labels=f"{LABEL_GROUP}=a")
            sizes = {pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] for pod in pods}
            assert not any("resizing" in pod["metadata"]["annotations"][ANNOTATION_GROUP_HASH] for pod in pods)
            return names_of(world, "a") == before, sizes, process.transport.boundaries

    return run_sim(run, seed=3)


def test_resized_in_place_whenever_it_is_killed() -> None:
    same, sizes, boundaries = resized(None)
    assert (same, sizes) == (True, {"2"})
    for boundary in range(boundaries - 16, boundaries):
        assert resized(boundary)[:2] == (True, {"2"}), f"killed at boundary {boundary}"
