"""The head of a RayJob in SidecarMode: ready by its Ray container, and never made twice."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import POD
from kuberay.api.objects import Pod, from_dict
from kuberay.plan.cluster.pod_health import is_ready
from kuberay.plan.cluster.pod_trouble import find_trouble
from kuberay.plan.cluster.sidecar_head import without_submitter
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, Delete

LABELS = {"ray.io/job-submission-mode": "SidecarMode", "ray.io/originated-from-crd": "RayJob"}
ANNOTATIONS = {"ray.io/disable-provisioned-head-restart": "true"}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
WELL = {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": "2026-01-01T00:00:00Z"}}
BADLY = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}}
BACK_OFF = {"waiting": {"reason": "CrashLoopBackOff"}}
PULLING = {"waiting": {"reason": "ImagePullBackOff"}}
UNREADY = "ContainersNotReady"


@pytest.fixture
def sidecar(cluster: Any) -> Any:
    """As a RayJob makes it; *spec* adds to the RayCluster's."""

    def build(*, labels: dict[str, str] = LABELS, **spec: Any) -> Any:
        body = cluster(**spec)
        body["metadata"] |= {"labels": dict(labels), "annotations": dict(ANNOTATIONS)}
        pod = body["spec"]["headGroupSpec"]["template"]["spec"]
        pod["restartPolicy"] = "Never"
        pod["containers"].append({"name": "ray-job-submitter", "image": "example.test/ray:2.54.0"})
        return body

    return build


