"""Pods made from another spec (spec raycluster.md 4.9 and 8.9; cases.md RC-04 and RC-17)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kuberay.api.kinds import POD
from kuberay.hooks.calls import NoHooks
from kuberay.hooks.types import UpgradeContext, UpgradeStrategy
from kuberay.plan.model import Delete, Patch

HASH = "ray.io/upgrade-strategy-recreate-hash"
VERSION = "ray.io/kuberay-version"


def recreating(cluster: Any, type_: str | None = "Recreate") -> Any:
    return cluster(upgradeStrategy={"type": type_} if type_ else {})


def new_image(spec: Any) -> None:
    spec["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] = "example.test/ray:2.99.0"


def test_edit_recreates_all_pods_once(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(recreating(cluster))
    tiny.settle()
    old = set(tiny.pods)
    tiny.edit(new_image)
    tiny.settle()
    assert len(tiny.pods) == 4
    assert not old & set(tiny.pods)
    (event,) = [event for event in tiny.events if event.reason == "DeletedPod"]
    assert event.note == "Deleted all Pods for RayCluster default/pair due to spec change with Recreate upgradeStrategy"
    assert tiny.status["state"] == "ready"
    kept = set(tiny.pods)
    tiny.settle()
    assert set(tiny.pods) == kept


def test_new_pods_wait_for_the_old_head(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(recreating(cluster))
    tiny.settle()
    old = set(tiny.pods)
    tiny.keep_terminating = True
    tiny.edit(new_image)
    for _ in range(3):
        plan = tiny.reconcile()
    assert set(tiny.pods) == old
    assert plan.waiting == "pods of the former spec are being deleted"
    assert len([event for event in tiny.events if event.reason == "DeletedPod"]) == 1
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    tiny.reconcile()
    assert tiny.head["metadata"]["name"] not in old
    assert set(tiny.workers) <= old, "lingering workers still count"


def test_the_head_goes_last_so_that_no_worker_of_the_former_spec_is_forgotten(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(recreating(cluster))
    tiny.settle()
    old = set(tiny.pods)
    stuck = next(iter(tiny.workers))
    tiny.refuse = lambda write: "try later" if isinstance(write, Delete) and write.name == stuck else ""
    tiny.edit(new_image)
    for _ in range(3):
        tiny.reconcile()
    assert set(tiny.pods) == {stuck, tiny.head["metadata"]["name"]} <= old
    tiny.refuse = lambda _write: ""
    tiny.settle()
    assert len(tiny.pods) == 4
    assert not old & set(tiny.pods)


@pytest.mark.parametrize("type_", ["None", None])
def test_without_a_strategy_nothing_happens(kubernetes: Any, cluster: Any, type_: str | None) -> None:
    tiny = kubernetes(recreating(cluster, type_))
    tiny.settle()
    old = set(tiny.pods)
    tiny.edit(new_image)
    tiny.settle()
    assert set(tiny.pods) == old


def test_another_operator_version_only_refreshes_annotations(kubernetes: Any, cluster: Any) -> None:
    """RC-04: then a later real edit recreates once."""
    tiny = kubernetes(recreating(cluster))
    tiny.settle()
    old = set(tiny.pods)
    tiny.head["metadata"]["annotations"] |= {HASH: "of-an-older-hash-function", VERSION: "v1.0.0"}
    tiny.config = replace(tiny.config, operator_version="2.0.0")
    tiny.writes.clear()
    tiny.settle()
    assert [type(write) for write in tiny.writes] == [Patch]
    assert set(tiny.pods) == old
    assert tiny.head["metadata"]["annotations"][VERSION] == "2.0.0"
    tiny.edit(new_image)
    tiny.settle()
    assert not old & set(tiny.pods)


@pytest.mark.parametrize(
    "change",
    [
        lambda spec: spec["workerGroupSpecs"][0].update(replicas=4),
        lambda spec: spec["workerGroupSpecs"][0].update(scaleStrategy={"workersToDelete": ["ghost"]}),
        lambda spec: spec["headGroupSpec"]["template"]["spec"].update(tolerations=[{"key": "k"}]),
        lambda spec: spec["workerGroupSpecs"][0]["template"]["spec"].update(schedulingGates=[{"name": "k"}]),
    ],
)
def test_scaling_and_queueing_are_no_upgrade(kubernetes: Any, cluster: Any, change: Any) -> None:
    """RC-17."""
    tiny = kubernetes(recreating(cluster))
    tiny.settle()
    old = set(tiny.pods)
    tiny.edit(change)
    tiny.settle()
    assert old <= set(tiny.pods)


def test_without_a_head_workers_are_left_alone(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(recreating(cluster))
    tiny.settle()
    workers = set(tiny.workers)
    del tiny.objects[POD, tiny.head["metadata"]["name"]]
    tiny.edit(new_image)
    tiny.settle()
    assert set(tiny.workers) == workers


def test_head_without_a_hash_is_left_alone(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(recreating(cluster))
    tiny.settle()
    old = set(tiny.pods)
    del tiny.head["metadata"]["annotations"][HASH]
    tiny.edit(new_image)
    tiny.settle()
    assert set(tiny.pods) == old


def test_head_made_without_a_strategy_carries_hash_and_version(kubernetes: Any, cluster: Any) -> None:
    tiny = kubernetes(cluster())
    tiny.settle()
    assert {HASH, VERSION} <= tiny.head["metadata"]["annotations"].keys()
    assert all("annotations" not in pod["metadata"] for pod in tiny.workers.values())


@pytest.mark.parametrize("says", [True, False])
def test_the_plugins_strategy_decides(kubernetes: Any, cluster: Any, says: bool, monkeypatch: Any) -> None:
    """Strategies of plugins are reached once the schema and validation let their names through."""
    asked: list[UpgradeContext] = []

    class Hooks(NoHooks):
        def upgrade_strategy(self, ctx: UpgradeContext, failures: Any = None) -> UpgradeStrategy | None:
            asked.append(ctx)
            return UpgradeStrategy(ctx.type, recreate_all=lambda context: says)

    monkeypatch.setattr("kuberay.plan.cluster.reconcile.validate_cluster", lambda *_: [])
    tiny = kubernetes(recreating(cluster, "Careful"), hooks=Hooks())
    tiny.settle()
    old = set(tiny.pods)
    tiny.edit(new_image)
    tiny.settle()
    assert (old & set(tiny.pods) == set()) is says
    assert asked[0].type == "Careful"
    assert asked[0].head_hash != asked[0].wanted_hash
