"""What the API server answers is known at once, and a lost answer is found out before the next plan: nothing doubled."""

from __future__ import annotations

from typing import Any

import pytest
from executor_world import DONE, World, mark
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE, Kind
from kuberay.api.objects import Object
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, ConflictError
from kuberay.operator.executor import Executor
from kuberay.plan.model import Delete, Patch
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time


@in_virtual_time
async def test_what_was_created_is_in_the_store_and_told_at_once() -> None:
    world = World()
    outcome = await world.run([world.create("a")])
    assert outcome.changed
    assert outcome.failure is None
    assert outcome.events == [DONE]
    assert world.stored(POD, "a") is not None
    assert world.written == ["Pod a"]
    assert world.asked() == ["create pods"]


@pytest.mark.parametrize("fault", ["error_after", "timeout_after"])
def test_a_create_whose_answer_was_lost_is_adopted_and_not_doubled(fault: Any) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        world.server.faults = Faults().add(fault, verb="create", times=1)
        outcome = await world.run([world.create("a")])
        assert (outcome.changed, outcome.failure, outcome.events) == (True, None, [DONE])
        assert world.asked() == ["create pods", "get pods"]
        assert world.stored(POD, "a") is not None
        assert len(world.server.objects(POD)) == 1

    scenario()


@pytest.mark.parametrize("arrived", [True, False])
def test_a_create_that_cannot_be_asked_for_is_settled_before_the_next_plan(arrived: bool) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        world.server.faults = (
            Faults()
            .add("error_after" if arrived else "error_before", verb="create", times=1)
            .add("error_before", times=2)
        )
        assert (await world.run([world.create("a")])).failure is not None
        with pytest.raises(ApiError):
            await world.executor.settle(world.owner)
        await world.executor.settle(world.owner)
        assert (world.stored(POD, "a") is not None) is arrived
        asked = len(world.server.calls)
        await world.executor.settle(world.owner)
        assert len(world.server.calls) == asked, "there is nothing left to find out"

    scenario()


@pytest.mark.parametrize("fault", ["error_before", "timeout_before"])
def test_a_create_that_did_not_happen_fails(fault: Any) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        world.server.faults = Faults().add(fault, verb="create", times=1)
        outcome = await world.run([world.create("a", marker="FailedCreate")])
        assert not outcome.changed
        assert outcome.failure is not None
        assert (outcome.failure.kind, outcome.failure.name, outcome.failure.marker) == ("Pod", "a", "FailedCreate")
        assert outcome.events == []
        assert (await world.run([world.create("a")])).changed

    scenario()


@in_virtual_time
async def test_an_object_that_took_the_name_of_the_one_a_pass_is_about_is_looked_at() -> None:
    """Deleted and made again while the pass ran: the watch tells nothing that the answer has not told."""
    world, seen = World(), list[str]()
    world.store.upsert(RAYCLUSTER, world.owner)
    world.server.delete(RAYCLUSTER, "ns", "rc")
    fresh = world.server.create(build_raycluster("rc", namespace="ns"))
    world.store.subscribe(lambda _kind, _old, new: seen.append(new.uid if new is not None else ""))
    await world.run([Patch(kind=RAYCLUSTER, namespace="ns", name="rc", body={"metadata": {"labels": {"a": "b"}}})])
    known = world.store.get(RAYCLUSTER, "ns", "rc")
    assert known is not None
    assert known.uid == fresh["metadata"]["uid"]
    assert seen == [known.uid]


@in_virtual_time
async def test_an_object_of_our_own_that_was_not_seen_yet_is_taken_in_and_looked_at_again() -> None:
    world = World()
    world.server.create(world.pod("a"))
    outcome = await world.run([world.create("a")])
    assert outcome.failure is None
    assert outcome.events == [], "it is not news to users"
    assert outcome.changed, "but it is to the plan"
    assert world.stored(POD, "a") is not None
    assert not (await world.run([world.create("a")])).changed


@in_virtual_time
async def test_what_is_gone_is_not_remembered_as_in_sync() -> None:
    world = World()
    await world.run([world.apply()])
    live = world.stored(SERVICE, "s")
    assert live is not None
    assert world.executor._synced._known.keys() == {live.uid}
    world.server.delete(SERVICE, "ns", "s")
    await world.run([Delete(kind=SERVICE, namespace="ns", name="s", uid=live.uid)])
    assert not world.executor._synced._known


@in_virtual_time
async def test_a_conflict_that_is_no_replacement_fails_and_forgets_nothing() -> None:
    world = World()
    pod = world.server.create(world.pod("a"))
    world.watch_catches_up()
    world.server.faults = Faults().add("conflict", verb="delete", times=1)
    delete = Delete(kind=POD, namespace="ns", name="a", uid=pod["metadata"]["uid"])
    outcome = await world.run([delete])
    assert isinstance(outcome.error, ConflictError)
    assert world.stored(POD, "a") is not None
    assert (await world.run([delete])).failure is None
    assert world.server.objects(POD) == []


@in_virtual_time
async def test_gone_already_counts_as_deleted() -> None:
    world = World()
    pod = world.server.create(world.pod("a"))
    world.watch_catches_up()
    world.server.delete(POD, "ns", "a")
    outcome = await world.run([Delete(kind=POD, namespace="ns", name="a", uid=pod["metadata"]["uid"], done=DONE)])
    assert (outcome.failure, outcome.events) == (None, [DONE])
    assert world.stored(POD, "a") is None


@in_virtual_time
async def test_a_deleted_object_is_seen_as_being_deleted_at_once() -> None:
    world = World()
    pod = world.server.create(world.pod("a"))
    world.watch_catches_up()
    world.server.pod_grace = 30.0
    await world.run([Delete(kind=POD, namespace="ns", name="a", uid=pod["metadata"]["uid"])])
    held = world.stored(POD, "a")
    assert held is not None
    assert held.deleting
    assert [obj.deleting for obj in world.store.owned(world.owner.uid, POD)] == [True]


@pytest.mark.parametrize("what", ["mark", "delete"])
@in_virtual_time
async def test_the_next_plan_sees_what_a_lost_answer_hid(what: str) -> None:
    """Else it might choose another worker to go, in addition."""
    world = World()
    pod = world.server.create(world.pod("p"))
    await world.run([Patch(kind=POD, namespace="ns", name="p", body={"metadata": {"labels": {"a": "b"}}})])
    uid = pod["metadata"]["uid"]
    write = mark(uid) if what == "mark" else Delete(kind=POD, namespace="ns", name="p", uid=uid)
    world.server.faults = Faults().add("error_after", verb="patch" if what == "mark" else "delete", times=1)
    outcome = await world.run([write])
    assert outcome.failure is not None
    await world.executor.settle(world.owner)
    known = world.stored(POD, "p")
    if what == "mark":
        assert known is not None
        assert known.metadata.annotations == {"marked": "yes"}
    else:
        assert known is None or known.deleting


@in_virtual_time
async def test_who_is_told_of_a_write_learns_what_was_known_before() -> None:
    world = World()
    told: list[tuple[str, str]] = []

    def note(_kind: Kind, before: Object | None, after: Object) -> None:
        told.append(
            (before.metadata.labels.get("a", "none") if before else "new", after.metadata.labels.get("a", "none"))
        )

    world.executor = Executor(Client(SimTransport(world.server)), world.store, world.server.now, note)
    await world.run([world.create("p")])
    for value in ("1", "2"):
        await world.run([Patch(kind=POD, namespace="ns", name="p", body={"metadata": {"labels": {"a": value}}})])
    assert told == [("new", "none"), ("none", "1"), ("1", "2")]
