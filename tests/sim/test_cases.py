"""Cases users were let down by (cases.md), with the real runtime: what matters is what happens over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from examples import LONG
from kuberay.api.kinds import EVENT, POD, RAYCLUSTER, RAYJOB, Kind
from kuberay.api.names import ANNOTATION_UPGRADE_HASH, HEAD, LABEL_CLUSTER, LABEL_GROUP, LABEL_NODE_TYPE
from kuberay.operator.metrics import Metrics
from kuberay.operator.settings import Settings
from kuberay.plan.config import PlanConfig
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.invariants import watch_over
from kuberay_testkit.sim.operator import RayWorld, SimOperator
from kuberay_testkit.sim.play import AUTOSCALER, Plugins
from kuberay_testkit.sim.status import APIError
from kuberay_testkit.sim.users import NAMESPACE


def pods(world: RayWorld, cluster: str = "rc", group: str = "") -> dict[str, dict[str, Any]]:
    """Pods that are not on their way out, by name."""
    selector = f"{LABEL_CLUSTER}={cluster}" + (f",{LABEL_GROUP}={group}" if group else "")
    found = world.server.objects(POD, NAMESPACE, selector)
    return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}


def head(world: RayWorld) -> dict[str, Any]:
    (found,) = (pod for pod in pods(world).values() if pod["metadata"]["labels"][LABEL_NODE_TYPE] == HEAD)
    return found


def status(world: RayWorld, cluster: str = "rc") -> dict[str, Any]:
    found = world.server.peek(RAYCLUSTER, NAMESPACE, cluster)
    assert found is not None
    return dict(found.get("status") or {})


def conditions(world: RayWorld, cluster: str = "rc") -> dict[str, dict[str, Any]]:
    return {condition["type"]: condition for condition in status(world, cluster).get("conditions") or ()}


def edit(world: RayWorld, cluster: str = "rc", **spec: Any) -> None:
    world.server.patch(RAYCLUSTER, NAMESPACE, cluster, {"spec": spec})


def test_another_operator_version_recreates_nothing_and_a_real_edit_everything_once() -> None:
    """RC-04"""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            watch_over(world)
            config = PlanConfig(operator_version="1.0.0")
            old = SimOperator(world=world, config=config)
            old.start()
            strategy = {"type": "Recreate"}
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=2, upgradeStrategy=strategy))
            await world.rest(quiet=30)
            before = pods(world)
            # That version hashed the same spec differently.
            annotations = {"metadata": {"annotations": {ANNOTATION_UPGRADE_HASH: "of-another-function"}}}
            await old.kill()
            world.server.patch(POD, NAMESPACE, head(world)["metadata"]["name"], annotations)
            SimOperator(world=world, config=replace(config, operator_version="2.0.0")).start()
            await world.rest(quiet=30)
            assert pods(world).keys() == before.keys()
            assert head(world)["metadata"]["annotations"][ANNOTATION_UPGRADE_HASH] != "of-another-function"
            edit(world, rayVersion="2.99.0")
            await world.rest(quiet=30)
            after = pods(world)
            assert len(after) == 3
            assert not after.keys() & before.keys()
            assert world.server.count(verb="create", resource="pods") == 6, "once"

    run_sim(run)


@pytest.mark.parametrize("policy", ["Always", "OnFailure", "Never"])
@pytest.mark.parametrize("end", ["evict", "fail", "finish"])
def test_a_head_that_has_ended_is_replaced_whatever_its_restart_policy(end: str, policy: str) -> None:
    """RC-07"""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            watch_over(world)
            SimOperator(world=world).start()
            cluster = build_raycluster("rc", namespace=NAMESPACE)
            cluster["spec"]["headGroupSpec"]["template"]["spec"]["restartPolicy"] = policy
            world.server.create(cluster)
            await world.rest(quiet=30)
            ended = head(world)["metadata"]["name"]
            getattr(world.kubelet, end)(NAMESPACE, ended)
            await world.rest(quiet=30)
            assert head(world)["metadata"]["name"] != ended
            assert head(world)["status"]["phase"] == "Running"

    run_sim(run)


def test_a_quota_refusal_shows_in_the_status_until_a_create_succeeds() -> None:
    """RC-09"""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            watch_over(world)
            SimOperator(world=world).start()

            def refuse(_kind: Kind, pod: Mapping[str, Any]) -> None:
                if pod["metadata"]["labels"][LABEL_NODE_TYPE] != HEAD:
                    raise APIError(
                        403, "Forbidden", "exceeded quota: small, requested: cpu=1, used: cpu=1, limited: cpu=1"
                    )

            world.server.admit(POD, refuse)
            world.server.create(build_raycluster("rc", namespace=NAMESPACE))
            await world.pass_time(60)
            assert conditions(world)["ReplicaFailure"]["status"] == "True"
            assert "exceeded quota: small" in conditions(world)["ReplicaFailure"]["message"]
            assert status(world).get("state") != "ready"
            world.server.admissions.remove((POD, refuse))
            await world.until(lambda: status(world).get("state") == "ready", within=600)
            assert "ReplicaFailure" not in conditions(world)

    run_sim(run)


@pytest.mark.parametrize("pause", [0.0, 0.01, 0.3, 1.0, 5.0])
def test_suspend_resume_and_suspend_again_before_the_pods_are_ready(pause: float) -> None:
    """RC-14"""

    async def run() -> None:
        async with RayWorld(seed=1, pod_grace=2.0, pod_delay=(3.0, 8.0)) as world:
            watch_over(world)
            SimOperator(world=world).start()
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, suspend=True))
            await world.until(lambda: conditions(world).get("RayClusterSuspended", {}).get("status") == "True")
            edit(world, suspend=False)
            await world.pass_time(pause)
            edit(world, suspend=True)
            await world.rest(quiet=30)
            assert world.server.objects(POD, NAMESPACE) == []
            assert conditions(world)["RayClusterSuspended"]["status"] == "True"
            assert conditions(world)["RayClusterSuspending"]["status"] == "False"
            assert status(world)["state"] == "suspended"

    run_sim(run)


def test_edits_of_autoscalers_and_queues_recreate_nothing() -> None:
    """RC-17"""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            watch_over(world)
            plugins = Plugins.load([AUTOSCALER])
            SimOperator(world=world, hooks=plugins.hooks).start()
            options = {"upgradeStrategy": {"type": "Recreate"}, "enableInTreeAutoscaling": True}
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=1, **options))
            await world.rest(quiet=30)
            before = pods(world)
            edit(world, workerGroupSpecs=[build_group("workers", 4, minReplicas=1)])
            await world.rest(quiet=30)
            named = sorted(pods(world).keys() - before.keys())[0]
            group = build_group("workers", 3, scaleStrategy={"workersToDelete": [named]})
            edit(world, workerGroupSpecs=[group])
            await world.rest(quiet=30)
            group["template"]["spec"]["tolerations"] = [{"key": "queue", "operator": "Exists"}]
            group["template"]["spec"]["schedulingGates"] = [{"name": "queue.example.com/topology"}]
            template = head_template(world)
            template["spec"]["tolerations"] = [{"key": "queue", "operator": "Exists"}]
            edit(world, workerGroupSpecs=[group], headGroupSpec={"template": template})
            await world.rest(quiet=30)
            assert before.keys() <= pods(world).keys()
            assert len(pods(world)) == 4
            assert world.server.count(verb="create", resource="pods") == 5

    run_sim(run)


def head_template(world: RayWorld) -> dict[str, Any]:
    cluster = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
    assert cluster is not None
    template: dict[str, Any] = cluster["spec"]["headGroupSpec"]["template"]
    return template


def test_one_big_scale_up_starves_no_other() -> None:
    """RC-23: under default settings, on an API server that takes its time."""

    async def run() -> None:
        async with RayWorld(seed=1, latency=(0.05, 0.15)) as world:
            SimOperator(world=world, workers=Settings().workers).start()
            for name in "ab":
                group = build_group("workers", 0, maxReplicas=1000)
                world.server.create(build_raycluster(name, namespace=NAMESPACE, groups=[group]))
            await world.rest(quiet=30)
            edit(world, "a", workerGroupSpecs=[build_group("workers", 500, maxReplicas=1000)])
            await world.until(lambda: len(pods(world, "a")) > 1, every=0.05, what="the first of A's workers")
            edited = world.server.clock.elapsed()
            edit(world, "b", workerGroupSpecs=[build_group("workers", 2, maxReplicas=1000)])
            await world.until(lambda: len(pods(world, "b")) == 3, every=0.05, what="B's workers")
            assert world.server.clock.elapsed() - edited < 5
            assert len(pods(world, "a")) < 501, "A was still at it"
            await world.rest(quiet=30)
            assert len(pods(world, "a")) == 501

    run_sim(run)


@pytest.mark.parametrize("autoscaling", [False, True])
def test_only_named_workers_go(autoscaling: bool) -> None:
    """AS-01: also while the operator's view of pods is behind."""

    async def run() -> None:
        async with RayWorld(seed=1, pod_grace=5.0) as world:
            watch_over(world)
            plugins = Plugins.load([AUTOSCALER])
            SimOperator(world=world, hooks=plugins.hooks).start()
            options = {"enableInTreeAutoscaling": True} if autoscaling else {}
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=5, **options))
            await world.rest(quiet=30)
            before = sorted(pods(world, group="workers"))
            named = [before[1], before[3]]
            world.server.faults.add("delay_event", resource="pods", seconds=3.0, times=5)
            group = build_group("workers", 3, scaleStrategy={"workersToDelete": [*named, "nobody"]})
            edit(world, workerGroupSpecs=[group])
            await world.rest(quiet=30)
            assert sorted(pods(world, group="workers")) == sorted(set(before) - set(named))
            assert world.server.count(verb="create", resource="pods") == 6
            if autoscaling:
                edit(world, workerGroupSpecs=[build_group("workers", 1)])
                await world.rest(quiet=30)
                assert len(pods(world, group="workers")) == 3, "nobody was named"

    run_sim(run)


