"""The checks of a simulated day see what they are there to see: a status that flaps, a spec that is written, a text that is still held."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from kuberay.api.kinds import POD, RAYCLUSTER, Kind
from kuberay.kube.store import Store
from kuberay.kube.transport import MERGE_PATCH
from kuberay_testkit.builders import build_pod_template, build_raycluster
from kuberay_testkit.sim.footprint import holders, lru_sizes, measure
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.steadiness import Steadiness


class World:
    """A server with one RayCluster, and an operator that writes what a test says."""

    def __init__(self) -> None:
        self.server = SimServer()
        self.steadiness = Steadiness("operator")
        self.server.store.listen(lambda change: self.steadiness(self.server, change))
        self.server.create(build_raycluster("rc", namespace="ns"))
        self.uid = (self.server.peek(RAYCLUSTER, "ns", "rc") or {})["metadata"]["uid"]

    def write(self, status: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, name: str = "rc") -> None:
        self.server.clock.advance(10)
        path = f"{RAYCLUSTER.path('ns')}/{name}"
        body = {"status": status} if status is not None else {"spec": spec}
        answer = self.server.handle(
            "PATCH",
            f"{path}/status" if status is not None else path,
            body=orjson.dumps(body),
            content_type=MERGE_PATCH,
            client="operator",
        )
        assert answer.status == 200

    def condition(self, status: str, reason: str = "Why") -> None:
        self.write({"conditions": [{"type": "Odd", "status": status, "reason": reason, "message": ""}]})

    def pod(self, name: str = "one") -> None:
        owner = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": self.uid, "controller": True}
        metadata = {"name": name, "namespace": "ns", "ownerReferences": [owner]}
        self.server.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **build_pod_template()})


def test_a_status_that_goes_back_without_a_cause_flaps() -> None:
    world = World()
    world.condition("True")
    world.condition("False")
    with pytest.raises(
        AssertionError, match=r"status\.conditions\.Odd of .* flaps: True .* then False .* then again True"
    ):
        world.condition("True")


def test_so_does_what_comes_and_goes() -> None:
    world = World()
    world.write({"endpoints": {"dashboard": "8265"}})
    world.write({"endpoints": None})
    with pytest.raises(AssertionError, match="endpoints"):
        world.write({"endpoints": {"dashboard": "8265"}})


def test_with_a_cause_it_may_go_back() -> None:
    world = World()
    world.condition("True")
    world.condition("False")
    world.pod()
    world.condition("True")
    world.condition("False", "Other")
    world.steadiness.caused(world.server, "ns", "rc")
    world.condition("True")
    assert world.steadiness.returns == 2
    world.condition("False", "Third")
    world.server.patch(RAYCLUSTER, "ns", "rc", {"spec": {"suspend": False}})
    world.condition("True")


def test_a_cause_may_come_while_the_status_is_being_written() -> None:
    world = World()
    world.condition("True")
    world.server.clock.advance(9.9)
    world.pod()
    world.server.clock.advance(-9.9)
    world.condition("False")
    world.condition("True")
    assert world.steadiness.returns == 1


def test_what_happens_to_others_is_no_cause() -> None:
    world = World()
    world.server.create(build_raycluster("other", namespace="ns"))
    world.condition("True")
    world.condition("False")
    world.server.patch(RAYCLUSTER, "ns", "other", {"spec": {"suspend": True}})
    with pytest.raises(AssertionError, match="flaps"):
        world.condition("True")


def test_what_a_state_machine_passes_through_does_not_flap() -> None:
    world = World()
    world.write({"state": "suspending", "reason": "x"})
    world.write({"state": "suspended", "reason": "y"})
    world.write({"state": "ready", "reason": "x"})


def test_times_and_numbers_of_versions_are_no_news() -> None:
    world = World()
    for number in (1, 2, 1):
        world.write({"observedGeneration": number, "lastUpdateTime": f"2026-01-01T00:00:0{number}Z"})


def test_a_spec_that_users_wrote_is_theirs() -> None:
    world = World()
    with pytest.raises(AssertionError, match=r"the operator wrote spec\.suspend"):
        world.write(spec={"suspend": True})


def test_a_raycluster_of_its_own_it_may_change() -> None:
    world = World()
    owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": "rj", "uid": "u", "controller": True}
    manifest = build_raycluster("child", namespace="ns")
    manifest["metadata"]["ownerReferences"] = [owner]
    world.server.create(manifest)
    world.write(spec={"suspend": True}, name="child")
    assert world.steadiness.checked["RayCluster spec"] == 1


class Held:
    """Something of the operator: its class only must not be the test kit's."""

    def __init__(self) -> None:
        self.names: dict[Kind, list[str]] = {}


def test_texts_are_found_with_the_way_to_them() -> None:
    held = Held()
    held.names[POD] = ["here", "gone-long-ago"]
    (found,) = holders([held], {"gone-long-ago", "never-there"})
    assert found.startswith("gone-long-ago held by list < dict")


def test_what_is_reached_is_weighed() -> None:
    held = Held()
    before = measure([held])
    held.names[POD] = ["x" * 100_000]
    after = measure([held])
    assert 100_000 < after.state - before.state < 102_000
    assert after.by_type["str"] > before.by_type["str"]


def test_the_simulator_is_not_weighed() -> None:
    server, store = SimServer(), Store()
    for number in range(100):
        server.create(build_raycluster(f"rc{number}", namespace="ns"))
    bare = measure([store]).state
    store.subscribe(lambda *_: server.now())
    assert measure([store]).state - bare < 1000


def test_caches_are_bounded() -> None:
    """But for those that have one entry for each class, or for each kind."""
    unbounded = {name for name, (_, most) in lru_sizes().items() if most is None}
    assert {name.rpartition(".")[2] for name in unbounded} <= {"_fields", "spec_schema"}
