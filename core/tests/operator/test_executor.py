"""The executor on the simulated API server: nothing doubled, nothing foreign touched, nothing asked without need."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import orjson
import pytest
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, NAMESPACE, POD, RAYCLUSTER, SECRET, SERVICE, Kind
from kuberay.api.objects import Object, Pod, RayObject, decode, from_dict
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, ConflictError, NotFoundError
from kuberay.kube.store import Store
from kuberay.operator.executor import FIRST_BATCH, Executor, Outcome
from kuberay.plan.model import NAMESPACE_TERMINATING, Apply, Create, Delete, Event, Patch, Write
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

DONE, UPDATED = Event("Done", "done"), Event("Updated", "updated")


class World:
    """A server, a store, and an executor that works for one RayCluster."""

    def __init__(self) -> None:
        self.server = SimServer()
        self.store = Store()
        self.written: list[str] = []
        self.executor = Executor(
            Client(SimTransport(self.server)),
            self.store,
            self.server.now,
            lambda kind, _before, obj: self.written.append(f"{kind.kind} {obj.name}"),
        )
        owner = from_dict(RAYCLUSTER, self.server.create(build_raycluster("rc", namespace="ns")))
        assert isinstance(owner, RayObject)
        self.owner = owner
        self.server.calls.clear()

    async def run(self, *stages: list[Write]) -> Outcome:
        return await self.executor.run(self.owner, list(stages))

    def body(self, kind: Kind, name: str, *, owner: str = "", **parts: Any) -> dict[str, Any]:
        """A manifest owned by the world's RayCluster, or by the given uid; ``-`` for none."""
        metadata: dict[str, Any] = {"name": name, "namespace": "ns"}
        if owner != "-":
            reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "controller": True}
            metadata["ownerReferences"] = [{**reference, "uid": owner or self.owner.uid}]
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **parts}

    def pod(self, name: str, **more: Any) -> dict[str, Any]:
        return self.body(POD, name, spec={"containers": [{"name": "c", "image": "i"}]}, **more)

    def service(self, name: str = "s", *, port: int = 80, **more: Any) -> dict[str, Any]:
        return self.body(SERVICE, name, spec={"ports": [{"name": "p", "port": port}]}, **more)

    def create(self, name: str, **more: Any) -> Create:
        return Create(kind=POD, namespace="ns", name=name, body=self.pod(name), done=DONE, **more)

    def apply(self, body: dict[str, Any] | None = None, **more: Any) -> Apply:
        body = body or self.service()
        name = body["metadata"]["name"]
        return Apply(kind=SERVICE, namespace="ns", name=name, body=body, done=DONE, updated=UPDATED, **more)

    def watch_catches_up(self) -> None:
        """As if every watch event had arrived."""
        for kind in (POD, SERVICE, RAYCLUSTER):
            for body in self.server.objects(kind):
                self.store.upsert(kind, decode(kind, orjson.dumps(body)))

    def asked(self) -> list[str]:
        return [f"{call.verb} {call.resource}" for call in self.server.calls]

    def stored(self, kind: Kind, name: str) -> Object | None:
        return self.store.get(kind, "ns", name)


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


