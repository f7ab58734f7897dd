"""Upgrade strategies that are broken in one place each: the conformance suite catches every one, by the case that should."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import pytest
from broken_plugins import assert_caught
from examples import LONG
from kuberay.api.kinds import RAYSERVICE
from kuberay.api.problems import Problem
from kuberay.hooks import (
    OwnerContext,
    ServiceUpgradeContext,
    ServiceUpgradeStrategy,
    UpgradeContext,
    UpgradeStep,
    hookimpl,
)
from kuberay_testkit.conformance import StrategyUnderTest, UpgradeStrategyConformance

TYPE = "Careful"


class Sound(ServiceUpgradeStrategy):
    """NewCluster under another name, which must be told how careful to be."""

    name: ClassVar[str] = TYPE

    def problems(self, owner: OwnerContext) -> list[Problem]:
        given = owner.spec["upgradeStrategy"].get("care")
        if isinstance(given, int) and given >= 0:
            return []
        return [Problem("spec.upgradeStrategy.care", f"must be a number from 0 up, not {given!r}")]


class Plugin:
    def __init__(self, strategy: type[ServiceUpgradeStrategy]) -> None:
        self.strategy = strategy

    @hookimpl
    def upgrade_strategy(self, ctx: UpgradeContext) -> ServiceUpgradeStrategy | None:
        return self.strategy() if ctx.type == TYPE and ctx.owner.kind == RAYSERVICE else None


class OfferedForAll(Plugin):
    @hookimpl
    def upgrade_strategy(self, ctx: UpgradeContext) -> ServiceUpgradeStrategy | None:
        return self.strategy() if ctx.owner.kind == RAYSERVICE else None


class Suite(UpgradeStrategyConformance):
    broken: ClassVar[type[ServiceUpgradeStrategy]] = Sound
    plugin_type: ClassVar[type[Plugin]] = Plugin

    def strategy(self) -> StrategyUnderTest:
        return StrategyUnderTest(
            plugin=self.plugin_type(self.broken),
            name="careful",
            type=TYPE,
            options={"care": 1},
            wrong_options=[{}, {"care": -1}],
        )


class SwitchesTooEarly(Sound):
    """When the pending RayCluster is there, whether it serves or not."""

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        if ctx.pending is not None and ctx.active is not None and ctx.pending.head_ready:
            return UpgradeStep(promote=True)
        return super().step(ctx)


class IgnoresPauses(Sound):
    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        return super().step(replace(ctx, paused=False))


class IgnoresAborts(Sound):
    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        return super().step(replace(ctx, aborted=False))


class NeverEnds(Sound):
    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        found = super().step(ctx)
        return UpgradeStep(waiting="not yet") if found.promote and ctx.active is not None else found


class ForgetsSecondThoughts(Sound):
    """The pending RayCluster is taken, although the spec is again what the active one was made for."""

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        active, pending = ctx.active, ctx.pending
        if active is None or pending is None:
            return super().step(ctx)
        ctx = replace(ctx, active=replace(active, relation="differs"), pending=replace(pending, relation="same"))
        return super().step(ctx)


class CountsSteps(Sound):
    asked: ClassVar[int] = 0

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        CountsSteps.asked += 1
        return replace(super().step(ctx), waiting=f"asked {CountsSteps.asked} times")


class TakesAnything(Sound):
    def problems(self, owner: OwnerContext) -> list[Problem]:
        return []


class SaysNotWhere(Sound):
    def problems(self, owner: OwnerContext) -> list[Problem]:
        return [replace(each, path="") for each in super().problems(owner)]


BROKEN: list[tuple[dict[str, Any], str, str]] = [
    ({"broken": SwitchesTooEarly}, "test_an_upgrade_ends_and_nobody_misses_an_answer", "find no pod that answers"),
    ({"broken": SwitchesTooEarly}, "test_a_version_that_does_not_serve_takes_nothing_over", ""),
    ({"broken": IgnoresPauses}, "test_paused_nothing_moves", "although it is paused"),
    ({"broken": IgnoresAborts}, "test_aborted_the_old_cluster_serves_on", ""),
    ({"broken": NeverEnds}, "test_an_upgrade_ends_and_nobody_misses_an_answer", "the end of the upgrade"),
    ({"broken": ForgetsSecondThoughts}, "test_going_back_in_the_middle_ends_with_the_old_cluster", ""),
    ({"broken": CountsSteps}, "test_the_same_question_gets_the_same_answer", "asked the same"),
    ({"broken": TakesAnything}, "test_wrong_options_are_refused_by_their_path", "is not refused"),
    ({"broken": SaysNotWhere}, "test_wrong_options_are_refused_by_their_path", "without the path"),
    (
        {"plugin_type": OfferedForAll},
        "test_it_is_offered_for_its_own_type_only",
        "is offered for type 'NewCluster', too",
    ),
]

LONG_ONLY = (NeverEnds, ForgetsSecondThoughts)
"""Their stories go on for hours until somebody gives up."""
BROKEN = [each for each in BROKEN if LONG or each[0].get("broken") not in LONG_ONLY]


@pytest.mark.parametrize(
    ("parts", "case", "words"), BROKEN, ids=[f"{next(iter(p.values())).__name__}-{c}" for p, c, _ in BROKEN]
)
def test_it_is_caught(parts: dict[str, Any], case: str, words: str) -> None:
    assert_caught(getattr(type("Broken", (Suite,), parts)(), case), words)


@pytest.mark.parametrize("case", sorted({case for _, case, _ in BROKEN}))
def test_the_sound_one_passes(case: str) -> None:
    """So what is caught above is what is broken, and nothing else."""
    getattr(Suite(), case)()
