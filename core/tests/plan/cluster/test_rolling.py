"""Rolling upgrades: one group after its own edit, step by step, the head last (docs/upgrades.md; RC-04 and RC-17)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import POD
from kuberay.plan.build.pods import PodFactory
from kuberay.plan.model import Create, Patch

GROUP_HASH = "ray.io/group-spec-hash"
RECREATE_HASH = "ray.io/upgrade-strategy-recreate-hash"
VERSION = "ray.io/kuberay-version"

NEW = "example.test/ray:new"
NEWER = "example.test/ray:newer"


def rolling(cluster: Any, groups: Any = None, *, strategy: Any = None, **spec: Any) -> Any:
    return cluster(groups=groups, upgradeStrategy={"type": "Rolling", **(strategy or {})}, **spec)


def image(name: str, group: int = 0) -> Callable[[Any], None]:
    def edit(spec: Any) -> None:
        spec["workerGroupSpecs"][group]["template"]["spec"]["containers"][0]["image"] = name

    return edit


def head_image(name: str) -> Callable[[Any], None]:
    def edit(spec: Any) -> None:
        spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = name

    return edit


def images(tiny: Any, group: str = "crew") -> list[str]:
    return sorted(
        pod["spec"]["containers"][0]["image"].rpartition(":")[2]
        for pod in tiny.workers.values()
        if pod["metadata"]["labels"]["ray.io/group"] == group
    )


def ready(pod: Any) -> bool:
    status = pod.get("status") or {}
    return status.get("phase") == "Running" and all(c["status"] == "True" for c in status.get("conditions", []))


def available(tiny: Any, group: str = "crew") -> int:
    return sum(
        ready(pod) and "deletionTimestamp" not in pod["metadata"]
        for pod in tiny.workers.values()
        if pod["metadata"]["labels"]["ray.io/group"] == group
    )


def end_terminating(tiny: Any) -> None:
    for name, body in tiny.pods.items():
        if "deletionTimestamp" in body["metadata"]:
            del tiny.objects[POD, name]


def roll_on(tiny: Any, *, least: int, most: int, group: str = "crew", steps: int = 40) -> int:
    """Plays an upgrade in small steps with pods that take their time to go and to come; returns the passes it took."""
    tiny.keep_terminating = True
    for step in range(steps):
        before = (len(tiny.writes), len(tiny.statuses))
        tiny.reconcile()
        assert available(tiny, group) >= least
        assert len([p for p in tiny.workers.values() if p["metadata"]["labels"]["ray.io/group"] == group]) <= most
        if step % 2:
            end_terminating(tiny)
        elif not tiny.start_pods() and (len(tiny.writes), len(tiny.statuses)) == before:
            tiny.keep_terminating = False
            return step
    raise AssertionError("the upgrade does not end")


def test_only_the_edited_group_is_replaced(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(rolling(cluster, [group("crew", 3), group("rest", 2)]))
    tiny.settle()
    before = set(tiny.pods)
    tiny.edit(image(NEW))
    roll_on(tiny, least=2, most=3)
    assert images(tiny) == ["new"] * 3
    gone = before - set(tiny.pods)
    assert len(gone) == 3
    assert all("-crew-" in name for name in gone)
    assert tiny.status["state"] == "ready"
    assert tiny.condition("RollingUpgrade") is None
    reasons = [event.reason for event in tiny.events]
    assert reasons.count("RollingUpgradeStarted") == reasons.count("RollingUpgradeCompleted") == 1
    tiny.writes.clear()
    tiny.settle()
    assert tiny.writes == []


@pytest.mark.parametrize(
    ("strategy", "least", "most"),
    [
        ({}, 3, 4),
        ({"maxUnavailable": 2}, 2, 4),
        ({"maxUnavailable": "50%"}, 2, 4),
        ({"maxUnavailable": "10%"}, 3, 4),
        ({"maxUnavailable": 0, "maxSurge": 1}, 4, 5),
        ({"maxUnavailable": 0, "maxSurge": "30%"}, 4, 6),
        ({"maxUnavailable": 1, "maxSurge": 1}, 3, 5),
        ({"maxUnavailable": "100%"}, 0, 4),
    ],
)
def test_bounds_hold_at_each_moment(
    kubernetes: Any, cluster: Any, group: Any, strategy: Any, least: int, most: int
) -> None:
    tiny = kubernetes(rolling(cluster, [group("crew", 4)], strategy=strategy))
    tiny.settle()
    tiny.edit(image(NEW))
    roll_on(tiny, least=least, most=most)
    assert images(tiny) == ["new"] * 4


def test_the_condition_counts(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(rolling(cluster))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.reconcile()
    tiny.start_pods()
    tiny.reconcile()
    condition = tiny.condition("RollingUpgrade")
    assert condition is not None
    assert (condition["status"], condition["reason"]) == ("True", "Progressing")
    assert condition["message"] == "group crew: 2 of 3 pods are of the new spec"


def test_unhealthy_pods_go_first(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(rolling(cluster))
    tiny.settle()
    lame = sorted(tiny.workers)[1]
    tiny.set_pod(lame, phase="Running", ready=False)
    tiny.reconcile()
    tiny.edit(image(NEW))
    tiny.keep_terminating = True
    tiny.reconcile()
    assert [name for name, pod in tiny.pods.items() if "deletionTimestamp" in pod["metadata"]] == [lame]


def test_a_new_edit_retargets(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(rolling(cluster))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.reconcile()
    assert images(tiny) == ["2.54.0", "2.54.0", "new"]
    tiny.edit(image(NEWER))
    roll_on(tiny, least=2, most=3)
    assert images(tiny) == ["newer"] * 3


def test_going_back_keeps_what_still_matches(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(rolling(cluster))
    tiny.settle()
    first = copy.deepcopy(tiny.cluster["spec"])
    tiny.edit(image(NEW))
    tiny.reconcile()
    kept = {name for name, pod in tiny.workers.items() if pod["spec"]["containers"][0]["image"] != NEW}
    assert len(kept) == 2
    tiny.edit(lambda spec: spec.update(first))
    tiny.settle()
    assert images(tiny) == ["2.54.0"] * 3
    assert kept < set(tiny.workers)


def test_new_pods_that_fail_stop_the_rollout(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(rolling(cluster, [group("crew", 4)], strategy={"maxUnavailable": 2}))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.run_pods = False
    for _ in range(6):
        tiny.reconcile()
        for name, pod in tiny.workers.items():
            if pod["spec"]["containers"][0]["image"] == NEW:
                tiny.set_pod(name, phase="Pending", ready=False)
                pod["status"]["conditions"].append({"type": "PodScheduled", "status": "True"})
                waiting = {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}
                pod["status"]["containerStatuses"] = [{"name": "helper", "state": waiting}]
        tiny.now += timedelta(minutes=10)
    assert images(tiny) == ["2.54.0", "2.54.0", "new", "new"]
    assert available(tiny) == 2
    condition = tiny.condition("RollingUpgrade")
    assert condition["reason"] == "Stuck"
    assert "does not become ready: container helper cannot pull its image" in condition["message"]
    assert [event.reason for event in tiny.events].count("RollingUpgradeStuck") == 1

    tiny.run_pods = True
    tiny.edit(image(NEWER))
    roll_on(tiny, least=2, most=4)
    assert images(tiny) == ["newer"] * 4


def test_it_is_done_when_the_last_new_pod_is_ready(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(rolling(cluster, [group("crew", 1)]))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.run_pods = False
    tiny.keep_terminating = True
    tiny.reconcile()
    end_terminating(tiny)
    for _ in range(3):
        tiny.reconcile()
    assert images(tiny) == ["new"]
    assert tiny.condition("RollingUpgrade")["message"] == "group crew: 1 of 1 pods are of the new spec, 0 of them ready"
    assert "RollingUpgradeCompleted" not in [event.reason for event in tiny.events]
    tiny.now += timedelta(minutes=10)
    tiny.reconcile()
    assert tiny.condition("RollingUpgrade")["reason"] == "Stuck"
    tiny.start_pods()
    tiny.settle()
    assert tiny.condition("RollingUpgrade") is None
    assert [event.reason for event in tiny.events].count("RollingUpgradeCompleted") == 1


def test_a_group_that_never_started_is_replaced_at_once(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(rolling(cluster))
    tiny.run_pods = False
    tiny.reconcile()
    for name in tiny.workers:
        tiny.set_pod(name, phase="Pending")
    tiny.edit(image(NEW))
    tiny.reconcile()
    assert images(tiny) == ["new"] * 3


def test_refused_creates_take_down_no_more(kubernetes: Any, cluster: Any, group: Any) -> None:
    """A quota that is used up in the middle: one worker is missing, the others stay."""
    tiny = kubernetes(rolling(cluster, [group("crew", 4)]))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.refuse = lambda write: "exceeded quota" if isinstance(write, Create) else ""
    for _ in range(6):
        tiny.reconcile()
        tiny.start_pods()
    assert images(tiny) == ["2.54.0"] * 3


def test_multi_host_replicas_go_as_a_whole(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(rolling(cluster, [group("crew", 3, numOfHosts=2)]))
    tiny.settle()
    tiny.edit(image(NEW))
    roll_on(tiny, least=4, most=6)
    assert images(tiny) == ["new"] * 6
    replicas: dict[str, int] = {}
    for pod in tiny.workers.values():
        name = pod["metadata"]["labels"]["ray.io/worker-group-replica-name"]
        replicas[name] = replicas.get(name, 0) + 1
    assert sorted(replicas.values()) == [2, 2, 2]


@pytest.mark.parametrize(("before", "after"), [(2, 3), (3, 2)])
def test_another_number_of_hosts_is_rolled_out(
    kubernetes: Any, cluster: Any, group: Any, before: int, after: int
) -> None:
    tiny = kubernetes(rolling(cluster, [group("crew", 3, numOfHosts=before)]))
    tiny.settle()
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(numOfHosts=after))
    roll_on(tiny, least=2 * min(before, after) if before > after else 0, most=3 * max(before, after))
    assert len(tiny.workers) == 3 * after


def test_scaling_in_the_middle(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(rolling(cluster, [group("crew", 4)]))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.reconcile()
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=2))
    roll_on(tiny, least=1, most=4)
    assert images(tiny) == ["new"] * 2
    tiny.edit(image(NEWER))
    tiny.reconcile()
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=5))
    roll_on(tiny, least=1, most=5)
    assert images(tiny) == ["newer"] * 5


def test_with_autoscaling_victims_stay_the_autoscalers_choice(
    kubernetes: Any, cluster: Any, group: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kuberay.plan.cluster.reconcile.missing_plugin", lambda cluster: "")
    tiny = kubernetes(rolling(cluster, [group("crew", 4)], enableInTreeAutoscaling=True))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=2))
    spec = copy.deepcopy(tiny.cluster["spec"])
    tiny.keep_terminating = True
    tiny.reconcile()
    going = [name for name, pod in tiny.workers.items() if "deletionTimestamp" in pod["metadata"]]
    assert len(going) == 1, "one step of the upgrade, and not all that are too many"
    assert tiny.cluster["spec"] == spec
    end_terminating(tiny)
    roll_on(tiny, least=1, most=4)
    assert images(tiny) == ["new"] * 2


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["workerGroupSpecs"][0].update(replicas=4),
        lambda spec: spec["workerGroupSpecs"][0].update(minReplicas=1, maxReplicas=9),
        lambda spec: spec["workerGroupSpecs"][0].update(scaleStrategy={"workersToDelete": ["ghost"]}),
        lambda spec: spec["workerGroupSpecs"][0].update(idleTimeoutSeconds=30),
        lambda spec: spec["workerGroupSpecs"][0].update(rayStartParams={}),
        lambda spec: spec["headGroupSpec"]["template"]["spec"].update(tolerations=[{"key": "k"}]),
        lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"].update(tolerations=[{"key": "k"}]),
        lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"].update(schedulingGates=[{"name": "k"}]),
        lambda spec: spec["headGroupSpec"].update(serviceType="NodePort"),
        lambda spec: spec.update(suspend=False),
        lambda spec: spec.update(upgradeStrategy={"type": "Rolling", "maxSurge": 1}),
        lambda spec: spec.update(upgradeStrategy={"type": "Rolling", "allowHeadRestart": True}),
    ],
)
def test_what_shapes_no_pod_is_no_reason(kubernetes: Any, cluster: Any, change: Any) -> None:
    """RC-17, for the strategy Rolling."""
    tiny = kubernetes(rolling(cluster, strategy={"allowHeadRestart": True}))
    tiny.settle()
    before = set(tiny.pods)
    tiny.edit(change)
    tiny.settle()
    assert before <= set(tiny.pods)


@pytest.mark.parametrize(
    "change",
    [
        image(NEW),
        lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"].update(
            cpu="2"
        ),
        lambda spec: spec["workerGroupSpecs"][0].update(rayStartParams={"num-cpus": "2"}),
        lambda spec: spec["workerGroupSpecs"][0].update(labels={"zone": "a"}),
        lambda spec: spec["workerGroupSpecs"][0]["template"].update(metadata={"annotations": {"a": "b"}}),
        lambda spec: spec.update(rayVersion="2.55.0"),
        lambda spec: spec["headGroupSpec"].update(rayStartParams={"port": "6380"}),
    ],
)
def test_what_shapes_workers_replaces_them(kubernetes: Any, cluster: Any, change: Any) -> None:
    tiny = kubernetes(rolling(cluster))
    tiny.settle()
    before = set(tiny.workers)
    tiny.edit(change)
    tiny.settle(passes=30)
    assert not before & set(tiny.workers)
    assert len(tiny.workers) == 3


# -- the head


def test_without_consent_the_head_stays(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(rolling(cluster))
    tiny.settle()
    before = set(tiny.pods)
    tiny.edit(head_image(NEW))
    tiny.settle()
    assert set(tiny.pods) == before
    condition = tiny.condition("HeadOutdated")
    assert (condition["status"], condition["reason"]) == ("True", "HeadRestartNotAllowed")
    assert "spec.upgradeStrategy.allowHeadRestart" in condition["message"]
    assert tiny.status["state"] == "ready"
    assert tiny.condition("RollingUpgrade") is None
    tiny.writes.clear()
    tiny.settle()
    assert tiny.writes == []

    tiny.edit(lambda spec: spec["upgradeStrategy"].update(allowHeadRestart=True))
    tiny.settle()
    assert tiny.head["spec"]["containers"][0]["image"] == NEW
    assert tiny.condition("HeadOutdated") is None
    assert set(tiny.workers) < before


@pytest.mark.parametrize("way", ["consent", "fault tolerance"])
def test_the_head_comes_last(kubernetes: Any, cluster: Any, way: str) -> None:
    body = rolling(cluster, strategy={"allowHeadRestart": True} if way == "consent" else None)
    if way != "consent":
        body["metadata"]["annotations"] = {"ray.io/ft-enabled": "true"}
    tiny = kubernetes(body)
    tiny.settle()
    old_head = tiny.head["metadata"]["name"]
    tiny.edit(image(NEW))
    tiny.edit(head_image(NEW))
    for _ in range(30):
        tiny.reconcile()
        if old_head not in tiny.pods:
            break
        tiny.start_pods()
    assert images(tiny) == ["new"] * 3
    assert all(ready(pod) for pod in tiny.workers.values())
    tiny.settle()
    assert tiny.head["spec"]["containers"][0]["image"] == NEW
    assert tiny.condition("RollingUpgrade") is None


def test_the_head_waits_for_workers_that_do_not_come_up(kubernetes: Any, cluster: Any, group: Any) -> None:
    """An image that is wrong for both must not end the cluster by its head."""
    tiny = kubernetes(rolling(cluster, [group("crew", 1)], strategy={"allowHeadRestart": True}))
    tiny.settle()
    head = tiny.head["metadata"]["name"]
    tiny.edit(image(NEW))
    tiny.edit(head_image(NEW))
    tiny.run_pods = False
    for _ in range(5):
        tiny.reconcile()
    assert images(tiny) == ["new"]
    assert head in tiny.pods
    assert "head is replaced when all workers are ready" in tiny.condition("RollingUpgrade")["message"]


def test_a_head_that_never_started_is_replaced_without_consent(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(rolling(cluster))
    tiny.run_pods = False
    tiny.reconcile()
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Pending")
    tiny.edit(head_image(NEW))
    tiny.reconcile()
    assert tiny.head["spec"]["containers"][0]["image"] == NEW


def test_a_head_that_must_not_come_back_is_not_replaced(kubernetes: Any, cluster: Any) -> None:
    body = rolling(cluster, strategy={"allowHeadRestart": True})
    body["metadata"]["annotations"] = {"ray.io/disable-provisioned-head-restart": "true"}
    tiny = kubernetes(body)
    tiny.settle()
    before = set(tiny.pods)
    tiny.edit(head_image(NEW))
    tiny.settle()
    assert set(tiny.pods) == before
    assert "ray.io/disable-provisioned-head-restart" in tiny.condition("HeadOutdated")["message"]


# -- pods that do not say what they were made from, and other versions of the operator


def test_turning_it_on_marks_pods_that_match(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    before = set(tiny.pods)
    assert all(GROUP_HASH not in pod["metadata"].get("annotations", {}) for pod in tiny.pods.values())
    tiny.writes.clear()
    tiny.edit(lambda spec: spec.update(upgradeStrategy={"type": "Rolling"}))
    tiny.settle()
    assert set(tiny.pods) == before
    assert [type(write) for write in tiny.writes] == [Patch] * 4
    assert all(GROUP_HASH in pod["metadata"]["annotations"] for pod in tiny.pods.values())
    tiny.edit(image(NEW))
    tiny.settle(passes=30)
    assert images(tiny) == ["new"] * 3


def test_turning_it_on_after_an_edit_rolls_it_out(kubernetes: Any, cluster: Any, group: Any) -> None:
    """An edit that was without effect under None is one that Rolling carries out, group by group."""
    tiny = kubernetes(cluster(groups=[group("crew", 2), group("rest", 2)]))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.settle()
    rest = {name for name in tiny.workers if "-rest-" in name}
    tiny.edit(lambda spec: spec.update(upgradeStrategy={"type": "Rolling"}))
    tiny.settle(passes=30)
    assert images(tiny) == ["new"] * 2
    assert rest < set(tiny.workers)


def test_what_others_added_does_not_count(kubernetes: Any, cluster: Any) -> None:
    """A LimitRange's requests and a mesh's sidecar are no reason to replace a pod that says nothing."""
    tiny = kubernetes(cluster())
    tiny.settle()
    before = set(tiny.pods)
    for pod in tiny.pods.values():
        container = pod["spec"]["containers"][0]
        container["resources"]["requests"] = {"ephemeral-storage": "1Gi"}
        container["resources"]["limits"]["memory"] = "2048Mi"
        pod["spec"]["containers"].append({"name": "mesh", "image": "mesh"})
    tiny.edit(lambda spec: spec.update(upgradeStrategy={"type": "Rolling"}))
    tiny.settle()
    assert set(tiny.pods) == before


def test_hashes_of_another_scheme_are_only_refreshed(kubernetes: Any, cluster: Any) -> None:
    """RC-04: an operator that hashes differently replaces nothing; the next real edit does."""
    tiny = kubernetes(rolling(cluster, strategy={"allowHeadRestart": True}))
    tiny.settle()
    before = set(tiny.pods)
    for pod in tiny.pods.values():
        pod["metadata"]["annotations"][GROUP_HASH] = "0-of-an-older-hash-function"
    tiny.head["metadata"]["annotations"] |= {RECREATE_HASH: "of-an-older-hash-function", VERSION: "v1.0.0"}
    tiny.writes.clear()
    tiny.settle()
    assert set(tiny.pods) == before
    assert [type(write) for write in tiny.writes] == [Patch] * 4
    tiny.edit(image(NEW))
    tiny.settle(passes=30)
    assert images(tiny) == ["new"] * 3


def test_recreate_after_rolling_recreates_nothing(kubernetes: Any, cluster: Any) -> None:
    """What Rolling has carried out is no spec change any more when Recreate is chosen."""
    tiny = kubernetes(rolling(cluster))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.settle(passes=30)
    before = set(tiny.pods)
    tiny.edit(lambda spec: spec.update(upgradeStrategy={"type": "Recreate"}))
    tiny.settle()
    assert set(tiny.pods) == before
    tiny.edit(image(NEWER))
    tiny.settle()
    assert not before & set(tiny.pods)


def test_recreate_in_the_middle_replaces_what_is_left(kubernetes: Any, cluster: Any) -> None:
    """Also when the head, by which Recreate goes, was lost meanwhile and is of the present spec already."""
    tiny = kubernetes(rolling(cluster))
    tiny.settle()
    tiny.edit(image(NEW))
    tiny.reconcile()
    tiny.start_pods()
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    tiny.reconcile()
    assert len(set(images(tiny))) == 2
    tiny.edit(lambda spec: spec.update(upgradeStrategy={"type": "Recreate"}))
    tiny.settle(passes=30)
    assert images(tiny) == ["new"] * 3
    kept = set(tiny.pods)
    tiny.settle()
    assert set(tiny.pods) == kept


@pytest.mark.parametrize("strategy", [None, "None", "Recreate", "Rolling"])
def test_an_operator_that_builds_other_pods_touches_none(
    kubernetes: Any, cluster: Any, strategy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RC-04: another version, whose pods look different for the same spec, changes annotations of the head at most."""
    tiny = kubernetes(cluster(**({"upgradeStrategy": {"type": strategy}} if strategy else {})))
    tiny.settle()
    before = {name: copy.deepcopy(pod["spec"]) for name, pod in tiny.pods.items()}
    build = PodFactory.build

    def other(self: PodFactory, place: Any) -> Any:
        built = build(self, place)
        built.pod["spec"]["containers"][0].setdefault("env", []).append({"name": "NEW_IN_THIS_VERSION", "value": "1"})
        built.pod["metadata"]["labels"]["new"] = "label"
        return built

    monkeypatch.setattr(PodFactory, "build", other)
    tiny.config = replace(tiny.config, operator_version="99.0.0", wait_gcs_ready_cpu="1")
    tiny.writes.clear()
    tiny.settle()
    assert {name: pod["spec"] for name, pod in tiny.pods.items()} == before
    for write in tiny.writes:
        assert isinstance(write, Patch)
        assert write.name == tiny.head["metadata"]["name"]
        assert write.body["metadata"].keys() <= {"uid", "annotations"}
    assert len(tiny.writes) == (strategy in ("Recreate", "Rolling"))