@pytest.mark.parametrize("owner", ["a-former-rc", "-"])
def test_a_guarded_apply_needs_no_look_and_takes_nothing_over(owner: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        def selecting(selector: str, **rest: Any) -> dict[str, Any]:
            body = world.service(**rest)
            body["spec"]["selector"] = {"cluster": selector}
            return body

        world = World()
        service = world.server.create(selecting("theirs", owner=owner))
        write = world.apply(selecting("ours"), guarded=True)
        for _ in range(2):
            outcome = await world.run([write])
            assert outcome.failure is not None
            assert outcome.failure.reason == "NotOwnedError"
            assert world.server.peek(SERVICE, "ns", "s") == service
        world.server.delete(SERVICE, "ns", "s")
        assert (await world.run([write])).events == [DONE]
        made = world.server.peek(SERVICE, "ns", "s")
        assert made is not None
        assert made["spec"]["selector"] == {"cluster": "ours"}

    scenario()


@in_virtual_time
async def test_a_guarded_apply_of_what_is_wrong_in_itself_fails_with_the_reason() -> None:
    world = World()
    body = world.service()
    body["metadata"]["labels"] = {"a": "no label!"}
    outcome = await world.run([world.apply(body, guarded=True)])
    assert outcome.failure is not None
    assert outcome.failure.reason == "Invalid"


@in_virtual_time
async def test_a_foreign_object_that_is_gone_is_no_longer_in_the_way() -> None:
    """Also when no watch tells of it: what others own need not carry the labels that are watched."""
    world = World()
    world.server.create(world.service(owner="-", port=1))
    assert (await world.run([world.apply()])).failure is not None
    world.server.delete(SERVICE, "ns", "s")
    assert (await world.run([world.apply()])).events == [DONE]


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
async def test_a_create_only_apply_leaves_what_exists_alone_whoever_made_it() -> None:
    world = World()
    theirs = world.server.create(world.service("theirs", owner="-", port=1))
    ours = world.server.create(world.service("ours", port=1))
    for name in ("theirs", "ours"):
        outcome = await world.run([world.apply(world.service(name, port=2), create_only=True)])
        assert (outcome.changed, outcome.failure) == (False, None)
    assert world.server.peek(SERVICE, "ns", "theirs") == theirs
    assert world.server.peek(SERVICE, "ns", "ours") == ours
    assert (await world.run([world.apply(world.service("new"), create_only=True)])).events == [DONE]


@in_virtual_time
async def test_a_create_only_apply_does_not_take_what_goes_with_a_former_owner_of_the_name() -> None:
    """A service account, for example: whoever started with it would lose its rights."""
    world = World()
    former = world.server.create(world.service("s", owner="uid-of-a-former-rc"))
    outcome = await world.run([world.apply(world.service("s"), create_only=True)])
    assert outcome.failure is not None
    assert outcome.failure.reason == "NotOwnedError"
    assert world.server.peek(SERVICE, "ns", "s") == former
    world.server.delete(SERVICE, "ns", "s")
    world.store.remove(SERVICE, "ns", "s", former["metadata"]["uid"])
    assert (await world.run([world.apply(world.service("s"), create_only=True)])).events == [DONE]


@in_virtual_time
async def test_an_apply_in_sync_costs_no_request() -> None:
    world = World()
    assert (await world.run([world.apply()])).events == [DONE]
    world.server.calls.clear()
    for _ in range(3):
        outcome = await world.run([world.apply()])
        assert (outcome.changed, outcome.events) == (False, [])
    world.watch_catches_up()
    await world.run([world.apply()])
    assert world.asked() == []


@in_virtual_time
async def test_an_apply_in_sync_costs_no_request_after_a_restart_either() -> None:
    first = World()
    await first.run([first.apply()])
    first.store = Store()
    first.watch_catches_up()
    again = Executor(Client(SimTransport(first.server)), first.store, first.server.now, lambda *_: None)
    first.server.calls.clear()
    assert not (await again.run(first.owner, [[first.apply()]])).changed
    assert first.asked() == []


@in_virtual_time
async def test_an_apply_updates_what_changed_once() -> None:
    world = World()
    await world.run([world.apply()])
    outcome = await world.run([world.apply(world.service(port=81))])
    assert (outcome.changed, outcome.events) == (True, [UPDATED])
    service = world.server.peek(SERVICE, "ns", "s")
    assert service is not None
    assert [port["port"] for port in service["spec"]["ports"]] == [81]
    world.server.calls.clear()
    assert not (await world.run([world.apply(world.service(port=81))])).changed
    assert world.asked() == []


@in_virtual_time
async def test_what_another_operator_put_into_a_list_gives_way_where_both_together_are_refused() -> None:
    """Two ports of one name: those of KubeRay are of another field manager, and stay when ours are applied."""
    world = World()
    world.server.create(world.service(port=80), manager="manager")
    world.watch_catches_up()
    outcome = await world.run([world.apply(world.service(port=81))])
    assert (outcome.failure, outcome.events) == (None, [UPDATED])
    service = world.server.peek(SERVICE, "ns", "s")
    assert service is not None
    assert [port["port"] for port in service["spec"]["ports"]] == [81]
    world.server.calls.clear()
    assert not (await world.run([world.apply(world.service(port=81))])).changed
    assert world.asked() == []


@in_virtual_time
async def test_what_kuberay_put_into_a_list_goes_when_it_is_no_longer_wanted() -> None:
    """It has this operator's name, but updates: an apply alone would leave its items there for good."""
    world = World()
    two = world.body(SERVICE, "s", spec={"ports": [{"name": "p", "port": 80}, {"name": "q", "port": 90}]})
    world.server.create(two, manager="kuberay-operator")
    world.watch_catches_up()
    both = await world.run([world.apply(two)])
    assert (both.changed, world.asked()) == (False, []), "all of it is there, whoever wrote it"
    for port in (80, 81):
        outcome = await world.run([world.apply(world.service(port=port))])
        assert (outcome.failure, outcome.events) == (None, [UPDATED])
        service = world.server.peek(SERVICE, "ns", "s")
        assert service is not None
        assert [each["port"] for each in service["spec"]["ports"]] == [port]
        world.server.calls.clear()
        assert not (await world.run([world.apply(world.service(port=port))])).changed
        assert world.asked() == []


@in_virtual_time
async def test_what_is_wrong_in_itself_fails_with_the_words_for_what_was_applied() -> None:
    world = World()
    world.server.create(world.service(port=80), manager="manager")
    world.watch_catches_up()
    twice = world.body(SERVICE, "s", spec={"ports": [{"name": "p", "port": 81}, {"name": "p", "port": 82}]})
    outcome = await world.run([world.apply(twice)])
    assert outcome.failure is not None
    assert "Duplicate value" in outcome.failure.message
    service = world.server.peek(SERVICE, "ns", "s")
    assert service is not None
    assert [port["port"] for port in service["spec"]["ports"]] == [80]


@in_virtual_time
async def test_an_apply_waits_for_an_object_that_is_being_deleted() -> None:
    world = World()
    await world.run([world.apply()])
    world.server.patch(SERVICE, "ns", "s", {"metadata": {"finalizers": ["x/y"]}})
    world.server.delete(SERVICE, "ns", "s")
    world.watch_catches_up()
    world.server.calls.clear()
    outcome = await world.run([world.apply(world.service(port=81))])
    assert (outcome.changed, outcome.failure, world.asked()) == (False, None, [])


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
            kind=POD, namespace="ns", name="p", operations=operations, subresource="resize", marker="M", done=DONE
        )

    outcome = await world.run([resize("another")])
    assert outcome.failure is not None
    assert (outcome.failure.marker, outcome.failure.reason) == ("M", "Invalid")
    stored = world.server.peek(POD, "ns", "p")
    assert stored is not None
    assert (await world.run([resize(stored["metadata"]["uid"])])).events == [DONE]
    held = world.stored(POD, "p")
    assert isinstance(held, Pod)
    resources = held.spec.containers[0].resources
    assert resources is not None
    assert (resources.requests, resources.limits) == ({"cpu": "2"}, {"cpu": "2"})


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
async def test_an_apply_that_yields_learns_of_the_other_object_and_says_nothing() -> None:
    world = World()
    theirs = world.server.create(world.service(owner="-"))
    outcome = await world.run([world.apply(yields=True)])
    assert (outcome.failure, outcome.events, outcome.changed) == (None, [], True)
    again = await world.run([world.apply(yields=True)])
    assert (again.failure, again.events, again.changed) == (None, [], False)
    assert world.server.peek(SERVICE, "ns", "s") == theirs
    world.server.delete(SERVICE, "ns", "s")
    assert (await world.run([world.apply(yields=True)])).events == [DONE], "it need not be watched"


