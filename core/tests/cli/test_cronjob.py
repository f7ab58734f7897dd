"""``kuberay why``, ``diff`` and ``render`` for RayCronJobs: when it starts next, why it starts nothing, what an edit does."""

from __future__ import annotations

import copy
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.cli.main import app
from kuberay.kube.client import Client
from kuberay_testkit.builders import build_group, build_rayjob
from typer.testing import CliRunner
from why_server import BORN, Manifest, Server

NOW = datetime(2024, 1, 1, 0, 10, tzinfo=UTC)


def build(**spec: Any) -> Manifest:
    template = build_rayjob(groups=[build_group("g", 1)])["spec"]
    body = {"schedule": "0 9 * * *", "timeZone": "Asia/Taipei", "jobTemplate": template, **spec}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": {"name": "night", "namespace": "lab"},
        "spec": {key: value for key, value in body.items() if value is not None},
    }


class CronServer(Server):
    """With a RayCronJob ``night``."""

    def cron(self, status: Manifest | None = None, **spec: Any) -> Manifest:
        body = build(**spec)
        body["metadata"] |= {"uid": "c1", "generation": 1, "creationTimestamp": BORN, "resourceVersion": "1"}
        if status is not None:
            body["status"] = {"observedGeneration": 1, **status}
        self.objects["raycronjobs"] = [body]
        return body

    def started(self, start: str, **status: Any) -> None:
        owner = {"apiVersion": "ray.io/v1", "kind": "RayCronJob", "name": "night", "uid": "c1", "controller": True}
        number = len(self.objects["rayjobs"])
        metadata = {"name": f"night-{number}", "namespace": "lab", "uid": f"j{number}", "creationTimestamp": start}
        annotations = {"ray.io/cronjob-scheduled-timestamp": start}
        self.objects["rayjobs"].append(
            {
                "metadata": {**metadata, "annotations": annotations, "ownerReferences": [owner]},
                "spec": {},
                "status": status,
            }
        )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:  # type: ignore[override]
            return NOW

    for module in ("why", "diff", "render"):
        monkeypatch.setattr(f"kuberay.cli.{module}.datetime", Clock)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, clock: None) -> CronServer:
    server = CronServer()

    @asynccontextmanager
    async def reach(kubeconfig: str, context: str) -> AsyncIterator[tuple[Client, str]]:
        yield Client(server), "lab"  # type: ignore[arg-type]

    monkeypatch.setattr("kuberay.cli.why.reach", reach)
    return server


def why(*words: str) -> str:
    result = CliRunner().invoke(app, ["why", "raycronjob/night", *words])
    assert result.exit_code == 0, result.output
    return result.stdout


def told() -> Manifest:
    report: Manifest = json.loads(why("-o", "json"))
    return report


def reasons() -> list[str]:
    return [finding["reason"] for finding in told()["findings"]]


def test_why_one_that_waits_for_its_time(server: CronServer) -> None:
    server.cron({"lastScheduleTime": "2023-12-31T01:00:00Z", "nextScheduleTime": "2024-01-01T01:00:00Z"})
    failed = {"jobDeploymentStatus": "Failed", "reason": "AppFailed", "message": "a\nboom"}
    server.started("2023-12-30T01:00:00Z", **failed)
    done = {"jobDeploymentStatus": "Complete", "jobStatus": "SUCCEEDED", "endTime": "2023-12-31T01:30:00Z"}
    server.started("2023-12-31T01:00:00Z", **done)
    assert why().splitlines() == [
        "RayCronJob lab/night: waiting for its time",
        "The next start is 2024-01-01T01:00:00Z (Mon 2024-01-01 09:00 Asia/Taipei); the last one was "
        "2023-12-31T01:00:00Z (Sun 2023-12-31 09:00 Asia/Taipei).",
        "",
        "How far it is",
        "  RayJob night-1 (start of 2023-12-31T01:00:00Z): Complete, SUCCEEDED at 2023-12-31T01:30:00Z",
        "  RayJob night-0 (start of 2023-12-30T01:00:00Z): Failed: AppFailed: boom (kuberay why rayjob/night-0)",
        "",
        "What comes next, if nothing else happens",
        "  2024-01-01T01:00:00Z (in 50 min): start of RayJob night-28401180 (Mon 09:00 Asia/Taipei)",
        "  2024-01-02T01:00:00Z (in 1 d): start of RayJob night-28402620 (Tue 09:00 Asia/Taipei)",
        "  2024-01-03T01:00:00Z (in 2 d): start of RayJob night-28404060 (Wed 09:00 Asia/Taipei)",
    ]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"schedule": "61 * * * *"}, "spec.schedule: invalid cron schedule"),
        ({"schedule": "CRON_TZ=Asia/Tokyo 0 0 * * *"}, "spec.schedule: cannot use TZ"),
        ({"timeZone": "Europe/Nowhere"}, "spec.timeZone: invalid time zone"),
    ],
)
def test_why_a_refused_one(server: CronServer, spec: Manifest, field: str) -> None:
    """CJ-05."""
    server.cron({}, **spec)
    report = told()
    assert report["state"] == "refused"
    assert report["findings"][0]["what"].startswith(field)
    assert report["ahead"] == []