def head_status(
    ray: dict[str, Any],
    submitter: dict[str, Any],
    *,
    reason: str = "",
    phase: str = "Running",
    last: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A pod status in the kubelet's words; containers that run are ready."""
    ready = not reason and all("running" in state for state in (ray, submitter))
    return {
        "phase": phase,
        "podIP": "10.1.0.9",
        "conditions": [
            {
                "type": "Ready",
                "status": "True" if ready else "False",
                "reason": reason or ("" if ready else UNREADY),
                "message": "" if ready else "containers with unready status: [ray-job-submitter]",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }
        ],
        "containerStatuses": [
            {"name": "engine", "ready": "running" in ray, "state": ray},
            {"name": "ray-job-submitter", "ready": "running" in submitter, "state": submitter, "lastState": last or {}},
        ],
    }


def set_head(tiny: Any, *args: Any, **options: Any) -> str:
    head = tiny.head
    head["status"] = head_status(*args, **options)
    return str(head["metadata"]["name"])


def lose(tiny: Any) -> None:
    del tiny.objects[POD, tiny.head["metadata"]["name"]]


def heads(tiny: Any) -> list[str]:
    return [n for n, b in tiny.pods.items() if b["metadata"]["labels"]["ray.io/node-type"] == "head"]


def started(tiny: Any) -> None:
    """The head runs, its workers do not yet."""
    tiny.run_pods = False
    tiny.reconcile()
    set_head(tiny, RUNNING, RUNNING)
    tiny.reconcile()


# -- there is only one


def test_a_started_head_is_not_made_again(kubernetes: Any, sidecar: Any) -> None:
    """RJ-10: also before the cluster was ready; the submitter does not wait for workers."""
    tiny = kubernetes(sidecar())
    started(tiny)
    assert tiny.condition("RayClusterProvisioned")["status"] == "False"
    assert tiny.condition("HeadStarted")["status"] == "True"
    workers = set(tiny.workers)
    lose(tiny)
    tiny.writes.clear()
    tiny.settle()
    assert (heads(tiny), set(tiny.workers), tiny.writes) == ([], workers, [])
    ready = tiny.condition("HeadPodReady")
    why = (
        "the head pod is gone and the annotation ray.io/disable-provisioned-head-restart says not to restart it: a new "
        "head would submit the RayJob a second time"
    )
    assert (ready["status"], ready["reason"]) == ("False", "HeadPodNotFound")
    assert ready["message"] == f"Head Pod not found: {why}"
    assert tiny.condition("PodsWaiting")["message"] == why
    tiny.now = tiny.now.replace(hour=5)
    tiny.settle()
    plan = tiny.reconcile()
    assert (tiny.writes, plan.status, plan.requeue_after) == ([], None, tiny.config.requeue_period)
    assert [pod.node_type for pod in plan.expected_pods] == ["worker"] * len(workers)


@pytest.mark.parametrize(
    "status",
    [
        {},
        {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        head_status(PULLING, PULLING, phase="Pending"),
        head_status(PULLING, RUNNING, phase="Pending"),
        {"phase": "Failed", "reason": "OutOfcpu", "message": "Pod was rejected"},
    ],
)
def test_a_head_that_never_started_is_made_again(kubernetes: Any, sidecar: Any, status: Any) -> None:
    """RJ-10: nothing can have been submitted without Ray."""
    tiny = kubernetes(sidecar())
    tiny.run_pods = False
    tiny.reconcile()
    old = tiny.head["metadata"]["name"]
    tiny.head["status"] = status
    tiny.reconcile()
    if old in tiny.pods:
        lose(tiny)
    tiny.run_pods = True
    tiny.settle()
    assert heads(tiny) not in ([], [old])
    assert tiny.condition("RayClusterProvisioned")["status"] == "True"


def test_a_failed_head_stays_until_its_start_is_stored(kubernetes: Any, sidecar: Any) -> None:
    """An operator that ends between both must not take the place for one never filled."""
    tiny = kubernetes(sidecar())
    tiny.run_pods = False
    tiny.reconcile()
    set_head(tiny, BADLY, BADLY, phase="Failed")
    plan = tiny.plan()
    assert not [write for stage in plan.stages for write in stage if isinstance(write, Delete)]
    tiny.reconcile()
    assert tiny.condition("HeadStarted")["status"] == "True"
    tiny.settle()
    assert heads(tiny) == []
    assert not [write for write in tiny.writes if isinstance(write, Create) and write.kind == POD][5:]


def test_a_start_is_told_at_once(kubernetes: Any, sidecar: Any) -> None:
    tiny = kubernetes(sidecar())
    tiny.run_pods = False
    tiny.reconcile()
    set_head(tiny, RUNNING, RUNNING)
    plan = tiny.plan()
    assert plan.status_delay.total_seconds() == 0
    assert "HeadStarted" in {condition["type"] for condition in plan.status["conditions"]}


def test_the_start_is_remembered_without_other_conditions(kubernetes: Any, sidecar: Any) -> None:
    tiny = kubernetes(sidecar(), gates={})
    started(tiny)
    assert [condition["type"] for condition in tiny.status["conditions"]] == ["HeadStarted"]
    lose(tiny)
    tiny.settle()
    assert heads(tiny) == []


@pytest.mark.parametrize("missing", ["label", "annotation"])
def test_other_clusters_are_as_in_kuberay(kubernetes: Any, sidecar: Any, missing: str) -> None:
    body = sidecar(labels={} if missing == "label" else LABELS)
    if missing == "annotation":
        del body["metadata"]["annotations"]
    tiny = kubernetes(body)
    started(tiny)
    assert tiny.condition("HeadStarted") is None
    lose(tiny)
    tiny.run_pods = True
    tiny.settle()
    assert len(heads(tiny)) == 1


def test_a_resumed_cluster_gets_no_second_head(kubernetes: Any, sidecar: Any) -> None:
    tiny = kubernetes(sidecar())
    started(tiny)
    tiny.edit(lambda spec: spec.update(suspend=True))
    tiny.settle()
    assert tiny.status["state"] == "suspended"
    tiny.edit(lambda spec: spec.update(suspend=False))
    tiny.settle()
    assert tiny.pods == {}
    assert "not to restart it" in tiny.condition("HeadPodReady")["message"]


def test_groups_are_suspended_without_a_head(kubernetes: Any, sidecar: Any, group: Any) -> None:
    """A RayJob's deletion rule DeleteWorkers after its head was lost."""
    tiny = kubernetes(sidecar(groups=[group("crew", 2), group("rest", 1)]))
    started(tiny)
    lose(tiny)
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(suspend=True))
    tiny.settle()
    left = {body["metadata"]["labels"]["ray.io/group"] for body in tiny.pods.values()}
    assert left == {"rest"}


@pytest.mark.parametrize("strategy", ["Recreate", "Rolling"])
def test_upgrades_leave_the_head(kubernetes: Any, sidecar: Any, strategy: str) -> None:
    """Validation refuses a strategy in what a RayJob made; users may still set label and annotation themselves."""
    labels = {"ray.io/job-submission-mode": "SidecarMode"}
    tiny = kubernetes(
        sidecar(labels=labels, upgradeStrategy={"type": strategy, "allowHeadRestart": strategy == "Rolling"})
    )
    started(tiny)
    before = set(tiny.pods)
    head = tiny.head["metadata"]["name"]
    tiny.edit(lambda spec: spec["headGroupSpec"]["template"]["spec"]["containers"][0].update(image="example.test/new"))
    tiny.settle()
    assert set(tiny.pods) == before
    outdated = tiny.condition("HeadOutdated")
    assert outdated["reason"] == "HeadRestartNotAllowed"
    assert outdated["message"].startswith(f"the head pod {head} is not of the present spec: the annotation ray.io/")
    assert [event.reason for event in tiny.events].count("HeadPodOutdated") == 1
    tiny.edit(lambda spec: spec.update(upgradeStrategy={"type": "None"}))
    tiny.settle()
    assert tiny.condition("HeadOutdated") is None


# -- readiness


@pytest.mark.parametrize("submitter", [WELL, BADLY])
def test_a_finished_submitter_leaves_the_cluster_ready(kubernetes: Any, sidecar: Any, submitter: Any) -> None:
    """RJ-12: the cluster becomes ready although its submitter ended first."""
    tiny = kubernetes(sidecar())
    tiny.run_pods = False
    tiny.reconcile()
    head = set_head(tiny, RUNNING, submitter)
    for name in tiny.workers:
        tiny.set_pod(name, phase="Running", ready=True)
    tiny.settle()
    assert tiny.status["state"] == "ready"
    condition = tiny.condition("HeadPodReady")
    assert (condition["status"], condition["reason"]) == ("True", "HeadPodRunningAndReady")
    assert tiny.condition("RayClusterProvisioned")["status"] == "True"
    assert tiny.status["head"]["podName"] == head
    tiny.now = tiny.now.replace(hour=5)
    tiny.settle()
    assert tiny.condition("PodsNotReady") is None
    assert heads(tiny) == [head]


def test_elsewhere_an_ended_container_keeps_its_meaning(kubernetes: Any, sidecar: Any) -> None:
    tiny = kubernetes(sidecar(labels={}))
    tiny.run_pods = False
    tiny.reconcile()
    set_head(tiny, RUNNING, WELL)
    tiny.settle()
    assert tiny.condition("HeadPodReady")["status"] == "False"
    tiny.now = tiny.now.replace(hour=5)
    tiny.settle()
    assert "container ray-job-submitter has ended" in tiny.condition("PodsNotReady")["message"]


def seen(status: dict[str, Any]) -> Pod:
    spec = {
        "containers": [{"name": "engine"}, {"name": "ray-job-submitter"}],
        "nodeName": "n",
        "restartPolicy": "Never",
    }
    pod = from_dict(POD, {"metadata": {"name": "h", "namespace": "d", "uid": "u"}, "spec": spec, "status": status})
    assert isinstance(pod, Pod)
    return pod


@pytest.mark.parametrize(
    ("status", "ready", "trouble"),
    [
        (head_status(RUNNING, RUNNING), True, ""),
        (head_status(RUNNING, WELL), True, ""),
        (head_status(RUNNING, BACK_OFF, last=BADLY), True, ""),
        (head_status(RUNNING, RUNNING, last=BADLY), True, ""),
        (head_status(BADLY, WELL), False, "ContainerEnded"),
        (head_status(RUNNING, PULLING, phase="Pending"), False, "ImagePullBackOff"),
        (head_status(RUNNING, WELL, reason="ReadinessGatesNotReady"), False, "ContainersNotReady"),
        (head_status(RUNNING, WELL, reason="NodeLost"), False, "NodeLost"),
        ({"phase": "Running"}, True, ""),
        ({"phase": "Failed"}, False, ""),
    ],
)
def test_what_an_ended_submitter_hides(kubernetes: Any, cluster: Any, status: Any, ready: bool, trouble: str) -> None:
    pod = without_submitter(seen(status))
    assert is_ready(pod) is ready
    found = find_trouble(pod, kubernetes(cluster()).now)
    assert (str(found.reason) if found is not None else "") == trouble


def test_the_pod_itself_is_not_changed() -> None:
    pod = seen(head_status(RUNNING, WELL))
    assert without_submitter(pod) is not pod
    assert (len(pod.status.container_statuses), pod.status.conditions[0].status) == (2, "False")
    running = seen(head_status(RUNNING, RUNNING))
    assert without_submitter(running) is running


# -- the head service


@pytest.mark.parametrize(
    ("labels", "fields", "published"),
    [
        (LABELS, {}, True),
        (LABELS, {"serviceType": "NodePort"}, True),
        (LABELS, {"headService": {"spec": {"type": "ClusterIP"}}}, True),
        (LABELS, {"headService": {"spec": {"publishNotReadyAddresses": False}}}, False),
        ({}, {}, None),
        ({}, {"serviceType": "NodePort"}, None),
        ({}, {"headService": {"spec": {"type": "ClusterIP"}}}, None),
    ],
)
def test_the_service_finds_a_head_whose_submitter_has_ended(
    kubernetes: Any, sidecar: Any, labels: Any, fields: Any, published: bool | None
) -> None:
    """RJ-12: headless or not, unless the user says otherwise."""
    body = sidecar(labels=labels)
    body["spec"]["headGroupSpec"] |= fields
    tiny = kubernetes(body, config=PlanConfig(head_cluster_ip_service=True))
    tiny.settle()
    (service,) = [found for (kind, _), found in tiny.objects.items() if kind.kind == "Service"]
    assert service["spec"].get("publishNotReadyAddresses") is published