@pytest.mark.parametrize("replicas", [0, 1])
def test_a_failed_worker_that_is_named_goes(replicas: int) -> None:
    """AS-02: whatever its phase, and where its place is still wanted, another one fills it."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            watch_over(world)
            operator = SimOperator(world=world, hooks=Plugins.load([AUTOSCALER]).hooks)
            operator.start()
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=1, enableInTreeAutoscaling=True))
            await world.rest(quiet=30)
            await operator.kill()
            (worker,) = pods(world, group="workers")
            world.kubelet.fail(NAMESPACE, worker)
            group = build_group("workers", replicas, scaleStrategy={"workersToDelete": [worker, "nobody"]})
            edit(world, workerGroupSpecs=[group])
            operator.start()
            await world.rest(quiet=30)
            left = pods(world, group="workers")
            assert (len(left), worker in left) == (replicas, False)
            failures = [
                each["note"] for each in world.server.objects(EVENT, NAMESPACE) if each.get("type") == "Warning"
            ]
            assert failures == []

    run_sim(run)


AUTOSCALED = {
    "enableInTreeAutoscaling": True,
    "autoscalerOptions": {"version": "v2"},
    "gcsFaultToleranceOptions": {"redisAddress": "redis:6379"},
}


@pytest.mark.parametrize("spec", [{}, AUTOSCALED], ids=["plain", "autoscaled"])
def test_no_pod_gets_the_name_of_one_that_has_gone(spec: dict[str, Any]) -> None:
    """AS-03: however often head and workers are deleted, and although nothing else changes."""

    async def run() -> None:
        async with RayWorld(seed=1, pod_grace=1.0) as world:
            watch_over(world)
            SimOperator(world=world, hooks=Plugins.load([AUTOSCALER]).hooks).start()
            world.server.create(build_raycluster("rc", namespace=NAMESPACE, groups=2, **spec))
            await world.rest(quiet=30)
            seen = set(pods(world))
            for _ in range(3):
                for name in pods(world):
                    world.server.delete(POD, NAMESPACE, name)
                await world.rest(quiet=30)
                assert status(world)["state"] == "ready"
                assert not seen & pods(world).keys()
                seen |= pods(world).keys()
            assert len(seen) == 4 * 3

    run_sim(run)


def test_a_sync_tool_and_the_autoscaler_share_a_cluster_of_which_the_operator_writes_no_spec() -> None:
    """AS-06: each sync takes the number back that the autoscaler wrote; no worker goes for it, and all that the operator
    owns of the RayCluster is its status."""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            watch_over(world)
            SimOperator(world=world, hooks=Plugins.load([AUTOSCALER]).hooks).start()
            group = build_group("workers", None, minReplicas=1, maxReplicas=5)
            synced = build_raycluster("rc", namespace=NAMESPACE, groups=[group], enableInTreeAutoscaling=True)
            world.server.apply(synced, manager="argocd")
            await world.rest(quiet=30)
            assert len(pods(world, group="workers")) == 1
            live = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
            assert live is not None
            scaled = [{**live["spec"]["workerGroupSpecs"][0], "replicas": 3}]
            world.server.patch(
                RAYCLUSTER, NAMESPACE, "rc", {"spec": {"workerGroupSpecs": scaled}}, manager="python-requests"
            )
            await world.rest(quiet=30)
            before = pods(world, group="workers")
            assert len(before) == 3
            for _ in range(2):
                world.server.apply(synced, manager="argocd")
                await world.rest(quiet=30)
                assert pods(world, group="workers").keys() == before.keys()
            live = world.server.peek(RAYCLUSTER, NAMESPACE, "rc")
            assert live is not None
            owners = {
                entry["manager"]: set(entry["fieldsV1"]) & {"f:spec", "f:metadata"}
                for entry in live["metadata"]["managedFields"]
            }
            assert owners["kuberay-operator"] == set()
            assert "f:spec" in owners["argocd"]

    run_sim(run)


def series(operator: SimOperator, metrics: Metrics | None = None) -> list[str]:
    """What is told about objects: by the given registry, or by one that knows nothing but the store."""
    assert operator.app is not None
    if metrics is None:
        metrics = Metrics()
        metrics.export_objects(operator.app.store)
    lines = metrics.exposition().decode().splitlines()
    told = (line for line in lines if line.startswith(("kuberay_cluster_", "kuberay_job_")))
    return sorted(line for line in told if 'uid="' in line)


def test_series_of_deleted_objects_vanish_and_a_reused_name_starts_fresh() -> None:
    """ME-01"""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            await world.pass_time(1)
            assert operator.app is not None
            metrics = operator.metrics
            assert metrics is not None
            metrics.export_objects(operator.app.store)
            for round_ in range(20 if LONG else 4):
                for number in range(5):
                    world.server.create(build_raycluster(f"rc{number}", namespace=NAMESPACE))
                    world.server.create(build_rayjob(f"rj{round_}-{number}", namespace=NAMESPACE))
                await world.pass_time(10)
                for kind in (RAYCLUSTER, RAYJOB):
                    for each in world.server.objects(kind, NAMESPACE):
                        if not each["metadata"].get("ownerReferences"):
                            world.server.delete(kind, NAMESPACE, each["metadata"]["name"])
            fresh = world.server.create(build_raycluster("rc0", namespace=NAMESPACE))["metadata"]["uid"]
            await world.rest(quiet=30)
            lines = series(operator, metrics)
            assert len(lines) == 6, "info, condition, duration, state, and two numbers of workers of one cluster"
            assert all(f'uid="{fresh}"' in line for line in lines)

    run_sim(run)


def test_durations_are_the_same_after_a_restart() -> None:
    """ME-04"""

    async def run() -> None:
        async with RayWorld(seed=1) as world:
            operator = SimOperator(world=world)
            operator.start()
            world.server.create(build_raycluster("rc", namespace=NAMESPACE))
            world.server.create(build_rayjob("rj", namespace=NAMESPACE))
            await world.rest(quiet=60)
            before = series(operator)
            assert sum("duration_seconds" in line for line in before) == 3, "two clusters and a job"
            await operator.kill()
            await world.pass_time(1000)
            operator.start()
            await world.pass_time(10)
            assert series(operator) == before

    run_sim(run)
