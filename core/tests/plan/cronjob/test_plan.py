"""What a pass over a RayCronJob does (spec rayjob.md 5.2, 5.3, 8.7; cases CJ-01, CJ-02, CJ-03, CJ-05)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from kuberay.api.times import parse_time

MakeWorld = Callable[..., Any]
NS = "default"
START = datetime(2024, 1, 1, tzinfo=UTC)
FIRST, SECOND = "cron-28401125", "cron-28401130"  # 00:05 and 00:10


def test_149_invalid_schedule(world: MakeWorld) -> None:
    """8.7 row 149."""
    w = world("every tuesday").at("2024-01-01T00:05:30Z")
    plan = w.settle()
    assert (plan.stages, plan.requeue_after) == ([], None)
    assert w.told == [
        (
            "InvalidRayCronJobSpec",
            f"{NS}/cron: invalid cron schedule: expected exactly 5 fields, found 2: [every tuesday]",
        )
    ]
    event = w.events[0]
    assert (event.type, event.action, event.field_path) == ("Warning", "Validate", "spec.schedule")
    assert w.conditions["Accepted"][:2] == ("False", "Invalid")
    assert w.conditions["Accepted"][2].startswith("spec.schedule: ")


def test_150_151_153_first_start(world: MakeWorld) -> None:
    """8.7 rows 150, 151 and 153."""
    w = world().at("2024-01-01T00:05:30Z")
    plan = w.settle()
    assert plan.requeue_after == timedelta(minutes=4, seconds=30)
    assert w.status["lastScheduleTime"] == "2024-01-01T00:05:00Z"
    assert list(w.jobs) == [FIRST]
    job = w.jobs[FIRST]
    assert job["metadata"]["labels"] == {"ray.io/cronjob-name": "cron"}
    assert job["metadata"]["annotations"] == {"ray.io/cronjob-scheduled-timestamp": "2024-01-01T00:05:00Z"}
    assert job["spec"] == w.cron["spec"]["jobTemplate"]
    assert job["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "ray.io/v1",
            "kind": "RayCronJob",
            "name": "cron",
            "uid": "cron-uid",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    w.at("2024-01-01T00:10:00Z").settle()
    assert list(w.jobs) == [FIRST, SECOND]
    assert w.status["active"] == [FIRST, SECOND]


def test_151_last_start_on_record(world: MakeWorld) -> None:
    """8.7 row 151: as KubeRay left it."""
    w = world(status={"lastScheduleTime": "2024-01-01T00:00:00Z"}).at("2024-01-01T00:05:30Z")
    assert w.settle().requeue_after == timedelta(minutes=4, seconds=30)
    assert w.created == [FIRST]


def test_152_suspended(world: MakeWorld) -> None:
    """8.7 row 152; told once, and again when it is suspended again."""
    w = world(suspend=True).at("2024-01-01T00:05:30Z")
    plan = w.settle()
    assert (plan.requeue_after, w.jobs, w.status.get("nextScheduleTime")) == (None, {}, None)
    note = "RayCronJob suspended, no new RayJobs will be created"
    assert [(e.type, e.reason, e.note, e.action) for e in w.events] == [
        ("Normal", "SuspendedRayCronJob", note, "Suspend")
    ]
    w.events.clear()
    w.settle()
    assert w.events == []
    w.edit(suspend=False)
    w.settle()
    assert "Suspended" not in w.conditions
    w.edit(suspend=True)
    w.settle()
    assert [e.reason for e in w.events if e.reason == "SuspendedRayCronJob"] == ["SuspendedRayCronJob"]


def test_cj01_154_one_start_one_job(world: MakeWorld) -> None:
    """CJ-01 and 8.7 row 154: the status write is lost, the next pass takes the RayJob for done and the time advances."""
    w = world().at("2024-01-01T00:05:30Z")
    w.lose_status = True
    with pytest.raises(SystemExit):
        w.run()
    assert (w.created, w.status) == ([FIRST], {})
    w.lose_status = False
    w.at("2024-01-01T00:06:00Z").settle()
    assert (w.created, w.status["lastScheduleTime"]) == ([FIRST], "2024-01-01T00:05:00Z")


@pytest.mark.parametrize("spec", [{"suspend": True}, {"schedule": "never"}, {"schedule": "@every 90s"}])
def test_cj01_edited_before_the_status_was_written(world: MakeWorld, spec: dict[str, Any]) -> None:
    """CJ-01: what was made counts, whatever the object says by the time its status can be written."""
    w = world("* * * * *").at("2024-01-01T00:05:30Z")
    w.lose_status = True
    with pytest.raises(SystemExit):
        w.run()
    w.lose_status = False
    w.edit(**spec)
    w.settle()
    assert (w.created, w.status["lastScheduleTime"]) == ([FIRST], "2024-01-01T00:05:00Z")


def test_cj02_missed_starts_are_told_although_a_status_was_lost(world: MakeWorld) -> None:
    """CJ-02: and what was made is none of them."""
    w = world().at("2024-01-01T00:17:00Z")
    w.lose_status = True
    with pytest.raises(SystemExit):
        w.run()
    w.events.clear()
    w.lose_status = False
    w.at("2024-01-01T00:27:00Z").settle()
    assert w.created == ["cron-28401135", "cron-28401145"]
    several, one = (e.note for e in w.events if e.reason == "MissedSchedule")
    assert several.startswith("2 starts from 2024-01-01T00:05:00Z on were missed and are given up for the latest one, ")
    assert one.startswith("the start of 2024-01-01T00:20:00Z was missed and is given up for the latest one, ")


def test_an_annotation_that_was_tampered_with_says_nothing(world: MakeWorld) -> None:
    w = world().at("2024-01-01T00:05:00Z")
    w.settle()
    w.jobs[FIRST]["metadata"]["annotations"]["ray.io/cronjob-scheduled-timestamp"] = "2099-01-01T00:00:00Z"
    w.at("2024-01-01T00:10:00Z").settle()
    assert (w.created, w.status["lastScheduleTime"]) == ([FIRST, SECOND], "2024-01-01T00:10:00Z")


@pytest.mark.parametrize("schedule", ["0 0 29 2 *", "@every 2000000h"])
@pytest.mark.parametrize("last", ["9999-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "soon"])
def test_no_status_breaks_it(world: MakeWorld, schedule: str, last: str) -> None:
    w = world(schedule, status={"lastScheduleTime": last}).at("2024-01-01T00:05:00Z")
    assert w.settle().requeue_after > timedelta(0)
    assert w.settle().status is None


def test_cj01_somebody_elses_job_of_that_name(world: MakeWorld) -> None:
    """CJ-01: told by event and condition, never adopted; the next start has another name."""
    w = world()
    foreign: dict[str, Any] = {"metadata": {"name": FIRST, "namespace": NS, "uid": "other"}, "spec": {}}
    w.jobs[FIRST] = foreign
    plan = w.at("2024-01-01T00:05:00Z").settle()
    assert (w.created, w.status.get("lastScheduleTime"), plan.requeue_after) == ([], None, timedelta(minutes=5))
    assert w.conditions["StartDelayed"][:2] == ("True", "NameTaken")
    assert [(e.type, e.reason) for e in w.events] == [("Warning", "NameTaken")]
    assert "active" not in w.status
    w.at("2024-01-01T00:10:00Z").settle()
    assert (w.created, "StartDelayed" in w.conditions) == ([SECOND], False)
    assert w.jobs[FIRST] is foreign


@pytest.mark.parametrize("how", ["suspended", "away"])
def test_cj02_a_day_of_missed_starts_is_one_job(world: MakeWorld, how: str) -> None:
    """CJ-02: the latest one; the older ones are skipped with one event."""
    w = world("* * * * *", status={"lastScheduleTime": "2024-01-01T00:00:00Z"}, suspend=how == "suspended")
    if how == "suspended":
        w.at("2024-01-02T00:00:20Z").settle()
        w.edit(suspend=False)
    w.at("2024-01-02T00:00:30Z").settle()
    assert w.created == ["cron-28402560"]
    assert w.status["lastScheduleTime"] == "2024-01-02T00:00:00Z"
    missed = [(e.type, e.note) for e in w.events if e.reason == "MissedSchedule"]
    assert missed == [
        (
            "Warning",
            "more than 99 starts from 2024-01-01T00:01:00Z on were missed and are given up for the latest one, "
            "2024-01-02T00:00:00Z",
        )
    ]
    assert w.at("2024-01-02T00:00:40Z").settle().requeue_after == timedelta(seconds=20)
    assert len(w.created) == 1


def test_cj02_a_late_start_alone_is_no_missed_one(world: MakeWorld) -> None:
    w = world().at("2024-01-01T00:09:59Z")
    w.settle()
    assert (w.created, [e.reason for e in w.events]) == ([FIRST], ["CreatedRayJob"])


@pytest.mark.parametrize(
    ("deadline", "now", "made"),
    [
        (30, "2024-01-01T00:05:30Z", True),
        (30, "2024-01-01T00:05:31Z", False),
        (0, "2024-01-01T00:05:00Z", True),
        (10**18, "2024-01-01T00:09:00Z", True),
    ],
)
def test_cj02_starting_deadline(world: MakeWorld, deadline: int, now: str, made: bool) -> None:
    """CJ-02: an optional deadline suppresses even the latest one."""
    w = world(startingDeadlineSeconds=deadline).at(now)
    plan = w.settle()
    assert bool(w.created) == made
    assert w.status["lastScheduleTime"] == "2024-01-01T00:05:00Z"
    assert ("MissedSchedule" in [e.reason for e in w.events]) == (not made)
    assert plan.requeue_after == parse_time("2024-01-01T00:10:00Z") - w.now


def test_cj03_labels_and_annotations(world: MakeWorld) -> None:
    """CJ-03: queue, gang and priority labels reach the RayJobs; marks of deployment tools do not."""
    w = world(
        labels={
            "kueue.x-k8s.io/queue-name": "team-q",
            "ray.io/priority-class-name": "high",
            "ray.io/gang-scheduling-enabled": "true",
            "team": "blue",
            "app.kubernetes.io/name": "trainer",
            "app.kubernetes.io/managed-by": "Helm",
            "app.kubernetes.io/instance": "release",
            "ray.io/cronjob-name": "forged",
            "ray.io/originated-from-cr-name": "forged",
        },
        annotations={
            "memo": "x",
            "ray.io/overwrite-container-cmd": "true",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "argocd.argoproj.io/tracking-id": "t",
            "meta.helm.sh/release-name": "r",
            "ray.io/cronjob-scheduled-timestamp": "forged",
        },
        jobTemplateMetadata={
            "labels": {"team": "red", "app.kubernetes.io/managed-by": "us", "ray.io/cronjob-name": "forged"},
            "annotations": {"memo": "y", "ray.io/cronjob-scheduled-timestamp": "forged"},
        },
    ).at("2024-01-01T00:05:00Z")
    w.settle()
    assert w.jobs[FIRST]["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "team-q",
        "ray.io/priority-class-name": "high",
        "ray.io/gang-scheduling-enabled": "true",
        "team": "red",
        "app.kubernetes.io/name": "trainer",
        "app.kubernetes.io/managed-by": "us",
        "ray.io/cronjob-name": "cron",
    }
    assert w.jobs[FIRST]["metadata"]["annotations"] == {
        "memo": "y",
        "ray.io/overwrite-container-cmd": "true",
        "ray.io/cronjob-scheduled-timestamp": "2024-01-01T00:05:00Z",
    }


def test_cj05_a_bad_edit_touches_nothing_and_a_good_one_goes_on(world: MakeWorld) -> None:
    """CJ-05: one event per reason."""
    w = world().at("2024-01-01T00:05:00Z")
    w.settle()
    w.events.clear()
    w.edit(schedule="every now and then")
    for now in ("2024-01-01T00:06:00Z", "2024-01-01T00:10:00Z"):
        assert w.at(now).settle().requeue_after is None
    assert [e.reason for e in w.events] == ["InvalidRayCronJobSpec"]
    assert (list(w.jobs), w.status["active"], w.deleted) == ([FIRST], [FIRST], [])
    assert w.status["lastScheduleTime"] == "2024-01-01T00:05:00Z"
    w.edit(schedule="@every 4s")
    w.at("2024-01-01T00:10:01Z").settle()
    assert w.conditions["Accepted"][:2] == ("True", "Valid")
    assert w.created == [FIRST, "cron-28401130"]


def test_malformed_specs_are_refused_too(world: MakeWorld) -> None:
    w = world(startingDeadlineSeconds="soon").at("2024-01-01T00:05:00Z")
    w.settle()
    assert (w.created, w.conditions["Accepted"][0]) == ([], "False")


def test_155_zones(world: MakeWorld) -> None:
    """8.7 row 155, by what comes of it: the schedule's zone, else the operator's own."""
    w = world("0 9 * * *", timeZone="Asia/Taipei")
    w.zone = ZoneInfo("Europe/Berlin")
    w.settle()
    assert w.status["nextScheduleTime"] == "2024-01-01T01:00:00Z"
    del w.cron["spec"]["timeZone"]
    w.settle()
    assert w.status["nextScheduleTime"] == "2024-01-01T08:00:00Z"


def test_starts_within_a_minute_each_have_a_name(world: MakeWorld) -> None:
    """KubeRay swallows the second; a start on the full minute keeps KubeRay's name."""
    w = world("@every 30s")
    for now in ("00:00:30", "00:01:00", "00:01:30"):
        w.at(f"2024-01-01T{now}Z").settle()
    assert w.created == ["cron-1704067230", "cron-28401121", "cron-1704067290"]
    assert max(map(len, w.created)) <= 4 + 11


