"""When a head pod is behind the serve service (spec rayservice.md 2.8, rows 46-49)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.plan.model import Patch, ProxyHealthProbe

from core.tests.plan.service.worlds import World, new_world, serving

LABEL = "ray.io/serve"


def starting(*, healthy: bool = True, **service: Any) -> World:
    """A world whose first RayCluster has its pods, and whose head's proxy is healthy or not."""
    world = new_world(**service).settle()
    if not healthy:
        world.unhealthy.add(f"{world.pending}-head")
    world.add_pods(world.pending)
    return world


def label(world: World, pod: str) -> str | None:
    found: str | None = world.objects[POD, pod]["metadata"]["labels"].get(LABEL)
    return found


def asked(world: World) -> list[ProxyHealthProbe]:
    return [probe for probe in world.plan().probes if isinstance(probe, ProxyHealthProbe)]


@pytest.mark.parametrize("before", ["true", "false"])
@pytest.mark.parametrize(
    ("healthy", "exclude", "after"),
    [
        pytest.param(True, True, "false", id="46"),
        pytest.param(True, False, "true", id="47"),
        pytest.param(False, True, "false", id="48"),
        pytest.param(False, False, "false", id="49"),
    ],
)
def test_the_label_follows_the_proxy(healthy: bool, exclude: bool, before: str, after: str) -> None:
    """Rows 46-49; an event when it changes, none when it does not; nobody is asked about a head that is left out."""
    world = starting(healthy=healthy, excludeHeadPodFromServeSvc=exclude)
    head = f"{world.pending}-head"
    world.objects[POD, head]["metadata"]["labels"][LABEL] = before
    world.settle()
    assert label(world, head) == after
    note = f'Updated the serve label to "{after}" for the Head Pod default/{head}'
    assert world.notes("UpdatedHeadPodServeLabel") == ([note] if before != after else [])
    assert bool(asked(world)) is not exclude


def test_a_head_serves_only_after_its_proxy_has_said_so() -> None:
    """RS-11: no application yet, so no proxy; then healthy, then not any more."""
    world = starting(healthy=False)
    head = f"{world.pending}-head"
    world.settle()
    seen = [label(world, head)]
    world.unhealthy.clear()
    world.settle()
    seen.append(label(world, head))
    world.unhealthy.add(head)
    world.settle()
    seen.append(label(world, head))
    assert seen == ["false", "true", "false"]


def test_while_nothing_is_known_the_label_stays() -> None:
    """An operator that has just started has asked nobody yet."""
    world = serving()
    world.results.clear()
    plan = world.plan()
    assert not [write for stage in plan.stages for write in stage if isinstance(write, Patch) and write.kind == POD]


def test_a_missing_head_is_no_error() -> None:
    """RS-01: a suspended first cluster has no head; its resumption reaches it all the same."""
    world = new_world(cluster={"suspend": True}).settle()
    first = world.pending
    assert world.cluster(first)["spec"]["suspend"] is True
    assert world.condition("RayServiceWaiting") == ("True", "RayClusterSuspended")
    world.service["spec"]["rayClusterConfig"]["suspend"] = False
    world.edited()
    world.settle()
    assert (world.pending, world.clusters()) == (first, [first])
    assert world.cluster(first)["spec"]["suspend"] is False
    world.add_pods(first)
    world.settle()
    assert world.active == first


def test_toggling_the_exclusion_is_followed() -> None:
    """Scenario exclude-head-toggled."""
    world = serving()
    head = f"{world.active}-head"
    seen = [label(world, head)]
    for exclude in (True, False):
        world.edit(excludeHeadPodFromServeSvc=exclude)
        world.settle()
        seen.append(label(world, head))
    assert seen == ["true", "false", "true"]


def test_workers_are_never_labelled() -> None:
    world = serving()
    world.unhealthy.add(f"{world.active}-worker-0")
    world.settle()
    assert label(world, f"{world.active}-worker-0") == "true"
    assert [probe.pod for probe in asked(world)] == [f"{world.active}-head"]


@pytest.mark.parametrize(
    ("ip", "port", "address"),
    [
        ("10.1.2.3", None, "10.1.2.3:8000"),
        ("10.1.2.3", 9000, "10.1.2.3:9000"),
        ("fd00::1", None, "[fd00::1]:8000"),
        ("", None, None),
    ],
)
def test_where_the_proxy_is_asked(ip: str, port: int | None, address: str | None) -> None:
    """2.8: the pod's address, and the port that is named serve."""
    world = starting()
    if port is not None:
        container = world.objects[RAYCLUSTER, world.pending]["spec"]["headGroupSpec"]["template"]["spec"]["containers"][
            0
        ]
        container["ports"] = [{"name": "serve", "containerPort": port}]
    world.objects[POD, f"{world.pending}-head"]["status"]["podIP"] = ip
    expected = [] if address is None else [ProxyHealthProbe(address, "default", f"{world.pending}-head")]
    assert asked(world) == expected


def test_both_heads_are_looked_after_during_an_upgrade() -> None:
    world = serving()
    config = {**world.service["spec"]["rayClusterConfig"], "rayVersion": "2.99.0"}
    world.edit(rayClusterConfig=config)
    world.settle()
    world.add_pods(world.pending, workers=0)
    world.unhealthy.add(f"{world.active}-head")
    world.one_pass()
    world.one_pass()
    assert (label(world, f"{world.active}-head"), label(world, f"{world.pending}-head")) == ("false", "true")


def test_a_label_that_cannot_be_written_stops_nothing() -> None:
    world = starting()
    cluster = world.pending
    world.refuse_writes["Patch", "Pod"] = "no"
    world.settle()
    note = f'Failed to update the serve label to "true" for the Head Pod default/{cluster}-head: no'
    assert set(world.notes("FailedToUpdateHeadPodServeLabel")) == {note}
    assert world.active == cluster


def test_a_new_head_of_the_old_name_is_not_labelled_for_the_old_one() -> None:
    """A pod is named by its UID, too."""
    world = starting(healthy=True)
    head = world.objects[POD, f"{world.pending}-head"]
    world.one_pass()
    patches = [w for stage in world.plan().stages for w in stage if isinstance(w, Patch) and w.kind == POD]
    assert [patch.body["metadata"]["uid"] for patch in patches] == [head["metadata"]["uid"]]


def test_nobody_is_led_to_a_cluster_before_its_head_was_asked() -> None:
    """The label comes before the switch, as in KubeRay: else the old heads' share is gone before the new one's is there."""
    world = serving()
    old = world.active
    world.edit(rayClusterConfig={**world.service["spec"]["rayClusterConfig"], "rayVersion": "2.99.0"})
    world.settle()
    world.add_pods(world.pending)
    for _ in range(6):
        world.one_pass()
        for probe in [each for each in world.results if isinstance(each, ProxyHealthProbe)]:
            del world.results[probe]
    assert world.active == old
    world.settle()
    assert world.active != old


def test_a_head_that_starts_again_is_asked_anew() -> None:
    """RS-11: its proxy was healthy before; that says nothing of the container that has taken its place."""
    world = serving()
    head = f"{world.active}-head"
    world.set_ready(world.active, False, role="head")
    world.settle()
    seen = [(label(world, head), [probe.pod for probe in asked(world)])]
    world.unhealthy.add(head)
    world.set_ready(world.active, True, role="head")
    world.settle()
    seen.append((label(world, head), [probe.pod for probe in asked(world)]))
    assert seen == [("false", []), ("false", [head])]
