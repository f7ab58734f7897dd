"""The executor on the simulated API server: in stages and batches, what cannot be done told, nothing foreign deleted."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from executor_world import DONE, World, mark
from kuberay.api.kinds import NAMESPACE, POD, RAYCLUSTER, SECRET, SERVICE
from kuberay.api.objects import Pod, RayObject
from kuberay.kube.errors import ConflictError, NotFoundError
from kuberay.operator.executor import FIRST_BATCH
from kuberay.plan.model import NAMESPACE_TERMINATING, Create, Delete, Event, Patch, Write
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.virtual import in_virtual_time


@in_virtual_time
async def test_at_level_debug_each_write_is_a_line_and_none_that_was_not_needed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    with caplog.at_level("DEBUG", "kuberay.operator.executor"):
        await world.run([world.create("p"), world.apply()])
        await world.run([world.apply()])
    assert sorted(record.getMessage() for record in caplog.records) == ["Apply services ns/s", "Create pods ns/p"]


@in_virtual_time
async def test_a_body_that_is_a_function_is_called_only_for_the_create() -> None:
    world = World()
    built: list[str] = []

    def build() -> dict[str, Any]:
        built.append("a")
        return world.pod("a")

    write = Create(kind=POD, namespace="ns", name="a", body=build)
    assert built == []
    await world.run([write])
    assert built == ["a"]


@pytest.mark.parametrize(
    ("owner", "words"),
    [
        ("a-former-rc", "still belongs to a former RayCluster of this name"),
        ("-", "already exists and is not owned by this RayCluster; rename one of them"),
    ],
)
def test_a_foreign_object_of_that_name_is_never_touched(owner: str, words: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        pod = world.server.create(world.pod("a", owner=owner))
        service = world.server.create(world.service(owner=owner, port=1))
        for writes in ([world.create("a")], [world.apply()]):
            outcome = await world.run([*writes])
            assert outcome.failure is not None
            assert words in outcome.failure.message
            assert outcome.failure.reason == "NotOwnedError"
        world.watch_catches_up()
        assert (await world.run([world.apply()])).failure is not None
        assert world.server.peek(POD, "ns", "a") == pod
        assert world.server.peek(SERVICE, "ns", "s") == service

    scenario()


@in_virtual_time
async def test_a_delete_names_the_uid_and_leaves_a_namesake_alone() -> None:
    world = World()
    old = world.server.create(world.pod("a"))
    world.watch_catches_up()
    world.server.delete(POD, "ns", "a")
    new = world.server.create(world.pod("a"))
    outcome = await world.run([Delete(kind=POD, namespace="ns", name="a", uid=old["metadata"]["uid"], done=DONE)])
    assert (outcome.failure, outcome.events) == (None, [DONE])
    assert world.server.peek(POD, "ns", "a") == new
    held = world.stored(POD, "a")
    assert held is not None
    assert held.uid == new["metadata"]["uid"]


@in_virtual_time
async def test_creates_start_slowly_and_stop_at_the_first_failed_batch() -> None:
    world = World()
    world.server.faults = Faults().add("refuse", verb="create", code=403, message="exceeded quota", skip=FIRST_BATCH)
    outcome = await world.run([world.create(f"p{number:03}") for number in range(100)])
    assert outcome.failure is not None
    assert outcome.failure.message == "exceeded quota"
    assert outcome.failure.reason == "Forbidden"
    assert len(world.server.objects(POD)) == FIRST_BATCH
    assert len(world.server.calls) == 3 * FIRST_BATCH, "of a hundred only the batch after the first good one was tried"


@in_virtual_time
async def test_many_creates_go_side_by_side() -> None:
    world = World()
    begun = asyncio.get_running_loop().time()
    assert (await world.run([world.create(f"p{number:03}") for number in range(200)])).failure is None
    assert len(world.server.objects(POD)) == 200
    assert asyncio.get_running_loop().time() - begun < 0.1


@in_virtual_time
async def test_a_failed_stage_ends_the_run_unless_the_write_is_optional() -> None:
    world = World()

    def failed(text: str) -> Event:
        return Event("Failed", text, type="Warning")

    def refused(**more: Any) -> Write:
        return world.create("never", failed=failed, **more)

    world.server.faults = Faults().add("refuse", verb="create", resource="pods", message="no")
    outcome = await world.run([refused(optional=True)], [world.apply()])
    assert outcome.failure is None
    assert outcome.events == [Event("Failed", "no", type="Warning"), DONE]
    outcome = await world.run([refused()], [world.apply(world.service("later"))])
    assert outcome.failure is not None
    assert outcome.events == [Event("Failed", "no", type="Warning")]
    assert world.server.peek(SERVICE, "ns", "later") is None


@in_virtual_time
@pytest.mark.parametrize(("code", "missed"), [(403, False), (422, False), (429, True), (500, True), (503, True)])
async def test_an_optional_write_is_to_be_tried_again_if_what_failed_it_passes(code: int, missed: bool) -> None:
    world = World()
    world.server.faults = Faults().add("refuse", verb="create", resource="pods", code=code, message="no")
    outcome = await world.run([world.create("never", optional=True)])
    assert outcome.failure is None
    assert outcome.missed is missed


@in_virtual_time
async def test_a_patch_can_be_conditional() -> None:
    world = World()
    name = {"kind": RAYCLUSTER, "namespace": "ns", "name": "rc"}
    body = {"metadata": {"finalizers": ["ray.io/x"]}}
    stale = Patch(**name, body=body, resource_version="1")
    assert isinstance((await world.run([stale])).error, ConflictError)
    current = Patch(**name, body=body, resource_version=world.owner.metadata.resource_version, done=DONE)
    assert (await world.run([current])).events == [DONE]
    held = world.stored(RAYCLUSTER, "rc")
    assert held is not None
    assert held.metadata.finalizers == ["ray.io/x"]


@in_virtual_time
async def test_a_json_patch_of_a_subresource() -> None:
    world = World()
    made = world.pod("p")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}}
    world.server.create(made)
    path = "/spec/containers/0/resources/requests/cpu"

    def resize(uid: str) -> Patch:
        operations = [
            {"op": "test", "path": "/metadata/uid", "value": uid},
            {"op": "replace", "path": path, "value": "2"},
        ]
        return Patch(
            kind=POD,
            namespace="ns",
            name="p",
            operations=operations,
            subresource="resize",
            marker="M",
            done=DONE,
            failed=lambda error: Event("Failed", error, "Warning"),
        )

    outcome = await world.run([resize("another")])
    assert outcome.failure is not None
    assert (outcome.failure.marker, outcome.failure.reason) == ("M", "Conflict")
    assert outcome.failure.message.startswith("it has changed meanwhile"), outcome.failure
    assert outcome.events == [], "a patch that came too late is no news to anybody"
    stored = world.server.peek(POD, "ns", "p")
    assert stored is not None
    assert (await world.run([resize(stored["metadata"]["uid"])])).events == [DONE]
    held = world.stored(POD, "p")
    assert isinstance(held, Pod)
    resources = held.spec.containers[0].resources
    assert resources is not None
    assert (resources.requests, resources.limits) == ({"cpu": "2"}, {"cpu": "2"})


@in_virtual_time
async def test_an_optional_patch_that_comes_too_late_is_made_again() -> None:
    world = World()
    world.server.create(world.pod("p"))
    operations = [{"op": "test", "path": "/metadata/uid", "value": "another"}]
    late = Patch(kind=POD, namespace="ns", name="p", operations=operations, optional=True)
    outcome = await world.run([late])
    assert (outcome.failure, outcome.missed) == (None, True)


@in_virtual_time
async def test_a_patch_to_something_invalid_is_no_race() -> None:
    world = World()
    made = world.pod("p")
    made["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    world.server.create(made)
    operations = [{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "2"}]
    outcome = await world.run([Patch(kind=POD, namespace="ns", name="p", operations=operations)])
    assert outcome.failure is not None
    assert outcome.failure.reason == "Invalid", outcome.failure


@in_virtual_time
async def test_a_status_is_applied_whole_and_says_whether_it_was_news() -> None:
    world = World()

    async def apply(status: dict[str, Any]) -> bool:
        owner = world.stored(RAYCLUSTER, "rc") or world.owner
        assert isinstance(owner, RayObject)
        return await world.executor.apply_status(RAYCLUSTER, owner, status)

    assert await apply({"state": "ready", "reason": "r"})
    assert not await apply({"state": "ready", "reason": "r"})
    assert await apply({"state": "ready"})
    cluster = world.server.peek(RAYCLUSTER, "ns", "rc")
    assert cluster is not None
    assert cluster["status"] == {"state": "ready"}
    assert cluster["metadata"]["generation"] == 1


@in_virtual_time
async def test_the_status_of_an_object_that_is_gone_changed_or_replaced_is_not_written() -> None:
    world = World()
    world.server.patch(RAYCLUSTER, "ns", "rc", {"spec": {"suspend": True}})
    with pytest.raises(ConflictError):
        await world.executor.apply_status(RAYCLUSTER, world.owner, {"state": "ready"})
    world.server.delete(RAYCLUSTER, "ns", "rc")
    assert not await world.executor.apply_status(RAYCLUSTER, world.owner, {"state": "ready"})
    assert world.server.peek(RAYCLUSTER, "ns", "rc") is None
    world.server.create(build_raycluster("rc", namespace="ns"))
    with pytest.raises(ConflictError):
        await world.executor.apply_status(RAYCLUSTER, world.owner, {"state": "ready"})
    cluster = world.server.peek(RAYCLUSTER, "ns", "rc")
    assert cluster is not None
    assert "status" not in cluster


def secret(world: World, **more: Any) -> Create:
    body = world.body(SECRET, "token")
    return Create(kind=SECRET, namespace="ns", name="token", body=body, done=DONE, any_owner=True, **more)


@in_virtual_time
async def test_random_data_is_drawn_for_each_create_and_forgotten() -> None:
    world = World()
    found = []
    for _ in range(2):
        assert (await world.run([secret(world, random_data={"key": 32})])).events == [DONE]
        stored = world.server.peek(SECRET, "ns", "token")
        assert stored is not None
        found.append(stored["data"]["key"])
        assert found[-1] not in repr(world.stored(SECRET, "token"))
        world.server.delete(SECRET, "ns", "token")
    assert found[0] != found[1]
    texts = [base64.b64decode(value) for value in found]
    assert [len(base64.b64decode(text, validate=True)) for text in texts] == [32, 32]


@pytest.mark.parametrize("owner", ["", "-", "another-uid"])
@in_virtual_time
async def test_an_object_of_any_owner_may_hold_the_name(owner: str) -> None:
    world = World()
    theirs = world.server.create(world.body(SECRET, "token", owner=owner, data={"key": "bWluZQ=="}))
    outcome = await world.run([secret(world, random_data={"key": 32})])
    assert (outcome.failure, outcome.events, outcome.changed) == (None, [], True)
    assert world.server.peek(SECRET, "ns", "token") == theirs
    assert world.stored(SECRET, "token") is not None, "the next plan knows"


@in_virtual_time
async def test_a_patch_of_what_is_gone_is_nothing_to_do_and_another_object_of_the_name_is_not_patched() -> None:
    world = World()
    outcome = await world.run([mark("some-uid")])
    assert (outcome.failure, outcome.changed, outcome.events) == (None, False, [])
    world.server.create(world.pod("p"))
    outcome = await world.run([mark("some-uid")])
    assert outcome.failure is not None
    stored = world.server.peek(POD, "ns", "p")
    assert stored is not None
    assert "annotations" not in stored["metadata"]


@in_virtual_time
async def test_a_patch_that_must_find_its_object_stops_what_comes_after_it() -> None:
    world = World()
    guard = Patch(kind=RAYCLUSTER, namespace="ns", name="gone", body={"metadata": {}}, must_exist=True)
    outcome = await world.run([guard], [world.create("p")])
    assert isinstance(outcome.error, NotFoundError)
    assert world.server.peek(POD, "ns", "p") is None


@in_virtual_time
async def test_a_patch_that_only_asks_is_no_change() -> None:
    world = World()
    seen = world.owner.metadata.resource_version
    body = {"metadata": {"uid": world.owner.uid}}
    guard = Patch(kind=RAYCLUSTER, namespace="ns", name="rc", body=body, resource_version=seen, must_exist=True)
    outcome = await world.run([guard])
    assert (outcome.failure, outcome.changed) == (None, False)


@in_virtual_time
async def test_a_going_namespace_is_the_reason_of_the_failure() -> None:
    world = World()
    world.server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ns"}})
    world.server.delete(NAMESPACE, "", "ns")
    outcome = await world.run([world.create("p")])
    assert outcome.failure is not None
    assert outcome.failure.reason == NAMESPACE_TERMINATING
