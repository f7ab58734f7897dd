"""Pods, status and upgrades against single lines of raycluster.md (ids name the section) and user cases about counts."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, SERVICE
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, Delete, Write
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager

Manifest = dict[str, Any]


def with_autoscaler() -> PluginManager:
    return PluginManager(load(["autoscaler-v2"]))


def deleted(tiny: Any) -> list[str]:
    return [write.name for write in tiny.writes if isinstance(write, Delete)]


def created(tiny: Any) -> list[str]:
    return [write.name for write in tiny.writes if isinstance(write, Create) and write.kind == POD]


def first(spec: Manifest) -> Manifest:
    found: Manifest = spec["workerGroupSpecs"][0]
    return found


def labels(tiny: Any) -> list[dict[str, str]]:
    return [pod["metadata"]["labels"] for pod in tiny.workers.values()]


# 4.5 and 8.6: how many


@pytest.mark.parametrize("random_delete", [True, False])
def test_without_the_autoscaler_surplus_goes_whatever_the_flag(
    kubernetes: Any, cluster: Any, group: Any, random_delete: bool
) -> None:
    """8.6: autoscaling nil, replicas 2, 5 pods."""
    tiny = kubernetes(cluster(groups=[group(replicas=5)]), config=PlanConfig(random_pod_delete=random_delete))
    tiny.settle()
    tiny.edit(lambda spec: first(spec).update(replicas=2))
    tiny.settle()
    assert len(tiny.workers) == 2
    assert tiny.status["state"] == "ready"


def test_hand_raised_minimum_and_replicas_out_of_range(kubernetes: Any, cluster: Any, group: Any) -> None:
    """AS-07: the number is clamped into the bounds, also with the autoscaler, and never written back."""
    body = cluster(groups=[group("g", 1, maxReplicas=5)], enableInTreeAutoscaling=True)
    tiny = kubernetes(body, hooks=with_autoscaler())
    tiny.settle()
    for change, expected in (({"minReplicas": 2}, 2), ({"replicas": 9}, 5), ({"maxReplicas": 7}, 7)):
        tiny.edit(lambda spec, change=change: first(spec).update(change))
        spec = copy.deepcopy(tiny.cluster["spec"])
        tiny.settle()
        assert len(tiny.workers) == expected == tiny.status["desiredWorkerReplicas"]
        assert tiny.cluster["spec"] == spec
    assert deleted(tiny) == []


def test_without_replicas_the_minimum_is_made_and_nothing_of_the_spec_is_written(
    kubernetes: Any, cluster: Any, group: Any
) -> None:
    """AS-06: a sync tool that owns a spec without ``replicas`` sees no drift of the operator's making."""
    body = cluster(groups=[group("g", None, minReplicas=1, maxReplicas=5)], enableInTreeAutoscaling=True)
    tiny = kubernetes(body, hooks=with_autoscaler())
    tiny.settle()
    assert len(tiny.workers) == 1
    assert tiny.cluster["spec"] == body["spec"]
    # What the autoscaler writes is followed; what the sync tool takes back is no reason to delete anything.
    tiny.edit(lambda spec: first(spec).update(replicas=3))
    tiny.settle()
    tiny.edit(lambda spec: first(spec).pop("replicas"))
    tiny.settle()
    assert (len(tiny.workers), deleted(tiny)) == (3, [])
    assert not [write for write in tiny.writes if write.kind.kind == "RayCluster"]


