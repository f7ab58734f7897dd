"""What plugins are asked about a RayJob and what their answers do (spec plugins.md 1, rayjob.md 4.5, 8.5 rows 99-101)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from kuberay.api.kinds import JOB, RAYCLUSTER, Kind
from kuberay.hooks.calls import MutatedPod, NoHooks, PluginFailure, Resources
from kuberay.hooks.types import FinishContext, OwnerContext, PodContext, Wait, Watch

Make = Callable[..., Any]
GROUP = Kind("gang.test", "v1", "gangs", "Gang")


def gang(size: int) -> dict[str, Any]:
    return {"apiVersion": "gang.test/v1", "kind": "Gang", "metadata": {"name": "ray-j"}, "spec": {"size": size}}


class Gang(NoHooks):
    """A gang scheduler in small."""

    def __init__(self) -> None:
        self.wait = ""
        self.broken: set[str] = set()
        self.finished: list[FinishContext] = []
        self.owners: list[OwnerContext] = []
        self.pods: list[PodContext] = []
        self.changes = True

    def _failures(self, hook: str) -> list[PluginFailure]:
        return [PluginFailure("gang", hook, "boom")] if hook in self.broken else []

    def pre_create_pods(self, ctx: OwnerContext) -> Resources:
        self.owners.append(ctx)
        if failures := self._failures("pre_create_pods"):
            return Resources(failures=failures)
        if self.wait:
            return Resources(waits=[("gang", Wait(self.wait))])
        return Resources([gang(sum(group.desired for group in ctx.groups if group.name != "submittergroup"))])

    def mutate_cluster(self, ctx: PodContext, cluster: dict[str, Any]) -> MutatedPod:
        changed = copy.deepcopy(cluster)
        changed["metadata"].setdefault("annotations", {})["gang.test/name"] = "ray-j"
        return MutatedPod(changed, {"gang": ["/metadata/annotations"]}, self._failures("mutate_cluster"))

    def mutate_pod(self, ctx: PodContext, pod: dict[str, Any]) -> MutatedPod:
        self.pods.append(ctx)
        changed = copy.deepcopy(pod)
        changed["spec"]["schedulerName"] = "gang"
        return MutatedPod(changed, {"gang": ["/spec/schedulerName"]}, self._failures("mutate_pod"))

    def finish(self, ctx: FinishContext) -> Resources:
        self.finished.append(ctx)
        if failures := self._failures("finish"):
            return Resources(failures=failures)
        return Resources([gang(sum(group.desired for group in ctx.cluster_groups))] if self.changes else [])

    def watches(self) -> list[Watch]:
        return [Watch(GROUP)]


@pytest.fixture
def hooks() -> Gang:
    return Gang()


@pytest.fixture
def world(new_world: Make, hooks: Gang, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = new_world(world={"hooks": hooks}, shutdownAfterJobFinishes=True, backoffLimit=1)
    made.settings["job"] = "RUNNING"
    return made


@pytest.fixture(autouse=True)
def _gangs_exist(monkeypatch: pytest.MonkeyPatch, empty_world: Any) -> None:
    import sys

    monkeypatch.setitem(sys.modules[empty_world.__module__].KINDS, "Gang", GROUP)


def test_the_gang_comes_first(world: Any, hooks: Gang) -> None:
    world.run(4)
    assert list(world.lifecycle)[:2] == ["Gang", "RayCluster"]
    body = world.objects[GROUP, "ray-j"]
    assert body["spec"]["size"] == 2
    assert body["metadata"]["ownerReferences"][0]["kind"] == "RayJob"
    owner = hooks.owners[0]
    assert [group.name for group in owner.groups] == ["headgroup", "g", "submittergroup"]
    assert owner.groups[-1].requests == {"cpu": "500m", "memory": "200Mi"}
    assert owner.cluster_spec == world.job["spec"]["rayClusterSpec"]


@pytest.mark.parametrize("mode", ["SidecarMode", "HTTPMode", "InteractiveMode"])
def test_without_a_submitter_pod_there_is_no_group_of_it(new_world: Make, hooks: Gang, mode: str) -> None:
    """Spec plugins.md 2 and 4: a gang that waited for it would never start."""
    new_world(world={"hooks": hooks}, submissionMode=mode).run(4)
    assert {tuple(group.name for group in owner.groups) for owner in hooks.owners} == {("headgroup", "g")}
    assert hooks.pods == []


def test_cluster_and_submitter_are_changed(world: Any, hooks: Gang) -> None:
    world.run(3)
    assert world.cluster["metadata"]["annotations"] == {"gang.test/name": "ray-j"}
    assert "schedulerName" not in str(world.cluster["spec"])
    template = world.objects[JOB, "j"]["spec"]["template"]
    assert template["spec"]["schedulerName"] == "gang"
    assert (hooks.pods[0].node_type, hooks.pods[0].group) == ("submitter", "submittergroup")


def test_waiting_for_a_plugin(world: Any, hooks: Gang) -> None:
    hooks.wait = "the queue is closed"
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Initializing"
    assert world.told[0]["message"] == "gang: the queue is closed"
    assert world.plan.waiting == "gang: the queue is closed"
    assert not any(kind == RAYCLUSTER for kind, _ in world.objects)
    hooks.wait = ""
    world.edit({"metadata.labels.again": "1"})
    world.run(3)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert world.told == []


@pytest.mark.parametrize("hook", ["pre_create_pods", "mutate_cluster", "mutate_pod"])
def test_a_plugin_that_raises_holds_back_what_depends_on_it(world: Any, hooks: Gang, hook: str) -> None:
    hooks.broken = {hook}
    world.run(5)
    assert world.status["jobDeploymentStatus"] == "Initializing"
    (condition,) = world.told
    assert (condition["type"], condition["message"]) == ("PluginFailed", f"plugin gang failed in {hook}: boom")
    made = any(kind == RAYCLUSTER for kind, _ in world.objects)
    assert made is (hook == "mutate_pod")
    assert (JOB, "j") not in world.objects
    hooks.broken = set()
    world.edit({"metadata.labels.again": "1"})
    world.run(3)
    assert world.status["jobDeploymentStatus"] == "Running"
    assert world.told == []


def test_an_object_no_watch_names_is_refused(world: Any, hooks: Gang) -> None:
    hooks.watches = list  # type: ignore[method-assign]
    world.run(3)
    assert "gang.test/v1 Gang is of no kind that a watch names" in world.told[0]["message"]
    assert not any(kind == RAYCLUSTER for kind, _ in world.objects)


@pytest.mark.parametrize("reason", ["Suspended", "Retrying"])
@pytest.mark.parametrize("fails", [False, True])
def test_clean_up_before_moving_on(world: Any, hooks: Gang, reason: str, fails: bool) -> None:
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    hooks.broken = {"finish"} if fails else set()
    if reason == "Suspended":
        world.edit({"spec.suspend": True})
        stays, moves = "Suspending", "Suspended"
    else:
        world.set_job("FAILED")
        world.end_submitter("succeeded")
        stays, moves = "Retrying", ""
    world.run(6)
    seen = [state["jobDeploymentStatus"] for state in world.transitions]
    assert hooks.finished[0].reason == reason
    assert hooks.finished[0].cluster_alive is False
    if not fails:
        assert moves in seen
        assert world.objects[GROUP, "ray-j"]["spec"]["size"] == (0 if reason == "Suspended" else 2)
        assert world.notes("BatchSchedulerCleanedUp") == ["Cleaned up batch scheduler resources for RayJob default/j"]
        return
    assert seen[-1] == stays
    assert world.notes("FailedToCleanupBatchScheduler") == [
        "Failed to cleanup batch scheduler resources for RayJob default/j: boom"
    ]
    hooks.broken = set()
    world.edit({"metadata.labels.again": "1"})
    world.run(3)
    assert moves in [state["jobDeploymentStatus"] for state in world.transitions]


@pytest.mark.parametrize(("status", "state"), [("SUCCEEDED", "Complete"), ("FAILED", "Failed")])
@pytest.mark.parametrize("outcome", ["changed", "nothing", "error"])
def test_clean_up_after_the_end_never_blocks(world: Any, hooks: Gang, status: str, state: str, outcome: str) -> None:
    world.edit({"spec.backoffLimit": 0})
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    hooks.broken = {"finish"} if outcome == "error" else set()
    hooks.changes = outcome == "changed"
    world.set_job(status)
    world.end_submitter("succeeded")
    world.run(6)
    assert world.status["jobDeploymentStatus"] == state
    assert not any(kind == RAYCLUSTER for kind, _ in world.objects)
    assert hooks.finished[-1].reason == state
    assert len(world.notes("BatchSchedulerCleanedUp")) == (outcome == "changed")
    assert len(world.notes("FailedToCleanupBatchScheduler")) == (outcome == "error")


def test_a_live_cluster_is_measured_at_the_end(world: Any, hooks: Gang) -> None:
    world.edit({"spec.shutdownAfterJobFinishes": False})
    world.until(lambda: world.status.get("jobStatus") == "RUNNING")
    world.set_job("SUCCEEDED")
    world.end_submitter("succeeded")
    world.run(3)
    assert hooks.finished[-1].cluster_alive
    assert [group.name for group in hooks.finished[-1].cluster_groups] == ["headgroup", "g"]