@pytest.mark.parametrize(
    ("of", "restarts", "seconds", "goes_on"),
    [("RayService", 0, 60, True), ("RayService", 0, 59, False), ("RayService", 1, 600, False), ("", 0, 600, False)],
)
def test_a_worker_that_serve_does_not_use_yet_holds_nothing_up(
    kubernetes: Any, cluster: Any, group: Any, of: str, restarts: int, seconds: int, goes_on: bool
) -> None:
    """Workers of a RayService are ready when a proxy runs beside them, which Serve starts with their first replica: that comes
    when an older worker goes. One that was started again has other troubles."""
    body = rolling(cluster, [group("crew", 2)])
    if of:
        body["metadata"]["labels"] = {"ray.io/originated-from-crd": of}
    tiny = kubernetes(body)
    tiny.settle()
    tiny.edit(image(NEW))
    for _ in range(4):
        tiny.reconcile()
    (name,) = [name for name, pod in tiny.workers.items() if not pod.get("status")]
    tiny.set_pod(name, phase="Running", ready=False)
    state = {"running": {"startedAt": tiny.now.strftime("%Y-%m-%dT%H:%M:%SZ")}}
    tiny.pods[name]["status"]["containerStatuses"] = [
        {"name": "ray-worker", "ready": False, "restartCount": restarts, "state": state}
    ]
    tiny.reconcile()
    assert images(tiny) == ["2.54.0", "new"]
    tiny.now += timedelta(seconds=seconds)
    tiny.reconcile()
    tiny.reconcile()
    assert (images(tiny) == ["new", "new"]) == goes_on


