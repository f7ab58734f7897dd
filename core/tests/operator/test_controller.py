"""One pass of the controller: observe, plan, write, status, events, and when it looks again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import ENDPOINT_SLICE, EVENT, POD, RAYCLUSTER, RAYJOB, RAYSERVICE, SECRET
from kuberay.api.objects import from_dict
from kuberay.hooks.calls import NoHooks
from kuberay.kube.client import Client
from kuberay.kube.events import EventRecorder
from kuberay.kube.store import Store
from kuberay.operator.controller import MAX_ROUNDS, Controller, Setup
from kuberay.operator.keys import RECONCILED, Key
from kuberay.operator.metrics import Metrics
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, Delete, Event, ObjectProbe, Patch, Plan
from kuberay.plan.observed import Observed
from kuberay_testkit.builders import build_raycluster, build_rayjob, build_rayservice
from kuberay_testkit.dashboard import FakeDashboard
from kuberay_testkit.drain import FakeDrain
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

PlanOf = Callable[[Observed], Plan]


class World:
    """A server and a controller whose plans a test decides. Nothing is watched: events are told by the test."""

    def __init__(
        self,
        cluster: PlanOf = lambda _: Plan(),
        job: PlanOf = lambda _: Plan(),
        service: PlanOf = lambda _: Plan(),
        *,
        workers: int = 1,
    ) -> None:
        self.server = SimServer()
        self.store = Store()
        self.passes: list[tuple[str, float]] = []
        client = Client(SimTransport(self.server, latency=(0.0, 0.0)))
        self.recorder = EventRecorder(client, self.server.clock, instance="test")
        self.controller = Controller(
            Setup(
                client=client,
                store=self.store,
                clock=self.server.clock,
                recorder=self.recorder,
                dashboard=FakeDashboard(),
                drain=FakeDrain(),
                hooks=NoHooks(),
                config=PlanConfig(),
                gates={},
                metrics=Metrics(),
                plans={
                    RAYCLUSTER: self._noting(cluster),
                    RAYJOB: self._noting(job),
                    RAYSERVICE: self._noting(service),
                },
            )
        )
        self.tasks = [asyncio.create_task(self.controller.work()) for _ in range(workers)]
        self.tasks.append(asyncio.create_task(self.recorder.run()))

    def _noting(self, plan: PlanOf) -> PlanOf:
        def noted(observed: Observed) -> Plan:
            self.passes.append((observed.obj.name, round(self.server.clock.elapsed(), 2)))
            return plan(observed)

        return noted

    def create(self, manifest: dict[str, Any], *, tell: str | None = "ADDED") -> dict[str, Any]:
        """Create an object and tell the controller as the event source does."""
        body = self.server.create(manifest)
        self.controller.accept(RECONCILED[body["kind"]], tell, body)
        return body

    def cluster(self, name: str = "rc", **options: Any) -> dict[str, Any]:
        return self.create(build_raycluster(name, namespace="ns"), **options)

    def status(self, name: str = "rc") -> Any:
        cluster = self.server.peek(RAYCLUSTER, "ns", name)
        return None if cluster is None else cluster.get("status")

    def events(self) -> list[str]:
        return [event["reason"] for event in self.server.objects(EVENT)]

    async def end(self) -> None:
        self.controller.queue.close()
        self.controller.prober.stop()
        self.recorder.close()
        await asyncio.gather(*self.tasks)


def pod_of(observed: Observed, name: str) -> Create:
    owner = {"apiVersion": "ray.io/v1", "kind": observed.obj.kind, "name": observed.obj.name, "uid": observed.obj.uid}
    body = {
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": [{**owner, "controller": True}]},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return Create(kind=POD, namespace="ns", name=name, body=body, done=Event("Created", name), marker="FailedPod")


def one_pod_then_ready(observed: Observed) -> Plan:
    """A pod, and a status that follows once it exists."""
    if not observed.view.owned(observed.obj.uid, POD):
        return Plan(stages=[[pod_of(observed, f"{observed.obj.name}-pod")]], status={"state": "early"})
    if observed.obj.status.get("state") == "ready":
        return Plan()
    return Plan(status={"state": "ready"}, events=[Event("Ready", "it is ready")])


@in_virtual_time
async def test_a_pass_plans_again_on_what_it_wrote_and_tells_one_status_last() -> None:
    world = World(one_pod_then_ready)
    world.cluster()
    await asyncio.sleep(1)
    assert world.status() == {"state": "ready"}
    calls = [f"{call.verb} {call.resource}" for call in world.server.calls if call.resource != "events"]
    assert calls == ["create pods", "apply rayclusters"]
    assert sorted(world.events()) == ["Created", "Ready"]
    await world.end()


@in_virtual_time
async def test_at_level_debug_a_pass_tells_what_it_did_and_what_it_waits_for(caplog: pytest.LogCaptureFixture) -> None:
    def plan(observed: Observed) -> Plan:
        return Plan(status={"state": "early"}, waiting="the head is not ready")

    with caplog.at_level("DEBUG", "kuberay.operator.controller"):
        world = World(plan)
        world.cluster()
        await asyncio.sleep(1)
        await world.end()
    told = [re.sub(r"[0-9.]+ s", "… s", record.getMessage()) for record in caplog.records]
    assert told[:3] == ["status written", "waiting: the head is not ready", "pass over after … s: requeue_after"]


@in_virtual_time
async def test_a_settled_object_costs_no_request() -> None:
    world = World(one_pod_then_ready)
    body = world.cluster()
    await asyncio.sleep(1)
    asked, passes = len(world.server.calls), len(world.passes)
    world.controller.queue.add(Key(RAYCLUSTER, "ns", "rc"))
    world.controller.accept(RAYCLUSTER, "MODIFIED", body)
    await asyncio.sleep(1)
    assert len(world.passes) == passes + 1, "an event that is no news is not even looked at"
    assert len(world.server.calls) == asked
    await world.end()


@in_virtual_time
async def test_a_status_written_is_looked_at_again_without_waiting_for_its_watch_event() -> None:
    steps = ["one", "two", "three"]

    def machine(observed: Observed) -> Plan:
        state = observed.obj.status.get("state")
        position = steps.index(state) + 1 if state else 0
        return Plan(status={"state": steps[position]}) if position < len(steps) else Plan()

    world = World(machine)
    world.cluster()
    await asyncio.sleep(1)
    assert world.status() == {"state": "three"}
    await world.end()


@in_virtual_time
async def test_a_child_made_by_another_kinds_pass_is_looked_at_without_waiting_for_its_watch_event() -> None:
    def make_cluster(observed: Observed) -> Plan:
        if observed.view.get(RAYCLUSTER, "ns", "made"):
            return Plan()
        body = build_raycluster("made", namespace="ns")
        owner = {"apiVersion": "ray.io/v1", "kind": "RayJob", "name": observed.obj.name, "uid": observed.obj.uid}
        body["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
        return Plan(stages=[[Create(kind=RAYCLUSTER, namespace="ns", name="made", body=body)]])

    def ready_once(observed: Observed) -> Plan:
        return Plan() if observed.obj.status else Plan(status={"state": "ready"})

    world = World(ready_once, make_cluster)
    world.create(build_rayjob("job", namespace="ns"))
    await asyncio.sleep(1)
    assert world.status("made") == {"state": "ready"}
    assert [name for name, _ in world.passes].count("job") >= 3, "and its owner looks at what became of it"
    await world.end()


@in_virtual_time
async def test_a_status_that_may_wait_joins_later_changes() -> None:
    def patient(observed: Observed) -> Plan:
        if observed.obj.status:
            return Plan(requeue_after=timedelta(seconds=300))
        late = observed.now.second >= 5
        delay = timedelta(0) if late else timedelta(seconds=5 - observed.now.second)
        return Plan(status={"state": "ready"}, status_delay=delay, requeue_after=timedelta(seconds=300))

    world = World(patient)
    world.cluster()
    await asyncio.sleep(4.5)
    assert world.status() is None
    await asyncio.sleep(1)
    assert world.status() == {"state": "ready"}
    await world.end()


@in_virtual_time
async def test_an_object_is_looked_at_again_when_the_plan_says_so() -> None:
    world = World(lambda _: Plan(requeue_after=timedelta(seconds=300)))
    world.cluster()
    await asyncio.sleep(1000)
    assert [at for _, at in world.passes] == [0, 300, 600, 900]
    await world.end()


@in_virtual_time
async def test_no_timer_is_trusted_for_long() -> None:
    """Timers do not notice that the clock was set; a look costs no request."""
    world = World(lambda _: Plan(requeue_after=timedelta(days=1)))
    world.cluster()
    await asyncio.sleep(1500)
    assert [at for _, at in world.passes] == [0, 600, 1200]
    await world.end()


@in_virtual_time
async def test_a_failed_write_shows_in_the_status_and_is_tried_again_with_back_off() -> None:
    def plan(observed: Observed) -> Plan:
        if observed.failure is not None:
            reason = f"{observed.failure.marker} {observed.failure.reason}: {observed.failure.message}"
            return Plan(status={"reason": reason}) if observed.obj.status.get("reason") != reason else Plan()
        if observed.view.owned(observed.obj.uid, POD):
            return Plan(status={"state": "ready"}) if observed.obj.status.get("state") != "ready" else Plan()
        return Plan(stages=[[pod_of(observed, "pod")]], events=[Event("Planned", "beside the status")])

    world = World(plan)
    world.server.faults = Faults().add("refuse", resource="pods", verb="create", message="exceeded quota", times=8)
    world.cluster()
    await asyncio.sleep(0.2)
    assert world.status() == {"reason": "FailedPod Forbidden: exceeded quota"}
    await asyncio.sleep(60)
    assert world.status() == {"state": "ready"}
    assert world.server.count(verb="create", resource="pods") == 9
    assert world.server.count(verb="apply", resource="rayclusters") == 2
    await world.end()


@in_virtual_time
async def test_an_optional_write_that_failed_in_passing_is_made_although_nothing_else_wakes_the_object() -> None:
    def plan(observed: Observed) -> Plan:
        if observed.view.owned(observed.obj.uid, POD):
            return Plan()
        return Plan(stages=[[replace(pod_of(observed, "pod"), optional=True)]])

    world = World(plan)
    world.server.faults = Faults().add("refuse", resource="pods", verb="create", code=500, times=2)
    world.cluster()
    await asyncio.sleep(60)
    assert world.server.count(verb="create", resource="pods") == 3
    assert [pod["metadata"]["name"] for pod in world.server.objects(POD)] == ["pod"]
    await world.end()


@pytest.mark.parametrize("refused", ["pods", "status"])
def test_a_deadline_is_kept_although_writes_fail_for_long(refused: str) -> None:
    @in_virtual_time
    async def scenario() -> None:
        def plan(observed: Observed) -> Plan:
            left = timedelta(seconds=100 - world.server.clock.elapsed())
            if left <= timedelta(0):
                return Plan()
            if refused == "pods":
                return Plan(stages=[[pod_of(observed, "pod")]], look_by=left)
            return Plan(status={"state": "ready"}, look_by=left)

        world = World(plan)
        world.server.faults = Faults().add("refuse", **{"resource" if refused == "pods" else "subresource": refused})
        world.cluster()
        await asyncio.sleep(101)
        assert 99.9 <= world.passes[-1][1] <= 100.1
        await world.end()

    scenario()


@in_virtual_time
async def test_what_was_done_is_told_even_when_the_status_cannot_be_written_and_told_once() -> None:
    world = World(one_pod_then_ready)
    world.server.faults = Faults().add("error_before", resource="rayclusters", times=3)
    world.cluster()
    await asyncio.sleep(0.04)
    assert world.events() == ["Created"]
    await asyncio.sleep(10)
    assert world.status() == {"state": "ready"}
    assert sorted(world.events()) == ["Created", "Ready"]
    assert all("series" not in event for event in world.server.objects(EVENT))
    await world.end()


@in_virtual_time
async def test_a_status_is_not_written_over_a_change_that_was_not_seen() -> None:
    world = World(lambda observed: Plan() if observed.obj.status else Plan(status={"state": "ready"}))
    body = build_raycluster("rc", namespace="ns")
    old = world.server.create(body)
    changed = world.server.patch(RAYCLUSTER, "ns", "rc", {"spec": {"suspend": True}})
    world.controller.accept(RAYCLUSTER, "ADDED", old)
    await asyncio.sleep(5)
    assert world.status() is None
    world.controller.accept(RAYCLUSTER, "MODIFIED", changed)
    await asyncio.sleep(5)
    assert world.status() == {"state": "ready"}
    await world.end()


@in_virtual_time
async def test_a_plan_that_raises_harms_only_its_own_object() -> None:
    def plan(observed: Observed) -> Plan:
        if observed.obj.name == "bad":
            raise RuntimeError("a bug")
        return one_pod_then_ready(observed)

    world = World(plan)
    for name in ("bad", "good"):
        world.cluster(name)
    await asyncio.sleep(600)
    assert world.status("good") == {"state": "ready"}
    assert world.status("bad") is None
    tries = [at for name, at in world.passes if name == "bad"]
    assert 10 < len(tries) < 25, "with back-off"
    await world.end()


@in_virtual_time
async def test_plans_that_never_settle_do_not_make_a_tight_loop() -> None:
    made = iter(range(10_000))
    world = World(lambda observed: Plan(stages=[[pod_of(observed, f"p{next(made)}")]]))
    world.cluster()
    await asyncio.sleep(9.5)
    assert len(world.server.objects(POD)) <= 10 * MAX_ROUNDS
    await world.end()


@in_virtual_time
async def test_an_object_that_is_gone_is_forgotten() -> None:
    world = World(lambda _: Plan(requeue_after=timedelta(seconds=10)))
    body = world.cluster()
    await asyncio.sleep(1)
    world.server.delete(RAYCLUSTER, "ns", "rc")
    world.controller.accept(
        RAYCLUSTER, "DELETED", {**body, "metadata": {**body["metadata"], "resourceVersion": "9999"}}
    )
    await asyncio.sleep(60)
    assert len(world.passes) == 1
    assert world.store.get(RAYCLUSTER, "ns", "rc") is None
    world.cluster()
    await asyncio.sleep(1)
    assert len(world.passes) == 2, "a new object of that name is served"
    await world.end()


@in_virtual_time
async def test_nothing_is_asked_for_an_object_that_its_own_pass_found_gone() -> None:
    """No watch event follows that would be news."""
    asked = ObjectProbe(SECRET, "ns", "s")
    world = World(
        job=lambda observed: Plan(
            stages=[[Delete(kind=RAYJOB, namespace="ns", name="rj", uid=observed.obj.uid)]], probes=[asked]
        )
    )
    body = world.server.create(build_rayjob("rj", namespace="ns"))
    world.server.delete(RAYJOB, "ns", "rj")
    body["status"] = {"rayClusterName": "rc"}
    world.controller.accept(RAYJOB, "ADDED", body)
    await asyncio.sleep(100)
    assert len(world.passes) == 1
    assert not world.controller.prober._tasks
    assert list(world.controller._references.running_on("ns", "rc")) == []
    await world.end()


@in_virtual_time
async def test_what_is_remembered_of_an_object_goes_when_another_takes_its_name() -> None:
    world = World(lambda _: Plan())
    former = world.cluster()
    synced = world.controller._executor._synced
    synced.remember(former["metadata"]["uid"], "1", b"")
    successor = {**former["metadata"], "uid": "another", "resourceVersion": "9999"}
    world.controller.accept(RAYCLUSTER, "ADDED", {**former, "metadata": successor})
    assert not synced._known
    await world.end()


@in_virtual_time
async def test_an_object_that_goes_while_it_is_written_for_gets_no_status() -> None:
    world = World(one_pod_then_ready)
    world.server.faults = Faults().add("slow", verb="create", resource="pods", seconds=5)
    body = world.cluster()
    await asyncio.sleep(0.001)
    world.server.delete(RAYCLUSTER, "ns", "rc")
    world.controller.accept(
        RAYCLUSTER, "DELETED", {**body, "metadata": {**body["metadata"], "resourceVersion": "9999"}}
    )
    await asyncio.sleep(10)
    assert world.server.count(resource="rayclusters") == 0
    await world.end()


@in_virtual_time
async def test_a_restarts_backlog_yields_to_fresh_changes() -> None:
    world = World()
    for number in range(5):
        world.cluster(f"old{number}", tell=None)
    world.cluster("fresh")
    await asyncio.sleep(1)
    assert [name for name, _ in world.passes] == ["fresh", *(f"old{number}" for number in range(5))]
    await world.end()


@in_virtual_time
async def test_one_object_is_never_in_two_passes_at_once() -> None:
    world = World(one_pod_then_ready, workers=8)
    world.server.faults = Faults().add("slow", verb="create", resource="pods", seconds=3)
    world.cluster()
    for _ in range(50):
        world.controller.queue.add(Key(RAYCLUSTER, "ns", "rc"))
        await asyncio.sleep(0.1)
    await asyncio.sleep(5)
    assert world.server.count(verb="create", resource="pods") == 1
    await world.end()


@in_virtual_time
async def test_a_childs_change_wakes_its_owner() -> None:
    world = World(one_pod_then_ready)
    world.cluster()
    await asyncio.sleep(1)
    before = len(world.passes)
    (pod,) = world.store.all(POD)
    world.store.remove(POD, "ns", pod.name, pod.uid)
    await asyncio.sleep(1)
    assert len(world.passes) > before
    await world.end()


SERVES = {"activeServiceStatus": {"rayClusterName": "rc"}}


def serving_once(observed: Observed) -> Plan:
    """A RayService that names its RayCluster."""
    return Plan() if observed.obj.status else Plan(status=SERVES)


class ServingWorld(World):
    """A RayService ``rs`` on RayCluster ``rc``, of which a head pod is told."""

    def __init__(self, **plans: PlanOf) -> None:
        super().__init__(service=serving_once, **plans)
        self.version = 100

    async def begin(self) -> None:
        self.cluster()
        self.create(build_rayservice("rs", namespace="ns"))
        self.tell_pod()
        await asyncio.sleep(1)

    def passes_of(self, name: str) -> int:
        return [each for each, _ in self.passes].count(name)

    def tell_pod(self, *, ready: bool = True, **metadata: Any) -> None:
        self.version += 1
        labels = {"ray.io/cluster": "rc", "ray.io/node-type": "head"}
        body = {
            "metadata": {
                "name": "head", "namespace": "ns", "uid": "u", "resourceVersion": str(self.version), "labels": labels, **metadata
            },
            "status": {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
        }  # fmt: skip
        self.store.upsert(POD, from_dict(POD, body))

    def tell_endpoints(self, *uids: str, of: str) -> None:
        self.version += 1
        labels = {"ray.io/originated-from-crd": "RayService", "ray.io/originated-from-cr-name": of}
        body = {
            "metadata": {
                "name": of,
                "namespace": "ns",
                "uid": of,
                "resourceVersion": str(self.version),
                "labels": labels,
            },
            "endpoints": [{"conditions": {"ready": True}, "targetRef": {"uid": uid}} for uid in uids],
        }
        self.store.upsert(ENDPOINT_SLICE, from_dict(ENDPOINT_SLICE, body))


@in_virtual_time
async def test_a_rayservice_is_looked_at_when_a_pod_serves_or_does_not_and_for_nothing_else_of_it() -> None:
    world = ServingWorld()
    await world.begin()
    before = world.passes_of("rs")
    world.tell_pod(annotations={"a": "b"})
    await asyncio.sleep(1)
    assert world.passes_of("rs") == before
    world.tell_pod(ready=False)
    await asyncio.sleep(1)
    assert world.passes_of("rs") == before + 1
    world.tell_pod(ready=True)
    world.tell_pod(ready=False)
    await asyncio.sleep(1)
    assert world.passes_of("rs") == before + 2, "a burst is one"
    await world.end()


@in_virtual_time
async def test_a_rayservice_is_looked_at_when_its_endpoints_change() -> None:
    world = ServingWorld()
    await world.begin()
    before = world.passes_of("rs")
    for number, of in enumerate(("rs", "rc")):
        world.tell_endpoints("a", of=of)
        await asyncio.sleep(1)
        assert world.passes_of("rs") == before + 1 + 2 * number
        world.tell_endpoints("a", of=of)
        await asyncio.sleep(1)
        assert world.passes_of("rs") == before + 1 + 2 * number, "the same pods"
        world.tell_endpoints("a", "b", of=of)
        await asyncio.sleep(1)
        assert world.passes_of("rs") == before + 2 + 2 * number
    await world.end()


@in_virtual_time
async def test_of_a_deleted_rayservice_no_reference_is_kept() -> None:
    world = ServingWorld()
    await world.begin()
    body = world.server.peek(RAYSERVICE, "ns", "rs")
    assert body is not None
    world.server.delete(RAYSERVICE, "ns", "rs")
    body["metadata"]["resourceVersion"] = str(int(body["metadata"]["resourceVersion"]) + 1)
    world.controller.accept(RAYSERVICE, "DELETED", body)
    assert list(world.controller._references.served_by("ns", "rc")) == []
    await world.end()


@in_virtual_time
async def test_what_another_pass_learns_of_a_pod_by_writing_it_is_not_kept_from_the_rayservice() -> None:
    """The answer to a write may bring news that the watch brings later, when it is none any more."""

    def annotate(observed: Observed) -> Plan:
        pod = observed.view.get(POD, "ns", "p")
        if pod is None or pod.metadata.annotations:
            return Plan()
        body = {"metadata": {"annotations": {"seen": "yes"}}}
        return Plan(stages=[[Patch(kind=POD, namespace="ns", name="p", body=body)]])

    world = ServingWorld(cluster=annotate)
    await world.begin()
    labels = {"ray.io/cluster": "rc", "ray.io/node-type": "worker"}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns", "labels": labels}}
    pod = world.server.create({**manifest, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    world.store.upsert(POD, from_dict(POD, pod))
    ready = {"podIP": "10.0.0.2", "conditions": [{"type": "Ready", "status": "True"}]}
    world.server.set_status(POD, "ns", "p", ready)
    await asyncio.sleep(1)
    before = world.passes_of("rs")
    world.controller.queue.add(Key(RAYCLUSTER, "ns", "rc"))
    await asyncio.sleep(1)
    live = world.store.get(POD, "ns", "p")
    assert live is not None
    assert live.metadata.annotations == {"seen": "yes"}
    assert world.passes_of("rs") == before + 1
    await world.end()
