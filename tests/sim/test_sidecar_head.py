"""RayClusters whose head submits a RayJob (SidecarMode): one head that starts, whoever dies, and ready by its Ray container."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import pytest
from boundaries import Kills
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import HEAD, LABEL_NODE_TYPE, SUBMITTER_CONTAINER
from kuberay_testkit.builders import IMAGE, build_pod_template, build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.podstatus import Wish
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.users import NAMESPACE

Loss = Literal["deleted", "evicted"]
Behave = Callable[[dict[str, Any]], Wish | None]


def node_type(body: dict[str, Any]) -> str:
    return str((body["metadata"].get("labels") or {}).get(LABEL_NODE_TYPE))


def workers_wait(pod: dict[str, Any]) -> Wish | None:
    """As under a gang scheduler that has no room."""
    return None if node_type(pod) == HEAD else Wish("Pending")


def head_fails_at_once(pod: dict[str, Any]) -> Wish:
    """It has run before anybody looked."""
    return Wish("Failed", delay=0.05) if node_type(pod) == HEAD else Wish("Pending")


def nothing_starts(_pod: dict[str, Any]) -> Wish:
    return Wish("Pending")


class StartedHeads:
    """Names of head pods whose Ray container has run."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def __call__(self, _server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind != POD:
            return
        body = stored.copy()
        statuses = (body.get("status") or {}).get("containerStatuses") or ()
        if node_type(body) == HEAD and any(each["state"].keys() & {"running", "terminated"} for each in statuses):
            self.names.add(body["metadata"]["name"])
        assert len(self.names) <= 1, f"two heads started: {self.names}"


def sidecar_cluster() -> dict[str, Any]:
    template = build_pod_template("ray-head", restartPolicy="Never")
    template["spec"]["containers"].append({"name": SUBMITTER_CONTAINER, "image": IMAGE})
    return build_raycluster(
        "rc",
        namespace=NAMESPACE,
        groups=2,
        labels={"ray.io/job-submission-mode": "SidecarMode"},
        annotations={"ray.io/disable-provisioned-head-restart": "true"},
        headGroupSpec={"rayStartParams": {}, "template": template},
    )


def heads(world: RayWorld) -> list[str]:
    return [pod["metadata"]["name"] for pod in world.server.objects(POD, NAMESPACE) if node_type(pod) == HEAD]


def status(world: RayWorld) -> dict[str, Any]:
    cluster = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
    assert cluster is not None
    return cluster.get("status") or {}


def condition(world: RayWorld, type_: str) -> tuple[str, str]:
    found: dict[str, str] = next((c for c in status(world).get("conditions", ()) if c["type"] == type_), {})
    return found.get("status", ""), found.get("reason", "")


def lose_head(world: RayWorld, how: Loss) -> None:
    (head,) = heads(world)
    if how == "evicted":
        world.kubelet.evict(NAMESPACE, head)
    else:
        world.server.delete(POD, NAMESPACE, head)


def story(loss: Loss, behave: Behave | None = None, *, crash_at: int | None = None) -> int:
    """A cluster starts and loses its head; the operator is killed at *crash_at*, and once more in the end. Returns how many
    request boundaries it passed undisturbed."""

    async def run() -> int:
        async with RayWorld(seed=1, behave=behave, pod_grace=2.0) as world:
            world.always(StartedHeads())
            operator = SimOperator(world=world)
            process = operator.start(crash_at=crash_at)
            world.server.create(sidecar_cluster())

            async def wait() -> None:
                for _ in range(15):
                    await world.pass_time(1)
                    if process.transport.crashed.is_set() and operator.process is process:
                        await operator.kill()
                        operator.start()

            await wait()
            provisioned = "False" if behave is not None else "True"
            assert condition(world, "RayClusterProvisioned")[0] == provisioned
            assert condition(world, "HeadStarted") == ("True", "RayContainerStarted")
            workers = len(world.server.objects(POD, NAMESPACE)) - 1
            lose_head(world, loss)
            await wait()
            assert heads(world) == []
            assert len(world.server.objects(POD, NAMESPACE)) == workers == 2
            assert condition(world, "HeadPodReady") == ("False", "HeadPodNotFound")
            boundaries = process.transport.boundaries
            await operator.kill()
            operator.start()
            await world.pass_time(200)
            assert heads(world) == []
            assert await operator.idle_calls() == []
            return boundaries

    return run_sim(run, seed=1)