def test_forbid_waits_for_the_end(world: MakeWorld) -> None:
    w = world(concurrencyPolicy="Forbid")
    w.at("2024-01-01T00:05:00Z").settle()
    plan = w.at("2024-01-01T00:10:00Z").settle()
    assert (w.created, plan.requeue_after) == ([FIRST], timedelta(minutes=5))
    assert w.status["lastScheduleTime"] == "2024-01-01T00:05:00Z"
    assert w.conditions["StartDelayed"] == (
        "True",
        "JobAlreadyActive",
        f"the start of 2024-01-01T00:10:00Z waits: concurrencyPolicy is Forbid and {FIRST} has not ended",
    )
    assert plan.waiting == w.conditions["StartDelayed"][2]
    before = w.statuses
    w.at("2024-01-01T00:12:00Z").settle()
    assert w.statuses == before
    assert [e.reason for e in w.events] == ["CreatedRayJob", "JobAlreadyActive"]
    w.end(FIRST)
    w.settle()
    assert (w.created, "StartDelayed" in w.conditions) == ([FIRST, SECOND], False)
    assert w.status["lastSuccessfulTime"] == "2024-01-01T00:12:00Z"
    assert w.status["active"] == [SECOND]


def test_forbid_and_the_deadline(world: MakeWorld) -> None:
    w = world(concurrencyPolicy="Forbid", startingDeadlineSeconds=60)
    w.at("2024-01-01T00:05:00Z").settle()
    assert w.at("2024-01-01T00:10:00Z").settle().requeue_after == timedelta(seconds=61)
    w.at("2024-01-01T00:11:01Z").settle()
    assert (w.status["lastScheduleTime"], "StartDelayed" in w.conditions) == ("2024-01-01T00:10:00Z", False)
    w.end(FIRST)
    w.at("2024-01-01T00:12:00Z").settle()
    assert w.created == [FIRST]


