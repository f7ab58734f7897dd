"""CPU and memory changed while pods run, where Kubernetes offers it and Ray would not have started differently."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Patch, Write, WriteFailure

GROUP_HASH = "ray.io/group-spec-hash"
PINNED = {"num-cpus": "1", "memory": "1000000000"}


def template(cpu: str = "1", memory: str = "2Gi", **container: Any) -> Any:
    amounts = {"cpu": cpu, "memory": memory}
    resources = {"limits": dict(amounts), "requests": dict(amounts)}
    return {"spec": {"containers": [{"name": "helper", "image": "x", "resources": resources, **container}]}}


@pytest.fixture
def tiny(kubernetes: Any, cluster: Any, group: Any) -> Any:
    """A cluster of three workers that pin what Ray counts."""
    groups = [group("crew", 3, rayStartParams=dict(PINNED), template=template())]
    config = PlanConfig(operator_version="1.2.3", resize_in_place=True)
    made = kubernetes(cluster(groups=groups, upgradeStrategy={"type": "Rolling"}), config=config)
    made.settle()
    made.writes.clear()
    return made


def size(cpu: str = "1", memory: str = "2Gi", **container: Any) -> Any:
    return lambda spec: spec["workerGroupSpecs"][0].update(template=template(cpu, memory, **container))


def resizes(tiny: Any) -> list[str]:
    return [write.name for write in tiny.writes if isinstance(write, Patch) and write.subresource == "resize"]


def says(pod: Any, type_: str, reason: str, since: Any) -> None:
    changed = since.strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = [condition for condition in pod["status"]["conditions"] if condition["type"] == "Ready"]
    condition = {"type": type_, "status": "True", "reason": reason, "lastTransitionTime": changed}
    pod["status"]["conditions"] = [*kept, {**condition, "message": "no room"}]


def test_size_changes_in_place(tiny: Any) -> None:
    before, hashes = set(tiny.pods), {pod["metadata"]["annotations"][GROUP_HASH] for pod in tiny.workers.values()}
    tiny.edit(size("1500m", "3Gi"))
    tiny.settle(passes=30)
    assert set(tiny.pods) == before
    assert sorted(resizes(tiny)) == sorted(tiny.workers)
    for pod in tiny.workers.values():
        wanted = {"cpu": "1500m", "memory": "3Gi"}
        assert pod["spec"]["containers"][0]["resources"] == {"limits": wanted, "requests": wanted}
        assert pod["metadata"]["annotations"][GROUP_HASH] not in hashes
    assert tiny.condition("RollingUpgrade") is None
    tiny.writes.clear()
    tiny.settle()
    assert tiny.writes == []
    tiny.edit(size("1500m", "3Gi", image="y"))
    tiny.settle(passes=30)
    assert not before & set(tiny.workers)


def test_a_pod_between_two_sizes_is_waited_for(tiny: Any) -> None:
    tiny.run_pods = False
    tiny.edit(size("2"))
    seen: list[str] = []

    def kubelet(write: Write) -> str:
        """Notices the new size at once and then takes its time."""
        if isinstance(write, Patch) and write.subresource == "resize":
            seen.append(write.name)
            says(tiny.pods[write.name], "PodResizePending", "Deferred", tiny.now)
        return ""

    tiny.refuse = kubelet
    for _ in range(3):
        plan = tiny.reconcile()
    assert len(seen) == 1
    assert "being changed in place" in tiny.condition("RollingUpgrade")["message"]
    assert "Deferred no room" in tiny.condition("RollingUpgrade")["message"]
    assert plan.requeue_after is not None
    assert plan.requeue_after <= timedelta(minutes=5)

    tiny.pods[seen[0]]["status"]["conditions"].pop()
    for _ in range(3):
        tiny.reconcile()
    assert len(seen) == 2


@pytest.mark.parametrize("reason", ["Infeasible", "Deferred"])
def test_a_node_without_room_gives_the_pod_up(tiny: Any, reason: str) -> None:
    """At once when it never will have, after five minutes when it might."""
    tiny.edit(size("2"))

    def kubelet(write: Write) -> str:
        if isinstance(write, Patch) and write.subresource == "resize":
            says(tiny.pods[write.name], "PodResizePending", reason, tiny.now)
        return ""

    tiny.refuse = kubelet
    before = set(tiny.workers)
    tiny.reconcile()
    assert len(before - set(tiny.workers)) == (reason == "Infeasible")
    tiny.now += timedelta(minutes=5)
    tiny.reconcile()
    assert len(before - set(tiny.workers)) >= 1


def test_going_back_in_the_middle(tiny: Any) -> None:
    before, first = set(tiny.pods), copy.deepcopy(tiny.cluster["spec"])

    def kubelet(write: Write) -> str:
        if isinstance(write, Patch) and write.subresource == "resize":
            says(tiny.pods[write.name], "PodResizeInProgress", "", tiny.now)
        return ""

    tiny.edit(size("2"))
    tiny.refuse = kubelet
    tiny.reconcile()
    assert len(resizes(tiny)) == 1
    tiny.refuse = lambda write: ""
    tiny.edit(lambda spec: spec.update(first))
    tiny.settle(passes=30)
    for pod in tiny.workers.values():
        pod["status"]["conditions"] = pod["status"]["conditions"][:1]
    tiny.settle(passes=30)
    assert set(tiny.pods) == before
    assert {pod["spec"]["containers"][0]["resources"]["limits"]["cpu"] for pod in tiny.workers.values()} == {"1"}
    assert len({pod["metadata"]["annotations"][GROUP_HASH] for pod in tiny.workers.values()}) == 1


@pytest.mark.parametrize("reason", ["Invalid", "Forbidden"])
def test_what_the_api_server_refuses_is_replaced(tiny: Any, reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(tiny.workers)
    perform = type(tiny)._perform

    def refusing(self: Any, plan: Any) -> Any:
        events, changed, failure = perform(self, plan)
        if failure is not None:
            failure = WriteFailure(failure.kind, failure.name, failure.marker, failure.message, reason)
        return events, changed, failure

    monkeypatch.setattr(type(tiny), "_perform", refusing)
    tiny.refuse = lambda write: "no" if isinstance(write, Patch) and write.subresource == "resize" else ""
    tiny.edit(size("2"))
    tiny.reconcile()
    assert tiny.condition("RollingUpgrade")["reason"] == "ResizeRefused"
    tiny.settle(passes=40)
    assert not before & set(tiny.workers)
    assert tiny.condition("RollingUpgrade") is None


@pytest.mark.parametrize(
    ("change", "params"),
    [
        pytest.param(size("2"), {}, id="Ray would count other CPUs"),
        pytest.param(size("1", "3Gi"), {"num-cpus": "1"}, id="Ray would count other memory"),
        pytest.param(size("1", "1Gi"), PINNED, id="less memory"),
        pytest.param(size("2", image="y"), PINNED, id="also another image"),
        pytest.param(
            lambda spec: (
                spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"].pop("requests")
                and spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"]["limits"].pop("cpu")
            ),
            PINNED,
            id="an amount less",
        ),
        pytest.param(
            lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"][
                "requests"
            ].update(cpu="500m"),
            PINNED,
            id="another class of service",
        ),
    ],
)
def test_everything_else_replaces(kubernetes: Any, cluster: Any, group: Any, change: Any, params: Any) -> None:
    groups = [group("crew", 2, rayStartParams=dict(params), template=template())]
    config = PlanConfig(operator_version="1.2.3", resize_in_place=True)
    tiny = kubernetes(cluster(groups=groups, upgradeStrategy={"type": "Rolling"}), config=config)
    tiny.settle()
    before = set(tiny.workers)
    tiny.edit(change)
    tiny.settle(passes=30)
    assert resizes(tiny) == []
    assert not before & set(tiny.workers)


def test_requests_alone_need_no_pinning(kubernetes: Any, cluster: Any, group: Any) -> None:
    body = template()
    body["spec"]["containers"][0]["resources"]["requests"] = {"cpu": "500m", "memory": "1Gi"}
    config = PlanConfig(operator_version="1.2.3", resize_in_place=True)
    tiny = kubernetes(
        cluster(groups=[group("crew", 2, template=body)], upgradeStrategy={"type": "Rolling"}), config=config
    )
    tiny.settle()
    before = set(tiny.workers)
    requests = {"cpu": "250m", "memory": "1Gi"}
    tiny.edit(
        lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"]["containers"][0]["resources"].update(
            requests=requests
        )
    )
    tiny.settle(passes=30)
    assert set(tiny.workers) == before
    assert len(resizes(tiny)) == 2


def test_a_cluster_that_does_not_offer_it_replaces(kubernetes: Any, cluster: Any, group: Any) -> None:
    groups = [group("crew", 2, rayStartParams=dict(PINNED), template=template())]
    tiny = kubernetes(cluster(groups=groups, upgradeStrategy={"type": "Rolling"}))
    tiny.settle()
    before = set(tiny.workers)
    tiny.edit(size("2"))
    tiny.settle(passes=30)
    assert resizes(tiny) == []
    assert not before & set(tiny.workers)


def test_the_head_is_resized_without_consent(kubernetes: Any, cluster: Any) -> None:
    config = PlanConfig(operator_version="1.2.3", resize_in_place=True)
    body = cluster(upgradeStrategy={"type": "Rolling"})
    body["spec"]["headGroupSpec"] = {"rayStartParams": {"num-cpus": "0"}, "template": template()}
    tiny = kubernetes(body, config=config)
    tiny.settle()
    before = set(tiny.pods)
    tiny.edit(lambda spec: spec["headGroupSpec"].update(template=template("3")))
    tiny.settle(passes=30)
    assert set(tiny.pods) == before
    assert resizes(tiny) == [tiny.head["metadata"]["name"]]
    assert tiny.condition("HeadOutdated") is None
