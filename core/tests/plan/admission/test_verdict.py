"""What is wrong with an object before it is stored, and what it is only warned of: as a pass would find it, kind by kind."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.hooks.calls import NoHooks, PluginFailure, PluginWarning
from kuberay.hooks.types import OwnerContext, Problem
from kuberay.plan.admission.verdict import Verdict, is_foreign, judge
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.config import PlanConfig
from kuberay.plan.cronjob import plan_cronjob
from kuberay.plan.job import plan_job
from kuberay.plan.observed import Observed
from kuberay.plan.service import plan_service
from kuberay_testkit.builders import build_group, build_raycluster, build_raycronjob, build_rayjob, build_rayservice

GATES = {**DEFAULT_GATES, CRON_JOB: True}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
BUILD: dict[Kind, Callable[..., dict[str, Any]]] = {
    RAYCLUSTER: build_raycluster,
    RAYJOB: build_rayjob,
    RAYSERVICE: build_rayservice,
    RAYCRONJOB: build_raycronjob,
}
PLANS = {RAYCLUSTER: plan_cluster, RAYJOB: plan_job, RAYSERVICE: plan_service, RAYCRONJOB: plan_cronjob}


def manifest(kind: Kind, change: dict[str, Any] | None = None) -> dict[str, Any]:
    """A valid one with *change*: path below the object, parts divided by dots, to the new value."""
    body = BUILD[kind]("x")
    for path, value in (change or {}).items():
        *parts, last = path.split(".")
        place: Any = body
        for part in parts:
            place = place[int(part)] if isinstance(place, list) else place.setdefault(part, {})
        place[last] = value
    return body


def observed(kind: Kind, body: dict[str, Any], **more: Any) -> Observed:
    obj = from_dict(kind, body)
    assert isinstance(obj, RayObject)
    return Observed(obj=obj, **{"now": NOW, "gates": GATES, "hooks": AllPlugins(), **more})


def verdict(kind: Kind, change: dict[str, Any] | None = None, **more: Any) -> Verdict:
    return judge(kind, observed(kind, manifest(kind, change), **more))


class AllPlugins(NoHooks):
    """Each is there, and none says anything."""

    def has(self, plugin: str) -> bool:
        return True


LONG = "x" * 84
UNKNOWN = {"rayClusterSpec": "spec.rayClusterSpec", "rayClusterConfig": "spec.rayClusterConfig"}


@pytest.mark.parametrize("kind", BUILD, ids=lambda kind: kind.kind)
def test_nothing_is_said_of_what_is_right(kind: Kind) -> None:
    assert verdict(kind) == Verdict()


@pytest.mark.parametrize(
    ("kind", "change", "path", "text"),
    [
        (RAYCLUSTER, {"metadata.name": LONG}, "metadata.name", "no more than 53 characters"),  # O12
        (RAYJOB, {"metadata.name": LONG}, "metadata.name", "no more than 47 characters"),  # O12
        (RAYCLUSTER, {"metadata.name": "invalid.name"}, "metadata.name", "valid DNS1035 label"),  # O13
        (RAYJOB, {"metadata.name": "invalid.name"}, "metadata.name", "valid DNS1035 label"),
        (RAYSERVICE, {"metadata.name": "invalid.name"}, "metadata.name", "valid DNS1035 label"),
        (RAYCRONJOB, {"metadata.name": "x" * 37}, "metadata.name", "no more than 36 characters"),
        (
            RAYCLUSTER,
            {"spec.workerGroupSpecs": [build_group("group1"), build_group("group1")]},
            "spec.workerGroupSpecs[1].groupName",
            "worker group names must be unique",
        ),  # O14
        (
            RAYSERVICE,
            {"metadata.annotations": {"ray.io/initializing-timeout": "-1m"}},
            "metadata.annotations[ray.io/initializing-timeout]",
            "must be a positive duration",
        ),
        (
            RAYCLUSTER,
            {"spec.headGroupSpec.template.spec.containers": []},
            "spec.headGroupSpec.template.spec",
            "container",
        ),
        (RAYCLUSTER, {"spec.workerGroupSpecs.0.minReplicas": 50}, "spec.workerGroupSpecs[0]", "minReplicas 50"),  # O17
        (RAYCLUSTER, {"spec.workerGroupSpecs.0.minReplicas": -1}, "spec.workerGroupSpecs[0].minReplicas", "-1"),  # O20
        (RAYCLUSTER, {"spec.headGroupSpec.rayStartParams": {"labels": "a=b"}}, "spec.headGroupSpec", "labels"),  # O22
        (RAYCLUSTER, {"spec.headGroupSpec.template": 7}, "spec.headGroupSpec.template", "valid dictionary"),
        (RAYCLUSTER, {"spec.upgradeStrategy": {"type": "Later"}}, "spec.upgradeStrategy.type", "Later"),
        (RAYJOB, {"spec.backoffLimit": -1}, "spec.backoffLimit", "positive integer"),
        (RAYJOB, {"spec.metadata": {"a": 5}}, "spec.metadata.a", "valid string"),
        (
            RAYJOB,
            {"spec.rayClusterSpec.workerGroupSpecs.0.minReplicas": -1},
            "spec.rayClusterSpec.workerGroupSpecs[0]",
            "-1",
        ),
        (
            RAYJOB,
            {"spec.rayClusterSpec.upgradeStrategy": {"type": "Recreate"}},
            "spec.rayClusterSpec.upgradeStrategy",
            "RayJob",
        ),
        (RAYSERVICE, {"spec.serveConfigV2": "applications: 1"}, "spec.serveConfigV2", "applications"),
        (RAYSERVICE, {"spec.upgradeStrategy": {"type": "Later"}}, "spec.upgradeStrategy.type", "Later"),
        (RAYSERVICE, {"spec.rayClusterDeletionDelaySeconds": "soon"}, "spec.rayClusterDeletionDelaySeconds", "integer"),
        (RAYCRONJOB, {"spec.schedule": "every day"}, "spec.schedule", "invalid cron schedule"),
        (RAYCRONJOB, {"spec.timeZone": "Mars/Olympus"}, "spec.timeZone", "unknown time zone"),
        (RAYCRONJOB, {"spec.jobTemplate.backoffLimit": -1}, "spec.jobTemplate.backoffLimit", "positive integer"),
        (RAYCRONJOB, {"spec.schedule": 5}, "spec.schedule", "valid string"),
    ],
)
def test_what_is_wrong_has_its_place_and_a_sentence(kind: Kind, change: dict[str, Any], path: str, text: str) -> None:
    problems = verdict(kind, change).problems
    first = problems[0]
    assert first.path.startswith(path)
    assert text in first.message


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (RAYCLUSTER, {"metadata.name": LONG}),
        (RAYCLUSTER, {"spec.workerGroupSpecs": [build_group("g"), build_group("g")]}),
        (RAYCLUSTER, {"spec.headGroupSpec.template": 7}),
        (RAYJOB, {"spec.backoffLimit": -1, "spec.metadata": {"a": "b"}}),
        (RAYJOB, {"spec.rayClusterSpec.workerGroupSpecs.0.minReplicas": -1}),
        (RAYSERVICE, {"spec.serveConfigV2": "applications: 1"}),
        (RAYCRONJOB, {"spec.schedule": "every day", "spec.jobTemplate.backoffLimit": -1}),
    ],
)
def test_a_pass_says_the_same(kind: Kind, change: dict[str, Any]) -> None:
    """What is let through is not refused a moment later, and the words are those of the condition."""
    # Finalizers, so that a pass gets as far as validation.
    body = manifest(kind, {**change, "metadata.finalizers": ["ray.io/rayservice-finalizer"], "metadata.uid": "u"})
    problems = verdict(kind, change).problems
    plan = PLANS[kind](observed(kind, body))
    told = " ".join([plan.waiting, *(event.note for event in plan.events)])
    assert problems[0].message in told
    assert PLANS[kind](observed(kind, manifest(kind, {"metadata.uid": "u"}))).waiting.find("refused") < 0


def test_secrets_that_the_operator_may_not_use_are_a_reason_too() -> None:
    config = PlanConfig(secret_namespaces=frozenset())
    for kind, path in (
        (RAYCLUSTER, "spec.authOptions"),
        (RAYJOB, "spec.rayClusterSpec.authOptions"),
        (RAYSERVICE, "spec.rayClusterConfig.authOptions"),
    ):
        change = {path: {"mode": "token"}}
        assert verdict(kind, change).problems == []
        assert [problem.path for problem in verdict(kind, change, config=config).problems] == [path]


class TestPlugins:
    """They are asked as in a pass."""

    class Says(AllPlugins):
        def __init__(self, problems: list[Problem], warnings: list[Problem], failures: list[PluginFailure]) -> None:
            self.said = problems, warnings, failures
            self.kinds: list[str] = []

        def validate(self, ctx: OwnerContext) -> Any:
            self.kinds.append(ctx.kind.kind)
            return self.said[0], self.said[2]

        def warn(self, ctx: OwnerContext) -> Any:
            return [PluginWarning("gang", problem) for problem in self.said[1]], ()

    @pytest.mark.parametrize("kind", [RAYCLUSTER, RAYJOB, RAYSERVICE], ids=lambda kind: kind.kind)
    def test_what_they_find_refuses(self, kind: Kind) -> None:
        problem = Problem("metadata.labels[queue]", "there is no such queue")
        hooks = self.Says([problem], [Problem("spec", "not told")], [])
        assert verdict(kind, hooks=hooks) == Verdict([problem])
        assert hooks.kinds == [kind.kind]

    @pytest.mark.parametrize("kind", [RAYCLUSTER, RAYJOB, RAYSERVICE], ids=lambda kind: kind.kind)
    def test_what_they_warn_of_and_their_own_failures_do_not(self, kind: Kind) -> None:
        hooks = self.Says(
            [], [Problem("spec.x", "has no effect")], [PluginFailure("gang", "validate", "KeyError: 'a'")]
        )
        told = verdict(kind, hooks=hooks)
        assert not told.problems
        assert sorted(told.warnings) == [
            "plugin gang failed in validate, so it checked nothing: KeyError: 'a'",
            "spec.x: has no effect",
        ]

    @pytest.mark.parametrize(
        ("origin", "warned"),
        [("", ["spec.x: a", "spec.y: b"]), ("RayJob", ["spec.y: b"]), ("RayService", ["spec.y: b"])],
    )
    def test_of_a_cluster_that_was_made_its_maker_is_warned(self, origin: str, warned: list[str]) -> None:
        hooks = self.Says([], [Problem("spec.x", "a"), Problem("spec.y", "b", of_cluster=True)], [])
        change = {"metadata.labels": {"ray.io/originated-from-crd": origin} if origin else {}}
        assert verdict(RAYCLUSTER, change, hooks=hooks) == Verdict([], warned)

    @pytest.mark.parametrize(
        ("kind", "path"),
        [
            (RAYCLUSTER, "spec"),
            (RAYJOB, "spec.rayClusterSpec"),
            (RAYSERVICE, "spec.rayClusterConfig"),
            (RAYCRONJOB, "spec.jobTemplate.rayClusterSpec"),
        ],
        ids=lambda each: getattr(each, "kind", each),
    )
    def test_one_that_is_needed_and_missing_is_a_warning(self, kind: Kind, path: str) -> None:
        told = verdict(kind, {f"{path}.enableInTreeAutoscaling": True}, hooks=NoHooks())
        assert not told.problems
        (warning,) = told.warnings
        assert warning.startswith(f"{path}.enableInTreeAutoscaling needs the plugin autoscaler-v2")


def test_a_policy_that_is_only_unwise_is_a_warning() -> None:
    change = {
        "spec.enableInTreeAutoscaling": True,
        "spec.autoscalerOptions": {"version": "v1"},
        "spec.workerGroupSpecs.0.template.spec.restartPolicy": "Always",
    }
    told = verdict(RAYCLUSTER, change)
    assert not told.problems
    assert "should be Never or unset" in told.warnings[0]


def test_cron_jobs_that_nobody_serves_are_let_through_with_a_warning() -> None:
    told = verdict(RAYCRONJOB, {"spec.schedule": "every day"}, gates=DEFAULT_GATES)
    assert not told.problems
    assert "RayCronJob" in told.warnings[0]


@pytest.mark.parametrize(
    ("spec", "foreign"),
    [
        ({}, False),
        ({"managedBy": "ray.io/kuberay-operator"}, False),
        ({"managedBy": "kueue.x-k8s.io/multikueue"}, True),
    ],
)
def test_whose_it_is(spec: dict[str, Any], foreign: bool) -> None:
    assert is_foreign(observed(RAYCLUSTER, build_raycluster("x", **spec)).obj) is foreign