@pytest.mark.parametrize("state", ["Complete", "Failed", "ValidationFailed"])
def test_what_has_ended_holds_nothing_back(world: MakeWorld, state: str) -> None:
    w = world(concurrencyPolicy="Forbid")
    w.at("2024-01-01T00:05:00Z").settle()
    w.end(FIRST, state, "")
    w.at("2024-01-01T00:10:00Z").settle()
    assert w.created == [FIRST, SECOND]


def test_replace_deletes_first_and_does_not_wait(world: MakeWorld) -> None:
    w = world(concurrencyPolicy="Replace")
    w.at("2024-01-01T00:05:00Z").settle()
    w.at("2024-01-01T00:10:00Z")
    stages = w._plan().stages
    assert [[type(write).__name__ for write in stage] for stage in stages] == [["Delete"], ["Create"]]
    w.settle()
    assert (w.created, w.deleted, list(w.jobs)) == ([FIRST, SECOND], [FIRST], [SECOND])
    # One that is going already is not deleted again.
    w.jobs[SECOND]["metadata"]["deletionTimestamp"] = "2024-01-01T00:11:00Z"
    w.at("2024-01-01T00:15:00Z").settle()
    assert w.deleted == [FIRST]


def test_allow_lets_them_run_side_by_side(world: MakeWorld) -> None:
    w = world()
    for minute in (5, 10, 15):
        w.at(f"2024-01-01T00:{minute:02}:00Z").settle()
    assert (len(w.jobs), w.deleted) == (3, [])