@pytest.mark.parametrize(
    ("version", "policy", "told"),
    [
        pytest.param("v2", None, "", id="unset"),
        pytest.param("v2", "Never", "", id="never"),
        pytest.param(
            "v2",
            "Always",
            "The RayCluster spec is invalid default/pair: restartPolicy for worker group b should be Never or unset when "
            "using autoscaler V2",
            id="refused",
        ),
        pytest.param(
            "v1",
            "Always",
            "RayCluster spec warning default/pair: restartPolicy for worker groups [b] should be Never or unset when "
            "using autoscaler V1",
            id="warned",
        ),
    ],
)
def test_restart_policies_under_the_autoscaler(
    kubernetes: Any, cluster: Any, group: Any, version: str, policy: str | None, told: str
) -> None:
    """AS-08: unset becomes Never with v2, another value is refused once and by group; v1 warns and runs."""
    body = cluster(
        groups=[group("a", 1), group("b", 1)], enableInTreeAutoscaling=True, autoscalerOptions={"version": version}
    )
    body = copy.deepcopy(body)
    if policy is not None:
        body["spec"]["workerGroupSpecs"][1]["template"]["spec"]["restartPolicy"] = policy
    tiny = kubernetes(body, hooks=with_autoscaler())
    tiny.settle()
    tiny.settle()
    assert [event.note for event in tiny.events if event.type == "Warning"] == ([told] if told else [])
    if told and version == "v2":
        assert tiny.pods == {}
        return
    found = {p["metadata"]["labels"]["ray.io/group"]: p["spec"].get("restartPolicy") for p in tiny.pods.values()}
    wanted = "Never" if version == "v2" else None
    assert found == {"headgroup": wanted, "a": wanted, "b": policy or wanted}


def test_single_hosts_have_an_index_and_nothing_else(kubernetes: Any, cluster: Any, group: Any) -> None:
    """8.6."""
    tiny = kubernetes(cluster(groups=[group(replicas=3)]))
    tiny.settle()
    assert sorted(label["ray.io/worker-group-replica-index"] for label in labels(tiny)) == ["0", "1", "2"]
    for label in labels(tiny):
        assert not {"ray.io/worker-group-replica-name", "ray.io/replica-host-index"} & label.keys()


@pytest.mark.parametrize("random_delete", [True, False])
def test_hosts_of_several_replicas_are_named(kubernetes: Any, cluster: Any, group: Any, random_delete: bool) -> None:
    """8.6: whole replicas go, those of names that are not in the group are ignored, and nobody goes for them."""
    tiny = kubernetes(
        cluster(groups=[group("tpu", 4, numOfHosts=3)], enableInTreeAutoscaling=True),
        hooks=with_autoscaler(),
        config=PlanConfig(random_pod_delete=random_delete),
    )
    tiny.settle()
    hosts: dict[str, list[str]] = {}
    for name, pod in tiny.workers.items():
        hosts.setdefault(pod["metadata"]["labels"]["ray.io/worker-group-replica-name"], []).append(name)
    going = sorted(hosts)[:2]
    named = [hosts[going[0]][0], hosts[going[1]][2], hosts[going[1]][1], tiny.head["metadata"]["name"], "nobody"]
    tiny.edit(lambda spec: first(spec).update(replicas=2, scaleStrategy={"workersToDelete": named}))
    tiny.settle()
    assert sorted(deleted(tiny)) == sorted(hosts[going[0]] + hosts[going[1]])
    assert len(tiny.workers) == 6
    notes = {event.note.partition(": ")[2] for event in tiny.events if event.reason == "DeletedWorkerPod"}
    assert notes == {"autoscaler scale-down request"}


@pytest.mark.parametrize(("before", "after"), [(1, 2), (1, 4), (2, 4)])
@pytest.mark.parametrize("strategy", [None, "Rolling"])
def test_more_hosts_a_replica_on_a_live_group(
    kubernetes: Any, cluster: Any, group: Any, before: int, after: int, strategy: str | None
) -> None:
    """4.6: replicas that are incomplete now are replaced; also those of a time when one host was all of it."""
    options = {"upgradeStrategy": {"type": strategy}} if strategy else {}
    tiny = kubernetes(cluster(groups=[group("tpu", 2, numOfHosts=before), group("cpu", 1)], **options))
    tiny.settle()
    kept = {name for name, pod in tiny.pods.items() if pod["metadata"]["labels"]["ray.io/group"] != "tpu"}
    old = set(tiny.pods) - kept
    tiny.edit(lambda spec: first(spec).update(numOfHosts=after))
    tiny.settle(passes=40)
    assert set(deleted(tiny)) == old
    assert kept < set(tiny.pods)
    places = sorted(
        (label["ray.io/worker-group-replica-index"], label["ray.io/replica-host-index"])
        for label in labels(tiny)
        if label["ray.io/group"] == "tpu"
    )
    assert places == [(str(index), str(host)) for index in range(2) for host in range(after)]
    assert tiny.status["state"] == "ready"
    assert tiny.condition("RollingUpgrade") is None


