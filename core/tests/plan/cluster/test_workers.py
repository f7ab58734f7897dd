"""How many workers there are and which go (spec raycluster.md 4.5, 4.6 and 8.6; cases.md RC-03, AS-01, AS-02, AS-07)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.hooks.calls import NoHooks
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, Delete


class WithAutoscaler(NoHooks):
    def has(self, plugin: str) -> bool:
        return plugin == "autoscaler-v2"


def autoscaled(kubernetes: Any, body: Any, **arguments: Any) -> Any:
    """A cluster whose autoscaler plugin is there, as far as counting goes."""
    body["spec"]["enableInTreeAutoscaling"] = True
    return kubernetes(body, hooks=WithAutoscaler(), **arguments)


def scale(tiny: Any, replicas: int, to_delete: list[str] | None = None) -> None:
    def change(spec: Any) -> None:
        group = spec["workerGroupSpecs"][0]
        group["replicas"] = replicas
        group["scaleStrategy"] = {"workersToDelete": to_delete or []}

    tiny.edit(change)


def deleted(tiny: Any) -> list[str]:
    return [write.name for write in tiny.writes if isinstance(write, Delete)]


def created(tiny: Any) -> list[str]:
    return [write.name for write in tiny.writes if isinstance(write, Create)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"replicas": None, "minReplicas": 1}, 1),
        ({"replicas": 0, "minReplicas": 1}, 1),
        ({"replicas": 4, "maxReplicas": 3}, 3),
        ({"replicas": 3, "numOfHosts": 4}, 12),
        ({"replicas": 9, "maxReplicas": 5}, 5),
    ],
)
def test_number_of_workers(kubernetes: Any, cluster: Any, group: Any, fields: dict[str, Any], expected: int) -> None:
    tiny = kubernetes(cluster(groups=[group(**fields)]))
    tiny.settle()
    assert len(tiny.workers) == expected
    assert tiny.status["state"] == "ready"
    assert tiny.status.get("desiredWorkerReplicas", 0) == expected


@pytest.mark.parametrize(
    ("random_delete", "missing_names", "left"),
    [(True, 0, 3), (True, 1, 3), (True, 2, 3), (False, 0, 3), (False, 1, 4), (False, 2, 5)],
)
def test_scale_down_by_name(
    kubernetes: Any, cluster: Any, group: Any, random_delete: bool, missing_names: int, left: int
) -> None:
    """AS-01: exactly the named workers go; names that do not exist are skipped."""
    config = PlanConfig(random_pod_delete=random_delete)
    tiny = autoscaled(kubernetes, cluster(groups=[group(replicas=5)]), config=config)
    tiny.settle()
    names = sorted(tiny.workers)
    named = [*names[2:4][missing_names:], *(f"ghost-{n}" for n in range(missing_names))]
    scale(tiny, 3, named)
    tiny.settle()
    assert len(tiny.workers) == left
    assert not set(named) & set(tiny.workers)


def test_named_workers_that_linger_do_not_cost_bystanders(kubernetes: Any, cluster: Any, group: Any) -> None:
    """AS-01 with pods that terminate slowly."""
    tiny = autoscaled(kubernetes, cluster(groups=[group(replicas=5)]), config=PlanConfig(random_pod_delete=True))
    tiny.settle()
    named = sorted(tiny.workers)[1:3]
    tiny.keep_terminating = True
    scale(tiny, 3, named)
    for _ in range(3):
        tiny.reconcile()
    assert sorted(deleted(tiny)) == named


def test_autoscaler_alone_chooses(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = autoscaled(kubernetes, cluster(groups=[group(replicas=3)]))
    tiny.settle()
    scale(tiny, 1)
    tiny.settle()
    assert deleted(tiny) == []


def test_a_failed_worker_that_is_named_goes_and_is_replaced(kubernetes: Any, cluster: Any, group: Any) -> None:
    """AS-02; with unchanged replicas the place is filled again."""
    tiny = autoscaled(kubernetes, cluster(groups=[group(replicas=1)]))
    tiny.settle()
    (name,) = tiny.workers
    tiny.set_pod(name, phase="Failed")
    scale(tiny, 1, [name])
    tiny.settle()
    assert deleted(tiny) == [name]
    assert len(tiny.workers) == 1


def test_pods_of_others_cannot_be_named(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    scale(tiny, 3, [tiny.head["metadata"]["name"], "somebody-elses"])
    tiny.settle()
    assert deleted(tiny) == []


def test_surplus_takes_those_not_ready_first(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    lame = sorted(tiny.workers)[0]
    tiny.set_pod(lame, phase="Pending")
    scale(tiny, 2)
    tiny.settle()
    assert deleted(tiny) == [lame]


def test_surplus_keeps_low_indices(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    scale(tiny, 1)
    tiny.settle()
    assert indices(tiny) == [0]


def indices(tiny: Any) -> list[int]:
    found = [int(pod["metadata"]["labels"]["ray.io/worker-group-replica-index"]) for pod in tiny.workers.values()]
    return sorted(found)


def test_scale_down_waits_for_lingering_pods(kubernetes: Any, cluster: Any) -> None:
    """One worker too many: exactly one gets a deletion, however long it lingers."""
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.keep_terminating = True
    scale(tiny, 2)
    for _ in range(4):
        tiny.reconcile()
    assert len(deleted(tiny)) == 1


def test_externally_deleted_worker_is_replaced_with_its_index(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    (name,) = [
        n for n, p in tiny.workers.items() if p["metadata"]["labels"]["ray.io/worker-group-replica-index"] == "1"
    ]
    del tiny.objects[next(key for key in tiny.objects if key[1] == name)]
    tiny.settle()
    assert indices(tiny) == [0, 1, 2]
    scale(tiny, 4)
    tiny.settle()
    assert indices(tiny) == [0, 1, 2, 3]


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_ended_worker_is_replaced_in_the_same_pass(kubernetes: Any, cluster: Any, phase: str) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    name = sorted(tiny.workers)[0]
    tiny.set_pod(name, phase=phase)
    tiny.keep_terminating = True
    tiny.reconcile()
    assert deleted(tiny) == [name]
    assert len([n for n in tiny.workers if n != name]) == 3
    tiny.reconcile()
    assert len(tiny.workers) == 4


def test_worker_whose_ray_ended_is_waited_for(kubernetes: Any, cluster: Any, group: Any) -> None:
    """Its sidecars may still hold a device, so it counts until it is gone."""
    body = group(replicas=1)
    body["template"]["spec"]["restartPolicy"] = "Never"
    tiny = kubernetes(cluster(groups=[body]))
    tiny.settle()
    (name,) = tiny.workers
    tiny.set_pod(name, phase="Running", terminated=True)
    tiny.keep_terminating = True
    tiny.reconcile()
    assert (deleted(tiny), list(tiny.workers)) == ([name], [name])
    del tiny.objects[next(key for key in tiny.objects if key[1] == name)]
    tiny.settle()
    assert len(tiny.workers) == 1


def test_suspended_group(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group("a", 2), group("b", 1)]))
    tiny.settle()
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(suspend=True))
    tiny.settle()
    assert [pod["metadata"]["labels"]["ray.io/group"] for pod in tiny.workers.values()] == ["b"]
    (event,) = [event for event in tiny.events if event.reason == "DeletedWorkerPod"]
    assert event.note == "Deleted all pods for suspended worker group a in RayCluster default/pair"
    assert tiny.status["state"] == "ready"


def test_removed_group_shows_while_its_pods_go(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-03."""
    tiny = kubernetes(cluster(groups=[group("cpu", 1), group("gpu", 2)]))
    tiny.settle()
    tiny.keep_terminating = True
    tiny.edit(lambda spec: spec["workerGroupSpecs"].pop())
    tiny.reconcile()
    assert len(deleted(tiny)) == 2
    (event,) = [event for event in tiny.events if event.reason == "DeletedWorkerPod"]
    assert 'worker group "gpu" is no longer in the spec' in event.note
    assert event.count == 2
    condition = tiny.condition("WorkerGroupRemoved")
    assert condition is not None
    assert "[gpu]" in condition["message"]
    for name in deleted(tiny):
        del tiny.objects[next(key for key in tiny.objects if key[1] == name)]
    tiny.settle()
    assert tiny.condition("WorkerGroupRemoved") is None