def test_history_limits(world: MakeWorld) -> None:
    w = world(successfulJobsHistoryLimit=1, failedJobsHistoryLimit=0)
    for minute in (5, 10, 15, 20):
        w.at(f"2024-01-01T00:{minute:02}:00Z").settle()
        w.end(w.created[-1], *(("Failed", "FAILED") if minute == 10 else ("Complete", "SUCCEEDED")))
        w.settle()
    assert list(w.jobs) == [w.created[-1]]
    assert w.deleted == [SECOND, FIRST, w.created[2]]
    assert "beyond failedJobsHistoryLimit" in dict(w.told)["DeletedRayJob"] or any(
        "beyond failedJobsHistoryLimit" in note for _, note in w.told
    )


def test_without_limits_all_are_kept(world: MakeWorld) -> None:
    w = world()
    for minute in range(5, 60, 5):
        w.at(f"2024-01-01T00:{minute:02}:00Z").settle()
        w.end(w.created[-1])
    w.settle()
    assert (len(w.jobs), w.deleted) == (11, [])


def test_history_keeps_what_the_status_does_not_know_yet(world: MakeWorld) -> None:
    """CJ-01: the RayJob is the only trace of its start."""
    w = world(successfulJobsHistoryLimit=0, status={"lastScheduleTime": "2024-01-01T00:00:00Z"})
    w.at("2024-01-01T00:05:00Z").lose_status = True
    with pytest.raises(SystemExit):
        w.run()
    w.end(FIRST)
    with pytest.raises(SystemExit):
        w.run()
    assert w.deleted == []
    w.lose_status = False
    w.settle()
    assert (w.created, w.deleted) == ([FIRST], [FIRST])
    w.at("2024-01-01T00:06:00Z").settle()
    assert w.created == [FIRST]


