"""Edits and mishaps in odd mixtures, one in the middle of another: each pass keeps the rules, and all ends well."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kuberay.api.kinds import POD
from kuberay.hooks.calls import NoHooks, Resources
from kuberay.hooks.types import OwnerContext, Wait
from kuberay.plan.model import Create, Delete

Spec = dict[str, Any]


class AllPlugins(NoHooks):
    waits = False

    def pre_create_pods(self, ctx: OwnerContext) -> Resources:
        return Resources(waits=[("gang", Wait("no quota"))] if self.waits else [])

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
PHASES = ("fail", "succeed", "unready", "unschedulable", "ray ends")
WHATEVER = (
    *("lose head", "linger", "let go", "refuse creates", "refuse deletes", "refuse services", "allow"),
    *("drain waits", "drain ends", "minutes", "start", "look", "other version", "hold", "unhold"),
)
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(sorted(EDITS)), st.just(0)),
        st.tuples(
            st.sampled_from([*PHASES, "delete", "gone", "name", "unlabel"]),
            st.integers(0, 9),
        ),
        st.tuples(
            st.sampled_from(WHATEVER),
            st.just(0),
        ),
    ),
    max_size=14,
)


def act(tiny: Any, what: str, which: int) -> None:
    if what.startswith(("refuse", "allow")):
        tiny.refused = what != "allow"
    pods = sorted(tiny.pods)
    pod = pods[which % len(pods)] if pods else ""
    if what in EDITS:
        tiny.edit(EDITS[what])
    elif what == "linger":
        tiny.keep_terminating = True
    elif what == "let go":
        let_go(tiny)
    elif what == "refuse creates":
        tiny.refuse = lambda write: "no" if isinstance(write, Create) and write.kind == POD else ""
    elif what == "refuse deletes":
        tiny.refuse = lambda write: "no" if isinstance(write, Delete) and write.kind == POD else ""
    elif what == "refuse services":
        tiny.refuse = lambda write: "no" if write.kind.kind == "Service" else ""
    elif what == "allow":
        tiny.refuse = lambda write: ""
    elif what == "drain waits":
        tiny.drain = lambda name: "draining"
    elif what == "drain ends":
        tiny.drain = lambda name: "drained"
    elif what in ("hold", "unhold"):
        tiny.hooks.waits = what == "hold"
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
    tiny.hooks.waits = False
    let_go(tiny)
    for name, body in tiny.pods.items():
        ended = body["spec"].get("restartPolicy") == "Never" and "containerStatuses" in body.get("status", {})
        if is_living(body) and not ended:
            tiny.set_pod(name, phase="Running", ready=True)


def is_living(pod: Spec) -> bool:
    return pod.get("status", {}).get("phase") not in ("Failed", "Succeeded")


def conditions(tiny: Any) -> dict[str, str]:
    return {each["type"]: each["status"] for each in tiny.status.get("conditions", ())}


def wanted_replicas(group: Spec) -> int:
    return max(min(group["replicas"], group["maxReplicas"]), group["minReplicas"])


def reconcile(tiny: Any) -> None:
    """One pass, and what must hold after any."""
    spec, before, writes = copy.deepcopy(tiny.cluster["spec"]), copy.deepcopy(tiny.pods), len(tiny.writes)
    suspending = conditions(tiny).get("RayClusterSuspending") == "True"
    tiny.reconcile()
    done, told = tiny.writes[writes:], conditions(tiny)
    assert tiny.cluster["spec"] == spec, "the operator never writes the spec"
    types = [each["type"] for each in tiny.status.get("conditions", ())]
    assert sorted(set(types)) == types
    assert (told.get("RayClusterSuspending"), told.get("RayClusterSuspended")) != ("True", "True")
    heads = [p for p in tiny.pods.values() if p["metadata"]["labels"]["ray.io/node-type"] == "head" and is_living(p)]
    assert len(heads) <= 1
    if spec.get("suspend"):
        assert not [write for write in done if isinstance(write, Create) and write.kind == POD]
    if told.get("RayClusterSpecValid") == "False":
        assert done == [], "nothing that runs is touched"
    if not suspending:
        keeps_what_is_needed(tiny, before)
    # These decide first and act when that is stored.
    if tiny.refused or {"LifecycleEnded", "WorkerGroupFallback"} & told.keys():
        return
    plan = tiny.plan()
    assert not [write for stage in plan.stages for write in stage if isinstance(write, Create | Delete)], "all was done"
    if plan.status is not None:
        # What follows from the status that was just written.
        tiny.reconcile()
        plan = tiny.plan()
    assert plan.status is None or plan.status_delay, "nothing is written for ever"


def keeps_what_is_needed(tiny: Any, before: Spec) -> None:
    """Without an upgrade that may go on and a suspension, no worker goes that is needed; with the autoscaler, none that is
    not named."""
    spec, told = tiny.cluster["spec"], conditions(tiny)
    strategy = (spec.get("upgradeStrategy") or {}).get("type")
    held = ("RayClusterSuspending", "RayClusterSuspended", "LifecycleEnded", "WorkerGroupFallback")
    upgrades = strategy in ("Recreate", "Rolling") and not tiny.hooks.waits
    if upgrades or spec.get("suspend") or "True" in map(told.get, held):
        return
    for group in spec["workerGroupSpecs"]:
        if group.get("suspend") or group.get("numOfHosts", 1) > 1 or "fallback" in group:
            continue
        had, has = (ready(pods, group) for pods in (before, tiny.pods))
        assert has >= (had if spec.get("enableInTreeAutoscaling") else min(had, wanted_replicas(group)))


def ready(pods: Spec, group: Spec) -> int:
    named = group.get("scaleStrategy", {}).get("workersToDelete", [])
    return sum(
        pod["metadata"]["labels"]["ray.io/group"] == group["groupName"]
        and name not in named
        and "deletionTimestamp" not in pod["metadata"]
        and "ray.io/draining-since" not in pod["metadata"].get("annotations", {})
        and pod.get("status", {}).get("phase") == "Running"
        and pod["status"]["conditions"][0]["status"] == "True"
        for name, pod in pods.items()
    )


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
SETTINGS = settings(deadline=None, suppress_health_check=list(HealthCheck))
HEALTHY = {"HeadPodReady", "RayClusterProvisioned", "HeadOutdated", "WorkerGroupFallback", "LifecycleEnding"}
"""What may be True of a cluster that has all it asks for."""


@pytest.fixture
def start(kubernetes: Any, cluster: Any, group: Any) -> Callable[..., Any]:
    def started(base: Spec, hosts: int) -> Any:
        body = cluster(groups=[group("a", 2, numOfHosts=hosts), group("b", 1)], **copy.deepcopy(base))
        body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        tiny = kubernetes(body, hooks=AllPlugins())
        tiny.refused = False
        tiny.settle()
        return tiny

    return started


@settings(SETTINGS, max_examples=examples(150))
@given(actions=ACTIONS, base=BASES, hosts=st.sampled_from([1, 1, 2]))
def test_all_ends_well(start: Callable[..., Any], actions: Any, base: Any, hosts: int) -> None:
    tiny = start(base, hosts)
    for what, which in actions:
        act(tiny, what, which)
        reconcile(tiny)
    tiny.edit(EDITS["valid"])
    for _ in range(5):
        heal(tiny)
        tiny.settle(passes=60)
    told = conditions(tiny)
    if "RayClusterSpecValid" in told:
        return  # What was put together is not allowed.
    plan = tiny.plan()
    assert not [write for stage in plan.stages for write in stage if isinstance(write, Create | Delete)]
    assert plan.status is None
    spec, workers = tiny.cluster["spec"], list(tiny.workers.values())
    if spec.get("suspend") or told.get("LifecycleEnded") == "True":
        assert (tiny.pods, tiny.status["state"]) == ({}, "suspended")
        assert not {"RollingUpgrade", "WorkerGroupFallback", "HeadOutdated", "PodsWaiting"} & told.keys()
        return
    assert tiny.head
    assert tiny.status["state"] == "ready"
    assert {type_ for type_, status in told.items() if status == "True"} <= HEALTHY
    if "WorkerGroupFallback" in told:
        return
    assert {pod["metadata"]["labels"]["ray.io/group"] for pod in workers} <= {
        group["groupName"] for group in spec["workerGroupSpecs"]
    }
    for group in spec["workerGroupSpecs"]:
        found = sum(pod["metadata"]["labels"]["ray.io/group"] == group["groupName"] for pod in workers)
        wanted = 0 if group.get("suspend") else wanted_replicas(group) * group.get("numOfHosts", 1)
        # Others choose what goes, or replicas may still have the hosts of a former spec.
        may_be_more = spec.get("enableInTreeAutoscaling") or group.get("numOfHosts", 1) > 1
        assert found >= wanted if may_be_more else found == wanted


@settings(SETTINGS, max_examples=examples(80))
@given(actions=ACTIONS, base=BASES, lingers=st.booleans())
def test_deleted_in_the_middle_of_it(start: Callable[..., Any], actions: Any, base: Any, lingers: bool) -> None:
    """Nothing is made any more but the cleanup Job, and at the latest after its deadline nothing keeps the object."""
    tiny = start(base, 1)
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
    made = [write for write in tiny.writes[writes:] if isinstance(write, Create)]
    assert {write.kind.kind for write in made} <= {"Job"}
    assert len(made) <= 1
    if not finalizers:
        assert (len(tiny.writes), len(tiny.statuses)) == (writes, statuses), "left to the garbage collector"
