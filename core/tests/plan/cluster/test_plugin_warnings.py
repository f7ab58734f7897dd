"""What plugins warn of about a RayCluster: a condition while it is so, one event when it is news, and nothing that waits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kuberay.hooks.calls import NoHooks, PluginFailure, PluginWarning
from kuberay.hooks.types import OwnerContext, Problem


class Warning_(NoHooks):
    """A plugin whose warnings a test can change."""

    def __init__(self, *sentences: str) -> None:
        self.found = [PluginWarning("kai-scheduler", Problem("metadata.labels[q]", sentence)) for sentence in sentences]
        self.failures: list[PluginFailure] = []
        self.asked: list[OwnerContext] = []

    def warn(self, ctx: OwnerContext) -> tuple[Sequence[PluginWarning], Sequence[PluginFailure]]:
        self.asked.append(ctx)
        return self.found, self.failures


def told(tiny: Any) -> list[str]:
    return [event.note for event in tiny.events if event.reason == "PluginWarning"]


def test_a_warning_is_a_condition_and_one_event_and_stops_nothing(kubernetes: Any, cluster: Any) -> None:
    hooks = Warning_("is missing", "is short")
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    for _ in range(3):
        tiny.reconcile()
    condition = tiny.condition("PluginWarning")
    assert (condition["status"], condition["reason"]) == ("True", "KaiScheduler")
    assert condition["message"] == "metadata.labels[q]: is missing; metadata.labels[q]: is short"
    assert told(tiny) == [condition["message"]]
    assert tiny.status["state"] == "ready"
    assert len(tiny.pods) == 4
    hooks.found = hooks.found[:1]
    tiny.settle()
    assert told(tiny)[1:] == ["metadata.labels[q]: is missing"]
    hooks.found = []
    tiny.settle()
    assert tiny.condition("PluginWarning") is None
    assert len(told(tiny)) == 2


def test_the_event_has_the_reason_of_the_first_warning(kubernetes: Any, cluster: Any) -> None:
    hooks = Warning_()
    hooks.found = [PluginWarning("p", Problem("spec.x", "is odd", reason="OddSpec"))]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    (event,) = [event for event in tiny.events if event.type == "Warning"]
    assert (event.reason, event.field_path, event.note) == ("OddSpec", "spec.x", "spec.x: is odd")


QUEUE = Problem("metadata.labels[q]", "is missing")
ENDING = Problem("spec.tlsOptions", "ends soon", of_cluster=True)


@pytest.mark.parametrize(
    ("origin", "found", "message"),
    [
        ("RayCluster", [QUEUE], "metadata.labels[q]: is missing"),
        ("RayCluster", [QUEUE, ENDING], "metadata.labels[q]: is missing; spec.tlsOptions: ends soon"),
        ("RayJob", [QUEUE], ""),
        ("RayJob", [ENDING], "spec.tlsOptions: ends soon"),
        ("RayJob", [QUEUE, ENDING], "spec.tlsOptions: ends soon"),
        ("RayService", [QUEUE], ""),
        ("RayService", [QUEUE, ENDING, QUEUE], "spec.tlsOptions: ends soon"),
    ],
)
def test_of_a_cluster_that_was_made_only_what_is_its_own_is_told(
    kubernetes: Any, cluster: Any, origin: str, found: list[Problem], message: str
) -> None:
    """The rest was written in the RayJob or RayService and is told there."""
    hooks = Warning_()
    hooks.found = [PluginWarning("mtls", problem) for problem in found]
    body = cluster()
    body["metadata"]["labels"] = {"ray.io/originated-from-crd": origin}
    tiny = kubernetes(body, hooks=hooks)
    tiny.settle()
    tiny.reconcile()
    assert (tiny.condition("PluginWarning") or {}).get("message", "") == message
    assert told(tiny) == ([message] if message else [])
    hooks.found = []
    tiny.settle()
    assert tiny.condition("PluginWarning") is None


def test_a_suspended_cluster_is_not_asked_about(kubernetes: Any, cluster: Any) -> None:
    hooks = Warning_("is missing")
    kubernetes(cluster(suspend=True), hooks=hooks).settle()
    assert hooks.asked == []


def test_a_plugin_that_fails_to_warn_shows(kubernetes: Any, cluster: Any) -> None:
    hooks = Warning_()
    hooks.failures = [PluginFailure("p", "warn", "KeyError: 'x'")]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    assert tiny.condition("PluginFailed")["message"] == "plugin p failed in warn: KeyError: 'x'"
    assert tiny.status["state"] == "ready"


def test_without_the_gate_for_conditions_the_event_comes_once_per_spec(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(), hooks=Warning_("is missing"))
    tiny.gates["RayClusterStatusConditions"] = False
    tiny.settle()
    tiny.reconcile()
    tiny.reconcile()
    assert 1 <= len(told(tiny)) <= 2
    before = len(told(tiny))
    tiny.reconcile()
    assert len(told(tiny)) == before