def test_others_jobs_are_not_counted(world: MakeWorld) -> None:
    w = world(concurrencyPolicy="Forbid", successfulJobsHistoryLimit=0)
    w.jobs["other"] = {
        "metadata": {"name": "other", "namespace": NS, "uid": "o", "labels": {"ray.io/cronjob-name": "cron"}},
        "spec": {},
    }
    w.at("2024-01-01T00:05:00Z").settle()
    assert (w.created, w.status["active"], w.deleted) == ([FIRST], [FIRST], [])


def test_a_refusing_api_server_is_told_and_tried_again(world: MakeWorld) -> None:
    w = world().at("2024-01-01T00:05:00Z")
    w.refuse = "exceeded quota: rayjobs"
    plan = w.run()
    assert plan.look_by == timedelta(minutes=5)
    assert w.conditions["StartDelayed"] == ("True", "Forbidden", f"RayJob {FIRST}: exceeded quota: rayjobs")
    assert (w.status.get("lastScheduleTime"), w.told) == (
        None,
        [("FailedToCreateRayJob", f"Failed to create RayJob {NS}/{FIRST}: exceeded quota: rayjobs")],
    )
    written = w.statuses
    w.run()
    assert w.statuses == written
    w.refuse = ""
    w.at("2024-01-01T00:06:00Z").settle()
    assert (w.created, "StartDelayed" in w.conditions) == ([FIRST], False)


def test_a_clock_set_back_starts_nothing_twice(world: MakeWorld) -> None:
    w = world().at("2024-01-01T00:10:00Z")
    w.settle()
    plan = w.at("2024-01-01T00:04:00Z").settle()
    assert plan.requeue_after == timedelta(minutes=11)
    for minute in range(4, 15):
        w.at(f"2024-01-01T00:{minute:02}:00Z").settle()
    assert w.created == [SECOND]
    w.at("2024-01-01T00:15:00Z").settle()
    assert len(w.created) == 2


def test_a_deleted_one_does_nothing(world: MakeWorld) -> None:
    w = world().at("2024-01-01T00:05:00Z")
    w.cron["metadata"]["deletionTimestamp"] = "2024-01-01T00:05:00Z"
    plan = w.run()
    assert (plan.stages, plan.status, plan.requeue_after, w.created) == ([], None, None, [])


def test_one_status_write_per_start_and_end(world: MakeWorld) -> None:
    w = world()
    w.settle()
    assert w.statuses == 1
    assert w.status == {
        "nextScheduleTime": "2024-01-01T00:05:00Z",
        "observedGeneration": 1,
        "conditions": [
            {
                "type": "Accepted",
                "status": "True",
                "reason": "Valid",
                "message": "the schedule and the template are fine",
                "lastTransitionTime": "2024-01-01T00:00:00Z",
                "observedGeneration": 1,
            }
        ],
    }
    for second in range(0, 300, 20):
        w.now = START + timedelta(seconds=second)
        w.run()
    assert w.statuses == 1
    w.at("2024-01-01T00:05:00Z").settle()
    assert w.statuses == 2
    w.end(FIRST)
    w.settle()
    assert w.statuses == 3


def test_template_edits_reach_later_starts_only(world: MakeWorld) -> None:
    w = world().at("2024-01-01T00:05:00Z")
    w.settle()
    w.edit(jobTemplate={**w.cron["spec"]["jobTemplate"], "entrypoint": "python b.py"})
    w.at("2024-01-01T00:10:00Z").settle()
    assert w.jobs[FIRST]["spec"]["entrypoint"] != w.jobs[SECOND]["spec"]["entrypoint"] == "python b.py"