@pytest.mark.parametrize("loss", ["deleted", "evicted"])
@pytest.mark.parametrize("behave", [None, workers_wait], ids=["provisioned", "workers wait"])
def test_a_lost_head_stays_lost(loss: Loss, behave: Behave | None) -> None:
    """RJ-10: also before the cluster was ready for the first time."""
    story(loss, behave)


@functools.cache
def boundaries_of_an_eviction() -> int:
    return story("evicted", workers_wait)


def failure_at_once(crash_at: int | None) -> int:
    """A head fails before the operator has seen it run."""

    async def run() -> int:
        async with RayWorld(seed=1, behave=head_fails_at_once, pod_grace=2.0) as world:
            world.always(StartedHeads())
            operator = SimOperator(world=world)
            process = operator.start(crash_at=crash_at)
            world.server.create(sidecar_cluster())
            for _ in range(20):
                await world.pass_time(1)
                if process.transport.crashed.is_set() and operator.process is process:
                    await operator.kill()
                    operator.start()
            assert heads(world) == []
            assert condition(world, "HeadPodReady") == ("False", "HeadPodNotFound")
            return process.transport.boundaries

    return run_sim(run, seed=1)


def test_a_head_that_fails_at_once_is_not_forgotten() -> None:
    """RJ-10: at every request boundary at which the operator may be killed."""
    for boundary in range(1, failure_at_once(None)):
        failure_at_once(boundary)


def test_killed_at_any_boundary_no_second_head_starts(kills: Kills) -> None:
    """RJ-10."""
    for boundary in kills(boundaries_of_an_eviction()):
        story("evicted", workers_wait, crash_at=boundary)


@pytest.mark.parametrize("reason", ["Unschedulable", "ImagePullBackOff"])
def test_a_head_that_never_started_is_made_again(reason: str) -> None:
    """RJ-10: it cannot have submitted anything."""

    async def run() -> None:
        async with RayWorld(seed=1, behave=nothing_starts, pod_grace=2.0) as world:
            operator = SimOperator(world=world)
            operator.start()
            world.server.create(sidecar_cluster())
            await world.pass_time(5)
            (first,) = heads(world)
            if reason == "Unschedulable":
                world.kubelet.set_unschedulable(NAMESPACE, first)
            else:
                world.kubelet.set_container(NAMESPACE, first, "ray-head", {"waiting": {"reason": reason}})
            await world.pass_time(20)
            lose_head(world, "deleted")
            await world.pass_time(20)
            (second,) = heads(world)
            assert second != first
            assert condition(world, "HeadStarted")[0] == ""

    run_sim(run)


@pytest.mark.parametrize("exit_code", [0, 1])
@pytest.mark.parametrize("early", [True, False])
def test_the_cluster_is_ready_by_its_ray_containers(exit_code: int, early: bool) -> None:
    """RJ-12: a submitter that ends before the workers run does not keep the cluster from becoming ready, and one that ends
    later does not make it unready."""
    late = 40.0 if early else 1.0

    async def run() -> None:
        async with RayWorld(seed=1, behave=lambda pod: None if node_type(pod) == HEAD else Wish(delay=late)) as world:
            world.always(StartedHeads())
            operator = SimOperator(world=world)
            operator.start()
            world.server.create(sidecar_cluster())
            await world.pass_time(20)
            (head,) = heads(world)
            assert (status(world).get("state") == "ready") is not early
            world.kubelet.end_container(NAMESPACE, head, SUBMITTER_CONTAINER, exit_code)
            await world.pass_time(60)
            pod = world.server.peek(POD, NAMESPACE, head)
            assert pod is not None
            assert {"Ready": "False"}.items() <= {c["type"]: c["status"] for c in pod["status"]["conditions"]}.items()
            assert status(world)["state"] == "ready"
            assert condition(world, "HeadPodReady") == ("True", "HeadPodRunningAndReady")
            assert condition(world, "RayClusterProvisioned")[0] == "True"
            await world.pass_time(200)
            assert condition(world, "PodsNotReady")[0] == ""
            assert await operator.idle_calls() == []
            assert heads(world) == [head]

    run_sim(run)
