"""Plays scenarios on a real API server, many side by side, with one operator in this process; Ray is played.

The cluster has no nodes: pods get their status from the scenario's world, Jobs from the real controllers. A service's
endpoints are played, too: the real controller leaves out pods without a node.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace

from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import NAMESPACE, SERVICE_ACCOUNT
from kuberay.hooks.calls import Hooks, NoHooks
from kuberay.kube.client import Client
from kuberay.kube.clock import SystemClock
from kuberay.kube.connection import Connection, connect
from kuberay.kube.errors import AlreadyExistsError, ApiError, NotFoundError
from kuberay.kube.http import HttpTransport
from kuberay.operator.app import App, Parts, ray_kinds
from kuberay.operator.source import KopfSource
from kuberay.operator.start import PLANS
from kuberay.plan.config import PlanConfig

from kuberay_testkit.drain import FakeDrain
from kuberay_testkit.scenarios.follow import Follower
from kuberay_testkit.scenarios.pods import HELD
from kuberay_testkit.scenarios.record import Played
from kuberay_testkit.scenarios.replay import replay
from kuberay_testkit.scenarios.script import Scenario
from kuberay_testkit.scenarios.sim import dashboard_client
from kuberay_testkit.scenarios.world import ScenarioWorld, scenario_kinds

PATIENCE = 3.0
"""Time limits are that much longer: many scenarios share the machine."""
APART = 0.4
"""Seconds between two starts: all of them at once would keep the server from answering in time."""

Result = Played | Exception


async def play_on_server(
    scenarios: Sequence[Scenario],
    *,
    config: PlanConfig | None = None,
    gates: Mapping[str, bool] = DEFAULT_GATES,
    hooks: Hooks | None = None,
) -> dict[str, Result]:
    """All *scenarios* side by side, each in a namespace of its own, the longest ones first; by name what was seen, or what
    kept it from ending. *hooks* are plugins the operator runs with."""
    connection = await connect()
    transport = HttpTransport(connection, user_agent="kuberay-scenarios")
    client = Client(transport, field_manager="users")
    worlds: dict[str, ScenarioWorld] = {}
    follower = Follower(client, scenario_kinds())
    addresses = itertools.count(1)

    async def one(place: int, scenario: Scenario) -> tuple[str, Result]:
        name = re.sub(r"[^a-z0-9]+", "-", scenario.name)
        await asyncio.sleep(place * APART)
        async with _namespace(client, name):
            world = ScenarioWorld(
                _with_longer_stages(scenario), client, SystemClock(), name, follower, addresses=addresses
            )
            worlds[name] = world
            world.play_endpoints()
            try:
                return scenario.name, await replay(world, patience=PATIENCE)
            except Exception as error:  # noqa: BLE001 - told for this scenario, while the others go on
                return scenario.name, error

    try:
        await follower.start()
        async with _operator(connection, worlds, config or PlanConfig(), gates, hooks or NoHooks()):
            longest_first = sorted(scenarios, key=lambda scenario: -scenario.seconds)
            return dict(await asyncio.gather(*(one(*each) for each in enumerate(longest_first))))
    finally:
        await follower.stop()
        await transport.close()


def _with_longer_stages(scenario: Scenario) -> Scenario:
    """The scenario with `PATIENCE` times as long between the stages of its ``deletionRules``, and until clusters of the past
    are deleted: checkpoints lie in between, and no object says how long it took."""
    manifests = copy.deepcopy([dict(manifest) for manifest in scenario.manifests])
    for manifest in manifests:
        if delay := manifest["spec"].get("rayClusterDeletionDelaySeconds"):
            manifest["spec"]["rayClusterDeletionDelaySeconds"] = int(delay * PATIENCE)
        for rule in (manifest["spec"].get("deletionStrategy") or {}).get("deletionRules") or ():
            condition = rule["condition"]
            condition["ttlSeconds"] = int(condition.get("ttlSeconds", 0) * PATIENCE)
    return replace(scenario, manifests=manifests)


@asynccontextmanager
async def _operator(
    connection: Connection,
    worlds: Mapping[str, ScenarioWorld],
    config: PlanConfig,
    gates: Mapping[str, bool],
    hooks: Hooks,
) -> AsyncIterator[App]:
    transport = HttpTransport(connection, user_agent="kuberay-operator")
    app = App(
        Parts(
            client=Client(transport),
            clock=SystemClock(),
            source=KopfSource(connection, list(ray_kinds(gates)), []),
            dashboard=dashboard_client(worlds),
            drain=FakeDrain(),
            hooks=hooks,
            config=replace(config, default_pod_annotations=HELD),
            plans=PLANS,
            gates=gates,
            workers=32,
        )
    )
    running = asyncio.create_task(app.run(), name="operator")
    try:
        while not app.leading:
            if running.done():
                running.result()
            await asyncio.sleep(0.05)
        yield app
    finally:
        app.stop()
        await running
        await transport.close()


@asynccontextmanager
async def _namespace(client: Client, name: str) -> AsyncIterator[None]:
    while True:  # the namespace of an earlier run may still be going
        try:
            await client.create(NAMESPACE, "", {"metadata": {"name": name}})
            break
        except AlreadyExistsError:
            await asyncio.sleep(0.5)
    try:
        while True:  # without it no pod can be created
            try:
                await client.get(SERVICE_ACCOUNT, name, "default")
                break
            except NotFoundError:
                await asyncio.sleep(0.2)
        yield
    finally:
        with suppress(ApiError):
            await client.transport.request("DELETE", NAMESPACE.path(None, name))
