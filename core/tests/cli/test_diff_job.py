"""``kuberay diff`` for RayJobs: what an edit does now, when the job ends, and with the next attempt."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay.cli.main import app
from kuberay_testkit.builders import build_group, build_rayjob
from typer.testing import CliRunner

Manifest = dict[str, Any]

OLD = build_rayjob("j", groups=[build_group("g", 1)], submissionMode="K8sJobMode", shutdownAfterJobFinishes=True)
REPLICAS = "spec.rayClusterSpec.workerGroupSpecs[g].replicas"
STARTED = "2020-01-01T00:00:00Z"
"""Long ago: every limit that is given then has passed."""


@pytest.fixture
def diff(tmp_path: Path) -> Any:
    def _diff(old: Manifest, new: Manifest) -> Manifest:
        """The answer as JSON; ``text`` and ``code`` besides."""
        for name, body in (("old", old), ("new", new)):
            (tmp_path / name).write_text(yaml.safe_dump(body))
        files = ["diff", "-f", str(tmp_path / "new"), "--against", str(tmp_path / "old")]
        text = CliRunner().invoke(app, files)
        result = CliRunner().invoke(app, [*files, "-o", "json"])
        assert result.exit_code == text.exit_code, result.output
        (told,) = json.loads(re.sub(r"\bj-[a-z0-9]{5}\b", "j-xxxxx", result.stdout))
        return {**told, "text": text.stdout, "code": result.exit_code}

    return _diff


def edited(
    old: Manifest = OLD, *, replicas: int | None = None, status: Manifest | None = None, **spec: Any
) -> Manifest:
    new = copy.deepcopy(old)
    new["spec"].update(spec)
    if replicas is not None:
        new["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["replicas"] = replicas
    if status is not None:
        new["status"] = status
    return new


def sentences(told: Manifest) -> dict[str, str]:
    return {change["field"].removeprefix("spec."): change["sentence"] for change in told["changes"]}


def test_no_change(diff: Any) -> None:
    told = diff(OLD, edited(backoffLimit=0, ttlSecondsAfterFinished=0))
    assert told["text"] == "RayJob default/j: no change\n", "defaults are no change"


@pytest.mark.parametrize(
    ("new", "effect", "words"),
    [
        (edited(entrypoint="python b.py"), "next-attempt", "only after suspend and resume, since no retry is left"),
        (edited(submitterConfig={"backoffLimit": 5}), "next-attempt", "only after suspend and resume"),
        (edited(runtimeEnvYAML="pip: [x]"), "next-attempt", "only after suspend and resume"),
        (edited(submissionMode="HTTPMode"), "next-attempt", "only after suspend and resume"),
        (edited(ttlSecondsAfterFinished=60), "later", "RayCluster j-xxxxx is deleted 60 s later, not at once"),
        (
            edited(backoffLimit=2),
            "later",
            "if the job fails: the attempt fails (AppFailed) and is tried again, as attempt 2 of 3",
        ),
        (
            edited(shutdownAfterJobFinishes=False),
            "later",
            "when the job has succeeded: no more: RayCluster j-xxxxx is deleted",
        ),
    ],
)
def test_what_one_field_does_to_a_running_job(diff: Any, new: Manifest, effect: str, words: str) -> None:
    told = diff(OLD, new)
    (change,) = told["changes"]
    assert (change["effect"], told["atOnce"], told["code"]) == (effect, [], 0)
    assert words in change["sentence"]
    assert told["notes"][0] == "The file has no status: the first attempt is taken to be Running."


def test_a_field_that_changes_nothing(diff: Any) -> None:
    """What only the submitter is made from does not count where there is none."""
    old = edited(submissionMode="HTTPMode")
    told = diff(old, edited(old, submitterConfig={"backoffLimit": 5}))
    assert [(change["effect"], change["sentence"]) for change in told["changes"]] == [("nothing", "nothing")]


def test_raised_replicas_reach_the_running_cluster(diff: Any) -> None:
    """RJ-33, as this operator has it."""
    told = diff(OLD, edited(replicas=3))
    assert told["atOnce"] == ["RayCluster j-xxxxx: spec.workerGroupSpecs[g].replicas 1 -> 3"]
    assert sentences(told)["rayClusterSpec.workerGroupSpecs[g].replicas"].startswith("at once: RayCluster j-xxxxx")
    assert told["text"].startswith("RayJob default/j: changes something at once\n")


def test_what_does_not_reach_the_running_cluster_is_said(diff: Any) -> None:
    """RJ-33."""
    new = edited(backoffLimit=1)
    new["spec"]["rayClusterSpec"]["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["image"] = "x:y"
    told = diff(edited(backoffLimit=1), new)
    (change,) = told["changes"]
    assert change["effect"] == "next-attempt"
    assert change["sentence"] == (
        "with the next attempt, if this one fails or is suspended and resumed; what runs stays as it is"
    )
    assert any(note.startswith("The operator will warn: rayClusterSpec.workerGroupSpecs[g]") for note in told["notes"])
    assert told["text"].startswith("RayJob default/j: touches nothing that runs; counts from the next attempt on\n")


def test_suspending_takes_everything_down(diff: Any) -> None:
    told = diff(OLD, edited(suspend=True))
    assert "RayCluster j-xxxxx is deleted" in told["atOnce"]
    assert "Job j is deleted" in told["atOnce"]
    assert sentences(told)["suspend"].startswith("at once: the RayJob is suspended")


def test_two_fields_that_only_count_together(diff: Any) -> None:
    """Suspending needs shutdownAfterJobFinishes: both are told to do it."""
    old = edited(shutdownAfterJobFinishes=False)
    told = diff(old, edited(old, suspend=True, shutdownAfterJobFinishes=True))
    assert all("at once: the RayJob is suspended" in sentence for sentence in sentences(told).values())
    assert len(sentences(told)) == 2


def running(**spec: Any) -> Manifest:
    status = {
        "jobDeploymentStatus": "Running",
        "jobStatus": "RUNNING",
        "startTime": STARTED,
        "jobId": "j-abcde",
        "rayClusterName": "j-cluster",
        "dashboardURL": "j-cluster-head-svc.default.svc:8265",
    }
    return edited(
        status=status, clusterSelector={"ray.io/cluster": "j-cluster"}, shutdownAfterJobFinishes=False, **spec
    )


def test_a_deadline_that_has_passed_already_ends_the_job_at_once(diff: Any) -> None:
    told = diff(running(), running(activeDeadlineSeconds=3600))
    assert "the RayJob fails: DeadlineExceeded" in told["atOnce"]
    (change,) = told["changes"]
    assert change["effect"] == "at-once"
    assert not any("no status" in note for note in told["notes"])


def test_a_deadline_that_is_still_ahead(diff: Any) -> None:
    told = diff(running(), running(activeDeadlineSeconds=900_000_000))
    (change,) = told["changes"]
    assert (change["effect"], told["atOnce"]) == ("later", [])
    assert change["sentence"].startswith("at 2048-07-08T16:00:00Z: the RayJob fails: DeadlineExceeded")


@pytest.mark.parametrize(("ended", "effect"), [("Complete", "nothing"), ("Failed", "nothing")])
def test_a_job_that_has_ended(diff: Any, ended: str, effect: str) -> None:
    status = {"jobDeploymentStatus": ended, "jobStatus": "SUCCEEDED", "startTime": STARTED, "endTime": STARTED}
    old = edited(status=status, shutdownAfterJobFinishes=False)
    told = diff(old, edited(old, entrypoint="python b.py"))
    assert [(change["effect"], change["sentence"]) for change in told["changes"]] == [
        (effect, "nothing: the RayJob has ended")
    ]
    assert told["text"].startswith("RayJob default/j: changes nothing\n")


def test_a_suspended_job_takes_everything_when_it_resumes(diff: Any) -> None:
    old = edited(status={"jobDeploymentStatus": "Suspended", "startTime": STARTED}, suspend=True)
    told = diff(old, edited(old, replicas=5))
    assert sentences(told) == {"rayClusterSpec.workerGroupSpecs[g].replicas": "with the attempt that starts next"}
    resumed = diff(old, edited(old, suspend=False))
    assert "an attempt starts" in resumed["atOnce"]


@pytest.mark.parametrize(
    ("new", "field"),
    [
        (edited(backoffLimit=-1), "spec.backoffLimit"),
        (edited(nonsense=1), "spec.nonsense"),
        (edited(suspend=True, shutdownAfterJobFinishes=False), "spec.suspend"),
        (edited(managedBy="kueue.x-k8s.io/multikueue"), "spec.managedBy"),
    ],
)
def test_a_refused_edit_is_exit_code_1(diff: Any, new: Manifest, field: str) -> None:
    told = diff(edited(managedBy="ray.io/kuberay-operator"), new)
    if field != "spec.managedBy":
        told = diff(OLD, new)
    assert (told["code"], told["refused"]) == (1, True)
    assert field in [problem["field"] for problem in told["problems"]]
    assert {change["effect"] for change in told["changes"]} == {"refused"}


def test_one_that_is_not_there_yet(diff: Any) -> None:
    told = diff(build_rayjob("other"), OLD)
    assert (told["exists"], told["code"]) == (False, 0)
    assert told["text"].startswith("RayJob default/j: is not there yet; it would be made")


def test_deletion_rules(diff: Any) -> None:
    rule = {"policy": "DeleteWorkers", "condition": {"jobStatus": "FAILED", "ttlSeconds": 30}}
    told = diff(OLD, edited(shutdownAfterJobFinishes=False, deletionStrategy={"deletionRules": [rule]}))
    sentence = sentences(told)["deletionStrategy"]
    assert "RayCluster j-xxxxx: spec.workerGroupSpecs[g].suspend (none) -> true 30 s later" in sentence
    assert "when the job has succeeded: no more: RayCluster j-xxxxx is deleted" in sentence