def test_pods_of_an_operator_that_did_not_index_are_nobodys(kubernetes: Any, cluster: Any, group: Any) -> None:
    """4.6: neither counted nor deleted."""
    tiny = kubernetes(cluster(groups=[group("tpu", 2)]), gates={**DEFAULT_GATES, "RayMultiHostIndexing": False})
    tiny.settle()
    old = set(tiny.workers)
    tiny.gates["RayMultiHostIndexing"] = True
    tiny.edit(lambda spec: first(spec).update(numOfHosts=2))
    tiny.settle()
    assert deleted(tiny) == []
    assert len(set(tiny.workers) - old) == 4


def test_fewer_hosts_a_replica_leave_whole_replicas_alone(kubernetes: Any, cluster: Any, group: Any) -> None:
    """4.6: a replica with more hosts than needed is valid."""
    tiny = kubernetes(cluster(groups=[group("tpu", 2, numOfHosts=4)]))
    tiny.settle()
    tiny.edit(lambda spec: first(spec).update(numOfHosts=2))
    tiny.settle()
    assert deleted(tiny) == []
    tiny.edit(lambda spec: first(spec).update(replicas=1))
    tiny.settle()
    assert len(deleted(tiny)) == 4


def test_a_replica_that_is_incomplete_while_replicas_are_edited(kubernetes: Any, cluster: Any, group: Any) -> None:
    """8.6: it goes as a whole and does not count; the healthy one is not touched."""
    tiny = kubernetes(cluster(groups=[group("tpu", 2, numOfHosts=2)]))
    tiny.settle()
    lost = sorted(tiny.workers)[0]
    broken = tiny.workers[lost]["metadata"]["labels"]["ray.io/worker-group-replica-name"]
    healthy = {
        n for n, p in tiny.workers.items() if p["metadata"]["labels"]["ray.io/worker-group-replica-name"] != broken
    }
    del tiny.objects[POD, lost]
    tiny.edit(lambda spec: first(spec).update(replicas=1))
    tiny.settle()
    assert set(tiny.workers) == healthy
    assert len(created(tiny)) == 1 + 4


def test_delete_all_leaves_what_is_going_and_what_is_not_ours(kubernetes: Any, cluster: Any) -> None:
    """4.1 and 8.6: a second look deletes nothing."""
    tiny = kubernetes(cluster())
    tiny.settle()
    going, stranger = sorted(tiny.workers)[:2]
    tiny.pods[going]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    del tiny.pods[stranger]["metadata"]["ownerReferences"]
    tiny.keep_terminating = True
    tiny.edit(lambda spec: spec.update(suspend=True))
    tiny.reconcile()
    assert sorted(deleted(tiny)) == sorted(tiny.pods.keys() - {going, stranger})
    count = len(tiny.writes)
    tiny.reconcile()
    assert len(tiny.writes) == count


@pytest.mark.parametrize(
    ("spec", "gates"),
    [
        pytest.param({"enableInTreeAutoscaling": True}, {}, id="autoscaler"),
        pytest.param({}, {"RayJobDeletionPolicy": False}, id="gate-off"),
    ],
)
def test_a_group_that_may_not_be_suspended_keeps_its_workers(
    kubernetes: Any, cluster: Any, spec: Manifest, gates: dict[str, bool]
) -> None:
    """8.6."""
    tiny = kubernetes(cluster(**spec), hooks=with_autoscaler(), gates={**DEFAULT_GATES, **gates})
    tiny.settle()
    before = len(tiny.writes)
    tiny.edit(lambda spec: first(spec).update(suspend=True))
    tiny.settle()
    assert (len(tiny.workers), len(tiny.writes)) == (3, before)
    assert tiny.condition("RayClusterSpecValid")["status"] == "False"
    tiny.edit(lambda spec: first(spec).update(suspend=False))
    tiny.settle()
    assert tiny.condition("RayClusterSpecValid") is None
    assert deleted(tiny) == []


