"""Suspending and resuming (spec raycluster.md 4.8 and 8.8; cases.md RC-14)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import POD
from kuberay.plan.model import Delete


def states(tiny: Any) -> tuple[str, str]:
    """Status of (Suspending, Suspended)."""
    return tiny.condition("RayClusterSuspending")["status"], tiny.condition("RayClusterSuspended")["status"]


def suspend(tiny: Any, value: bool | None) -> None:
    tiny.edit(lambda spec: spec.update(suspend=value) if value is not None else spec.pop("suspend"))


def drop_pods(tiny: Any) -> None:
    for name in list(tiny.pods):
        del tiny.objects[POD, name]


def test_suspend_and_resume(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    first = set(tiny.pods)
    suspend(tiny, True)
    tiny.settle()
    assert tiny.pods == {}
    assert tiny.status["state"] == "suspended"
    assert states(tiny) == ("False", "True")
    assert tiny.condition("RayClusterProvisioned")["message"] == "RayCluster has been suspended"
    assert tiny.condition("HeadPodReady")["reason"] == "HeadPodNotFound"
    assert "podName" not in tiny.status["head"]
    suspend(tiny, False)
    tiny.reconcile()
    assert len(tiny.pods) == 4, "a resume makes pods in its first pass"
    assert tiny.status["state"] == "suspended"
    tiny.settle()
    assert tiny.status["state"] == "ready"
    assert tiny.condition("RayClusterProvisioned")["status"] == "True"
    assert states(tiny) == ("False", "False")
    assert not first & set(tiny.pods)


def test_one_event_tells_that_it_is_done(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.keep_terminating = True
    suspend(tiny, True)
    tiny.reconcile()
    tiny.reconcile()
    assert states(tiny) == ("True", "False")
    assert len([write for write in tiny.writes if isinstance(write, Delete)]) == 4
    assert "DeletedPod" not in [event.reason for event in tiny.events]
    drop_pods(tiny)
    tiny.settle()
    notes = [event.note for event in tiny.events if event.reason == "DeletedPod"]
    assert notes == ["Deleted Pods for RayCluster default/pair due to suspension"]


def test_begun_suspension_completes_before_a_resume(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    first = set(tiny.pods)
    tiny.keep_terminating = True
    suspend(tiny, True)
    tiny.reconcile()
    suspend(tiny, False)
    tiny.reconcile()
    assert states(tiny) == ("True", "False")
    assert set(tiny.pods) == first
    drop_pods(tiny)
    tiny.settle()
    assert states(tiny) == ("False", "False")
    assert len(tiny.pods) == 4
    assert not first & set(tiny.pods)


def test_suspended_again_before_it_was_ready(kubernetes: Any, cluster: Any) -> None:
    """RC-14."""
    tiny = kubernetes(cluster(suspend=True))
    tiny.settle()
    assert states(tiny) == ("False", "True")
    suspend(tiny, False)
    tiny.run_pods = False
    tiny.settle()
    assert len(tiny.pods) == 4
    suspend(tiny, True)
    tiny.settle()
    assert tiny.pods == {}
    assert states(tiny) == ("False", "True")
    assert all(
        not {c["type"] for c in status["conditions"] if c["status"] == "True"}
        >= {"RayClusterSuspending", "RayClusterSuspended"}
        for status in tiny.statuses
    )


def test_pods_come_back_when_suspend_is_taken_away(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(suspend=True))
    tiny.settle()
    suspend(tiny, None)
    tiny.settle()
    assert tiny.status["state"] == "ready"


def test_failing_deletion_shows(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.refuse = lambda write: "no" if isinstance(write, Delete) else ""
    suspend(tiny, True)
    tiny.reconcile()
    assert tiny.condition("ReplicaFailure")["reason"] == "FailedDeleteAllPods"
    notes = {event.note for event in tiny.events if event.reason == "FailedToDeletePodCollection"}
    assert notes == {"Failed deleting Pods due to suspension for RayCluster default/pair, no"}
    tiny.refuse = lambda write: ""
    tiny.settle()
    assert tiny.condition("ReplicaFailure") is None
    assert tiny.status["state"] == "suspended"


def test_services_stay(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(suspend=True))
    tiny.settle()
    assert [name for _, name in tiny.objects] == ["pair-head-svc"]


@pytest.mark.parametrize("born", [True, False])
def test_without_conditions_pods_just_go(kubernetes: Any, cluster: Any, born: bool) -> None:
    tiny = kubernetes(cluster(suspend=born), gates={"RayClusterStatusConditions": False})
    tiny.settle()
    suspend(tiny, True)
    tiny.settle()
    assert tiny.pods == {}
    assert tiny.status["state"] == "suspended"
    assert "conditions" not in tiny.status
    suspend(tiny, False)
    tiny.settle()
    assert tiny.status["state"] == "ready"
