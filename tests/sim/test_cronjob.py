"""RayCronJobs on the real runtime: starts on time, kills at every request, clocks that jump, a day away, and the policies."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from boundaries import Kills
from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.api.kinds import EVENT, RAYCLUSTER, RAYCRONJOB, RAYJOB
from kuberay.api.names import ANNOTATION_SCHEDULED_TIMESTAMP
from kuberay_testkit.builders import build_raycronjob
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.invariants import one_cluster_per_job, watch_over
from kuberay_testkit.sim.operator import RayWorld, SimOperator, operator_rules
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.users import NAMESPACE

GATES = {**DEFAULT_GATES, CRON_JOB: True}
DAY = 24 * 3600.0
PARKED = {"suspend": True, "shutdownAfterJobFinishes": True}
"""A RayJob that never begins: these tests are about when it is made."""


def create(world: RayWorld, schedule: str, *, template: dict[str, Any] | None = None, **spec: Any) -> None:
    world.server.create(build_raycronjob("cron", schedule, namespace=NAMESPACE, template=template or PARKED, **spec))


def edit(world: RayWorld, **spec: Any) -> None:
    world.server.patch(RAYCRONJOB, NAMESPACE, "cron", {"spec": spec})


def jobs(world: RayWorld) -> list[str]:
    return sorted(job["metadata"]["name"] for job in world.server.objects(RAYJOB, NAMESPACE))


def status(world: RayWorld) -> dict[str, Any]:
    cron = world.server.peek(RAYCRONJOB, NAMESPACE, "cron")
    assert cron is not None
    found: dict[str, Any] = cron.get("status") or {}
    return found


def told(world: RayWorld) -> list[str]:
    events = world.server.objects(EVENT, NAMESPACE)
    return sorted(e["reason"] for e in events if e["regarding"]["kind"] == "RayCronJob")


class OneJobPerStart:
    """Over the whole story, deleted ones included."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def __call__(self, _server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind != RAYJOB or change.type != "ADDED":
            return
        start = stored.metadata["annotations"][ANNOTATION_SCHEDULED_TIMESTAMP]
        assert start not in self.made, f"a second RayJob for {start}"
        self.made[start] = stored.uid


def test_it_starts_on_time_and_rests_for_free() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            watch_over(world, memory=60.0)
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(world, "0 3 * * *")
            await world.pass_time(60)
            assert await operator.idle_calls(3 * 3600 - 120) == []
            assert jobs(world) == []
            await world.pass_time(61)
            assert len(jobs(world)) == 1
            job = world.server.objects(RAYJOB, NAMESPACE)[0]
            assert job["metadata"]["annotations"][ANNOTATION_SCHEDULED_TIMESTAMP] == "2026-01-01T03:00:00Z"
            assert job["metadata"]["creationTimestamp"] in ("2026-01-01T03:00:00Z", "2026-01-01T03:00:01Z")
            assert status(world)["nextScheduleTime"] == "2026-01-02T03:00:00Z"
            assert await operator.idle_calls(20 * 3600) == []
            assert told(world) == ["CreatedRayJob"]

    run_sim(run, seed=1, limit=2 * DAY)


def test_with_the_gate_off_nothing_is_watched() -> None:
    """The CRD may be missing then."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            create(world, "* * * * *")
            await world.pass_time(150)
            assert (jobs(world), status(world)) == ([], {})
            assert [call for call in operator.calls() if call.resource == "raycronjobs"] == []

    run_sim(run, seed=1)


def story(crash_at: int | None) -> tuple[list[str], dict[str, Any], int]:
    """Two starts with Replace and history limits, and a kill at *crash_at*."""

    async def run() -> tuple[list[str], dict[str, Any], int]:
        async with RayWorld(seed=1) as world:
            world.always(OneJobPerStart())
            world.server.restrict("operator", operator_rules())
            operator = SimOperator(world=world, gates=GATES)
            process = operator.start(crash_at=crash_at)
            create(world, "*/2 * * * *", concurrencyPolicy="Replace")
            for seconds in (65, 65, 65, 65, 5, 100):
                if seconds == 100:
                    edit(world, suspend=True)
                await world.pass_time(seconds)
                if process.transport.crashed.is_set() and operator.process is process:
                    await operator.kill()
                    operator.start()
            await world.rest(quiet=100)
            found = {key: value for key, value in status(world).items() if key != "conditions"}
            return jobs(world), found, process.transport.boundaries

    return run_sim(run, seed=1)


@functools.cache
def undisturbed() -> tuple[list[str], dict[str, Any], int]:
    return story(None)


def test_cj01_killed_at_any_boundary_it_ends_the_same(kills: Kills) -> None:
    """CJ-01: between the create and the status write above all."""
    expected_jobs, expected_status, boundaries = undisturbed()
    assert len(expected_jobs) == 1
    for boundary in kills(boundaries):
        found_jobs, found_status, _ = story(boundary)
        assert (found_jobs, found_status) == (expected_jobs, expected_status), f"killed at boundary {boundary}"


def test_cj01_failing_requests_double_nothing(seed: int) -> None:
    """CJ-01: lost answers, conflicts and errors after the commit."""

    async def run() -> None:
        faults = Faults.mixture(seed, intensity=0.2, client="operator")
        async with RayWorld(seed=seed, faults=faults) as world:
            seen = OneJobPerStart()
            world.always(seen)
            world.always(one_cluster_per_job)
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(world, "* * * * *")
            await world.pass_time(600)
            world.server.faults.stop()
            await world.pass_time(130)
            edit(world, suspend=True)
            await world.rest(quiet=100)
            assert max(seen.made) == status(world)["lastScheduleTime"]
            assert len(seen.made) >= 2
            assert await operator.idle_calls() == []

    run_sim(run, seed=seed)


@pytest.mark.parametrize("how", ["away", "suspended"])
def test_cj02_a_day_missed_is_one_job(how: str) -> None:
    """CJ-02: KubeRay makes 1,440 RayJobs with as many clusters."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(world, "* * * * *", suspend=how == "suspended")
            await world.pass_time(30)
            if how == "away":
                await operator.kill()
            await world.pass_time(DAY)
            operator.start() if how == "away" else edit(world, suspend=False)
            await world.pass_time(20)
            assert len(jobs(world)) == 1
            assert status(world)["lastScheduleTime"] == "2026-01-02T00:00:00Z"
            assert told(world).count("MissedSchedule") == 1

    run_sim(run, seed=1, limit=2 * DAY)