# Multi-host groups


def replicas(tiny: Any) -> dict[str, list[str]]:
    """Replica names to host indices."""
    found: dict[str, list[str]] = {}
    for pod in tiny.workers.values():
        labels = pod["metadata"]["labels"]
        found.setdefault(labels["ray.io/worker-group-replica-name"], []).append(labels["ray.io/replica-host-index"])
    return {name: sorted(hosts) for name, hosts in found.items()}


def test_multi_host_replicas(kubernetes: Any, cluster: Any, group: Any) -> None:
    """RC-27."""
    tiny = kubernetes(cluster(groups=[group("tpu", 3, numOfHosts=4, maxReplicas=4)]))
    tiny.settle()
    assert list(replicas(tiny).values()) == [["0", "1", "2", "3"]] * 3
    assert sorted(set(indices(tiny))) == [0, 1, 2]
    status = tiny.status
    assert (status["desiredWorkerReplicas"], status.get("minWorkerReplicas"), status["maxWorkerReplicas"]) == (
        12,
        None,
        16,
    )
    assert status["state"] == "ready"
    assert [write.name for write in tiny.writes if write.kind.kind == "Service"] == ["pair-head-svc", "pair-headless"]


def test_a_lost_host_takes_its_replica_along(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group("tpu", 2, numOfHosts=4)]))
    tiny.settle()
    before = replicas(tiny)
    lost = sorted(tiny.workers)[0]
    broken = tiny.workers[lost]["metadata"]["labels"]["ray.io/worker-group-replica-name"]
    del tiny.objects[next(key for key in tiny.objects if key[1] == lost)]
    tiny.settle()
    after = replicas(tiny)
    assert len(deleted(tiny)) == 3
    assert broken not in after
    assert set(before) - {broken} < set(after)
    assert list(after.values()) == [["0", "1", "2", "3"]] * 2
    assert sorted(set(indices(tiny))) == [0, 1]


