"""What a new status tells of the past: phases of starts and ends of attempts, each once, and nothing of what is gone."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kuberay.api.job import JobFailedReason
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, RAYSERVICE, Kind
from kuberay.api.objects import RayObject, from_dict
from kuberay.api.times import format_time
from kuberay.kube.store import Store
from kuberay.operator import metric_table as table
from kuberay.operator.metrics import Metrics

BIRTH = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> str:
    return format_time(BIRTH + timedelta(seconds=seconds))


def conditions(**since: float | tuple[str, float] | tuple[str, float, str]) -> list[dict[str, Any]]:
    """``Ready=5`` is True since the fifth second, ``Ready=("False", 5, "Why")`` something else."""
    found = []
    for type_, told in since.items():
        status, seconds, reason = (*told, "Why")[:3] if isinstance(told, tuple) else ("True", told, "Why")
        found.append({"type": type_, "status": status, "reason": reason, "lastTransitionTime": at(seconds)})
    return found


def obj(kind: Kind, name: str, status: dict[str, Any] | None = None, version: int = 1) -> RayObject:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}-{version}",
        "resourceVersion": str(version),
        "creationTimestamp": at(0),
    }
    found = from_dict(kind, {"metadata": metadata, "status": status or {}})
    assert isinstance(found, RayObject)
    return found


def told(kind: Kind, before: dict[str, Any], after: dict[str, Any], seconds: float = 100.0) -> dict[str, float]:
    """Seconds by phase that this change of a status tells."""
    metrics = Metrics()
    metrics.export_objects(Store())
    old = obj(kind, "x", before)
    metrics.status_written(kind.kind, old, after, BIRTH + timedelta(seconds=seconds))
    # The same again is nothing new.
    metrics.status_written(kind.kind, obj(kind, "x", after), after, BIRTH + timedelta(seconds=seconds + 1))
    sums, counts = {}, {}
    for line in metrics.exposition().decode().splitlines():
        for kept, suffix in ((sums, "_sum"), (counts, "_count")):
            if line.startswith(f'{table.TIME_TO_READY.name}{suffix}{{kind="{kind.kind}"'):
                labels, value = line.rsplit(" ", 1)
                kept[labels.split('phase="')[1].split('"')[0]] = float(value)
    assert set(counts.values()) <= {0.0, 1.0}
    return {phase: sums[phase] for phase, count in counts.items() if count}


PROVISIONED = conditions(RayClusterSuspended=("False", 3.0), HeadPodReady=13.0, RayClusterProvisioned=33.0)


@pytest.mark.parametrize(
    ("before", "after", "phases"),
    [
        ([], PROVISIONED, {"admission": 3.0, "head": 10.0, "workers": 20.0, "all": 33.0}),
        (PROVISIONED, PROVISIONED, {}),
        ([], conditions(RayClusterSuspended=("False", 3.0), HeadPodReady=13.0), {}),
        ([], conditions(RayClusterProvisioned=33.0), {"all": 33.0}),
        (
            [],
            conditions(RayClusterSuspended=("False", 20.0), HeadPodReady=13.0, RayClusterProvisioned=33.0),
            {"admission": 20.0, "head": 0.0, "workers": 20.0, "all": 33.0},
        ),
    ],
)
def test_phases_of_a_raycluster(before: Any, after: Any, phases: dict[str, float]) -> None:
    assert told(RAYCLUSTER, {"conditions": before}, {"conditions": after}) == phases


STARTED = {"startTime": at(5), "failed": 0}


@pytest.mark.parametrize(
    ("before", "after", "phases"),
    [
        (
            STARTED | {"conditions": conditions(ClusterReady=25.0, Submitted=("False", 5.0))},
            STARTED | {"conditions": conditions(ClusterReady=25.0, Submitted=28.0)},
            {"admission": 5.0, "cluster": 20.0, "submission": 3.0, "all": 23.0},
        ),
        (
            STARTED | {"failed": 1},
            STARTED | {"failed": 1, "conditions": conditions(ClusterReady=25.0, Submitted=28.0)},
            {"cluster": 20.0, "submission": 3.0, "all": 23.0},
        ),
        (STARTED, STARTED | {"conditions": conditions(ClusterReady=25.0)}, {}),
        ({}, {"conditions": conditions(Submitted=28.0)}, {}),
    ],
)
def test_phases_of_a_rayjob(before: Any, after: Any, phases: dict[str, float]) -> None:
    assert told(RAYJOB, before, after) == phases


@pytest.mark.parametrize(
    ("before", "after", "phases"),
    [
        (conditions(Ready=("False", 0.0, "Initializing")), conditions(Ready=40.0), {"all": 40.0}),
        ([], conditions(Ready=40.0), {"all": 40.0}),
        (
            conditions(Ready=("False", 0.0, "Initializing")),
            conditions(Ready=40.0, Suspended=("False", 30.0)),
            {"all": 10.0},
        ),
        (conditions(Ready=("False", 0.0, "ZeroServeEndpoints")), conditions(Ready=40.0), {}),
        (
            conditions(Ready=10.0, UpgradeInProgress=70.0),
            conditions(Ready=10.0, UpgradeInProgress=("False", 100.0)),
            {"upgrade": 30.0},
        ),
        (conditions(Ready=10.0), conditions(Ready=10.0, UpgradeInProgress=70.0), {}),
    ],
)
def test_phases_of_a_rayservice(before: Any, after: Any, phases: dict[str, float]) -> None:
    assert told(RAYSERVICE, {"conditions": before}, {"conditions": after}) == phases


def ends(metrics: Metrics) -> dict[tuple[str, str], float]:
    found = {}
    for line in metrics.exposition().decode().splitlines():
        if line.startswith(f"{table.JOB_ENDS.name}{{"):
            labels, value = line.rsplit(" ", 1)
            found[labels.split('job_deployment_status="')[1].split('"')[0], labels.split('reason="')[1][:-2]] = float(
                value
            )
    return found


def test_ends_of_attempts_are_counted_with_their_reason_from_zero_on() -> None:
    metrics = Metrics()
    metrics.export_objects(Store())
    known = ends(metrics)
    assert set(known.values()) == {0.0}
    assert {reason for _, reason in known} == {reason.value for reason in JobFailedReason}
    running = obj(RAYJOB, "rj", {"jobDeploymentStatus": "Running"})
    failed = {"jobDeploymentStatus": "Failed", "reason": "AppFailed"}
    metrics.status_written("RayJob", running, failed, BIRTH)
    metrics.status_written("RayJob", obj(RAYJOB, "rj", failed), failed, BIRTH)
    metrics.status_written("RayJob", running, {"jobDeploymentStatus": "Complete", "reason": ""}, BIRTH)
    metrics.status_written("RayJob", running, {"jobDeploymentStatus": "Running"}, BIRTH)
    assert {key: count for key, count in ends(metrics).items() if count} == {
        ("Failed", "AppFailed"): 1.0,
        ("Complete", ""): 1.0,
    }


def test_conditions_are_counted_by_namespace_and_reason_and_go_with_their_objects() -> None:
    metrics, store = Metrics(), Store()
    metrics.export_objects(store)
    for name in ("one", "two"):
        waits = conditions(PodsNotReady=("True", 1.0, "Unschedulable"))
        store.upsert(RAYCLUSTER, obj(RAYCLUSTER, name, {"conditions": waits, "state": "", "desiredWorkerReplicas": 3}))
    series = (
        'kuberay_object_conditions{condition="PodsNotReady",kind="RayCluster",namespace="ns",'
        'reason="Unschedulable",status="True"}'
    )
    text = metrics.exposition().decode()
    assert f"{series} 2.0\n" in text
    assert 'kuberay_cluster_workers{name="one",namespace="ns",state="desired",uid="uid-one-1"} 3.0\n' in text
    assert 'kuberay_cluster_state{name="one",namespace="ns",state="",uid="uid-one-1"} 1.0\n' in text
    store.remove(RAYCLUSTER, "ns", "one", "uid-one-1")
    assert f"{series} 1.0\n" in metrics.exposition().decode()
    store.remove(RAYCLUSTER, "ns", "two", "uid-two-1")
    assert series not in metrics.exposition().decode()


def test_what_a_status_says_cannot_break_the_page() -> None:
    metrics, store = Metrics(), Store()
    metrics.export_objects(store)
    odd = 'a"b\\c\nd'
    store.upsert(RAYJOB, obj(RAYJOB, "rj", {"jobDeploymentStatus": odd, "conditions": [{"type": odd}, {}]}))
    store.upsert(RAYCLUSTER, obj(RAYCLUSTER, "rc", {"state": odd, "readyWorkerReplicas": "many"}))
    text = metrics.exposition().decode()
    assert r'deployment_status="a\"b\\c\nd",name="rj"' in text
    assert r'state="a\"b\\c\nd",uid="uid-rc-1"' in text
    assert 'state="ready",uid="uid-rc-1"} 0.0' in text


def test_nothing_is_left_of_a_thousand_objects_that_came_and_went() -> None:
    """ME-01: neither series nor memory, whether somebody scrapes or not."""
    metrics, store = Metrics(), Store()
    metrics.export_objects(store)

    def live(number: int) -> None:
        for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE):
            young = obj(kind, f"x{number}", version=number + 1)
            store.upsert(kind, young)
            retrying = {"jobDeploymentStatus": "Retrying", "reason": "AppFailed", "startTime": at(0), "failed": 1}
            metrics.status_written(kind.kind, young, retrying | {"conditions": PROVISIONED}, BIRTH)
            store.remove(kind, young.namespace, young.name, young.uid)

    live(0)
    metrics.forget_old()
    first = metrics.exposition().decode().splitlines()
    for number in range(1, 1000):
        live(number)
    metrics.forget_old()
    assert not metrics._milestones._retried
    last = metrics.exposition().decode().splitlines()
    assert len(last) == len(first)
    assert not any("uid-x" in line for line in last)


def test_a_scrape_of_a_thousand_rayclusters_does_not_hold_the_operator_up() -> None:
    """About 8 ms on a slow machine; the client library took 50 for as many series, and a second would be felt."""
    metrics, store = Metrics(), Store()
    metrics.export_objects(store)
    for number in range(1000):
        status = {"conditions": PROVISIONED, "state": "ready", "desiredWorkerReplicas": 3, "readyWorkerReplicas": 3}
        store.upsert(RAYCLUSTER, obj(RAYCLUSTER, f"rc-{number}", status))
    began = time.perf_counter()
    page = metrics.exposition()
    assert time.perf_counter() - began < 1.0
    assert page.count(b"uid-rc-") == 6000