def test_a_clock_set_forward_is_a_missed_start_and_set_back_no_second_one() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            seen = OneJobPerStart()
            world.always(seen)
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(world, "0 * * * *")
            await world.pass_time(60)
            world.server.clock.advance(3 * 3600 + 600)
            await world.pass_time(660)
            assert list(seen.made) == ["2026-01-01T03:00:00Z"]
            world.server.clock.advance(-3 * 3600)
            await world.pass_time(3 * 3600 - 1200)
            assert list(seen.made) == ["2026-01-01T03:00:00Z"]
            await world.pass_time(3600 + 1200)
            assert list(seen.made) == ["2026-01-01T03:00:00Z", "2026-01-01T04:00:00Z"]

    run_sim(run, seed=1)


def test_forbid_starts_when_the_one_before_has_ended() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(world, "* * * * *", concurrencyPolicy="Forbid")
            await world.pass_time(200)
            first = jobs(world)
            assert len(first) == 1
            assert "StartDelayed" in {c["type"] for c in status(world)["conditions"]}
            world.server.delete(RAYJOB, NAMESPACE, first[0])
            await world.pass_time(20)
            assert len(jobs(world)) == 1
            assert jobs(world) != first
            assert status(world)["active"] == jobs(world)
            assert "StartDelayed" not in {c["type"] for c in status(world)["conditions"]}

    run_sim(run, seed=1)


def test_replace_gives_way_to_the_next_one() -> None:
    async def run() -> None:
        async with RayWorld(seed=1, outcome=lambda _job: "RUNNING") as world:
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(world, "*/5 * * * *", template={"shutdownAfterJobFinishes": True}, concurrencyPolicy="Replace")
            await world.pass_time(301)
            first = jobs(world)
            await world.pass_time(400)
            assert len(first) == len(jobs(world)) == 1
            assert jobs(world) != first
            assert len(world.server.objects(RAYCLUSTER, NAMESPACE)) == 1
            assert "DeletedRayJob" in told(world)

    run_sim(run, seed=1)


def test_history_keeps_the_newest() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            world.server.restrict("operator", operator_rules())
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(
                world,
                "*/5 * * * *",
                template={"shutdownAfterJobFinishes": True},
                successfulJobsHistoryLimit=2,
            )
            await world.pass_time(24 * 60)
            edit(world, suspend=True)
            await world.rest(quiet=100)
            starts = [
                job["metadata"]["annotations"][ANNOTATION_SCHEDULED_TIMESTAMP]
                for job in world.server.objects(RAYJOB, NAMESPACE)
            ]
            assert sorted(starts) == ["2026-01-01T00:15:00Z", "2026-01-01T00:20:00Z"]
            assert "active" not in status(world)
            assert status(world)["lastSuccessfulTime"] > "2026-01-01T00:20:00Z"
            assert await operator.idle_calls() == []

    run_sim(run, seed=1)


def test_deleted_its_jobs_go_with_it() -> None:
    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(world, "* * * * *", template={"shutdownAfterJobFinishes": True})
            await world.pass_time(150)
            assert len(jobs(world)) == 2
            world.server.delete(RAYCRONJOB, NAMESPACE, "cron")
            await world.rest(quiet=100)
            assert (jobs(world), world.server.objects(RAYCLUSTER, NAMESPACE)) == ([], [])
            assert await operator.idle_calls() == []

    run_sim(run, seed=1)


def test_cj05_a_bad_edit_of_a_live_one() -> None:
    """CJ-05: event and condition; what runs goes on; the corrected schedule is followed."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world, gates=GATES)
            operator.start()
            create(world, "* * * * *")
            await world.pass_time(70)
            edit(world, schedule="every now and then")
            await world.pass_time(200)
            assert len(jobs(world)) == 1
            assert told(world) == ["CreatedRayJob", "InvalidRayCronJobSpec"]
            assert await operator.idle_calls() == []
            edit(world, schedule="@every 4s", suspend=None)
            await world.pass_time(3)
            assert len(jobs(world)) > 1

    run_sim(run, seed=1)