def mark(uid: str) -> Patch:
    body = {"metadata": {"uid": uid, "annotations": {"marked": "yes"}}}
    return Patch(kind=POD, namespace="ns", name="p", body=body, done=DONE)


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


RAY_CLUSTER_OF_IT = {
    "apiVersion": "ray.io/v1",
    "kind": "RayCluster",
    "name": "rc-1",
    "uid": "uid-rc-1",
    "controller": True,
}


def for_the_child(world: World, port: int = 8000) -> dict[str, Any]:
    """A service that the owner makes for a RayCluster of its own, and that goes with that."""
    body = world.service(port=port)
    body["metadata"]["ownerReferences"] = [RAY_CLUSTER_OF_IT]
    return body


@in_virtual_time
async def test_what_is_made_for_a_child_is_the_childs_and_still_kept_up_to_date() -> None:
    world = World()
    assert (await world.run([world.apply(for_the_child(world))])).events == [DONE]
    assert (await world.run([world.apply(for_the_child(world))])).events == []
    outcome = await world.run([world.apply(for_the_child(world, port=9000))])
    assert (outcome.failure, outcome.events) == (None, [UPDATED])
    live = world.server.peek(SERVICE, "ns", "s")
    assert live is not None
    assert live["spec"]["ports"][0]["port"] == 9000