def run_worker(tiny: Any, name: str, *, ready: bool) -> None:
    """The worker runs; Serve has a replica on it, or none yet."""
    tiny.set_pod(name, phase="Running", ready=ready)
    tiny.pods[name]["status"]["containerStatuses"] = [
        {
            "name": "ray-worker",
            "ready": ready,
            "restartCount": 0,
            "state": {"running": {"startedAt": tiny.now.strftime("%Y-%m-%dT%H:%M:%SZ")}},
        }
    ]


@pytest.mark.parametrize("consent", [False, True])
def test_the_head_of_a_service_stays_until_a_worker_serves(
    kubernetes: Any, cluster: Any, group: Any, consent: bool
) -> None:
    """GCS fault tolerance keeps what runs on workers: where none serves, the head is all there is."""
    body = rolling(cluster, [group("crew", 1)], strategy={"allowHeadRestart": True} if consent else None)
    body["metadata"].update(
        labels={"ray.io/originated-from-crd": "RayService"}, annotations={"ray.io/ft-enabled": "true"}
    )
    tiny = kubernetes(body)
    tiny.settle()
    old_head = tiny.head["metadata"]["name"]
    tiny.edit(image(NEW))
    tiny.edit(head_image(NEW))
    for _ in range(6):
        tiny.reconcile()
    (worker,) = tiny.workers
    assert images(tiny) == ["new"]
    run_worker(tiny, worker, ready=False)
    tiny.now += timedelta(seconds=3600)
    tiny.reconcile()
    assert (old_head in tiny.pods) == (not consent)
    if not consent:
        told = tiny.condition("RollingUpgrade")["message"]
        assert "spec.upgradeStrategy.allowHeadRestart" in told
        assert "one of which must serve beside it" in told
        tiny.writes.clear()
        tiny.reconcile()
        assert tiny.writes == []
        run_worker(tiny, worker, ready=True)
    tiny.settle()
    assert tiny.head["spec"]["containers"][0]["image"] == NEW
    assert tiny.condition("RollingUpgrade") is None
