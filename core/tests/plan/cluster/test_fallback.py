"""A worker group whose pods find no node runs in another one, visibly, and goes back when asked."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import SERVICE
from kuberay.api.times import format_time
from kuberay.plan.build.spec_hash import spec_hash
from kuberay.plan.cluster.fallback import RETURN

UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}


class World:
    """A cluster whose group ``spot`` falls back to ``steady``; nodes for spot pods can be taken away."""

    def __init__(self, kubernetes: Any, cluster: Any, group: Any, **fallback: Any) -> None:
        spot = group("spot", 3, fallback={"groupName": "steady", "afterSeconds": 60, **fallback})
        self.kube = kubernetes(cluster(groups=[spot, group("steady", 1, maxReplicas=3)]))
        self.kube.run_pods = False
        self.nodes: Counter[str] = Counter(head=1, spot=9, steady=9)

    def groups(self) -> dict[str, int]:
        found = Counter(pod["metadata"]["labels"]["ray.io/group"] for pod in self.kube.workers.values())
        return dict(found)

    def step(self, seconds: float = 0) -> None:
        """Let time pass, then passes until nothing changes; pods run where there is room."""
        self.kube.now += timedelta(seconds=seconds)
        for _ in range(12):
            before = len(self.kube.writes), len(self.kube.statuses)
            self._schedule()
            self.kube.reconcile()
            self.kube.now += timedelta(seconds=2)
            if before == (len(self.kube.writes), len(self.kube.statuses)):
                return
        raise AssertionError("not settled")

    def _schedule(self) -> None:
        running = Counter(self._group(pod) for pod in self.kube.pods.values() if self._phase(pod) == "Running")
        for name, pod in self.kube.pods.items():
            group = self._group(pod)
            if self._phase(pod) == "Running":
                continue
            if running[group] < self.nodes[group]:
                running[group] += 1
                self.kube.set_pod(name, phase="Running", ready=True)
            elif not pod.get("status"):
                told = {**UNSCHEDULABLE, "lastTransitionTime": format_time(self.kube.now)}
                pod["status"] = {"phase": "Pending", "conditions": [told]}

    @staticmethod
    def _phase(pod: dict[str, Any]) -> str:
        return str((pod.get("status") or {}).get("phase"))

    @staticmethod
    def _group(pod: dict[str, Any]) -> str:
        labels = pod["metadata"]["labels"]
        return str(labels["ray.io/group"]) if labels["ray.io/node-type"] == "worker" else "head"

    def events(self, reason: str) -> int:
        return sum(event.reason == reason for event in self.kube.events)


@pytest.fixture
def world(kubernetes: Any, cluster: Any, group: Any) -> World:
    return World(kubernetes, cluster, group)


def test_pods_that_find_no_node_run_in_the_fallback_group(world: World) -> None:
    world.nodes["spot"] = 1
    world.step()
    assert world.groups() == {"spot": 3, "steady": 1}
    assert world.kube.plan().requeue_after <= timedelta(seconds=60)
    world.step(70)
    assert world.groups() == {"spot": 1, "steady": 3}
    told = world.kube.condition("WorkerGroupFallback")
    assert told["status"] == "True"
    assert told["reason"] == "Unschedulable"
    assert "2 replicas of worker group spot run in worker group steady since" in told["message"]
    assert world.kube.status["fallbacks"][0]["replicas"] == 2
    assert world.kube.status["state"] == "ready"
    assert world.events("WorkerGroupFallback") == 1
    # A restart in between changes nothing: the same decision follows from what is stored.
    assert [write.kind for stage in world.kube.plan().stages for write in stage] == [SERVICE]


def test_a_short_wait_is_none(world: World) -> None:
    world.nodes["spot"] = 2
    world.step(30)
    world.nodes["spot"] = 9
    world.step(60)
    assert world.groups() == {"spot": 3, "steady": 1}
    assert "fallbacks" not in world.kube.status


def test_the_pods_that_run_stay(world: World) -> None:
    world.nodes["spot"] = 1
    world.step()
    running = {name for name, pod in world.kube.workers.items() if world._phase(pod) == "Running"}
    world.step(70)
    assert running <= set(world.kube.workers)


def test_the_fallback_group_takes_no_more_than_its_maximum(kubernetes: Any, cluster: Any, group: Any) -> None:
    world = World(kubernetes, cluster, group)
    world.kube.edit(lambda spec: spec["workerGroupSpecs"][1].update(maxReplicas=2))
    world.nodes["spot"] = 0
    world.step()
    world.step(70)
    assert world.groups() == {"spot": 2, "steady": 2}
    assert "at its maxReplicas 2" in world.kube.condition("WorkerGroupFallback")["message"]


def test_goes_back_when_asked_and_only_gives_up_what_is_replaced(world: World) -> None:
    world.nodes["spot"] = 0
    world.step()
    world.step(70)
    assert world.groups() == {"spot": 1, "steady": 3}
    world.step(600)
    assert world.groups() == {"spot": 1, "steady": 3}, "nobody asked"
    world.nodes["spot"] = 2
    world.kube.cluster["metadata"]["annotations"] = {RETURN: format_time(world.kube.now)}
    world.step()
    assert world.groups() == {"spot": 3, "steady": 2}, "one pod has no node yet, so its replacement stays"
    world.nodes["spot"] = 3
    world.step()
    assert world.groups() == {"spot": 3, "steady": 1}
    assert world.kube.condition("WorkerGroupFallback") is None
    assert "fallbacks" not in world.kube.status
    assert world.events("WorkerGroupFallbackEnded") == 1


def test_a_return_that_finds_no_node_is_given_up(world: World) -> None:
    world.nodes["spot"] = 1
    world.step()
    world.step(70)
    world.kube.cluster["metadata"]["annotations"] = {RETURN: format_time(world.kube.now)}
    world.step()
    assert world.groups() == {"spot": 3, "steady": 3}
    world.step(70)
    assert world.groups() == {"spot": 1, "steady": 3}
    assert "returning" not in world.kube.status["fallbacks"][0]


def test_a_return_that_finds_some_nodes_keeps_what_runs_on_them(world: World) -> None:
    world.nodes["spot"] = 1
    world.step()
    world.step(70)
    world.nodes["spot"] = 2
    world.kube.cluster["metadata"]["annotations"] = {RETURN: format_time(world.kube.now)}
    world.step()
    running = {name for name, pod in world.kube.workers.items() if world._phase(pod) == "Running" and "spot" in name}
    assert len(running) == 2
    world.step(70)
    assert running <= set(world.kube.workers)
    assert world.groups() == {"spot": 2, "steady": 2}
    assert world.kube.status["fallbacks"][0]["replicas"] == 1
    assert "returning" not in world.kube.status["fallbacks"][0]


def test_a_return_goes_on_while_some_pods_are_only_starting(world: World) -> None:
    world.nodes["spot"] = 1
    world.step()
    world.step(70)
    world.kube.cluster["metadata"]["annotations"] = {RETURN: format_time(world.kube.now)}
    world.step()
    starting = next(n for n, p in world.kube.workers.items() if "spot" in n and world._phase(p) == "Pending")
    world.kube.set_pod(starting, phase="Pending")
    world.step(70)
    assert starting in world.kube.workers
    assert world.groups() == {"spot": 3, "steady": 3}
    world.kube.set_pod(starting, phase="Running", ready=True)
    world.step()
    assert starting in world.kube.workers
    assert world.groups() == {"spot": 2, "steady": 2}


def test_two_groups_do_not_promise_themselves_the_same_room(kubernetes: Any, cluster: Any, group: Any) -> None:
    world = World(kubernetes, cluster, group)
    fallback = {"groupName": "steady", "afterSeconds": 60}
    groups = [
        group("spot", 2, fallback=fallback),
        group("other", 2, fallback=fallback),
        group("steady", 0, maxReplicas=3),
    ]
    world.kube = kubernetes(cluster(groups=groups))
    world.kube.run_pods = False
    world.nodes["spot"] = 0
    world.step()
    world.step(70)
    assert world.groups() == {"other": 1, "steady": 3}
    assert {entry["groupName"]: entry["replicas"] for entry in world.kube.status["fallbacks"]} == {
        "spot": 2,
        "other": 1,
    }
    assert world.events("WorkerGroupFallback") == 2


def test_an_upgrade_whose_pods_find_no_node_stops_instead_of_moving_the_group(
    kubernetes: Any, cluster: Any, group: Any
) -> None:
    """The pods that run have nodes: they are not the price of a spec that fits nowhere."""
    spot = group("spot", 3, fallback={"groupName": "steady", "afterSeconds": 60})
    world = World(kubernetes, cluster, group)
    world.kube = kubernetes(
        cluster(groups=[spot, group("steady", 0, maxReplicas=3)], upgradeStrategy={"type": "Rolling"})
    )
    world.kube.run_pods = False
    world.step()
    world.nodes["spot"] = 0
    template = spot["template"]["spec"]["containers"][0]
    world.kube.edit(
        lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"].update(
            containers=[{**template, "image": "example.test/ray:wrong"}]
        )
    )
    for _ in range(5):
        world.step(70)
    assert world.groups() == {"spot": 3}
    assert sum(world._phase(pod) == "Running" for pod in world.kube.workers.values()) == 2
    assert world.kube.condition("RollingUpgrade")["reason"] == "Stuck"


def test_a_time_that_cannot_be_read_asks_for_nothing(world: World) -> None:
    world.nodes["spot"] = 1
    world.step()
    world.step(70)
    world.kube.cluster["metadata"]["annotations"] = {RETURN: "now"}
    world.step()
    assert world.groups() == {"spot": 1, "steady": 3}
    assert "'now' is not an RFC 3339 time" in world.kube.condition("WorkerGroupFallback")["message"]


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["workerGroupSpecs"][0].pop("fallback"),
        lambda spec: spec["workerGroupSpecs"][0].update(fallback={"groupName": "other"}),
        lambda spec: spec["workerGroupSpecs"][1].update(suspend=True),
    ],
    ids=["fallback removed", "another fallback", "fallback suspended"],
)
def test_ends_with_its_reason(world: World, change: Any) -> None:
    world.kube.edit(
        lambda spec: spec["workerGroupSpecs"].append(
            {**spec["workerGroupSpecs"][1], "groupName": "other", "replicas": 0}
        )
    )
    world.nodes["spot"] = 1
    world.step()
    world.step(70)
    assert world.groups()["steady"] == 3
    world.nodes["spot"] = 9
    world.kube.edit(change)
    world.step()
    assert world.groups()["spot"] == 3
    assert world.groups().get("steady", 0) <= 1
    assert "fallbacks" not in world.kube.status


def test_scaling_down_takes_back_what_was_handed_over(world: World) -> None:
    world.nodes["spot"] = 1
    world.step()
    world.step(70)
    world.kube.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=1))
    world.step()
    assert sum(world.groups().values()) == 2


@pytest.mark.parametrize(
    ("fallback", "others", "path", "sentence"),
    [
        ({"groupName": "nowhere"}, {}, "groupName", "names no worker group: 'nowhere'"),
        ({"groupName": "g0"}, {}, "groupName", "must name another worker group"),
        ({"groupName": "g1"}, {"numOfHosts": 2}, "groupName", "numOfHosts 2, not 1"),
        ({"groupName": "g1"}, {"fallback": {"groupName": "g0"}}, "groupName", "chains are not followed"),
        ({"groupName": "g1", "afterSeconds": 0}, {}, "afterSeconds", "must be at least 1, got 0"),
    ],
)
def test_refused(
    fallback: Any, others: Any, path: str, sentence: str, kubernetes: Any, cluster: Any, group: Any
) -> None:
    world = kubernetes(cluster(groups=[group("g0", fallback=fallback), group("g1", **others)]))
    world.reconcile()
    message = world.condition("RayClusterSpecValid")["message"]
    assert f"spec.workerGroupSpecs[0].fallback.{path}" in message
    assert sentence in message
    assert world.pods == {}


def test_the_autoscaler_chooses_groups_itself(kubernetes: Any, cluster: Any, group: Any) -> None:
    groups = [group("spot", fallback={"groupName": "steady"}), group("steady")]
    world = kubernetes(cluster(groups=groups, enableInTreeAutoscaling=True))
    world.reconcile()
    assert "the autoscaler chooses groups itself" in world.condition("RayClusterSpecValid")["message"]


def test_is_no_reason_to_recreate_pods(cluster: Any, group: Any) -> None:
    plain = cluster(groups=[group("spot"), group("steady")])["spec"]
    falling = cluster(groups=[group("spot", fallback={"groupName": "steady"}), group("steady")])["spec"]
    assert spec_hash(plain) == spec_hash(falling)


def test_whole_replicas_of_several_hosts_are_handed_over(kubernetes: Any, cluster: Any, group: Any) -> None:
    spot = group("spot", 2, numOfHosts=2, fallback={"groupName": "steady", "afterSeconds": 60})
    world = World(kubernetes, cluster, group)
    world.kube = kubernetes(cluster(groups=[spot, group("steady", 1, numOfHosts=2, maxReplicas=5)]))
    world.kube.run_pods = False
    world.nodes["spot"] = 3  # one replica, and one host of the other
    world.step()
    world.step(70)
    assert world.groups() == {"spot": 2, "steady": 4}
    assert world.kube.status["fallbacks"][0]["replicas"] == 1
    replicas = {pod["metadata"]["labels"]["ray.io/worker-group-replica-name"] for pod in world.kube.workers.values()}
    assert len(replicas) == 3
