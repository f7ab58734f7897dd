"""A submitter Job for which Kubernetes makes no pod is told of, until there is one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kuberay.api.kinds import JOB

Make = Callable[..., Any]
HELD = ("True", "SubmitterWithoutPod")


def without_pod(new_world: Make) -> Any:
    world = new_world()
    world.until(lambda: (JOB, "j") in world.objects)
    world.objects[JOB, "j"]["status"] = {}
    return world


def test_it_is_told_after_half_a_minute_and_once(new_world: Make) -> None:
    world = without_pod(new_world)
    world.run(20)
    assert world.notes(HELD[1]) == []
    world.run(15)
    assert world.condition("PodsWaiting") == HELD
    world.run(60)
    (note,) = world.notes(HELD[1])
    assert "kubectl describe job j" in note


def test_not_while_there_is_one(new_world: Make) -> None:
    world = without_pod(new_world)
    world.run(40)
    assert world.condition("PodsWaiting") == HELD
    world.objects[JOB, "j"]["status"] = {"active": 1}
    world.restart()
    world.run(5)
    assert HELD[1] not in {condition["reason"] for condition in world.status["conditions"]}
