"""The world in memory that `render`, `why` and `diff` play plans on: it keeps writes as the API server would."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.operator.world import World
from kuberay.plan.model import Apply, Create, Delete, Patch, Write

KEY = {"kind": RAYCLUSTER, "namespace": "lab", "name": "c"}
GROUPS = [{"groupName": "g", "replicas": 1}, {"groupName": "h"}]
REPLICAS = "/spec/workerGroupSpecs/0/replicas"


@pytest.fixture
def world() -> World:
    world = World()
    world.put(RAYCLUSTER, "lab", {"metadata": {"name": "c"}, "spec": {"workerGroupSpecs": GROUPS, "suspend": False}})
    return world


@pytest.mark.parametrize(
    ("write", "spec"),
    [
        (Apply(**KEY, body={"spec": {"suspend": True}}), {"workerGroupSpecs": GROUPS, "suspend": True}),
        (Patch(**KEY, body={"spec": {"suspend": None}}), {"workerGroupSpecs": GROUPS}),
        (
            Patch(
                **KEY,
                operations=[{"op": "test", "path": REPLICAS, "value": 1}, {"op": "add", "path": REPLICAS, "value": 3}],
            ),
            {"workerGroupSpecs": [{"groupName": "g", "replicas": 3}, {"groupName": "h"}], "suspend": False},
        ),
        (
            Patch(**KEY, operations=[{"op": "remove", "path": "/spec/workerGroupSpecs/1"}]),
            {"workerGroupSpecs": GROUPS[:1], "suspend": False},
        ),
        (
            Patch(**KEY, operations=[{"op": "add", "path": "/spec/workerGroupSpecs/-", "value": {"groupName": "i"}}]),
            {"workerGroupSpecs": [*GROUPS, {"groupName": "i"}], "suspend": False},
        ),
    ],
)
def test_changes(world: World, write: Write, spec: dict[str, Any]) -> None:
    assert world.perform(write)
    body = world.bodies[RAYCLUSTER, "lab", "c"]
    assert (body["spec"], body["metadata"]["generation"]) == (spec, 2)


@pytest.mark.parametrize(
    "write",
    [
        Create(**KEY, body={"metadata": {"name": "c"}}),
        Apply(**KEY, body={"spec": {"suspend": False}}),
        Apply(**KEY, body={"spec": {"suspend": True}}, create_only=True),
        Patch(
            **KEY,
            operations=[{"op": "test", "path": REPLICAS, "value": 7}, {"op": "add", "path": REPLICAS, "value": 3}],
        ),
        Patch(kind=RAYCLUSTER, namespace="lab", name="gone", body={"spec": {}}),
        Delete(kind=RAYCLUSTER, namespace="lab", name="gone", uid="u"),
    ],
)
def test_what_changes_nothing(world: World, write: Write) -> None:
    before = world.bodies[RAYCLUSTER, "lab", "c"]
    assert not world.perform(write)
    assert world.bodies == {(RAYCLUSTER, "lab", "c"): before}


def test_an_object_goes_with_its_last_finalizer(world: World) -> None:
    body = world.bodies[RAYCLUSTER, "lab", "c"]
    body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a"]}
    assert world.perform(Patch(**KEY, body={"metadata": {"finalizers": []}}))
    assert world.bodies == {}
