"""Plays scenarios on a simulated cluster: the real operator runtime on a virtual clock, controllers and Ray played."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Self, cast

import aiohttp
from kuberay.api.gates import DEFAULT_GATES
from kuberay.hooks.calls import Hooks, NoHooks
from kuberay.kube.client import Client
from kuberay.plan.config import PlanConfig
from kuberay.ray.dashboard import DashboardClient
from kuberay.ray.http import HttpDashboardClient

from kuberay_testkit.scenarios.dashboards import Dashboards, PlayedSession
from kuberay_testkit.scenarios.follow import Follower
from kuberay_testkit.scenarios.pods import HELD
from kuberay_testkit.scenarios.record import Played
from kuberay_testkit.scenarios.replay import replay
from kuberay_testkit.scenarios.script import Scenario
from kuberay_testkit.scenarios.world import ScenarioWorld, scenario_kinds
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.endpoints import SimEndpoints
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.world import SimWorld

NAMESPACE = "scenario-space"


class _ScriptedCluster(RayWorld):
    """A simulated cluster in which Ray does nothing but what a script says."""

    client: HttpDashboardClient

    def __init__(self, *, seed: int) -> None:
        super().__init__(seed=seed)
        self.endpoints = SimEndpoints(self.server)

    @property
    def dashboards(self) -> DashboardClient:
        return self.client

    async def __aenter__(self) -> Self:
        await SimWorld.__aenter__(self)
        self._controllers.append(self.endpoints)
        self._tasks.append(asyncio.create_task(self.endpoints.run(), name="SimEndpoints"))
        return self


def play_in_sim(
    scenario: Scenario,
    *,
    seed: int = 0,
    hooks: Hooks | None = None,
    gates: Mapping[str, bool] = DEFAULT_GATES,
    while_playing: Callable[[SimWorld, SimOperator], None] | None = None,
) -> Played:
    """One run; *hooks* are plugins the operator runs with. *while_playing* is called once the operator runs."""

    async def run() -> Played:
        async with _ScriptedCluster(seed=seed) as cluster:
            client = Client(cluster.transport("users"), field_manager="users")
            follower = Follower(client, scenario_kinds())
            world = ScenarioWorld(scenario, client, cluster.server.clock, NAMESPACE, follower)
            cluster.client = dashboard_client({NAMESPACE: world})
            operator = SimOperator(
                world=cluster,
                hooks=hooks or NoHooks(),
                gates=gates,
                config=PlanConfig(default_pod_annotations=HELD),
            )
            await follower.start()
            operator.start()
            await cluster.until(lambda: operator.leading, what="the operator runs")
            if while_playing is not None:
                while_playing(cluster, operator)
            try:
                return await replay(world)
            finally:
                await follower.stop()

    return run_sim(run, seed=seed)


def dashboard_client(worlds: Mapping[str, ScenarioWorld]) -> HttpDashboardClient:
    """The operator's own dashboard client, whose requests are answered by the worlds' heads (by namespace, or by the
    addresses of their pods)."""

    def route(host: str) -> tuple[Dashboards, str] | None:
        if re.fullmatch(r"[\d.]+", host):
            heads = ((world.dashboards, world.at_address(host)) for world in worlds.values())
            return next(((boards, cluster) for boards, cluster in heads if cluster is not None), None)
        found = re.fullmatch(r"(?P<service>[^.]+)\.(?P<namespace>[^.]+)\.svc\..+", host)
        world = worlds.get(found["namespace"]) if found else None
        cluster = world.route(found["service"]) if found and world is not None else None
        return (world.dashboards, cluster) if world is not None and cluster is not None else None

    return HttpDashboardClient(cast(aiohttp.ClientSession, PlayedSession(route)))