def test_why_a_suspended_one(server: CronServer) -> None:
    body = server.cron({"lastScheduleTime": BORN}, suspend=True)
    body["metadata"]["managedFields"] = [
        {"manager": "kubectl-edit", "time": BORN, "fieldsV1": {"f:spec": {"f:suspend": {}}}}
    ]
    server.started(BORN, jobDeploymentStatus="Running")
    report = told()
    assert (report["state"], report["findings"]) == ("suspended", [])
    assert f"set by kubectl-edit at {BORN}" in report["summary"]
    assert "RayJobs that run go on: night-0." in report["summary"]


def test_why_a_start_waits_for_the_job_before(server: CronServer) -> None:
    server.cron({"lastScheduleTime": BORN}, schedule="*/5 * * * *", concurrencyPolicy="Forbid")
    server.started(BORN, jobDeploymentStatus="Running")
    (finding,) = told()["findings"]
    assert (finding["reason"], finding["since"]) == ("JobAlreadyActive", "2024-01-01T00:10:00Z")
    assert "concurrencyPolicy is Forbid and night-0 has not ended" in finding["what"]
    assert "delete the RayJob that still runs" in finding["advice"]


@pytest.mark.parametrize(("reason", "lasting"), [("NameTaken", "terminal"), ("Forbidden", "transient")])
def test_why_a_start_is_delayed_as_the_operator_says(server: CronServer, reason: str, lasting: str) -> None:
    delayed = {"type": "StartDelayed", "status": "True", "reason": reason, "message": "it cannot"}
    server.cron(
        {"lastScheduleTime": BORN, "conditions": [{**delayed, "lastTransitionTime": BORN}]}, schedule="*/5 * * * *"
    )
    report = told()
    assert report["state"] == "start delayed"
    assert [(f["what"], f["reason"], f["lasting"], f["since"]) for f in report["findings"]] == [
        ("it cannot", reason, lasting, BORN)
    ]


def test_why_a_start_was_missed_by_too_much(server: CronServer) -> None:
    server.cron({"lastScheduleTime": "2023-12-30T01:00:00Z"}, startingDeadlineSeconds=60)
    assert reasons() == ["DeadlineMissed"]


def test_why_nobody_looks(server: CronServer) -> None:
    server.cron()
    (finding,) = told()["findings"]
    assert finding["reason"] == "NotObserved"
    assert "--feature-gates=RayCronJob=true" in finding["advice"]
    server.cron({"lastScheduleTime": "2023-12-31T01:00:00Z"}, schedule="*/3 * * * *")
    (finding,) = told()["findings"]
    assert finding["what"].startswith("The start of 2024-01-01T00:09:00Z has come, and no operator")


def test_why_what_cannot_be_read_is_said(server: CronServer) -> None:
    server.cron({"lastScheduleTime": "2023-12-31T01:00:00Z"})
    server.forbidden = {"rayjobs", "events"}
    assert [note.partition(" ")[0] for note in told()["notes"]] == ["rayjobs", "events"]


@pytest.fixture
def diff(tmp_path: Path, clock: None) -> Any:
    def _diff(old: Manifest, new: Manifest) -> Manifest:
        for name, body in (("old", old), ("new", new)):
            (tmp_path / name).write_text(yaml.safe_dump(body))
        files = ["diff", "-f", str(tmp_path / "new"), "--against", str(tmp_path / "old")]
        files += ["--feature-gates", "RayCronJob=true"]
        text = CliRunner().invoke(app, files)
        result = CliRunner().invoke(app, [*files, "-o", "json"])
        assert result.exit_code == text.exit_code, result.output
        (answer,) = json.loads(result.stdout)
        return {**answer, "text": text.stdout, "code": result.exit_code}

    return _diff