def test_two_pods_fail_at_once(kubernetes: Any, cluster: Any) -> None:
    """4.7: head and worker in one pass, each with an event of its own."""
    tiny = kubernetes(cluster())
    tiny.settle()
    head, worker = tiny.head["metadata"]["name"], sorted(tiny.workers)[1]
    for name in (head, worker):
        tiny.set_pod(name, phase="Failed", terminated=True)
    tiny.reconcile()
    assert deleted(tiny) == [head, worker]
    assert len(tiny.pods) == 4
    assert {event.reason for event in tiny.events} >= {"DeletedHeadPod", "DeletedWorkerPod"}
    tiny.settle()
    assert tiny.status["state"] == "ready"


def test_managed_by_somebody_else_later(kubernetes: Any, cluster: Any) -> None:
    """6.6 and 1.1: the API server only refuses a change of a value that is there."""
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.edit(lambda spec: spec.update(managedBy="kueue.x-k8s.io/multikueue"))
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    status, writes = copy.deepcopy(tiny.status), len(tiny.writes)
    plan = tiny.reconcile()
    assert (len(tiny.writes), tiny.status, plan.waiting, plan.probes) == (writes, status, "", [])
    tiny.edit(lambda spec: spec.pop("managedBy"))
    tiny.settle()
    assert tiny.status["state"] == "ready"


# 4.3 and 8.7: nothing is made or deleted twice, whatever is not seen yet


def test_pods_that_are_going_for_ever(kubernetes: Any, cluster: Any) -> None:
    """8.6: exactly one worker is deleted for one too many, and none is made while it lingers."""
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.keep_terminating = True
    tiny.edit(lambda spec: first(spec).update(replicas=2))
    for _ in range(5):
        tiny.now += timedelta(minutes=10)
        tiny.reconcile()
    assert (len(deleted(tiny)), len(created(tiny))) == (1, 4)
    tiny.edit(lambda spec: first(spec).update(replicas=3))
    for _ in range(3):
        tiny.reconcile()
    assert (len(deleted(tiny)), len(created(tiny))) == (1, 5), "one that was drained is not counted"


# 5 and 8.8: status


def test_a_pass_with_an_error_makes_nothing_ready(kubernetes: Any, cluster: Any) -> None:
    """8.8: the next clean pass does; a later error leaves state and transition time as they are."""
    tiny = kubernetes(cluster())
    tiny.reconcile()
    tiny.start_pods()
    tiny.objects.pop((SERVICE, "pair-head-svc"))
    tiny.refuse = lambda write: "no" if write.kind == SERVICE else ""
    tiny.reconcile()
    assert "state" not in tiny.status
    assert "stateTransitionTimes" not in tiny.status
    tiny.refuse = lambda write: ""
    tiny.now += timedelta(seconds=30)
    tiny.reconcile()
    assert tiny.status["state"] == "ready"
    assert tiny.status["stateTransitionTimes"] == {"ready": tiny.status["lastUpdateTime"]}
    since = tiny.status["stateTransitionTimes"]
    tiny.now += timedelta(hours=1)
    tiny.set_pod(sorted(tiny.workers)[0], phase="Failed")
    tiny.refuse = lambda write: "no" if isinstance(write, Delete) else ""
    tiny.reconcile()
    assert tiny.condition("ReplicaFailure")["reason"] == "FailedDeleteWorkerPod"
    assert (tiny.status["state"], tiny.status["stateTransitionTimes"]) == ("ready", since)


