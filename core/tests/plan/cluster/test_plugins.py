"""What plugins do to a RayCluster: objects before pods, waits, failures, and plugins that are missing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kuberay.api.kinds import SERVICE_ACCOUNT, Kind
from kuberay.hooks.calls import MutatedPod, NoHooks, PluginFailure, Resources
from kuberay.hooks.types import FinishContext, OwnerContext, PodContext, Problem, Wait, Watch
from kuberay.plan.model import Apply, Create, Delete

GANG = Kind("scheduling.test", "v1", "gangs", "Gang")
NOTE = Kind("test.test", "v1", "notes", "Note")


def manifest(kind: Kind, name: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **content}


class Hooks(NoHooks):
    """Answers that a test can change."""

    def __init__(self) -> None:
        self.before = Resources()
        self.beside = Resources()
        self.finished = Resources()
        self.problems: list[Problem] = []
        self.failing_groups: set[str] = set()
        self.finish_calls: list[FinishContext] = []
        self.contexts: list[OwnerContext] = []

    def validate(self, ctx: OwnerContext) -> tuple[Sequence[Problem], Sequence[PluginFailure]]:
        return self.problems, ()

    def pre_create_pods(self, ctx: OwnerContext) -> Resources:
        self.contexts.append(ctx)
        return self.before

    def extra_resources(self, ctx: OwnerContext) -> Resources:
        return self.beside

    def finish(self, ctx: FinishContext) -> Resources:
        self.finish_calls.append(ctx)
        return self.finished

    def mutate_pod(self, ctx: PodContext, pod: dict[str, Any]) -> MutatedPod:
        if ctx.group in self.failing_groups:
            return MutatedPod(pod, failures=[PluginFailure("my-policy", "mutate_pod", "KeyError: 'x'")])
        return MutatedPod(pod, {"my-policy": ["/metadata/labels/x"]})

    def watches(self) -> Sequence[Watch]:
        return [Watch(GANG), Watch(NOTE, prune=True), Watch(SERVICE_ACCOUNT, create_only=True)]


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


def writes(tiny: Any) -> list[tuple[str, str]]:
    return [(type(write).__name__, write.kind.kind) for write in tiny.writes]


def test_required_objects_come_before_pods(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    hooks.before.manifests = [manifest(GANG, "g", spec={"minMember": 4})]
    tiny = kubernetes(cluster(), hooks=hooks)
    plan = tiny.plan()
    stages = [[write.kind.kind for write in stage] for stage in plan.stages]
    assert stages == [["Service", "Gang"], ["Pod"], ["Pod", "Pod", "Pod"]]
    tiny.settle()
    gang = tiny.objects[GANG, "g"]
    assert gang["metadata"]["namespace"] == "default"
    assert gang["metadata"]["ownerReferences"][0]["name"] == "pair"
    assert [(group.name, group.desired) for group in hooks.contexts[0].groups] == [("headgroup", 1), ("crew", 3)]
    assert plan.plugin_changes == {"my-policy": ["/metadata/labels/x"]}


def test_refused_required_object_holds_pods_back(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    """VO-06: the scheduler's kinds are not installed."""
    hooks.before.manifests = [manifest(GANG, "g")]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.refuse = lambda write: "the server could not find the requested resource" if write.kind == GANG else ""
    tiny.reconcile()
    assert tiny.pods == {}
    (event,) = [event for event in tiny.events if event.type == "Warning"]
    assert event.note == "Failed creating Gang default/g, the server could not find the requested resource"
    waiting = tiny.condition("PodsWaiting")
    assert (waiting["status"], waiting["reason"]) == ("True", "WriteFailed")
    assert "Gang g: the server could not find the requested resource" in waiting["message"]
    tiny.refuse = lambda write: ""
    tiny.settle()
    assert tiny.status["state"] == "ready"
    assert tiny.condition("PodsWaiting") is None


