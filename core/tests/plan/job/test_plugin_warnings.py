"""What plugins warn of about a RayJob: told once, while the job is under way, in a condition and an event."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kuberay.hooks.calls import NoHooks, PluginFailure, PluginWarning
from kuberay.hooks.types import OwnerContext, Problem

Make = Callable[..., Any]
SENTENCE = "metadata.labels[gang]: has no effect"


class Warner(NoHooks):
    def __init__(self) -> None:
        self.asked = 0
        self.found = [PluginWarning("yunikorn", Problem("metadata.labels[gang]", "has no effect"))]

    def warn(self, ctx: OwnerContext) -> tuple[Sequence[PluginWarning], Sequence[PluginFailure]]:
        assert ctx.kind.kind == "RayJob"
        self.asked += 1
        return self.found, ()


@pytest.fixture
def hooks() -> Warner:
    return Warner()


@pytest.fixture
def world(new_world: Make, hooks: Warner) -> Any:
    made = new_world(world={"hooks": hooks}, shutdownAfterJobFinishes=True)
    made.settings["job"] = "RUNNING"
    return made


def warned(world: Any) -> list[dict[str, Any]]:
    return [each for each in world.status.get("conditions") or [] if each["type"] == "PluginWarning"]


def test_a_warning_is_told_once_and_stops_nothing(world: Any, hooks: Warner) -> None:
    world.run(6)
    (condition,) = warned(world)
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", "Yunikorn", SENTENCE)
    assert world.notes("PluginWarning") == [SENTENCE]
    assert world.status["jobDeploymentStatus"] == "Running"
    hooks.found = []
    world.edit({"metadata.labels.again": "1"})
    world.run(2)
    assert warned(world) == []


def test_a_job_that_is_over_is_not_asked_about(world: Any, hooks: Warner) -> None:
    """Nothing is written to finished jobs because a plugin was turned on."""
    hooks.found = []
    world.run(6)
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(6)
    assert world.status["jobDeploymentStatus"] == "Complete"
    before = hooks.asked
    hooks.found = Warner().found
    world.edit({"metadata.labels.again": "1"})
    world.run(3)
    assert hooks.asked == before
    assert warned(world) == []
