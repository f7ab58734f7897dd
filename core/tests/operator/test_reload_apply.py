"""New settings reach each part of an operator that runs, all of them or none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

import pytest
from kuberay.hooks import RELOADS
from kuberay.kube.limits import RateLimit
from kuberay.operator.environment import read_environment
from kuberay.operator.log_levels import QUIET, LogLevels
from kuberay.operator.reload_apply import Running, found_at_start
from kuberay.operator.reload_rules import compare, reloaded_fields
from kuberay.operator.settings import Settings, SettingsError
from kuberay.plan.config import PlanConfig
from kuberay.plugins.loader import Plugin
from kuberay.plugins.manager import PluginManager
from pydantic import BaseModel, Field


class Section(BaseModel):
    most: Annotated[int, Field(le=10), RELOADS] = 1


@dataclass
class World:
    manager: PluginManager = field(
        default_factory=lambda: PluginManager(
            [Plugin("p", "kuberay-p", "1", None, {"settings": lambda: Section}, (1, 0))]
        )
    )
    limit: RateLimit = field(default_factory=lambda: RateLimit(0, 200))
    levels: LogLevels = field(default_factory=LogLevels)
    configs: list[PlanConfig] = field(default_factory=list)
    addresses: list[str] = field(default_factory=list)
    port_is_taken: bool = False

    def running(self, **values: Any) -> Running:
        async def listen(address: str) -> None:
            if self.port_is_taken:
                raise OSError("address already in use")
            self.addresses.append(address)

        return Running(
            settings=Settings.model_validate(values),
            plugins=self.manager,
            limit=self.limit,
            levels=self.levels,
            plan_config=lambda settings: read_environment({}).plan_config(settings, "1"),
            use=self.configs.append,
            listen=listen,
        )

    async def change(self, running: Running, **values: Any) -> None:
        new = Settings.model_validate(values)
        await running.take(compare(running.settings, new, reloaded_fields(self.manager.settings_models())).in_force)

    @property
    def most(self) -> int:
        found: int = self.manager._settings["p"].most
        return found


@pytest.fixture
def world() -> Iterator[World]:
    root = logging.getLogger()
    before = root.level
    found = World()
    yield found
    found.levels.use("info", {})
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.NOTSET)
    root.setLevel(before)


async def test_each_part_is_told(world: World) -> None:
    running = world.running()
    assert [world.limit.on] == [False]
    await world.change(
        running,
        qps=5,
        logLevel="warning",
        drainTimeoutSeconds=7,
        profilingAddr="127.0.0.1:1",
        plugins={"p": {"most": 3}},
    )
    assert world.limit.on
    assert world.levels.level == "warning"
    assert [config.drain_timeout for config in world.configs] == [timedelta(seconds=7)]
    assert (world.addresses, world.most) == (["127.0.0.1:1"], 3)
    await world.change(running, drainTimeoutSeconds=8)
    assert (world.limit.on, world.levels.level, world.most) == (False, "info", 1)
    assert world.addresses == ["127.0.0.1:1", "0"]


async def test_what_did_not_change_is_left_alone(world: World) -> None:
    running = world.running(qps=5, logLevel="info")
    world.levels.override("", "debug")
    await world.change(running, qps=5, logLevel="info", drainTimeoutSeconds=7)
    assert (world.addresses, world.levels.in_force()[""]) == ([], "debug"), "an override goes on"


async def test_a_plugin_that_refuses_its_part_keeps_all_as_it_was(world: World) -> None:
    running = world.running(plugins={"p": {"most": 3}})
    world.manager.configure({"p": {"most": 3}})
    with pytest.raises(SettingsError, match=r"plugins\.p\.most: Input should be less than or equal to 10\."):
        await world.change(running, qps=5, plugins={"p": {"most": 11}})
    assert (world.most, world.limit.on, world.configs, running.settings.qps) == (3, False, [], 0)


async def test_so_does_an_address_that_is_taken(world: World) -> None:
    world.port_is_taken = True
    running = world.running(plugins={"p": {"most": 3}})
    with pytest.raises(SettingsError, match="address already in use"):
        await world.change(running, qps=5, profilingAddr="127.0.0.1:1", plugins={"p": {"most": 4}})
    assert (world.most, world.limit.on, world.configs, running.settings.qps) == (3, False, [], 0)


def test_what_was_found_out_at_start_stays() -> None:
    settings = PlanConfig(drain_timeout=timedelta(seconds=5))
    started = PlanConfig(drain_timeout=timedelta(seconds=5), openshift=True, operator_namespace="x")
    assert found_at_start(started, settings) == {"openshift": True, "operator_namespace": "x"}


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, ""),
        ({"plugins": {"enabled": ["p"], "p": {"most": 2}}}, ""),
        (
            {"plugins": {"enabled": ["p"], "p": {"most": 11}}},
            "plugins.p.most: Input should be less than or equal to 10.",
        ),
        ({"plugins": {"enabled": ["p"], "q": {}}}, "plugins.q: no enabled plugin of that name has settings"),
        ({"plugins": {"enabled": [], "p": {"most": 2}}}, "plugins.p: no enabled plugin of that name has settings"),
        # What is not loaded cannot be asked.
        ({"plugins": {"enabled": ["p", "q"], "q": {"a": 1}}, "featureGates": {"OfQ": True}}, ""),
        ({"plugins": {"enabled": ["p"]}, "featureGates": {"OfQ": True}}, "OfQ"),
        ({"plugins": {"enabled": ["p"]}, "featureGates": {"RayCronJob": True}}, ""),
    ],
)
def test_what_would_not_start_is_refused(world: World, values: dict[str, Any], sentence: str) -> None:
    running, new = world.running(plugins={"enabled": ["p"]}), Settings.model_validate(values)
    if not sentence:
        running.check(new)
        return
    with pytest.raises(SettingsError, match=sentence):
        running.check(new)