def test_an_ended_host_takes_its_replica_along(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group("tpu", 2, numOfHosts=2)]))
    tiny.settle()
    tiny.set_pod(sorted(tiny.workers)[0], phase="Failed")
    tiny.settle()
    assert len(deleted(tiny)) == 2
    assert list(replicas(tiny).values()) == [["0", "1"]] * 2


def test_naming_a_host_removes_its_replica(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = autoscaled(kubernetes, cluster(groups=[group("tpu", 3, numOfHosts=2)]))
    tiny.settle()
    hosts = sorted(
        tiny.workers.items(), key=lambda item: item[1]["metadata"]["labels"]["ray.io/worker-group-replica-name"]
    )
    named = [hosts[0][0], "ghost"]
    scale(tiny, 2, named)
    tiny.settle()
    assert sorted(deleted(tiny)) == sorted([hosts[0][0], hosts[1][0]])
    assert len(tiny.workers) == 4


def test_lingering_replica_is_neither_replaced_nor_deleted_twice(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group("tpu", 2, numOfHosts=2)]))
    tiny.settle()
    tiny.keep_terminating = True
    scale(tiny, 1)
    for _ in range(3):
        tiny.reconcile()
    assert len(deleted(tiny)) == 2
    assert len(tiny.workers) == 4


def test_pods_without_a_replica_name_are_left_alone(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group("tpu", 1, numOfHosts=2)]))
    tiny.settle()
    for pod in tiny.workers.values():
        del pod["metadata"]["labels"]["ray.io/worker-group-replica-name"]
    old = set(tiny.workers)
    tiny.settle()
    assert deleted(tiny) == []
    assert len(set(tiny.workers) - old) == 2


def test_without_the_gate_hosts_are_counted_one_by_one(kubernetes: Any, cluster: Any, group: Any) -> None:
    gates = {"RayClusterStatusConditions": True, "RayMultiHostIndexing": False}
    tiny = kubernetes(cluster(groups=[group("tpu", 2, numOfHosts=2)]), gates=gates)
    tiny.settle()
    lost = sorted(tiny.workers)[0]
    del tiny.objects[next(key for key in tiny.objects if key[1] == lost)]
    tiny.settle()
    assert (deleted(tiny), len(tiny.workers)) == ([], 4)
    assert all("replica" not in label for pod in tiny.workers.values() for label in pod["metadata"]["labels"])
