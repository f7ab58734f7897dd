"""The event recorder: what is sent, how repeats fold, and that it never gets in the way."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kuberay.api.kinds import EVENT
from kuberay.kube.client import Client
from kuberay.kube.events import NOTE_LIMIT, EventRecorder, Reference
from kuberay_testkit.sim.clock import VirtualClock
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

ABOUT = Reference("ray.io/v1", "RayCluster", "ns", "rc", "uid-rc")


class World:
    """A server and a recorder."""

    def __init__(self, **options: Any) -> None:
        self.server = SimServer()
        self.recorder = EventRecorder(Client(SimTransport(self.server)), VirtualClock(), instance="pod-1", **options)

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.recorder.run())

    def emit(self, *, note: str = "made it", reason: str = "Created", about: Reference = ABOUT, **more: Any) -> None:
        given = {"type_": "Normal", "action": "Create", "controller": "raycluster-controller", **more}
        self.recorder.emit(about, reason=reason, note=note, **given)

    def events(self) -> list[dict[str, Any]]:
        return self.server.objects(EVENT)

    def requests(self) -> tuple[int, int]:
        """Creates and patches of events asked for so far."""
        return self.server.count(verb="create", resource="events"), self.server.count(verb="patch", resource="events")


@in_virtual_time
async def test_an_event_says_what_kubectl_shows() -> None:
    world = World()
    task = world.start()
    about = Reference("ray.io/v1", "RayCluster", "ns", "rc", "uid-rc", "spec.headGroupSpec")
    world.emit(about=about, type_="Warning")
    await asyncio.sleep(1)
    (event,) = world.events()
    assert event["regarding"] == {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "namespace": "ns",
        "name": "rc",
        "uid": "uid-rc",
        "fieldPath": "spec.headGroupSpec",
    }
    shown = {
        key: event[key] for key in ("type", "reason", "action", "note", "reportingController", "reportingInstance")
    }
    assert shown == {
        "type": "Warning",
        "reason": "Created",
        "action": "Create",
        "note": "made it",
        "reportingController": "raycluster-controller",
        "reportingInstance": "pod-1",
    }
    assert event["eventTime"].startswith("2026-01-01T00:00:00.")
    assert event["metadata"]["namespace"] == "ns"
    assert event["metadata"]["name"].startswith("rc.")
    assert "series" not in event
    task.cancel()


@in_virtual_time
async def test_equal_events_fold_into_one_with_a_count_sent_at_most_once_a_minute() -> None:
    world = World()
    task = world.start()
    for _ in range(60):
        world.emit()
        await asyncio.sleep(10)
    assert len(world.events()) == 1
    creates, patches = world.requests()
    assert creates == 1
    assert 9 <= patches <= 11
    assert 54 <= world.events()[0]["series"]["count"] <= 60
    task.cancel()


@in_virtual_time
async def test_the_second_occurrence_is_told_at_once() -> None:
    world = World()
    task = world.start()
    world.emit()
    world.emit()
    world.emit()
    await asyncio.sleep(1)
    assert world.requests() == (1, 1)
    assert world.events()[0]["series"]["count"] == 2
    task.cancel()


@pytest.mark.parametrize(
    "other",
    [
        {"note": "made another"},
        {"reason": "Deleted"},
        {"about": Reference("ray.io/v1", "RayCluster", "ns", "rc2", "uid-2")},
    ],
)
def test_different_events_do_not_fold(other: dict[str, Any]) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        task = world.start()
        world.emit()
        world.emit(**other)
        await asyncio.sleep(1)
        assert len(world.events()) == 2
        assert world.requests() == (2, 0)
        task.cancel()

    scenario()


@in_virtual_time
async def test_after_six_quiet_minutes_an_equal_event_is_a_new_one() -> None:
    world = World()
    task = world.start()
    world.emit()
    await asyncio.sleep(361)
    world.emit()
    await asyncio.sleep(1)
    assert world.requests() == (2, 0)
    task.cancel()


@in_virtual_time
async def test_one_event_may_stand_for_many_occurrences() -> None:
    world = World()
    task = world.start()
    world.emit(count=3)
    await asyncio.sleep(1)
    (event,) = world.events()
    assert event["series"]["count"] == 3
    await asyncio.sleep(120)
    world.emit(count=2)
    await asyncio.sleep(1)
    (event,) = world.events()
    assert event["series"]["count"] == 5
    task.cancel()


@pytest.mark.parametrize(
    ("note", "cut"),
    [
        ("x" * NOTE_LIMIT, False),
        ("x" * (NOTE_LIMIT + 1), True),
        ("é" * (NOTE_LIMIT // 2), False),
        # The limit is in bytes, and no character is cut in two.
        ("é" * (NOTE_LIMIT // 2) + "x", True),
        ("x" + "é" * 2000, True),
    ],
)
def test_long_notes_are_cut_to_what_the_server_takes(note: str, cut: bool) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        task = world.start()
        world.emit(note=note)
        await asyncio.sleep(1)
        (event,) = world.events()
        assert len(event["note"].encode()) <= NOTE_LIMIT
        assert event["note"].endswith(" ...") is cut
        assert note.startswith(event["note"].removesuffix(" ..."))
        task.cancel()

    scenario()


@in_virtual_time
async def test_names_stay_valid_for_long_objects_and_unique_within_a_moment() -> None:
    world = World()
    task = world.start()
    for number in range(50):
        world.emit(about=Reference("ray.io/v1", "RayCluster", "ns", "n" * 253, f"uid-{number}"))
    await asyncio.sleep(1)
    assert len(world.events()) == 50
    assert all(len(event["metadata"]["name"]) <= 253 for event in world.events())
    task.cancel()


@in_virtual_time
async def test_a_full_queue_drops_events_and_counts_them() -> None:
    world = World(capacity=5, senders=1)
    for number in range(8):
        world.emit(note=f"n{number}")
    assert world.recorder.dropped == 3
    task = world.start()
    await asyncio.sleep(1)
    assert sorted(event["note"] for event in world.events()) == [f"n{n}" for n in range(5)]
    task.cancel()


@in_virtual_time
async def test_close_sends_what_is_queued_and_ends() -> None:
    world = World()
    for number in range(100):
        world.emit(note=f"n{number}")
    task = world.start()
    world.recorder.close()
    await asyncio.wait_for(task, 5)
    assert len(world.events()) == 100


@in_virtual_time
async def test_close_also_ends_a_recorder_whose_queue_is_full() -> None:
    world = World(capacity=5, senders=1)
    for number in range(5):
        world.emit(note=f"n{number}")
    world.recorder.close()
    await asyncio.wait_for(world.start(), 5)
    assert len(world.events()) == 4
    assert world.recorder.dropped == 1


@pytest.mark.parametrize(
    ("fault", "dropped"),
    [
        ({"action": "refuse", "code": 403}, 1),
        ({"action": "error_before"}, 1),
        ({"action": "timeout_before"}, 1),
        # The namespace is being deleted: nobody misses the event.
        ({"action": "refuse", "code": 404, "reason": "NotFound"}, 0),
    ],
)
def test_a_lost_event_is_not_repeated_and_stops_nothing(fault: dict[str, Any], dropped: int) -> None:
    @in_virtual_time
    async def scenario() -> None:
        world = World()
        world.server.faults = Faults().add(**fault, resource="events", times=1)
        task = world.start()
        world.emit(note="lost")
        await asyncio.sleep(2)
        world.emit(note="sent")
        await asyncio.sleep(1)
        assert [event["note"] for event in world.events()] == ["sent"]
        assert world.recorder.dropped == dropped
        assert not task.done()
        task.cancel()

    scenario()


@in_virtual_time
async def test_events_that_nothing_folds_into_any_more_are_forgotten() -> None:
    world = World()
    task = world.start()
    world.emit(note="once")
    await asyncio.sleep(300)
    world.emit(note="later")
    world.recorder.forget_old()
    assert len(world.recorder._recent) == 2
    await asyncio.sleep(61)
    world.recorder.forget_old()
    assert [note for _, _, note in world.recorder._recent] == ["later"]
    world.emit(note="later")
    await asyncio.sleep(61)
    world.emit(note="later")
    await asyncio.sleep(1)
    assert world.requests() == (2, 2), "folding goes on"
    task.cancel()
