"""A cluster that cannot become ready says why (spec raycluster.md 5; cases.md RC-07, RC-09)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import POD
from kuberay.hooks.calls import NoHooks
from kuberay.hooks.types import OwnerContext
from kuberay.plan.model import Create

Status = dict[str, Any]

START = "2026-01-01T00:00:00Z"


def condition(type_: str, status: str, reason: str = "", message: str = "") -> Status:
    return {"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": START}


SCHEDULED = condition("PodScheduled", "True")
UNREADY = condition("Ready", "False", "ContainersNotReady", "containers with unready status: [helper]")


def pending(*containers: Status, init: Sequence[Status] = ()) -> Status:
    return {
        "phase": "Pending",
        "conditions": [SCHEDULED, UNREADY],
        "containerStatuses": list(containers),
        "initContainerStatuses": list(init),
    }


def running(*containers: Status, ready: Status = UNREADY) -> Status:
    return {"phase": "Running", "conditions": [SCHEDULED, ready], "containerStatuses": list(containers)}


def waiting(reason: str, message: str = "", *, restarts: int = 0, last: Status | None = None) -> Status:
    return {
        "name": "helper",
        "restartCount": restarts,
        "state": {"waiting": {"reason": reason, "message": message}},
        "lastState": {"terminated": last} if last else {},
    }


def unscheduled(message: str, reason: str = "Unschedulable") -> Status:
    return {"phase": "Pending", "conditions": [condition("PodScheduled", "False", reason, message)]}


ENDED = {"exitCode": 1, "reason": "Error", "message": "starting\nno such address: redis:6379\n\n"}
CPU = "0/5 nodes are available: 5 Insufficient cpu."
PULLED = 'failed to pull and unpack image "docker.io/library/x:y": not found'
GCS = {"name": "wait-gcs-ready", "state": {"running": {"startedAt": START}}}

CASES: dict[str, tuple[Status, int, str, str]] = {
    # what the worker says, seconds until it counts, reason, what is told after "pod … of group crew: <reason>: "
    "unschedulable": (unscheduled(CPU), 10, "Unschedulable", CPU),
    "gated": (unscheduled("gates", "SchedulingGated"), 10, "SchedulingGated", "gates"),
    "no scheduler": ({}, 120, "NotScheduled", "no scheduler has taken it up"),
    "image": (
        pending(waiting("ErrImagePull", PULLED)),
        10,
        "ImagePullBackOff",
        f"container helper cannot pull its image: {PULLED}",
    ),
    "image, backing off": (
        pending(waiting("ImagePullBackOff", f'Back-off pulling image "x:y": ErrImagePull: {PULLED}')),
        10,
        "ImagePullBackOff",
        f"container helper cannot pull its image: {PULLED}",
    ),
    "image name": (
        pending(waiting("InvalidImageName", "X")),
        10,
        "ImagePullBackOff",
        "container helper cannot pull its image: X",
    ),
    "secret": (
        pending(waiting("CreateContainerConfigError", 'secret "token" not found')),
        10,
        "ContainerCannotStart",
        'container helper cannot start (CreateContainerConfigError): secret "token" not found',
    ),
    "preparing": (
        pending(waiting("ContainerCreating")),
        300,
        "ContainersCreating",
        "its containers are still being made",
    ),
    "crashes": (
        running(waiting("CrashLoopBackOff", "back-off 20s restarting", restarts=2, last=ENDED)),
        10,
        "CrashLoopBackOff",
        "container helper ends again and again, last with exit code 1 (Error): no such address: redis:6379",
    ),
    "crashes, running in between": (
        running(
            {
                "name": "helper",
                "restartCount": 3,
                "state": {"running": {"startedAt": START}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
            }
        ),
        10,
        "CrashLoopBackOff",
        "container helper ends again and again, last with exit code 137 (OOMKilled)",
    ),
    "crashes in an init container": (
        pending(init=[{**waiting("CrashLoopBackOff", restarts=3, last=ENDED), "name": "fetch"}]),
        10,
        "CrashLoopBackOff",
        "container fetch ends again and again, last with exit code 1 (Error): no such address: redis:6379",
    ),
    "waits for the head": (
        pending(waiting("PodInitializing"), init=[GCS]),
        120,
        "WaitingForHead",
        "the init container wait-gcs-ready waits for the head to answer",
    ),
    "init container hangs": (
        pending(waiting("PodInitializing"), init=[{**GCS, "name": "fetch"}]),
        300,
        "ContainersCreating",
        "the init container fetch has not ended yet",
    ),
    "probe fails": (
        running({"name": "helper", "state": {"running": {"startedAt": START}}}),
        120,
        "ContainersNotReady",
        "container helper runs but is not ready",
    ),
    "readiness gate": (
        running(
            {"name": "helper", "ready": True, "state": {"running": {"startedAt": START}}},
            ready=condition("Ready", "False", "ReadinessGatesNotReady", "the gate x is closed"),
        ),
        120,
        "ContainersNotReady",
        "the gate x is closed",
    ),
    "node lost": (
        running({"name": "helper", "ready": True, "state": {"running": {}}}, ready=condition("Ready", "False")),
        10,
        "NodeLost",
        "its node n1 does not answer",
    ),
    "node silent": (
        running({"name": "helper"}, ready=condition("Ready", "Unknown", "NodeStatusUnknown")),
        10,
        "NodeLost",
        "its node n1 does not answer",
    ),
    "node lost, long ago": (
        {"phase": "Unknown", "conditions": [SCHEDULED]},
        10,
        "NodeLost",
        "its node n1 does not answer",
    ),
}


def one_worker(kubernetes: Any, cluster: Any, group: Any, status: Status, **spec: Any) -> Any:
    """A ready cluster but for its one worker, which says *status*."""
    tiny = kubernetes(cluster(groups=[group(replicas=1)], **spec))
    tiny.run_pods = False
    tiny.reconcile()
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Running", ready=True)
    (worker,) = tiny.workers.values()
    if status:
        worker["status"] = status
    if status.get("phase") in ("Running", "Unknown") or SCHEDULED in status.get("conditions", ()):
        worker["spec"]["nodeName"] = "n1"
    return tiny


@pytest.mark.parametrize("case", CASES)
def test_what_keeps_a_worker_from_being_ready(kubernetes: Any, cluster: Any, group: Any, case: str) -> None:
    status, seconds, reason, text = CASES[case]
    tiny = one_worker(kubernetes, cluster, group, status)
    (name,) = tiny.workers
    tiny.now += timedelta(seconds=seconds - 1)
    plan = tiny.reconcile()
    assert tiny.condition("PodsNotReady") is None, "a start that takes its time is no trouble"
    assert plan.requeue_after == timedelta(seconds=1), "no event will tell when it is"
    tiny.now += timedelta(seconds=1)
    plan = tiny.reconcile()
    told = tiny.condition("PodsNotReady")
    line = f"pod {name} of group crew: {reason}: {text}"
    assert (told["status"], told["reason"], told["message"]) == ("True", reason, line)
    assert plan.waiting == f"1 of 2 pods are ready; {line}"
    writes = len(tiny.statuses)
    for _ in range(3):
        tiny.now += timedelta(minutes=7)
        tiny.reconcile()
    assert len(tiny.statuses) == writes, "and while nothing changes it is told once"
    tiny.set_pod(name, phase="Running", ready=True)
    tiny.settle()
    assert tiny.condition("PodsNotReady") is None
    assert tiny.status["state"] == "ready"


@pytest.mark.parametrize(
    ("extra", "reason", "text"),
    [
        ({}, "StuckTerminating", "it should have been gone by 2026-01-01T00:00:00Z"),
        (
            {"finalizers": ["example.test/slow"]},
            "StuckTerminating",
            "it should have been gone by 2026-01-01T00:00:00Z; finalizers example.test/slow hold it",
        ),
        ({"status": {"reason": "NodeLost"}}, "NodeLost", "its node n1 does not answer; it counts until it is gone"),
        (
            {"conditions": [condition("DisruptionTarget", "True", "PreemptionByScheduler", "preempted by other/pod")]},
            "Preempted",
            "it has to go: preempted by other/pod",
        ),
        (
            {"conditions": [condition("DisruptionTarget", "True", "EvictionByEvictionAPI", "drained")]},
            "Evicted",
            "it has to go: drained",
        ),
        (
            {"conditions": [condition("DisruptionTarget", "True", "DeletionByTaintManager", "taint")]},
            "NodeLost",
            "its node n1 does not answer; it counts until it is gone",
        ),
    ],
)
def test_pods_that_do_not_go_count_and_say_so(
    kubernetes: Any, cluster: Any, group: Any, extra: Status, reason: str, text: str
) -> None:
    tiny = one_worker(kubernetes, cluster, group, running({"name": "helper"}))
    (name,) = tiny.workers
    body = tiny.workers[name]
    body["metadata"]["deletionTimestamp"] = START
    body["metadata"]["finalizers"] = extra.get("finalizers", [])
    body["status"] |= extra.get("status", {})
    body["status"]["conditions"] += extra.get("conditions", [])
    tiny.now += timedelta(seconds=30)
    tiny.reconcile()
    assert list(tiny.workers) == [name], "none is made in its place until it is gone"
    told = tiny.condition("PodsNotReady")
    assert (told["reason"], told["message"]) == (reason, f"pod {name} of group crew: {reason}: {text}")


def test_pods_are_told_of_together(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = kubernetes(cluster(groups=[group("cpu", 2), group("gpu", 5)]))
    tiny.run_pods = False
    tiny.reconcile()
    tiny.head["status"] = unscheduled("no head node")
    for body in tiny.workers.values():
        gpu = body["metadata"]["labels"]["ray.io/group"] == "gpu"
        body["status"] = unscheduled("no gpu") if gpu else pending(waiting("PodInitializing"), init=[GCS])
    tiny.now += timedelta(seconds=120)
    tiny.reconcile()
    names = sorted(name for name in tiny.workers if "-gpu-" in name)
    cpu = sorted(name for name in tiny.workers if "-cpu-" in name)
    told = tiny.condition("PodsNotReady")
    assert told["reason"] == "Unschedulable"
    assert told["message"].split("\n") == [
        f"head pod {tiny.head['metadata']['name']}: Unschedulable: no head node",
        f"5 pods of group gpu ({', '.join(names[:3])} and 2 more): Unschedulable: no gpu",
        f"2 pods of group cpu ({', '.join(cpu)}): WaitingForHead: the init container wait-gcs-ready waits for the head to "
        "answer",
    ]


def test_a_trouble_that_ends_pod_by_pod_is_told_like_progress(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.run_pods = False
    tiny.reconcile()
    tiny.set_pod(tiny.head["metadata"]["name"], phase="Running", ready=True)
    for body in tiny.workers.values():
        body["status"] = unscheduled(CPU)
    tiny.now += timedelta(seconds=10)
    assert tiny.reconcile().status_delay == timedelta(0), "that there is trouble is told at once"
    written = len(tiny.statuses)
    first, *_ = sorted(tiny.workers)
    tiny.set_pod(first, phase="Running", ready=True)
    tiny.now += timedelta(seconds=1)
    assert tiny.reconcile().status_delay > timedelta(0)
    assert len(tiny.statuses) == written


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (waiting("ErrImagePull", PULLED), waiting("ImagePullBackOff", 'Back-off pulling image "x:y"')),
        (
            waiting("CrashLoopBackOff", restarts=2, last=ENDED),
            waiting("CrashLoopBackOff", restarts=3, last={**ENDED, "message": "at 12:34:56: another word"}),
        ),
        (
            waiting("CrashLoopBackOff", restarts=2, last=ENDED),
            {
                "name": "helper",
                "restartCount": 3,
                "state": {"running": {"startedAt": START}},
                "lastState": {"terminated": {**ENDED, "message": ""}},
            },
        ),
        (
            waiting("CrashLoopBackOff", restarts=2, last=ENDED),
            waiting("RunContainerError", "failed to start container 0a1b2c", restarts=3, last=ENDED),
        ),
    ],
)
def test_words_that_alternate_are_told_once(
    kubernetes: Any, cluster: Any, group: Any, first: Status, second: Status
) -> None:
    tiny = one_worker(kubernetes, cluster, group, running(first))
    tiny.now += timedelta(seconds=10)
    tiny.reconcile()
    told = tiny.condition("PodsNotReady")
    written = len(tiny.statuses)
    (worker,) = tiny.workers.values()
    for status in (second, first, second):
        worker["status"] = running(status)
        tiny.now += timedelta(minutes=1)
        tiny.reconcile()
    assert tiny.condition("PodsNotReady") == told
    assert len(tiny.statuses) == written


WHERE = 'pods "pair-crew-worker-zz" is forbidden: '


@pytest.mark.parametrize(
    ("error", "reason", "told"),
    [
        (
            f"{WHERE}exceeded quota: small, requested: pods=1",
            "QuotaExceeded",
            "exceeded quota: small, requested: pods=1",
        ),
        (f'{WHERE}violates PodSecurity "restricted"', "AdmissionRefused", 'violates PodSecurity "restricted"'),
        (
            'admission webhook "w" denied the request: no',
            "AdmissionRefused",
            'admission webhook "w" denied the request: no',
        ),
        (
            f'{WHERE}User "op" cannot create resource "pods"',
            "NotPermitted",
            'User "op" cannot create resource "pods"',
        ),
    ],
)
def test_refused_workers(kubernetes: Any, cluster: Any, error: str, reason: str, told: str) -> None:
    """RC-09."""
    tiny = kubernetes(cluster())

    def refuse(write: Any) -> str:
        worker = isinstance(write, Create) and write.kind == POD and "-worker-" in write.name
        return error if worker and len(tiny.workers) >= 1 else ""

    tiny.refuse = refuse
    tiny.reconcile()
    tiny.start_pods()
    plan = tiny.reconcile()
    found = tiny.condition("PodsNotReady")
    assert (found["reason"], found["message"]) == (reason, f"2 pods of group crew: {reason}: {told}")
    assert found["message"] in plan.waiting
    assert tiny.condition("ReplicaFailure")["message"] == f"FailedCreateWorkerPod\n{error}"
    assert tiny.status.get("state", "") == ""
    tiny.refuse = lambda write: ""
    tiny.settle()
    assert tiny.condition("PodsNotReady") is None
    assert tiny.condition("ReplicaFailure") is None
    assert tiny.status["state"] == "ready"


@pytest.mark.parametrize(("reason", "told"), [("Invalid", "PodInvalid"), ("InternalError", "CreateFailed")])
def test_a_refused_head(kubernetes: Any, cluster: Any, reason: str, told: str) -> None:
    from kuberay.plan.cluster import plan_cluster
    from kuberay.plan.model import WriteFailure

    tiny = kubernetes(cluster())
    (name,) = [pod.name for pod in tiny.plan().expected_pods if pod.node_type == "head"]
    failure = WriteFailure("Pod", name, "FailedCreateHeadPod", "it is so", reason)
    plan = plan_cluster(tiny.observe(failure))
    assert plan.waiting == f"0 of 4 pods are ready; the head pod: {told}: it is so"


class Diagnosing(NoHooks):
    def __init__(self) -> None:
        self.asked = 0

    def diagnose(self, ctx: OwnerContext) -> Sequence[str]:
        self.asked += 1
        return [f"the queue of {ctx.name}\nis full"]


def test_plugins_say_what_they_know_when_there_is_trouble(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = one_worker(kubernetes, cluster, group, unscheduled(CPU))
    tiny.hooks = hooks = Diagnosing()
    tiny.reconcile()
    assert hooks.asked == 0, "not in a start that goes well"
    tiny.now += timedelta(seconds=10)
    tiny.reconcile()
    assert tiny.condition("PodsNotReady")["message"].split("\n")[1:] == ["the queue of pair is full"]
    tiny.set_pod(next(iter(tiny.workers)), phase="Running", ready=True)
    tiny.settle()
    before = hooks.asked
    tiny.reconcile()
    assert hooks.asked == before


def test_plugins_say_what_they_know_when_pods_are_held_back(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(), hooks=Diagnosing())
    tiny.settle()
    extra = {**tiny.head, "metadata": {**tiny.head["metadata"], "name": "pair-head-extra"}}
    tiny.add(POD, extra)
    plan = tiny.reconcile()
    assert plan.waiting.endswith("Please delete extra head pods; the queue of pair is full")
    assert tiny.condition("PodsNotReady")["reason"] == "PluginDiagnosis"


def test_without_the_gate_it_is_still_what_the_plan_waits_for(kubernetes: Any, cluster: Any, group: Any) -> None:
    tiny = one_worker(kubernetes, cluster, group, unscheduled(CPU))
    tiny.gates["RayClusterStatusConditions"] = False
    tiny.now += timedelta(seconds=10)
    assert CPU in tiny.reconcile().waiting


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
def test_ended_workers_are_replaced_and_no_trouble(
    kubernetes: Any, cluster: Any, group: Any, phase: str, policy: str
) -> None:
    """RC-07, for workers."""
    tiny = one_worker(kubernetes, cluster, group, {"phase": phase, "reason": "Evicted", "message": "disk pressure"})
    (name,) = tiny.workers
    tiny.workers[name]["spec"]["restartPolicy"] = policy
    tiny.now += timedelta(minutes=10)
    tiny.settle()
    assert list(tiny.workers) != [name]
    assert tiny.condition("PodsNotReady") is None