def test_only_the_head_is_there(kubernetes: Any, cluster: Any) -> None:
    """8.8: three workers are wanted, so the state stays empty, although all pods that are there are ready."""
    tiny = kubernetes(cluster())
    tiny.refuse = lambda write: "quota" if isinstance(write, Create) and "-worker-" in write.name else ""
    tiny.reconcile()
    tiny.start_pods()
    tiny.now += timedelta(seconds=30)
    tiny.reconcile()
    assert "state" not in tiny.status
    assert "stateTransitionTimes" not in tiny.status
    assert tiny.status["desiredWorkerReplicas"] == 3
    assert tiny.condition("HeadPodReady")["status"] == "True"


def test_a_head_without_an_address(kubernetes: Any, cluster: Any) -> None:
    """8.8: its name is told, its address is not."""
    tiny = kubernetes(cluster())
    tiny.reconcile()
    name = tiny.head["metadata"]["name"]
    assert tiny.status["head"] == {"podName": name, "serviceName": "pair-head-svc"}
    tiny.settle()
    address = tiny.head["status"]["podIP"]
    assert tiny.status["head"] == {
        "podName": name,
        "podIP": address,
        "serviceName": "pair-head-svc",
        "serviceIP": address,
    }
    assert tiny.status["endpoints"] == {
        "client": "10001",
        "dashboard": "8265",
        "gcs-server": "6379",
        "metrics": "8080",
        "serve": "8000",
    }


def test_transition_times_move_with_the_status_only(kubernetes: Any, cluster: Any) -> None:
    """5.5: another reason or message does not move them."""
    tiny = kubernetes(cluster())
    tiny.settle()
    began = tiny.condition("HeadPodReady")["lastTransitionTime"]
    head = tiny.head["metadata"]["name"]
    for reason in ("KubeletNotReady", "SomethingElse"):
        tiny.now += timedelta(minutes=1)
        tiny.set_pod(head, phase="Running", ready=False)
        tiny.pods[head]["status"]["conditions"][0]["reason"] = reason
        tiny.reconcile()
        condition = tiny.condition("HeadPodReady")
        assert (condition["status"], condition["reason"]) == ("False", reason)
        if reason == "KubeletNotReady":
            fell = condition["lastTransitionTime"]
            assert fell != began
    assert condition["lastTransitionTime"] == fell


# 4.8 and 4.9 in the middle of other things


def test_suspended_while_workers_are_drained(kubernetes: Any, cluster: Any) -> None:
    """4.8: nothing is waited for, and what was drained does not come back as such."""
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.drain = lambda name: "draining"
    tiny.edit(lambda spec: first(spec).update(replicas=1))
    tiny.reconcile()
    assert len(tiny.pods) == 4
    tiny.edit(lambda spec: spec.update(suspend=True))
    tiny.settle()
    assert tiny.pods == {}
    tiny.edit(lambda spec: spec.update(suspend=False, workerGroupSpecs=[{**first(spec), "replicas": 3}]))
    tiny.settle()
    assert len(tiny.workers) == 3
    assert tiny.status["state"] == "ready"


def test_suspended_while_it_is_being_recreated(kubernetes: Any, cluster: Any) -> None:
    """4.2: suspension comes first, and the resumed cluster is of the new spec."""
    tiny = kubernetes(cluster(upgradeStrategy={"type": "Recreate"}))
    tiny.settle()
    tiny.keep_terminating = True
    tiny.edit(lambda spec: spec.update(rayVersion="2.55.0"))
    tiny.reconcile()
    assert len(deleted(tiny)) == 4
    tiny.edit(lambda spec: spec.update(suspend=True))
    tiny.reconcile()
    assert len(deleted(tiny)) == 4
    assert tiny.condition("PodsWaiting") is None
    for name in list(tiny.pods):
        del tiny.objects[POD, name]
    tiny.settle()
    assert tiny.status["state"] == "suspended"
    tiny.edit(lambda spec: spec.update(suspend=False))
    tiny.settle()
    assert tiny.status["state"] == "ready"
    assert len(created(tiny)) == 8


