"""What happens to the head pod (spec raycluster.md 4.4, 4.7 and 8.6; cases.md RC-07 and AS-03)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.kinds import POD
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, Delete


def head_writes(tiny: Any) -> list[tuple[str, str]]:
    return [
        (type(write).__name__, write.name)
        for write in tiny.writes
        if isinstance(write, Create | Delete) and "-head-" in write.name
    ]


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_ended_head_is_replaced_under_a_fresh_name(kubernetes: Any, cluster: Any, policy: str, phase: str) -> None:
    """RC-07 and AS-03, in one pass."""
    body = cluster()
    body["spec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"] = policy
    tiny = kubernetes(body)
    tiny.settle()
    old = tiny.head["metadata"]["name"]
    tiny.set_pod(old, phase=phase)
    tiny.writes.clear()
    tiny.reconcile()
    new = tiny.head["metadata"]["name"]
    assert head_writes(tiny) == [("Delete", old), ("Create", new)]
    assert new != old
    (event,) = [event for event in tiny.events if event.reason == "DeletedHeadPod"]
    assert event.note == (
        f"Deleted head Pod default/{old}; Pod status: {phase}; Pod restart policy: {policy}; "
        "Ray container terminated status: none"
    )


def test_deleted_head_comes_back_under_another_name(kubernetes: Any, cluster: Any) -> None:
    """AS-03."""
    tiny = kubernetes(cluster())
    tiny.settle()
    old = tiny.head["metadata"]["name"]
    del tiny.objects[POD, old]
    tiny.settle()
    assert tiny.head["metadata"]["name"] != old
    assert tiny.status["state"] == "ready"


def test_a_head_lost_again_and_again_is_never_called_the_same(kubernetes: Any, cluster: Any) -> None:
    """AS-03: neither are workers, and neither is a head that could not be made for a while."""
    tiny = kubernetes(cluster())
    tiny.settle()
    for _ in range(4):
        tiny.refuse = lambda write: "quota" if isinstance(write, Create) else ""
        for name in list(tiny.pods):
            del tiny.objects[POD, name]
        tiny.reconcile()
        assert "podName" not in tiny.status["head"]
        tiny.refuse = lambda write: ""
        tiny.settle()
    created = [write.name for write in tiny.writes if isinstance(write, Create) and write.kind == POD]
    assert len(set(created)) == len(created) == 5 * 4


def test_a_restarted_operator_knows_the_last_head(kubernetes: Any, cluster: Any) -> None:
    """AS-03: what is remembered of pods ends with the process, the status does not."""
    tiny = kubernetes(cluster())
    tiny.settle()
    old = tiny.head["metadata"]["name"]
    del tiny.objects[POD, old]
    tiny.pod_names.clear()
    tiny.settle()
    assert tiny.head["metadata"]["name"] != old


@pytest.mark.parametrize(("policy", "replaced"), [("Never", True), ("Always", False), ("OnFailure", False)])
def test_running_head_whose_ray_ended(kubernetes: Any, cluster: Any, policy: str, replaced: bool) -> None:
    body = cluster()
    body["spec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"] = policy
    tiny = kubernetes(body)
    tiny.settle()
    old = tiny.head["metadata"]["name"]
    tiny.set_pod(old, phase="Running", ready=False, terminated=True)
    tiny.settle()
    assert (tiny.head["metadata"]["name"] != old) is replaced


def test_head_that_still_runs_something_is_waited_for(kubernetes: Any, cluster: Any) -> None:
    """Two autoscalers at once would fight."""
    body = cluster()
    body["spec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"] = "Never"
    tiny = kubernetes(body)
    tiny.settle()
    old = tiny.head["metadata"]["name"]
    tiny.set_pod(old, phase="Running", terminated=True)
    tiny.keep_terminating = True
    tiny.writes.clear()
    tiny.reconcile()
    tiny.reconcile()
    assert head_writes(tiny) == [("Delete", old)]


@pytest.mark.parametrize("phase", ["Pending", "Unknown", ""])
def test_head_is_left_alone(kubernetes: Any, cluster: Any, phase: str) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    tiny.set_pod(tiny.head["metadata"]["name"], phase=phase, terminated=True)
    tiny.writes.clear()
    tiny.reconcile()
    assert tiny.writes == []


@pytest.mark.parametrize(("value", "restarts"), [("true", False), ("True", True), ("false", True)])
def test_provisioned_head_may_be_kept_from_restarting(
    kubernetes: Any, cluster: Any, value: str, restarts: bool
) -> None:
    body = cluster()
    body["metadata"]["annotations"] = {"ray.io/disable-provisioned-head-restart": value}
    tiny = kubernetes(body)
    tiny.settle()
    workers = set(tiny.workers)
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    del tiny.objects[POD, sorted(workers)[0]]
    tiny.settle()
    assert len(tiny.pods) == (4 if restarts else 2)
    if not restarts:
        condition = tiny.condition("HeadPodReady")
        assert condition is not None
        assert condition["reason"] == "HeadPodNotFound"


def test_head_not_yet_provisioned_does_restart(kubernetes: Any, cluster: Any) -> None:
    body = cluster()
    body["metadata"]["annotations"] = {"ray.io/disable-provisioned-head-restart": "true"}
    tiny = kubernetes(body)
    tiny.reconcile()
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    tiny.settle()
    assert len(tiny.pods) == 4


def test_second_head_is_for_the_user_to_delete(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    first = tiny.head
    tiny.add(POD, {**first, "metadata": {**first["metadata"], "name": "pair-head-zzzzz"}})
    del tiny.objects[POD, sorted(tiny.workers)[0]]
    tiny.writes.clear()
    plan = tiny.reconcile()
    tiny.reconcile()
    sentence = f"2 head pods found [{first['metadata']['name']} pair-head-zzzzz]. Please delete extra head pods"
    assert tiny.writes == []
    assert plan.waiting == sentence
    assert tiny.condition("PodsWaiting")["message"] == sentence
    assert [event.note for event in tiny.events if event.reason == "TooManyHeadPods"] == [sentence]
    del tiny.objects[POD, "pair-head-zzzzz"]
    tiny.settle()
    assert tiny.condition("PodsWaiting") is None
    assert len(tiny.pods) == 4


def test_fixed_name(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster("ray-cluster-01"), config=PlanConfig(deterministic_head_pod_name=True))
    tiny.settle()
    assert tiny.head["metadata"]["name"] == "ray-cluster-01-head"
    assert "generateName" not in tiny.head["metadata"]


def test_fixed_name_waits_for_the_last_holder(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster(), config=PlanConfig(deterministic_head_pod_name=True))
    tiny.settle()
    tiny.set_pod("pair-head", phase="Failed")
    tiny.keep_terminating = True
    plan = tiny.reconcile()
    assert plan.waiting == "the name of the head pod, pair-head, is still taken"
    del tiny.objects[POD, "pair-head"]
    tiny.settle()
    assert tiny.head["metadata"]["name"] == "pair-head"


def test_template_name_is_kept(kubernetes: Any, cluster: Any) -> None:
    body = cluster()
    body["spec"]["headGroupSpec"]["template"]["metadata"] = {"name": "my-head"}
    tiny = kubernetes(body)
    tiny.settle()
    assert tiny.head["metadata"]["name"] == "my-head"


def test_two_actors_with_the_same_view_choose_the_same_names(kubernetes: Any, cluster: Any) -> None:
    one, other = kubernetes(cluster()), kubernetes(cluster())
    names = [[write.name for stage in tiny.plan().stages for write in stage] for tiny in (one, other)]
    assert names[0] == names[1]
    assert len(set(names[0])) == 5
