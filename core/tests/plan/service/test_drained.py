"""When a RayCluster that is no longer used goes before its time, because nothing is left to finish (RS-15 otherwise)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api import names
from kuberay.api.kinds import POD
from kuberay.plan.model import Delete, InFlightProbe

from core.tests.plan.service.test_deletion import switched
from core.tests.plan.service.worlds import NS, World

QUIET = 25
BUSY, IDLE = (1, 7), (0, 7)


def drains(note: str | None = "true", **service: Any) -> tuple[World, str]:
    """A switched world whose user wants the old RayCluster, with a head and one worker, gone once it is drained."""
    world, old = switched(rayClusterDeletionDelaySeconds=600, **service)
    world.annotate(delete_when_drained=note)
    world.requests = {f"{old}-head": IDLE, f"{old}-worker-0": BUSY}
    return world.settle(), old


def wait(world: World, seconds: int, step: int = 5) -> World:
    """Let the operator look again every few seconds: an answer that is as before is seen in the pass after it."""
    for _ in range(0, seconds, step):
        world.advance(step).settle().settle()
    return world


def asked(world: World) -> list[str]:
    return sorted(probe.address for probe in world.last.probes if isinstance(probe, InFlightProbe))


def pod_ip(world: World, pod: str) -> str:
    return str(world.objects[POD, pod]["status"]["podIP"])


def test_it_goes_when_nothing_has_been_under_way_for_a_while() -> None:
    world, old = drains()
    wait(world, 100)
    assert old in world.clusters(), "a request is under way"
    world.requests[f"{old}-worker-0"] = IDLE
    world.settle()
    wait(world, QUIET - 5)
    assert old in world.clusters()
    wait(world, 5)
    assert world.clusters() == [world.active]
    assert world.notes("DeletedRayCluster") == [f"Deleted the RayCluster {NS}/{old}: no request was in flight"]


@pytest.mark.parametrize("note", [None, "", "false", "yes"])
def test_rs_15_by_default_nobody_is_asked_and_the_delay_decides(note: str | None) -> None:
    """RS-15."""
    world, old = drains(note)
    world.requests[f"{old}-worker-0"] = IDLE
    wait(world, 570, 30)
    assert asked(world) == []
    assert old in world.clusters()
    world.advance(30).settle()
    assert world.clusters() == [world.active]
    assert world.notes("DeletedRayCluster") == [f"Deleted the RayCluster {NS}/{old}"]


def test_a_request_that_never_ends_is_cut_off_at_the_delay() -> None:
    world, old = drains()
    wait(world, 590, 10)
    assert old in world.clusters()
    world.advance(10).settle()
    assert world.clusters() == [world.active]
    assert world.notes("DeletedRayCluster") == [f"Deleted the RayCluster {NS}/{old}"]


@pytest.mark.parametrize(
    ("head", "worker"),
    [
        (IDLE, None),
        (None, IDLE),
        ((), ()),
        (BUSY, IDLE),
        (IDLE, (3, 0)),
    ],
    ids=["worker away", "head away", "nothing of Serve", "busy head", "first requests"],
)
def test_what_is_busy_or_not_known_waits_for_the_delay(head: Any, worker: Any) -> None:
    world, old = drains()
    world.requests = {f"{old}-head": head, f"{old}-worker-0": worker}
    wait(world, 300, 5)
    assert old in world.clusters()


def test_a_node_without_serve_keeps_nothing() -> None:
    world, old = drains()
    del world.requests[f"{old}-worker-0"]
    wait(world, QUIET + 5)
    assert old not in world.clusters()


def test_short_requests_between_the_answers_count() -> None:
    """Clients that keep their connections go on sending to the old pods."""
    world, old = drains()
    for seen in range(60):
        world.requests[f"{old}-worker-0"] = (0, seen)
        world.advance(5).settle()
    assert old in world.clusters()
    wait(world, QUIET)
    assert old not in world.clusters()


@pytest.mark.parametrize("news", [(2, 7), None, ()], ids=["a request", "no answer", "nothing of Serve"])
def test_the_time_begins_again_after_another_answer(news: Any) -> None:
    world, old = drains()
    world.requests[f"{old}-worker-0"] = IDLE
    world.settle()
    wait(world, 20)
    world.requests[f"{old}-worker-0"] = news
    world.advance(1).settle()
    world.requests[f"{old}-worker-0"] = IDLE
    world.settle()
    wait(world, 20)
    assert old in world.clusters()
    wait(world, 5)
    assert old not in world.clusters()


def test_an_old_answer_does_not_count_for_now() -> None:
    """A node that answered once and is waited for since."""
    world, old = drains()
    world.requests[f"{old}-worker-0"] = IDLE
    world.settle()
    world.advance(60)
    plan = world.plan()
    assert not [write for stage in plan.stages for write in stage if isinstance(write, Delete)]
    assert plan.requeue_after is not None
    assert 0 < plan.requeue_after.total_seconds() <= QUIET
    world.settle().settle()
    assert old not in world.clusters()


def test_a_restarted_operator_asks_anew() -> None:
    world, old = drains()
    world.requests[f"{old}-worker-0"] = IDLE
    world.settle()
    wait(world, 20)
    world.results.clear()
    world.settle()
    wait(world, 20)
    assert old in world.clusters()
    wait(world, 5)
    assert old not in world.clusters()


def test_who_is_asked_and_where() -> None:
    world, old = drains()
    head, worker = (f"{pod_ip(world, f'{old}-{name}')}" for name in ("head", "worker-0"))
    assert asked(world) == sorted([f"{head}:8080", f"{worker}:8080"])
    world.objects[POD, f"{old}-worker-0"]["status"]["phase"] = "Failed"
    world.objects[POD, f"{old}-head"]["status"]["podIP"] = "fd00::1"
    world.settle()
    assert asked(world) == ["[fd00::1]:8080"]
    world.objects[POD, f"{old}-head"]["status"]["podIP"] = ""
    world.settle()
    assert asked(world) == []
    wait(world, 100)
    assert old in world.clusters()


def test_metrics_ports_are_those_of_the_groups() -> None:
    world, old = drains()
    spec = world.cluster(old)["spec"]
    spec["headGroupSpec"]["rayStartParams"] = {"metrics-export-port": "9001"}
    spec["workerGroupSpecs"][0]["rayStartParams"] = {"metrics-export-port": "9002"}
    for pod, group in (
        (f"{old}-head", names.HEAD_GROUP),
        (f"{old}-worker-0", spec["workerGroupSpecs"][0]["groupName"]),
    ):
        world.objects[POD, pod]["metadata"]["labels"][names.LABEL_GROUP] = group
    world.settle()
    assert asked(world) == sorted([f"{pod_ip(world, f'{old}-head')}:9001", f"{pod_ip(world, f'{old}-worker-0')}:9002"])
    world.cluster(old)["spec"] = {"headGroupSpec": 7}
    world.settle()
    assert {address.rpartition(":")[2] for address in asked(world)} == {"8080"}


def test_a_cluster_that_is_used_is_never_asked() -> None:
    world, _ = drains()
    assert not [address for address in asked(world) if pod_ip(world, f"{world.active}-head") in address]
    wait(world, 600, 60)
    world.settle()
    assert (asked(world), world.clusters()) == ([], [world.active])


def test_the_annotation_is_about_the_rayservice_alone() -> None:
    world, _ = drains()
    world.service["spec"]["rayClusterConfig"]["rayVersion"] = "2.100.0"
    world.edited()
    world.settle()
    assert world.pending
    assert names.ANNOTATION_DELETE_DRAINED not in world.cluster(world.pending)["metadata"]["annotations"]


def test_a_refused_spec_does_not_keep_a_drained_cluster() -> None:
    world, old = drains()
    world.requests[f"{old}-worker-0"] = IDLE
    world.edit(upgradeStrategy={"type": "Sideways"})
    world.settle()
    wait(world, QUIET)
    assert old not in world.clusters()