def test_refused_extra_object_holds_nothing_back(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    hooks.beside.manifests = [manifest(NOTE, "n")]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.refuse = lambda write: "no" if write.kind == NOTE else ""
    tiny.reconcile()
    assert len(tiny.pods) == 4


def test_unwanted_objects_are_pruned(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    hooks.beside.manifests = [manifest(NOTE, "a"), manifest(NOTE, "b"), manifest(GANG, "g")]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    hooks.beside.manifests = [manifest(NOTE, "b")]
    hooks.beside.failures = [PluginFailure("p", "extra_resources", "x")]
    tiny.settle()
    assert (NOTE, "a") in tiny.objects, "not while an answer is missing"
    hooks.beside.failures = []
    tiny.settle()
    assert {key for key in tiny.objects if key[0] in (NOTE, GANG)} == {(NOTE, "b"), (GANG, "g")}


def test_create_only_objects_are_left_alone(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    hooks.before.manifests = [manifest(SERVICE_ACCOUNT, "sa", extra="x")]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    tiny.objects[SERVICE_ACCOUNT, "sa"]["extra"] = "by somebody"
    tiny.settle()
    assert tiny.objects[SERVICE_ACCOUNT, "sa"]["extra"] == "by somebody"
    (write,) = [write for write in tiny.writes if write.kind == SERVICE_ACCOUNT]
    assert isinstance(write, Apply)
    assert write.done is not None
    assert (write.done.reason, write.done.note) == ("CreatedServiceAccount", "Created service account default/sa")


def test_wait(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    hooks.before.waits = [("quota-keeper", Wait("the queue is full", event="QueueFull"))]
    tiny = kubernetes(cluster(), hooks=hooks)
    plan = tiny.reconcile()
    tiny.reconcile()
    assert tiny.pods == {}
    assert plan.waiting == "the queue is full"
    condition = tiny.condition("PodsWaiting")
    assert (condition["status"], condition["reason"]) == ("True", "QuotaKeeper")
    assert [event.note for event in tiny.events if event.reason == "QueueFull"] == ["the queue is full"]
    assert [pod.exists for pod in plan.expected_pods] == [False] * 4
    hooks.before.waits = []
    tiny.settle()
    assert tiny.condition("PodsWaiting") is None
    assert tiny.status["state"] == "ready"
    hooks.before.waits = [("quota-keeper", Wait("the queue is full"))]
    tiny.settle()
    assert tiny.condition("PodsWaiting") is None, "nothing is held back when nothing is to be made"


def test_failing_pre_create_pods_is_not_passed_over(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    hooks.before.failures = [PluginFailure("volcano", "pre_create_pods", "ValueError: bad tier")]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.reconcile()
    tiny.reconcile()
    assert tiny.pods == {}
    condition = tiny.condition("PluginFailed")
    assert (condition["reason"], condition["message"]) == (
        "Volcano",
        "plugin volcano failed in pre_create_pods: ValueError: bad tier",
    )
    assert len([event for event in tiny.events if event.reason == "PluginFailed"]) == 1
    hooks.before.failures = []
    tiny.settle()
    assert tiny.condition("PluginFailed") is None
    assert tiny.status["state"] == "ready"


def test_pod_on_which_a_plugin_fails_is_not_made(kubernetes: Any, cluster: Any, group: Any, hooks: Hooks) -> None:
    hooks.failing_groups = {"bad"}
    tiny = kubernetes(cluster(groups=[group("good", 1), group("bad", 2)]), hooks=hooks)
    tiny.settle()
    assert {pod["metadata"]["labels"]["ray.io/group"] for pod in tiny.pods.values()} == {"headgroup", "good"}
    condition = tiny.condition("PluginFailed")
    assert (condition["reason"], condition["message"]) == (
        "MyPolicy",
        "plugin my-policy failed in mutate_pod: KeyError: 'x'",
    )
    assert "state" not in tiny.status
    hooks.failing_groups = set()
    tiny.settle()
    assert len(tiny.pods) == 4
    assert tiny.condition("PluginFailed") is None


def test_running_pods_are_not_built_again(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    hooks.failing_groups = {"headgroup", "crew"}
    plan = tiny.plan()
    assert plan.status is None
    assert [pod.exists for pod in plan.expected_pods] == [True] * 4
    assert plan.expected_pods[0].build()["metadata"]["name"] == tiny.head["metadata"]["name"]


def test_plugin_refuses_a_spec(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    hooks.problems = [Problem("spec.x", "not here")]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    assert tiny.objects == {}
    assert tiny.condition("RayClusterSpecValid")["message"] == "spec.x: not here"


def test_suspended_cluster_gives_back_its_gang(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    """VO-04."""
    hooks.before.manifests = [manifest(GANG, "g", spec={"minMember": 4})]
    hooks.finished.manifests = [manifest(GANG, "g", spec={"minMember": 0})]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    tiny.edit(lambda spec: spec.update(suspend=True))
    tiny.settle()
    assert tiny.objects[GANG, "g"]["spec"] == {"minMember": 0}
    call = hooks.finish_calls[0]
    assert (call.reason, call.cluster_alive, len(call.cluster_groups)) == ("Suspended", True, 2)
    tiny.edit(lambda spec: spec.update(suspend=False))
    before = len(tiny.writes)
    tiny.settle()
    assert tiny.objects[GANG, "g"]["spec"] == {"minMember": 4}
    kinds = [write.kind.kind for write in tiny.writes[before:]]
    assert kinds == ["Gang", "Pod", "Pod", "Pod", "Pod"], "full size again before any pod"


@pytest.mark.parametrize(
    ("field", "value", "gate", "package"),
    [
        ("enableInTreeAutoscaling", True, "", "kuberay-autoscaler-v2"),
        ("networkPolicy", {}, "RayClusterNetworkPolicy", "kuberay-networkpolicy"),
        ("tlsOptions", {"enabled": True}, "RayClusterMTLS", "kuberay-mtls"),
    ],
)
def test_missing_plugin_is_named(
    kubernetes: Any, cluster: Any, field: str, value: Any, gate: str, package: str
) -> None:
    tiny = kubernetes(cluster())
    tiny.gates |= {gate: True}
    tiny.settle()
    running = set(tiny.pods)
    tiny.edit(
        lambda spec: spec.update(
            {field: value},
        )
    )
    tiny.edit(lambda spec: spec["workerGroupSpecs"][0].update(replicas=5))
    tiny.reconcile()
    tiny.reconcile()
    assert set(tiny.pods) == running
    message = tiny.condition("PluginMissing")["message"]
    assert f"spec.{field} needs the plugin" in message
    assert f"pip install {package}" in message
    assert len([event for event in tiny.events if event.reason == "PluginMissing"]) == 1
    tiny.edit(lambda spec: spec.pop(field))
    tiny.settle()
    assert tiny.condition("PluginMissing") is None
    assert len(tiny.workers) == 5


@pytest.mark.parametrize("why", ["missing", "wait", "failure"])
@pytest.mark.parametrize(
    ("strategy", "replicas"),
    [
        ({"type": "Recreate"}, 3),
        ({"type": "Rolling", "maxUnavailable": "100%", "allowHeadRestart": True}, 3),
        ({"type": "Rolling", "allowHeadRestart": True}, 0),
    ],
)
def test_pods_that_could_not_be_made_anew_are_not_taken_down(
    kubernetes: Any, cluster: Any, group: Any, hooks: Hooks, strategy: Any, replicas: int, why: str
) -> None:
    """An upgrade waits with everything else that waits; what runs goes on."""
    tiny = kubernetes(cluster(groups=[group(replicas=replicas)], upgradeStrategy=strategy), hooks=hooks)
    tiny.settle()
    running = set(tiny.pods)
    if why == "missing":
        tiny.edit(lambda spec: spec.update(enableInTreeAutoscaling=True))
    elif why == "wait":
        hooks.before = Resources(waits=[("gang", Wait("no quota"))])
    else:
        hooks.before = Resources(failures=[PluginFailure("gang", "pre_create_pods", "KeyError: 'x'")])
    tiny.edit(new_image)
    tiny.settle()
    assert set(tiny.pods) == running
    told = tiny.condition("PluginMissing" if why == "missing" else "PodsWaiting")
    assert {"missing": "is not enabled", "wait": "no quota", "failure": "KeyError"}[why] in told["message"]
    if strategy["type"] == "Rolling" and replicas:
        assert told["message"] in tiny.condition("RollingUpgrade")["message"]
    hooks.before = Resources()
    tiny.edit(lambda spec: spec.pop("enableInTreeAutoscaling", None))
    tiny.settle(passes=30)
    assert not running & set(tiny.pods)
    assert len(tiny.pods) == 1 + replicas
    assert tiny.condition("PodsWaiting") is None


@pytest.mark.parametrize("failing", ["headgroup", "crew"])
def test_all_pods_stay_when_a_plugin_fails_on_their_successors(
    kubernetes: Any, cluster: Any, hooks: Hooks, failing: str
) -> None:
    tiny = kubernetes(cluster(upgradeStrategy={"type": "Recreate"}), hooks=hooks)
    tiny.settle()
    running = set(tiny.pods)
    hooks.failing_groups = {failing}
    tiny.edit(new_image)
    tiny.settle()
    assert set(tiny.pods) == running
    assert "plugin my-policy failed in mutate_pod" in tiny.condition("PluginFailed")["message"]
    assert tiny.condition("PodsWaiting")["reason"] == "PluginFailed"
    hooks.failing_groups = set()
    tiny.settle()
    assert not running & set(tiny.pods)
    assert tiny.condition("PodsWaiting") is None


def new_image(spec: Any) -> None:
    for template in (group["template"] for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"])):
        template["spec"]["containers"][0]["image"] = "example.test/ray:new"


def test_one_pods_failure_spares_other_writes(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    hooks.failing_groups = {"headgroup"}
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.reconcile()
    kinds = {type(write) for write in tiny.writes if write.kind.kind == "Pod"}
    assert kinds == {Create}
    assert len(tiny.workers) == 3
    assert not [write for write in tiny.writes if isinstance(write, Delete)]
