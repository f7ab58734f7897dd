"""Refused RayJobs: what shows, what a refusal does to one that runs, and how a corrected one starts (2.1, 6, RJ-09, RJ-27)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import JOB, RAYCLUSTER
from kuberay.hooks.calls import NoHooks, PluginFailure
from kuberay.hooks.types import OwnerContext, Problem
from kuberay.plan.config import PlanConfig

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("spec", "reason", "text"),
    [
        ({"backoffLimit": -1}, "InvalidRayJobSpec", "backoffLimit must be a positive integer"),
        ({"suspend": True}, "InvalidRayJobSpec", "is not allowed to be suspended"),
        ({"rayClusterSpec": None}, "InvalidRayJobSpec", "one of RayClusterSpec or ClusterSelector must be set"),
        ({"runtimeEnvYAML": "- a"}, "InvalidRayJobSpec", "failed to unmarshal RuntimeEnvYAML"),
        ({"submissionMode": "Teleport"}, "InvalidRayJobSpec", "Teleport"),
        ({"metadata": {"a": "b"}, "rayClusterSpec.rayVersion": "2.5.0"}, "InvalidRayJobSpec", "needs Ray 2.6.0"),
        ({"ttlSecondsAfterFinished": "soon"}, "InvalidRayJobSpec", "integer"),
    ],
)
def test_refused_before_anything_is_made(new_world: Make, spec: dict[str, Any], reason: str, text: str) -> None:
    world = new_world()
    world.edit({f"spec.{path}": value for path, value in spec.items()})
    world.run(10)
    status = world.status
    assert status["jobDeploymentStatus"] == status["reason"] == "ValidationFailed"
    assert text in status["message"]
    (event,) = world.events
    assert (event.type, event.reason, event.action) == ("Warning", reason, "Validate")
    assert event.note == f"default/j: {status['message']}"
    assert event.field_path.startswith("spec")
    (condition,) = world.told
    assert (condition["type"], condition["status"]) == ("Accepted", "False")
    assert (status["failed"], status["succeeded"]) == (0, 0)
    assert "finalizers" not in world.job["metadata"]
    assert len(world.objects) == 1
    assert world.plan.requeue_after is None
    assert world.status_writes == 1


def test_what_cannot_be_read_is_told_with_its_place_once(new_world: Make) -> None:
    world = new_world()
    world.edit({"spec.submissionMode": 3, "spec.metadata": {"a": 5}})
    world.run(3)
    assert world.status["message"] == "spec.submissionMode: Input should be a valid string"
    (condition,) = world.told
    assert condition["message"] == (
        "spec.submissionMode: Input should be a valid string; spec.metadata.a: Input should be a valid string"
    )


def test_a_bad_name(empty_world: Any, new_world: Make) -> None:
    world = empty_world(job_name="j" * 48)
    world.create({**new_world().job, "metadata": {"name": "j" * 48}, "kind": "RayJob"})
    world.run(2)
    assert world.events[0].reason == "InvalidRayJobMetadata"
    assert "no more than 47 characters" in world.status["message"]


def test_a_corrected_job_starts(new_world: Make) -> None:
    world = new_world(submissionMode="InteractiveMode", backoffLimit=1)
    world.run(3)
    assert world.status["jobDeploymentStatus"] == "ValidationFailed"
    world.edit({"spec.submissionMode": "K8sJobMode"})
    world.run(3)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert not {"reason", "message"} & set(world.status)
    assert world.told == []


def test_a_job_refused_just_before_its_cluster_is_made(new_world: Make) -> None:
    world = new_world()
    world.reconcile()
    first = world.status["jobId"]
    world.edit({"spec.backoffLimit": -1})
    world.run(2)
    assert world.status["jobDeploymentStatus"] == "ValidationFailed"
    assert (RAYCLUSTER, world.status["rayClusterName"]) not in world.objects
    world.edit({"spec.backoffLimit": 1})
    world.run(3)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert world.status["jobId"] != first


def test_a_job_that_runs_goes_on(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True, ttlSecondsAfterFinished=10, activeDeadlineSeconds=3600)
    world.edit({"spec.backoffLimit": -1})
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Running"
    (condition,) = world.told
    assert (condition["type"], condition["status"]) == ("Accepted", "False")
    assert "spec.backoffLimit" in condition["message"]
    assert len(world.notes("InvalidRayJobSpec")) == 1, "told once"
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Complete")
    world.until(lambda: not any(kind == RAYCLUSTER for kind, _ in world.objects))
    assert "shutdownAfterJobFinishes" in world.job["spec"]


def test_a_correction_clears_the_condition(running: Make) -> None:
    world = running()
    world.edit({"spec.backoffLimit": -1})
    world.run(2)
    world.edit({"spec.backoffLimit": None})
    world.run(2)
    assert world.told == []
    assert world.status["jobDeploymentStatus"] == "Running"


@pytest.mark.parametrize(
    "edit", [{"spec.activeDeadlineSeconds": 0}, {"spec.preRunningDeadlineSeconds": -1}, {"spec.suspend": True}]
)
def test_refused_edits_do_no_harm(running: Make, edit: dict[str, Any]) -> None:
    world = running()
    world.edit(edit)
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert (JOB, "j") in world.objects


def test_a_spec_that_cannot_be_read_leaves_a_running_job_alone(running: Make) -> None:
    world = running()
    world.edit({"spec.rayClusterSpec.workerGroupSpecs": "nonsense"})
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert world.told[0]["type"] == "Accepted"


def test_a_running_job_that_kuberay_refused_is_taken_up_again(running: Make) -> None:
    world = running()
    world.set_status(jobDeploymentStatus="ValidationFailed", reason="ValidationFailed", message="x")
    world.run(4)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert world.status["jobStatus"] == "RUNNING"
    assert world.lifecycle["Job"] == ["created j"]


def test_suspended_and_refused_does_not_resume(running: Make) -> None:
    world = running(shutdownAfterJobFinishes=True)
    world.edit({"spec.suspend": True})
    world.until(lambda: world.status["jobDeploymentStatus"] == "Suspended")
    world.edit({"spec.backoffLimit": -1})
    world.run(2)
    assert world.status["jobDeploymentStatus"] == "Suspended"
    world.edit({"spec.suspend": False})
    world.run(2)
    assert world.status["jobDeploymentStatus"] == "ValidationFailed"


def test_deletion_strategy_needs_its_gate(new_world: Make) -> None:
    world = new_world(
        world={"gates": {**DEFAULT_GATES, "RayJobDeletionPolicy": False}},
        deletionStrategy={"onSuccess": {"policy": "DeleteNone"}, "onFailure": {"policy": "DeleteNone"}},
    )
    world.run(1)
    assert world.status["jobDeploymentStatus"] == "ValidationFailed"


class Picky(NoHooks):
    """A plugin that refuses, or raises."""

    def __init__(self, problems: Sequence[Problem] = (), failures: Sequence[PluginFailure] = ()) -> None:
        self.answer = problems, failures

    def validate(self, ctx: OwnerContext) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
        return self.answer


def test_plugins_may_refuse(new_world: Make) -> None:
    world = new_world(world={"hooks": Picky([Problem("metadata.labels", "no queue", "NoQueue")])})
    world.run(2)
    assert world.status["message"] == "no queue"
    assert world.events[0].reason == "NoQueue"
    assert world.events[0].field_path == "metadata.labels"


def test_a_plugin_that_raises_while_validating_stops_nothing(new_world: Make) -> None:
    world = new_world(world={"hooks": Picky(failures=[PluginFailure("p", "validate", "boom")])})
    world.run(3)
    assert world.status["jobDeploymentStatus"] == "Running"
    (condition,) = world.told
    assert (condition["type"], condition["reason"]) == ("PluginFailed", "Validate")
    assert condition["message"] == "plugin p failed in validate: boom"


def test_a_token_that_cannot_be_had(new_world: Make) -> None:
    """The setting ``secretNamespaces`` leaves the namespace out."""
    config = PlanConfig(secret_namespaces=frozenset({"other"}))
    world = new_world(world={"config": config})
    world.edit({"spec.rayClusterSpec.authOptions": {"mode": "token"}, "spec.rayClusterSpec.rayVersion": "2.55.0"})
    world.run(10)
    assert world.status["jobDeploymentStatus"] == "ValidationFailed"
    (condition,) = world.told
    assert "spec.rayClusterSpec.authOptions: authOptions.mode token needs a Secret" in condition["message"]
    assert len(world.objects) == 1
