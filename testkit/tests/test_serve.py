"""The simulated Serve: how applications come to run, what dashboards tell of them, and which proxies answer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson
import pytest
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import LABEL_NODE_TYPE
from kuberay.ray.dashboard import DashboardRefusedError, DashboardTarget, DashboardUnreachableError
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.endpoints import is_ready
from kuberay_testkit.sim.operator import SimOperator
from kuberay_testkit.sim.serve import FAILS, SECONDS, scaled
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.store import Key, Stored

NAMESPACE = "lab"
FT = {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}}


def config(
    version: str = "v1", *, replicas: int = 2, seconds: float = 3, name: str = "app", **more: Any
) -> dict[str, Any]:
    application = {
        "name": name,
        "import_path": f"{name}:{version}",
        "route_prefix": f"/{name}",
        "args": {SECONDS: seconds},
        "deployments": [{"name": "Model", "num_replicas": replicas}],
    }
    return {"applications": [application], **more}


class Lab:
    """One RayCluster as a RayService makes it, run by the real operator, and its dashboard."""

    def __init__(self, world: ServeWorld) -> None:
        self.world = world
        self.target = DashboardTarget(f"rc-head-svc.{NAMESPACE}.svc.cluster.local:8265", NAMESPACE, "rc-head-svc")

    async def up(self, workers: int = 2, **spec: Any) -> None:
        labels = {"ray.io/originated-from-crd": "RayService", "ray.io/originated-from-cr-name": "rs"}
        SimOperator(world=self.world).start()
        self.world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=workers, labels=labels, **spec))
        await self.world.pass_time(20)

    async def put(self, body: dict[str, Any]) -> None:
        await self.world.heads.put_serve_config(self.target, orjson.dumps(body))

    async def told(self) -> dict[str, str]:
        details = await self.world.heads.serve_applications(self.target)
        return {name: application.status for name, application in details.applications.items()}

    def pods(self, node_type: str) -> list[Stored]:
        found = self.world.server.store.all_of(POD, NAMESPACE)
        return [pod for pod in found if pod.labels.get(LABEL_NODE_TYPE) == node_type]

    def ready(self, node_type: str = "worker") -> int:
        return sum(is_ready(pod) for pod in self.pods(node_type))

    async def proxy(self, pod: Stored) -> bool:
        address = f"{pod.body['status']['podIP']}:8000"
        return await self.world.heads.proxy_healthy(address, NAMESPACE, pod.key.name)


def play(story: Callable[[Lab], Awaitable[None]], **options: Any) -> None:
    async def run() -> None:
        async with ServeWorld(seed=3, **options) as world:
            await story(Lab(world))

    run_sim(run, seed=3)


def test_an_application_is_deployed_and_workers_become_ready() -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        assert await lab.told() == {}
        assert (lab.ready("head"), lab.ready()) == (1, 0)
        await lab.put(config())
        assert await lab.told() == {"app": "DEPLOYING"}
        await lab.world.pass_time(10)
        assert await lab.told() == {"app": "RUNNING"}
        assert lab.ready() == 2
        assert all([await lab.proxy(pod) for pod in (*lab.pods("head"), *lab.pods("worker"))])

    play(story)


@pytest.mark.parametrize(("first", "second"), [("v1", "v2"), ("v1", "v1")])
def test_another_version_is_deployed_beside_the_one_that_runs(first: str, second: str) -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        await lab.put(config(first))
        await lab.world.pass_time(10)
        await lab.put(config(second))
        assert await lab.told() == {"app": "RUNNING" if first == second else "DEPLOYING"}
        await lab.world.pass_time(2)
        assert all(lab.world.heads.works(pod) for pod in lab.pods("worker"))
        await lab.world.pass_time(2)
        assert await lab.told() == {"app": "RUNNING"}

    play(story)


def test_one_that_cannot_be_deployed_says_so_until_another_can() -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        broken = config()
        broken["applications"][0]["args"][FAILS] = True
        await lab.put(broken)
        await lab.world.pass_time(10)
        assert await lab.told() == {"app": "DEPLOY_FAILED"}
        assert lab.ready() == 0
        await lab.put(config())
        await lab.world.pass_time(10)
        assert await lab.told() == {"app": "RUNNING"}

    play(story)


def test_what_is_left_out_is_removed() -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        await lab.put(config())
        await lab.world.pass_time(10)
        await lab.put(config(name="other"))
        assert await lab.told() == {"app": "DELETING", "other": "DEPLOYING"}
        await lab.world.pass_time(10)
        assert await lab.told() == {"other": "RUNNING"}

    play(story)


@pytest.mark.parametrize("body", [{}, {"applications": [{"name": "a"}]}, config(target_capacity=101)])
def test_what_is_no_configuration_is_refused(body: dict[str, Any]) -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        with pytest.raises(DashboardRefusedError, match="400"):
            await lab.put(body)
        assert await lab.told() == {}
        assert lab.world.heads.puts == []

    play(story)


@pytest.mark.parametrize(
    ("replicas", "capacity", "expected"), [(4, None, 4), (4, 100, 4), (4, 0, 0), (4, 10, 1), (4, 50, 2), (3, 50, 2)]
)
def test_capacity_scales_replicas_as_serve_rounds(replicas: int, capacity: int | None, expected: int) -> None:
    assert scaled(replicas, capacity) == expected


def test_workers_without_replicas_are_not_ready() -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        for capacity, hosts in ((0, 0), (50, 1), (100, 2), (0, 0)):
            await lab.put(config(target_capacity=capacity))
            await lab.world.pass_time(10)
            assert lab.ready() == hosts, capacity
            assert await lab.proxy(lab.pods("head")[0])
            assert lab.world.heads.works(lab.pods("head")[0]) == bool(hosts)

    play(story)


@pytest.mark.parametrize("spec", [{}, FT], ids=["alone", "redis"])
def test_what_a_new_head_knows(spec: dict[str, Any]) -> None:
    """Without GCS fault tolerance nothing; with it all, and workers serve on meanwhile."""

    async def story(lab: Lab) -> None:
        lost: list[tuple[str, str]] = []
        lab.world.heads.lost.append(lambda *place: lost.append(place))
        await lab.up(**spec)
        await lab.put(config())
        await lab.world.pass_time(10)
        lab.world.server.delete(POD, NAMESPACE, lab.pods("head")[0].key.name)
        with pytest.raises(DashboardUnreachableError):
            await lab.told()
        await lab.world.pass_time(3)
        assert all(lab.world.heads.works(pod) == bool(spec) for pod in lab.pods("worker"))
        assert lab.ready() == (2 if spec else 0)
        await lab.world.pass_time(20)
        assert await lab.told() == ({"app": "RUNNING"} if spec else {})
        assert lost == ([] if spec else [(NAMESPACE, "rc")])

    play(story)


def test_a_deleted_cluster_takes_its_state_with_it() -> None:
    async def story(lab: Lab) -> None:
        await lab.up(**FT)
        await lab.put(config())
        assert lab.world.heads.serve_of(NAMESPACE, "rc") is not None
        lab.world.server.delete(RAYCLUSTER, NAMESPACE, "rc")
        await lab.world.until(lambda: lab.world.server.peek(RAYCLUSTER, NAMESPACE, "rc") is None, within=400)
        assert lab.world.heads.serve_of(NAMESPACE, "rc") is None

    play(story)


# What goes wrong


def test_a_stale_dashboard_tells_what_was() -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        lab.world.heads.fall_behind(NAMESPACE, "rc", 20.0)
        await lab.put(config())
        await lab.world.pass_time(10)
        assert await lab.told() == {}
        await lab.world.pass_time(10.5)
        assert await lab.told() == {"app": "DEPLOYING"}
        lab.world.heads.catch_up()
        assert await lab.told() == {"app": "RUNNING"}

    play(story)


def test_a_dashboard_that_hangs_takes_the_callers_time() -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        lab.world.heads.hang(NAMESPACE, "rc", 10.0)
        begun = asyncio.get_running_loop().time()
        with pytest.raises(DashboardUnreachableError, match="did not answer"):
            await lab.put(config())
        assert asyncio.get_running_loop().time() - begun == pytest.approx(lab.world.heads.timeout)
        assert lab.world.heads.puts == []
        await lab.world.pass_time(10)
        assert await lab.told() == {}

    play(story)


def test_weather_loses_answers_but_not_what_was_asked() -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        lab.world.heads.weather.intensity = 1.0
        for _ in range(30):
            try:
                await lab.put(config())
            except (DashboardRefusedError, DashboardUnreachableError):
                continue
        lab.world.heads.catch_up()
        await lab.world.pass_time(20)
        assert await lab.told() == {"app": "RUNNING"}
        assert 0 < len(lab.world.heads.puts) < 30

    play(story)


def test_a_broken_proxy_and_a_failing_application_are_no_backends() -> None:
    async def story(lab: Lab) -> None:
        disturbed: list[tuple[str, str]] = []
        lab.world.heads.disturbed.append(lambda *place: disturbed.append(place))
        await lab.up()
        await lab.put(config())
        await lab.world.pass_time(10)
        head, worker = lab.pods("head")[0], lab.pods("worker")[0]
        lab.world.heads.break_proxy(worker, 15.0)
        await lab.world.pass_time(5)
        assert lab.ready() == 1
        assert not await lab.proxy(worker)
        await lab.world.pass_time(15)
        assert lab.ready() == 2
        lab.world.heads.fail_applications(NAMESPACE, "rc")
        assert await lab.told() == {"app": "UNHEALTHY"}
        assert await lab.proxy(head)
        assert not lab.world.heads.works(head)
        lab.world.heads.catch_up()
        assert lab.world.heads.works(head)
        assert disturbed == [(NAMESPACE, "rc")] * 2

    play(story)


def test_nobody_answers_for_a_pod_that_is_gone() -> None:
    async def story(lab: Lab) -> None:
        await lab.up()
        pod = lab.pods("head")[0]
        lab.world.server.delete(POD, NAMESPACE, pod.key.name)
        with pytest.raises(DashboardUnreachableError):
            await lab.world.heads.proxy_healthy("10.0.0.1:8000", NAMESPACE, pod.key.name)

    play(story)


def test_the_autoscaler_follows_the_capacity() -> None:
    """The spec is what is looked at: whether the operator makes the pods is its plugin's matter."""

    async def story(lab: Lab) -> None:
        await lab.up(workers=0)
        lab.world.server.patch(
            RAYCLUSTER,
            NAMESPACE,
            "rc",
            {"spec": build_raycluster(groups={"g": 0}, enableInTreeAutoscaling=True)["spec"]},
        )
        for capacity, workers in ((50, 2), (100, 4)):
            await lab.put(config(replicas=4, target_capacity=capacity))
            await lab.world.pass_time(10)
            stored = lab.world.server.store.get(Key(RAYCLUSTER, NAMESPACE, "rc"))
            assert stored is not None
            assert stored.body["spec"]["workerGroupSpecs"][0]["replicas"] == workers

    play(story)
