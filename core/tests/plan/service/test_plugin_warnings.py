"""What plugins warn of about a RayService: told once, in a condition and an event, while it serves all the same."""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.hooks.calls import NoHooks, PluginFailure, PluginWarning
from kuberay.hooks.types import OwnerContext, Problem

from core.tests.plan.service.worlds import serving


class Warner(NoHooks):
    def __init__(self) -> None:
        self.kinds: set[str] = set()
        self.found = [PluginWarning("kai-scheduler", Problem("metadata.labels[queue]", "is missing"))]

    def warn(self, ctx: OwnerContext) -> tuple[Sequence[PluginWarning], Sequence[PluginFailure]]:
        self.kinds.add(ctx.kind.kind)
        return self.found, ()


def test_a_warning_is_told_once_and_stops_nothing() -> None:
    hooks = Warner()
    world = serving(world={"hooks": hooks})
    assert world.condition("PluginWarning") == ("True", "KaiScheduler")
    assert world.message("PluginWarning") == "metadata.labels[queue]: is missing"
    assert world.notes("PluginWarning") == ["metadata.labels[queue]: is missing"]
    assert world.condition("Ready")[0] == "True"
    assert "RayService" in hooks.kinds
    world.advance(3600).settle()
    assert len(world.notes("PluginWarning")) == 1
    hooks.found = []
    world.advance(3600).settle()
    assert not any(each["type"] == "PluginWarning" for each in world.service["status"]["conditions"])