LATER_ONLY = "in RayJobs that start from now on; those that exist stay as they are"


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ({}, {"schedule": "0 10 * * *"}, "moves the next starts"),
        ({}, {"timeZone": "UTC"}, "moves the next starts"),
        ({}, {"suspend": True}, "nothing is started any more"),
        ({"suspend": True}, {}, "starts again"),
        ({}, {"jobTemplateMetadata": {"labels": {"a": "b"}}}, LATER_ONLY),
        ({}, {"concurrencyPolicy": "Forbid"}, "counts when a start comes while an earlier RayJob has not ended"),
        ({}, {"startingDeadlineSeconds": 5}, "counts when a start is missed"),
        ({}, {"failedJobsHistoryLimit": 5}, "counts when more RayJobs have failed than are to be kept"),
    ],
)
def test_what_one_field_does(diff: Any, old: Manifest, new: Manifest, sentence: str) -> None:
    told = diff(build(**old), build(**new))
    assert [change["sentence"] for change in told["changes"]] == [sentence]
    assert (told["code"], told["atOnce"]) == (0, [])


def test_starts_before_and_after(diff: Any) -> None:
    told = diff(build(), build(schedule="30 18 * * *"))
    assert told["nextStartsBefore"][0] == "2024-01-01T01:00:00Z"
    assert told["nextStartsAfter"] == ["2024-01-01T10:30:00Z", "2024-01-02T10:30:00Z", "2024-01-03T10:30:00Z"]
    assert "next starts after: 2024-01-01T10:30:00Z (Mon 18:30 Asia/Taipei)" in told["text"]
    assert told["text"].startswith("RayCronJob lab/night: moves the next starts; RayJobs that exist stay as they are\n")


def test_the_template_counts_for_later_starts(diff: Any) -> None:
    new = build()
    new["spec"]["jobTemplate"] = {**copy.deepcopy(new["spec"]["jobTemplate"]), "entrypoint": "python b.py"}
    told = diff(build(), new)
    assert [(change["field"], change["sentence"]) for change in told["changes"]] == [
        ("spec.jobTemplate.entrypoint", LATER_ONLY)
    ]


def test_resuming_makes_up_for_one_missed_start(diff: Any) -> None:
    """CJ-02."""
    old, new = build(suspend=True), build()
    for body in (old, new):
        body["metadata"]["creationTimestamp"] = "2023-12-01T00:00:00Z"
        body["status"] = {"lastScheduleTime": "2023-12-29T01:00:00Z"}
    told = diff(old, new)
    assert [what for what in told["atOnce"] if what.endswith("is made")] == ["RayJob night-28399740 is made"]


def test_a_refused_edit(diff: Any) -> None:
    told = diff(build(), build(schedule="61 * * * *"))
    assert (told["code"], [problem["field"] for problem in told["problems"]]) == (1, ["spec.schedule"])


def test_no_change_and_not_there(diff: Any) -> None:
    assert diff(build(), build())["text"] == "RayCronJob lab/night: no change\n"
    other = build()
    other["metadata"]["name"] = "other"
    fresh = diff(other, build())
    assert (fresh["exists"], fresh["nextStartsAfter"][0]) == (False, "2024-01-01T01:00:00Z")


def test_render_is_the_next_rayjob_with_its_children(tmp_path: Path, clock: None) -> None:
    path = tmp_path / "cron.yaml"
    path.write_text(yaml.safe_dump(build()))
    result = CliRunner().invoke(app, ["render", "-f", str(path), "--feature-gates", "RayCronJob=true"])
    assert (result.exit_code, result.stderr) == (0, "")
    made = list(yaml.safe_load_all(result.stdout))
    assert [child["kind"] for child in made] == ["RayJob", "RayCluster", "Service", "Pod", "Pod", "Job", "Service"]
    assert made[0]["metadata"]["name"] == "night-28401180"
    assert made[0]["metadata"]["annotations"]["ray.io/cronjob-scheduled-timestamp"] == "2024-01-01T01:00:00Z"
    off = CliRunner().invoke(app, ["render", "-f", str(path)])
    assert (off.exit_code, off.stderr) == (
        1,
        "kuberay: RayCronJobs are served only with the feature gate RayCronJob: --feature-gates=RayCronJob=true.\n",
    )