@in_virtual_time
async def test_what_is_the_childs_is_not_taken_over_for_the_owner_or_another_child() -> None:
    world = World()
    other = for_the_child(world)
    other["metadata"]["ownerReferences"] = [{**RAY_CLUSTER_OF_IT, "name": "rc-2", "uid": "uid-rc-2"}]
    await world.run([world.apply(other)])
    for body in (for_the_child(world), world.service()):
        outcome = await world.run([world.apply(body)])
        assert outcome.failure is not None
        assert outcome.failure.reason == "NotOwnedError"


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


def gateway_write(world: World, kind: Kind, spec: dict[str, Any]) -> Apply:
    body = world.body(kind, "rs", spec=spec)
    return Apply(kind=kind, namespace="ns", name="rs", body=body, done=DONE, updated=UPDATED)


def route(active: int, pending: int) -> dict[str, Any]:
    backends = [{"name": "one", "port": 8000, "weight": active}, {"name": "two", "port": 8000, "weight": pending}]
    return {"parentRefs": [{"name": "rs", "namespace": "ns"}], "rules": [{"backendRefs": backends}]}


@in_virtual_time
async def test_a_gateway_and_its_route_are_kept_up_to_date_and_deleted() -> None:
    world = World()
    listeners = {"gatewayClassName": "c", "listeners": [{"name": "http", "protocol": "HTTP", "port": 80}]}
    gateway, first = gateway_write(world, GATEWAY, listeners), gateway_write(world, HTTP_ROUTE, route(100, 0))
    assert (await world.run([gateway], [first])).events == [DONE, DONE]
    world.server.calls.clear()
    assert not (await world.run([gateway], [first])).changed
    assert world.asked() == [], "what is in sync costs no request"
    assert (await world.run([gateway], [gateway_write(world, HTTP_ROUTE, route(90, 10))])).events == [UPDATED]
    live = world.server.peek(HTTP_ROUTE, "ns", "rs")
    assert live is not None
    assert [backend["weight"] for backend in live["spec"]["rules"][0]["backendRefs"]] == [90, 10]
    for kind in (HTTP_ROUTE, GATEWAY):
        stored = world.stored(kind, "rs")
        assert stored is not None
        await world.run([Delete(kind=kind, namespace="ns", name="rs", uid=stored.uid)])
        assert world.server.peek(kind, "ns", "rs") is None


@in_virtual_time
async def test_a_gateway_that_the_cluster_does_not_serve_is_said_in_words_that_help() -> None:
    world = World()
    world.server.unregister(GATEWAY)
    outcome = await world.run([gateway_write(world, GATEWAY, {})])
    assert outcome.failure is not None
    assert outcome.failure.message == (
        "gateways.gateway.networking.k8s.io is not served by this cluster: install its CRD, or turn off the plugin that "
        "needs it"
    )
