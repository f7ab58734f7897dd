"""Edits and mishaps in odd mixtures, one in the middle of another: each pass keeps the rules, and all ends well."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kuberay.api.kinds import POD
from kuberay.hooks.calls import NoHooks
from kuberay.plan.model import Create, Delete

Spec = dict[str, Any]


class AllPlugins(NoHooks):
    def has(self, plugin: str) -> bool:
        return True


def container(group: Spec) -> Spec:
    found: Spec = group["template"]["spec"]["containers"][0]
    return found


def first(spec: Spec) -> Spec:
    found: Spec = spec["workerGroupSpecs"][0]
    return found


def put(field: str, value: Any) -> Callable[[Spec], None]:
    def change(spec: Spec) -> None:
        if value is None:
            spec.pop(field, None)
        else:
            spec[field] = value

    return change


EDITS: dict[str, Callable[[Spec], object]] = {
    "suspend": put("suspend", True),
    "resume": put("suspend", False),
    "forget suspend": put("suspend", None),
    "scale 0": lambda spec: first(spec).update(replicas=0),
    "scale 4": lambda spec: first(spec).update(replicas=4),
    "clamp": lambda spec: first(spec).update(replicas=9, maxReplicas=3),
    "rename": lambda spec: first(spec).update(groupName=first(spec)["groupName"] + "x"),
    "swap": lambda spec: spec["workerGroupSpecs"].reverse(),
    "one host": lambda spec: first(spec).update(numOfHosts=1),
    "two hosts": lambda spec: first(spec).update(numOfHosts=2),
    "four hosts": lambda spec: first(spec).update(numOfHosts=4),
    "group suspend": lambda spec: first(spec).update(suspend=True),
    "group resume": lambda spec: first(spec).pop("suspend", None),
    "autoscale": put("enableInTreeAutoscaling", True),
    "no autoscale": put("enableInTreeAutoscaling", False),
    "ingress": lambda spec: spec["headGroupSpec"].update(enableIngress=True),
    "no ingress": lambda spec: spec["headGroupSpec"].update(enableIngress=False),
    "auth": put("authOptions", {"mode": "token"}),
    "no auth": put("authOptions", None),
    "redis": put("gcsFaultToleranceOptions", {"redisAddress": "redis:6379"}),
    "no redis": put("gcsFaultToleranceOptions", None),
    "no strategy": put("upgradeStrategy", None),
    "strategy none": put("upgradeStrategy", {"type": "None"}),
    "recreate": put("upgradeStrategy", {"type": "Recreate"}),
    "rolling": put("upgradeStrategy", {"type": "Rolling", "allowHeadRestart": True}),
    "surge": put("upgradeStrategy", {"type": "Rolling", "maxSurge": 1, "maxUnavailable": 0}),
    "head image": lambda spec: container(spec["headGroupSpec"]).update(image="new:1"),
    "worker image": lambda spec: container(first(spec)).update(image="new:2"),
    "old image": lambda spec: container(first(spec)).update(image="old:2"),
    "cpu": lambda spec: container(first(spec)).update(resources={"limits": {"cpu": "3", "memory": "2Gi"}}),
    "never": lambda spec: first(spec)["template"]["spec"].update(restartPolicy="Never"),
    "invalid": lambda spec: first(spec).update(minReplicas=7, maxReplicas=1),
    "valid": lambda spec: first(spec).update(minReplicas=0, maxReplicas=10),
    "fallback": lambda spec: first(spec).update(
        fallback={"groupName": spec["workerGroupSpecs"][-1]["groupName"], "afterSeconds": 60}
    ),
    "no fallback": lambda spec: [group.pop("fallback", None) for group in spec["workerGroupSpecs"]],
    "age": put("lifecycle", {"maxAgeSeconds": 100, "warningSeconds": 10}),
    "no age": put("lifecycle", None),
}
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(EDITS)), st.just(0)),
        st.tuples(
            st.sampled_from(
                ["fail", "succeed", "unschedulable", "ray ends", "lose", "delete", "gone", "unready", "name", "unlabel"]
            ),
            st.integers(0, 9),
        ),
        st.tuples(
            st.sampled_from(
                ["lose head", "linger", "let go", "refuse creates", "refuse deletes", "refuse services", "allow"]
                + ["drain waits", "drain ends", "minutes", "start", "look", "look", "look", "other version"]
            ),
            st.just(0),
        ),
    ),
    max_size=14,
)


def act(tiny: Any, what: str, which: int) -> None:
    pods = sorted(tiny.pods)
    pod = pods[which % len(pods)] if pods else ""
    if what in EDITS:
        tiny.edit(EDITS[what])
    elif what == "linger":
        tiny.keep_terminating = True
    elif what == "let go":
        let_go(tiny)
    elif what == "refuse creates":
        tiny.refuse = lambda write: "no" if write is None or isinstance(write, Create) and write.kind == POD else ""
    elif what == "refuse deletes":
        tiny.refuse = lambda write: "no" if write is None or isinstance(write, Delete) and write.kind == POD else ""
    elif what == "refuse services":
        tiny.refuse = lambda write: "no" if write is None or write.kind.kind == "Service" else ""
    elif what == "allow":
        tiny.refuse = lambda write: ""
    elif what == "drain waits":
        tiny.drain = lambda name: "draining"
    elif what == "drain ends":
        tiny.drain = lambda name: "drained"
    elif what == "minutes":
        tiny.now += timedelta(minutes=2)
    elif what == "start":
        tiny.start_pods()
    elif what == "other version":
        for body in tiny.pods.values():
            annotations = body["metadata"].setdefault("annotations", {})
            if "ray.io/kuberay-version" in annotations:
                annotations |= {"ray.io/kuberay-version": "v0", "ray.io/upgrade-strategy-recreate-hash": "OLD"}
    elif what == "lose head":
        for name, body in tiny.pods.items():
            if body["metadata"]["labels"]["ray.io/node-type"] == "head":
                del tiny.objects[POD, name]
    elif not pod or (
        not is_living(tiny.pods[pod]) and what in ("fail", "succeed", "unready", "unschedulable", "ray ends")
    ):
        return  # nothing, or one that has ended for good
    elif what in ("fail", "succeed", "unready"):
        phase = {"fail": "Failed", "succeed": "Succeeded"}.get(what, "Running")
        tiny.set_pod(pod, phase=phase, ready=False)
    elif what == "unschedulable":
        tiny.pods[pod]["status"] = {
            "phase": "Pending",
            "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}
            ],
        }
    elif what == "ray ends":
        tiny.set_pod(pod, phase="Running", ready=False, terminated=True)
    elif what == "gone":
        del tiny.objects[POD, pod]
    elif what == "delete":
        tiny.pods[pod]["metadata"].setdefault("deletionTimestamp", "2026-01-01T00:00:00Z")
    elif what == "unlabel":
        tiny.pods[pod]["metadata"]["labels"].pop("ray.io/worker-group-replica-index", None)
    elif what == "name":
        tiny.edit(lambda spec: first(spec).update(scaleStrategy={"workersToDelete": [pod, "nobody"]}))


def let_go(tiny: Any) -> None:
    tiny.keep_terminating = False
    for name, body in tiny.pods.items():
        if "deletionTimestamp" in body["metadata"]:
            del tiny.objects[POD, name]


def heal(tiny: Any) -> None:
    """Whatever was wrong is over."""
    tiny.refuse = lambda write: ""
    tiny.drain = lambda name: "drained"
    let_go(tiny)
    for name, body in tiny.pods.items():
        if body.get("status", {}).get("phase") not in ("Running", "Failed", "Succeeded"):
            tiny.set_pod(name, phase="Running", ready=True)
        elif body["status"]["phase"] == "Running" and body["spec"].get("restartPolicy") != "Never":
            tiny.set_pod(name, phase="Running", ready=True)
        elif body["status"]["phase"] == "Running" and "containerStatuses" not in body["status"]:
            tiny.set_pod(name, phase="Running", ready=True)


def is_living(pod: Spec) -> bool:
    return pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")


def check_pass(tiny: Any, spec: Spec, before: Spec, writes: int) -> None:
    assert tiny.cluster["spec"] == spec, "the operator never writes the spec"
    conditions = {each["type"]: each["status"] for each in tiny.status.get("conditions", ())}
    assert (conditions.get("RayClusterSuspending"), conditions.get("RayClusterSuspended")) != ("True", "True")
    heads = [p for p in tiny.pods.values() if p["metadata"]["labels"]["ray.io/node-type"] == "head" and is_living(p)]
    assert len(heads) <= 1
    done = tiny.writes[writes:]
    created = [w for w in done if isinstance(w, Create) and w.kind == POD]
    if spec.get("suspend"):
        assert created == []
    if conditions.get("RayClusterSpecValid") == "False":
        assert done == [], "nothing that runs is touched"
    types = [each["type"] for each in tiny.status.get("conditions", ())]
    assert sorted(set(types)) == types
    check_not_below(tiny, spec, before)
    plan = tiny.plan()
    if tiny.healthy:
        again = [w for stage in plan.stages for w in stage if isinstance(w, Create | Delete)]
        decided_first = {"LifecycleEnded", "WorkerGroupFallback"} & conditions.keys()
        assert again == [] or decided_first, "one pass does all there is to do"
    assert (
        plan.status is None
        or plan.status_delay
        or plan.requeue_after == timedelta(0)
        or not tiny.healthy
        or decided_first
    ), (tiny.status, plan.status)


def ready(pods: Spec, group: str, named: list[str]) -> int:
    return sum(
        p["metadata"]["labels"]["ray.io/group"] == group
        and name not in named
        and "deletionTimestamp" not in p["metadata"]
        and "ray.io/draining-since" not in p["metadata"].get("annotations", {})
        and p.get("status", {}).get("phase") == "Running"
        and p["status"]["conditions"][0]["status"] == "True"
        for name, p in pods.items()
    )


def check_not_below(tiny: Any, spec: Spec, before: Spec) -> None:
    """Without an upgrade, no worker that is needed goes."""
    if spec.get("upgradeStrategy", {}).get("type") in ("Recreate", "Rolling") or spec.get("suspend"):
        return
    conditions = {each["type"]: each["status"] for each in tiny.status.get("conditions", ())}
    if "True" in (
        conditions.get("RayClusterSuspending"),
        conditions.get("RayClusterSuspended"),
        conditions.get("LifecycleEnded"),
        conditions.get("WorkerGroupFallback"),
    ):
        return
    for g in spec["workerGroupSpecs"]:
        if g.get("suspend") or g.get("numOfHosts", 1) > 1 or "fallback" in g:
            continue
        named = g.get("scaleStrategy", {}).get("workersToDelete", [])
        had, has = (ready(pods, g["groupName"], named) for pods in (before, tiny.pods))
        want = max(min(g["replicas"], g["maxReplicas"]), g["minReplicas"])
        assert has >= min(had, want)
        if spec.get("enableInTreeAutoscaling"):
            assert has >= had


BASES = st.sampled_from(
    [
        {},
        {"upgradeStrategy": {"type": "Recreate"}},
        {"upgradeStrategy": {"type": "Rolling", "allowHeadRestart": True}},
        {"gcsFaultToleranceOptions": {"redisAddress": "redis:6379"}},
        {"enableInTreeAutoscaling": True},
        {"suspend": True},
    ]
)


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=ACTIONS, base=BASES, hosts=st.sampled_from([1, 1, 2]))
def test_all_ends_well(kubernetes: Any, cluster: Any, group: Any, actions: Any, base: Any, hosts: int) -> None:
    groups = [group("a", 2, numOfHosts=hosts), group("b", 1)]
    body = cluster(groups=groups, **copy.deepcopy(base))
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    tiny = kubernetes(body, hooks=AllPlugins())
    tiny.settle()
    for what, which in actions:
        act(tiny, what, which)
        spec, before, writes = copy.deepcopy(tiny.cluster["spec"]), copy.deepcopy(tiny.pods), len(tiny.writes)
        tiny.healthy = tiny.refuse(None) == "" if not what.startswith("refuse") else False
        tiny.reconcile()
        check_pass(tiny, spec, before, writes)
    tiny.edit(lambda spec: first(spec).update(minReplicas=0, maxReplicas=10))
    for _ in range(4):
        heal(tiny)
        tiny.settle(passes=60)
    heal(tiny)
    tiny.settle(passes=60)
    spec = tiny.cluster["spec"]
    if any(each["type"] == "RayClusterSpecValid" for each in tiny.status.get("conditions", ())):
        return  # what was put together is not allowed
    plan = tiny.plan()
    assert [w for stage in plan.stages for w in stage if isinstance(w, Create | Delete)] == []
    assert plan.status is None
    if spec.get("suspend") or tiny.condition("LifecycleEnded"):
        assert tiny.pods == {}
        assert tiny.status["state"] == "suspended"
        assert not (
            set(c["type"] for c in tiny.status["conditions"])
            & {"RollingUpgrade", "WorkerGroupFallback", "HeadOutdated", "PodsWaiting"}
        ), tiny.status
        return
    assert tiny.head
    assert tiny.status["state"] == "ready", tiny.status
    found = dict.fromkeys((g["groupName"] for g in spec["workerGroupSpecs"]), 0)
    for pod in tiny.workers.values():
        found[pod["metadata"]["labels"]["ray.io/group"]] += 1
    for g in spec["workerGroupSpecs"]:
        want = (
            0
            if g.get("suspend")
            else max(min(g["replicas"], g["maxReplicas"]), g["minReplicas"]) * g.get("numOfHosts", 1)
        )
        have = found[g["groupName"]]
        if tiny.condition("WorkerGroupFallback"):
            continue
        if spec.get("enableInTreeAutoscaling") or g.get("numOfHosts", 1) > 1:
            assert have >= want, (found, tiny.status)
        else:
            assert have == want, (found, tiny.status)
    left = {c["type"] for c in tiny.status["conditions"] if c["status"] == "True"}
    assert left <= {
        "HeadPodReady",
        "RayClusterProvisioned",
        "HeadOutdated",
        "WorkerGroupFallback",
        "RedisStorageUnused",
        "LifecycleEnding",
    }, tiny.status["conditions"]


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(actions=ACTIONS, base=BASES, lingers=st.booleans())
def test_deleted_in_the_middle_of_it(
    kubernetes: Any, cluster: Any, group: Any, actions: Any, base: Any, lingers: bool
) -> None:
    """Nothing is made any more but the cleanup Job, and at the latest after its deadline nothing keeps the object."""
    body = cluster(groups=[group("a", 2), group("b", 1)], **copy.deepcopy(base))
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    tiny = kubernetes(body, hooks=AllPlugins())
    for what, which in actions:
        act(tiny, what, which)
        tiny.reconcile()
    finalizers = list(tiny.cluster["metadata"].get("finalizers", []))
    tiny.refuse = lambda write: ""
    if not lingers:
        let_go(tiny)
    tiny.delete()
    writes, statuses = len(tiny.writes), len(tiny.statuses)
    for _ in range(8):
        tiny.reconcile()
        tiny.now += timedelta(seconds=50)
    assert tiny.cluster["metadata"].get("finalizers", []) == []
    made = [w for w in tiny.writes[writes:] if isinstance(w, Create)]
    assert {w.kind.kind for w in made} <= {"Job"}
    assert len(made) <= 1
    if not finalizers:
        assert (len(tiny.writes), len(tiny.statuses)) == (writes, statuses), "left to the garbage collector"