@pytest.mark.parametrize(
    ("strategies", "recreated"),
    [
        pytest.param([None, {"type": "Recreate"}], True, id="then-recreate"),
        pytest.param([{}, {"type": None}, {"type": "None"}], False, id="4.9-nothing"),
        pytest.param([{"type": "None"}, None], False, id="4.9-none"),
    ],
)
def test_a_strategy_chosen_after_the_edit(
    kubernetes: Any, cluster: Any, strategies: list[Any], recreated: bool
) -> None:
    """4.9: the strategy itself is no change; a change that waits is made good when Recreate is chosen."""
    tiny = kubernetes(cluster())
    tiny.settle()
    before = set(tiny.pods)
    tiny.edit(lambda spec: spec.update(rayVersion="2.55.0"))
    tiny.settle()
    for strategy in strategies:
        assert set(tiny.pods) == before
        tiny.edit(lambda spec, strategy=strategy: spec.update(upgradeStrategy=strategy))
        tiny.settle()
    assert (not before & set(tiny.pods)) is recreated
    assert (set(tiny.pods) == before) is not recreated


def test_choosing_recreate_without_a_change_recreates_nothing(kubernetes: Any, cluster: Any) -> None:
    """4.9."""
    tiny = kubernetes(cluster())
    tiny.settle()
    for type_ in ("Recreate", "Rolling", "None", "Recreate"):
        tiny.edit(lambda spec, type_=type_: spec.update(upgradeStrategy={"type": type_}))
        tiny.settle()
    assert deleted(tiny) == []


def refuse_deletes(write: Write) -> str:
    return "no" if isinstance(write, Delete) else ""


@pytest.mark.parametrize(
    ("change", "reason", "note"),
    [
        pytest.param(
            lambda spec: spec.update(rayVersion="2.55.0"),
            "FailedToDeletePodCollection",
            "Failed deleting Pods due to spec change with Recreate upgradeStrategy for RayCluster default/pair, no",
            id="7-recreate",
        ),
        pytest.param(
            lambda spec: first(spec).update(scaleStrategy={"workersToDelete": ["WORKER"]}),
            "FailedToDeleteWorkerPod",
            "Failed deleting pod default/WORKER, no",
            id="7-named",
        ),
        pytest.param(
            lambda spec: first(spec).update(replicas=0),
            "FailedToDeleteWorkerPod",
            "Failed deleting Pod default/WORKER, no",
            id="7-surplus",
        ),
        pytest.param(
            lambda spec: first(spec).update(suspend=True),
            "FailedToDeleteWorkerPodCollection",
            "Failed deleting worker Pods for suspended group crew in RayCluster default/pair, no",
            id="7-group",
        ),
    ],
)
def test_a_deletion_that_fails(kubernetes: Any, cluster: Any, group: Any, change: Any, reason: str, note: str) -> None:
    """7 and 5.5."""
    strategy = {"upgradeStrategy": {"type": "Recreate"}} if reason == "FailedToDeletePodCollection" else {}
    body = cluster(groups=[group(replicas=1)], **strategy)
    tiny = kubernetes(body, config=PlanConfig(operator_version="1", drain_timeout=timedelta(0)))
    tiny.settle()
    (worker,) = tiny.workers

    def edit(spec: Manifest) -> None:
        change(spec)
        named = first(spec).get("scaleStrategy", {}).get("workersToDelete")
        if named:
            named[:] = [worker]

    tiny.edit(edit)
    tiny.refuse = refuse_deletes
    tiny.reconcile()
    (event,) = [event for event in tiny.events if event.type == "Warning"]
    assert (event.reason, event.action, event.note) == (reason, "Delete", note.replace("WORKER", worker))
    marker = "FailedDeleteAllPods" if reason == "FailedToDeletePodCollection" else "FailedDeleteWorkerPod"
    condition = tiny.condition("ReplicaFailure")
    assert (condition["status"], condition["reason"], condition["message"]) == ("True", marker, f"{marker}\nno")
    tiny.refuse = lambda write: ""
    tiny.settle()
    assert tiny.condition("ReplicaFailure") is None
