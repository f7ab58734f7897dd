"""The words, types and actions of events about children (spec raycluster.md 7)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Delete, Write
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager

NO_TIME = timedelta(0)
ROUTES = PlanConfig(operator_version="1.2.3", openshift=True)


def told(tiny: Any, since: int = 0) -> set[tuple[str, str, str, str]]:
    return {(event.type, event.reason, event.action, event.note) for event in tiny.events[since:]}


def refuse(kind: str) -> Callable[[Write], str]:
    return lambda write: "no" if write.kind.kind == kind else ""


def refuse_deletes(write: Write) -> str:
    return "no" if isinstance(write, Delete) else ""


CHILDREN = [
    ("Service", "Service", "service", "pair-head-svc"),
    ("Ingress", "Ingress", "ingress", "pair-head-ingress"),
    ("Route", "Route", "route", "pair-head-route"),
    ("ServiceAccount", "ServiceAccount", "service account", "pair"),
    ("Role", "Role", "role", "pair"),
    ("RoleBinding", "RoleBinding", "role binding", "pair"),
]


@pytest.fixture
def made(kubernetes: Any, cluster: Any) -> Callable[..., Any]:
    """An autoscaled cluster that is exposed, with a Route where *config* says OpenShift."""

    def make(config: PlanConfig | None = None, **spec: Any) -> Any:
        body = cluster(enableInTreeAutoscaling=True, **spec)
        body["spec"]["headGroupSpec"]["enableIngress"] = True
        return kubernetes(body, config=config, hooks=PluginManager(load(["autoscaler-v2"])))

    return make


@pytest.mark.parametrize(("kind", "reason", "words", "name"), CHILDREN)
def test_created(made: Any, kind: str, reason: str, words: str, name: str) -> None:
    tiny = made(ROUTES if kind == "Route" else None)
    tiny.settle()
    assert ("Normal", f"Created{reason}", "Create", f"Created {words} default/{name}") in told(tiny)
    assert {event.type for event in tiny.events} == {"Normal"}


@pytest.mark.parametrize(("kind", "reason", "words", "name"), CHILDREN)
def test_not_created(made: Any, kind: str, reason: str, words: str, name: str) -> None:
    tiny = made(ROUTES if kind == "Route" else None)
    tiny.refuse = refuse(kind)
    tiny.reconcile()
    assert ("Warning", f"FailedToCreate{reason}", "Create", f"Failed creating {words} default/{name}, no") in told(tiny)


def test_an_ingress_that_cannot_be_updated(made: Any) -> None:
    tiny = made()
    tiny.settle()
    tiny.refuse = refuse("Ingress")
    tiny.edit(lambda spec: spec["headGroupSpec"].update(ingressOptions={"host": "h"}))
    tiny.reconcile()
    note = "Failed updating ingress default/pair-head-ingress, no"
    assert ("Warning", "FailedToUpdateIngress", "Update", note) in told(tiny)
    tiny.refuse = lambda write: ""
    tiny.settle()
    note = "Updated ingress default/pair-head-ingress"
    assert ("Normal", "UpdatedIngress", "Update", note) in told(tiny)


STATE = "Pod status: {}; Pod restart policy: Never; Ray container terminated status: {}"


@pytest.mark.parametrize("refused", [False, True], ids=["done", "refused"])
@pytest.mark.parametrize(
    ("phase", "terminated", "state"),
    [("Failed", False, ("Failed", "none")), ("Running", True, ("Running", "exit code 1 (Error)"))],
)
@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_unhealthy_pods(
    kubernetes: Any,
    cluster: Any,
    node_type: str,
    phase: str,
    terminated: bool,
    state: tuple[str, str],
    refused: bool,
) -> None:
    body = cluster()
    body["spec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"] = "Never"
    body["spec"]["workerGroupSpecs"][0]["template"]["spec"]["restartPolicy"] = "Never"
    tiny = kubernetes(body)
    tiny.settle()
    name = tiny.head["metadata"]["name"] if node_type == "head" else next(iter(tiny.workers))
    tiny.set_pod(name, phase=phase, terminated=terminated)
    since = len(tiny.events)
    tiny.refuse = refuse_deletes if refused else lambda write: ""
    tiny.reconcile()
    what = f"{node_type} Pod default/{name}; {STATE.format(*state)}"
    kind = "HeadPod" if node_type == "head" else "WorkerPod"
    if refused:
        expected = ("Warning", f"FailedToDelete{kind}", "Delete", f"Failed deleting {what}, no")
    else:
        expected = ("Normal", f"Deleted{kind}", "Delete", f"Deleted {what}")
    assert expected in told(tiny, since)


def _name_first(tiny: Any) -> None:
    name = next(iter(tiny.workers))
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(scaleStrategy={"workersToDelete": [name]}))


def _scale_down(tiny: Any) -> None:
    tiny.drain = None
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=0))


def _suspend_group(tiny: Any) -> None:
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(suspend=True))


def _fail_first(tiny: Any) -> None:
    tiny.set_pod(next(iter(tiny.workers)), phase="Failed")


def _lose_first(tiny: Any) -> None:
    (kind, name) = next(key for key in tiny.objects if key[1] == next(iter(tiny.workers)))
    del tiny.objects[kind, name]


TERMINAL = (
    "The worker Pod {pod} status is Failed which is a terminal state. KubeRay will delete the Pod and create new Pods in"
    " the next reconciliation if necessary."
)
OF_GROUP = "Deleted worker Pod default/{pod} for group crew: "
NOT_OF_GROUP = (
    "Failed deleting worker Pod default/{pod} for group crew; Pod status: Running; Pod restart policy: Always; Ray"
    " container terminated status: none, no"
)


@pytest.mark.parametrize(
    ("hosts", "change", "done", "failed"),
    [
        pytest.param(1, _name_first, "Deleted pod default/{pod}", "Failed deleting pod default/{pod}, no", id="named"),
        pytest.param(
            1, _scale_down, "Deleted Pod default/{pod}", "Failed deleting Pod default/{pod}, no", id="surplus"
        ),
        pytest.param(2, _name_first, OF_GROUP + "autoscaler scale-down request", NOT_OF_GROUP, id="named-of-several"),
        pytest.param(2, _scale_down, OF_GROUP + "scaling down", NOT_OF_GROUP, id="surplus-of-several"),
        pytest.param(2, _fail_first, OF_GROUP + TERMINAL, NOT_OF_GROUP, id="unhealthy-of-several"),
        pytest.param(
            2, _lose_first, OF_GROUP + "cleanup of incomplete multi-host group", NOT_OF_GROUP, id="incomplete"
        ),
    ],
)
@pytest.mark.parametrize("refused", [False, True], ids=["done", "refused"])
def test_workers_that_go(
    kubernetes: Any,
    cluster: Any,
    group: Any,
    hosts: int,
    change: Callable[[Any], None],
    done: str,
    failed: str,
    refused: bool,
) -> None:
    body = cluster(groups=[group("crew", 1, numOfHosts=hosts)])
    body["spec"]["workerGroupSpecs"][0]["template"]["spec"]["restartPolicy"] = "Always"
    tiny = kubernetes(body, config=PlanConfig(operator_version="1", drain_timeout=NO_TIME))
    tiny.settle()
    names = "|".join(tiny.workers)
    change(tiny)
    since = len(tiny.events)
    tiny.refuse = refuse_deletes if refused else lambda write: ""
    tiny.reconcile()
    words = {re.sub(names, "{pod}", event.note) for event in tiny.events[since:] if event.action == "Delete"}
    assert (failed if refused else done) in words
    reasons = {event.reason for event in tiny.events[since:] if event.action == "Delete"}
    assert reasons == {"FailedToDeleteWorkerPod" if refused else "DeletedWorkerPod"}


def test_a_suspended_group_that_cannot_go(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    _suspend_group(tiny)
    tiny.refuse = refuse_deletes
    tiny.reconcile()
    note = "Failed deleting worker Pods for suspended group crew in RayCluster default/pair, no"
    assert ("Warning", "FailedToDeleteWorkerPodCollection", "Delete", note) in told(tiny)
    assert tiny.condition("ReplicaFailure")["reason"] == "FailedDeleteWorkerPod"


def test_a_recreation_that_cannot_go(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(upgradeStrategy={"type": "Recreate"}))
    tiny.settle()
    tiny.edit(lambda spec: spec.update(rayVersion="2.99.0"))
    tiny.refuse = refuse_deletes
    tiny.reconcile()
    note = "Failed deleting Pods due to spec change with Recreate upgradeStrategy for RayCluster default/pair, no"
    assert ("Warning", "FailedToDeletePodCollection", "Delete", note) in told(tiny)


@pytest.mark.parametrize("node_type", ["head", "worker"])
def test_an_evicted_pod_says_why_before_it_goes(kubernetes: Any, cluster: Any, node_type: str) -> None:
    """Nobody can ask the pod any more."""
    tiny = kubernetes(cluster())
    tiny.settle()
    name = tiny.head["metadata"]["name"] if node_type == "head" else next(iter(tiny.workers))
    message = "The node was low on resource: ephemeral-storage. Threshold quantity: 1Gi, available: 12Ki. "
    tiny.set_pod(name, phase="Failed")
    words = {"reason": "Evicted", "message": message + 50 * "Container ray was using more. "}
    tiny.pods[name]["status"].update(words)
    since = len(tiny.events)
    tiny.reconcile()
    (note,) = {event.note for event in tiny.events[since:] if event.action == "Delete"}
    assert name in note
    assert "Pod status: Failed (Evicted: The node was low on resource: ephemeral-storage. Threshold" in note
    assert len(note) < 700
