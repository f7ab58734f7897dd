"""Volcano over time: what its PodGroups say while clusters and jobs come, change, rest, end, and Volcano itself is absent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api.kinds import EVENT, POD, RAYCLUSTER, RAYJOB, RAYSERVICE
from kuberay.plugins.loader import Plugin
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob, build_rayservice
from kuberay_testkit.lab import NAMESPACE, Lab, Manifest, Setup, play
from kuberay_testkit.plugins import plugin_from
from kuberay_testkit.sim.heads_world import SECONDS
from kuberay_testkit.sim.registry import POD_GROUP
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.status import APIError
from kuberay_testkit.sim.store import Change

GANG = {"ray.io/gang-scheduling-enabled": "true"}
NIGHT = {"volcano.sh/queue-name": "night"}
IN_GROUP = "scheduling.k8s.io/group-name"
LONG = {SECONDS: "300"}


def setup(*plugins: Plugin, settings: Mapping[str, Any] | None = None, serve: bool = False) -> Setup:
    return Setup(plugins=["volcano", *plugins], settings={"volcano": settings or {}}, serve=serve)


def autoscaler() -> Plugin:
    """Enough of the autoscaler's plugin for a cluster with ``enableInTreeAutoscaling`` to be made."""
    return plugin_from("autoscaler-v2", validate=lambda ctx: [])


def size(lab: Lab, name: str) -> tuple[int, Mapping[str, str]]:
    spec = lab.get(POD_GROUP, name)["spec"]
    return spec["minMember"], spec.get("minResources", {})


def members(lab: Lab, name: str) -> int:
    return size(lab, name)[0]


def groups(pods: Sequence[Manifest]) -> set[str]:
    return {pod["metadata"]["annotations"][IN_GROUP] for pod in pods}


def no_pod_of_a_gang_of_none(server: SimServer, change: Change) -> None:
    """An invariant: whoever makes a pod has asked for its place before."""
    if change.type != "ADDED" or change.stored.key.kind != POD:
        return
    pod = change.stored.copy()
    group = pod["metadata"].get("annotations", {}).get(IN_GROUP)
    found = server.peek(POD_GROUP, NAMESPACE, group) if group else None
    if group:
        assert found is not None, f"{pod['metadata']['name']} was made before its PodGroup"
        assert found["spec"]["minMember"] > 0, (
            f"{pod['metadata']['name']} was made while its PodGroup asked for nothing"
        )


def test_the_places_of_a_cluster_that_stays_are_kept() -> None:
    """VO-02: the next job of the queue sees what is still in use, and no more once workers are deleted."""

    async def story(lab: Lab) -> None:
        kept = build_rayjob("kept", groups=3, labels=NIGHT, shutdownAfterJobFinishes=False)
        rule = {"condition": {"jobStatus": "SUCCEEDED", "ttlSeconds": 200}, "policy": "DeleteWorkers"}
        kept["spec"]["deletionStrategy"] = {"deletionRules": [rule]}
        lab.create(kept)
        await lab.until_job("kept")
        lab.create(build_rayjob("next", groups=1, labels=NIGHT))
        await lab.until_job("next")
        assert len(lab.pods(lab.clusters_of("kept")[0])) == 4
        assert members(lab, "ray-kept-pg") == 4
        assert size(lab, "ray-kept-pg")[1] == {"cpu": "4", "memory": "4Gi"}, "the submitter has gone"
        await lab.until(lambda: members(lab, "ray-kept-pg") == 1, "the size of the head alone")
        assert size(lab, "ray-kept-pg")[1] == {"cpu": "1", "memory": "1Gi"}
        assert lab.get(POD_GROUP, "ray-kept-pg")["spec"]["queue"] == "night"

    play(story, setup())


def test_a_suspended_job_gives_its_places_back_before_it_says_so() -> None:
    """VO-03: while the PodGroup cannot be written, the job stays Suspending; resumed it gets its places again."""
    refusing: list[bool] = []

    def refuse(manifest: Any, _before: Any) -> None:
        if refusing and manifest["spec"]["minMember"] == 0:
            raise APIError(500, "InternalError", "etcdserver: request timed out")

    def given_back(server: SimServer, change: Change) -> None:
        job = change.stored.copy()
        if change.stored.key.kind != RAYJOB or job.get("status", {}).get("jobDeploymentStatus") != "Suspended":
            return
        group = server.peek(POD_GROUP, NAMESPACE, "ray-train-pg")
        assert group is not None
        if job["spec"].get("suspend"):
            assert (group["spec"]["minMember"], group["spec"].get("minResources", {})) == (0, {})

    async def story(lab: Lab) -> None:
        lab.server.admit(POD_GROUP, refuse)
        lab.world.always(given_back)
        lab.world.always(no_pod_of_a_gang_of_none)
        lab.create(build_rayjob("train", groups=2, annotations=LONG, shutdownAfterJobFinishes=True))
        await lab.until_job("train", "Running")
        before = size(lab, "ray-train-pg")
        assert before == (3, {"cpu": "3500m", "memory": "3272Mi"})
        refusing.append(True)
        lab.edit(RAYJOB, "train", suspend=True)
        await lab.until_job("train", "Suspending")
        await lab.world.pass_time(120)
        assert lab.pods() == []
        assert lab.status(RAYJOB, "train")["jobDeploymentStatus"] == "Suspending"
        refusing.clear()
        await lab.until_job("train", "Suspended")
        lab.edit(RAYJOB, "train", suspend=False)
        await lab.until_job("train", "Running")
        assert size(lab, "ray-train-pg") == before

    play(story, setup())


def test_a_suspended_cluster_gives_its_places_back_and_gets_them_before_its_pods() -> None:
    """VO-04"""

    async def story(lab: Lab) -> None:
        lab.world.always(no_pod_of_a_gang_of_none)
        lab.create(build_raycluster("rc", groups=2, labels=GANG))
        await lab.until_ready("rc")
        full = size(lab, "ray-rc-pg")
        lab.edit(RAYCLUSTER, "rc", suspend=True)
        await lab.until(lambda: not lab.pods("rc"), "no pods")
        await lab.rest()
        assert size(lab, "ray-rc-pg") == (0, {})
        lab.edit(RAYCLUSTER, "rc", suspend=False)
        await lab.until_ready("rc")
        assert size(lab, "ray-rc-pg") == full

    play(story, setup())


def test_a_job_runs_on_a_cluster_that_is_not_its_own() -> None:
    """VO-05: with a gang label it says, once, that the label has no effect."""

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("shared", groups=1))
        await lab.until_ready("shared")
        for name, labels in (("guest", None), ("asking", GANG)):
            selector = {"ray.io/cluster": "shared"}
            lab.create(build_rayjob(name, labels=labels, clusterSelector=selector))
            await lab.until_job(name)
        assert {group["metadata"]["name"] for group in lab.all(POD_GROUP)} == {"ray-shared-pg"}
        assert members(lab, "ray-shared-pg") == 2
        warned = [each for each in lab.all(EVENT) if each["reason"] == "PluginWarning"]
        assert [each["regarding"]["name"] for each in warned] == ["asking"]
        assert "has no effect" in warned[0]["note"]

    play(story, setup())


def test_without_volcano_others_run_and_those_that_ask_for_it_wait() -> None:
    """VO-06: the operator starts; who asked for Volcano is told what is missing, and recovers when it is there."""

    async def story(lab: Lab) -> None:
        lab.server.unregister(POD_GROUP)
        lab.operator.start()
        lab.create(build_raycluster("plain", groups=1))
        lab.create(build_rayjob("job", groups=1))
        for name, labels in (("gang", GANG), ("queued", NIGHT)):
            lab.create(build_raycluster(name, groups=1, labels=labels))
        await lab.until_ready("plain")
        await lab.until_job("job")
        assert {pod["spec"].get("schedulerName") for pod in lab.pods()} <= {None, "default-scheduler"}
        for name in ("gang", "queued"):
            assert lab.pods(name) == []
            waiting = lab.conditions(RAYCLUSTER, name)["PodsWaiting"]
            assert "podgroups.scheduling.volcano.sh is not served by this cluster" in waiting["message"]
            warned = [e for e in lab.all(EVENT) if e["regarding"]["name"] == name and e["type"] == "Warning"]
            assert len(warned) <= 1, "it is told once"
        await lab.world.pass_time(600)
        lab.server.register(POD_GROUP)
        for name in ("gang", "queued"):
            await lab.until_ready(name, within=1200)
            assert groups(lab.pods(name)) == {f"ray-{name}-pg"}
            assert "PodsWaiting" not in lab.conditions(RAYCLUSTER, name)
        assert len(lab.pods("plain")) == 2, "what runs goes on"

    play(story, setup(), start=False)


def test_once_volcano_was_there_nobody_goes_past_it() -> None:
    """VO-06: an API server that is just starting misses kinds for a moment; that is no reason to leave the queue."""

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("first", groups=1))
        await lab.until_ready("first")
        lab.server.unregister(POD_GROUP)
        await lab.world.pass_time(120)
        lab.create(build_raycluster("second", groups=1))
        await lab.rest()
        assert lab.pods("second") == []
        assert "is not served" in lab.conditions(RAYCLUSTER, "second")["PodsWaiting"]["message"]
        lab.server.register(POD_GROUP)
        await lab.until_ready("second", within=1200)
        assert groups(lab.pods("second")) == {"ray-second-pg"}

    play(story, setup())


def scaled(name: str = "rc") -> Manifest:
    group = build_group("g", 6, minReplicas=1, maxReplicas=8)
    return build_raycluster(name, groups=[group], enableInTreeAutoscaling=True)


def test_workers_that_the_autoscaler_adds_name_the_gang() -> None:
    """VO-07: the minimum is reserved, as the default says; refused ones show by their group."""

    async def story(lab: Lab) -> None:
        lab.create(scaled())
        await lab.until_ready("rc")
        assert members(lab, "ray-rc-pg") == 2
        assert len(lab.pods("rc", group="g")) == 6
        assert groups(lab.pods("rc")) == {"ray-rc-pg"}
        lab.edit_group("rc", "g", replicas=8)
        await lab.until(lambda: len(lab.pods("rc", group="g")) == 8, "eight workers")
        late = sorted(lab.pods("rc", group="g"), key=lambda pod: int(pod["metadata"]["resourceVersion"]))[-2:]
        assert groups(late) == {"ray-rc-pg"}

    play(story, setup(autoscaler()))


def test_workers_above_the_reservation_that_are_refused_show_by_their_group() -> None:
    """VO-07"""

    async def story(lab: Lab) -> None:
        lab.create(scaled())
        await lab.until_ready("rc")
        before = {pod["metadata"]["name"] for pod in lab.pods("rc")}
        lab.edit_group("rc", "g", replicas=7)
        await lab.until(lambda: len(lab.pods("rc", group="g")) == 7, "the seventh worker")
        (late,) = {pod["metadata"]["name"] for pod in lab.pods("rc")} - before
        lab.world.kubelet.set_unschedulable(NAMESPACE, late, message="queue quota insufficient")
        await lab.until(lambda: "PodsNotReady" in lab.conditions(RAYCLUSTER, "rc"), "a condition")
        told = lab.conditions(RAYCLUSTER, "rc")["PodsNotReady"]
        assert "of group g" in told["message"]
        assert "queue quota insufficient" in told["message"]
        assert "Volcano starts pods only when the default queue has room for 2 together" in told["message"]

    play(story, setup(autoscaler()))


def test_an_administrator_may_reserve_what_the_autoscaler_wants() -> None:
    """VO-07: also of a RayJob, whose spec does not say it."""

    async def story(lab: Lab) -> None:
        lab.create(scaled())
        spec = scaled("job-like")["spec"]
        job = build_rayjob("train", annotations=LONG)
        job["spec"]["rayClusterSpec"] = spec
        lab.create(job)
        await lab.until_ready("rc")
        await lab.until_job("train", "Running")
        await lab.rest(quiet=10)
        assert members(lab, "ray-rc-pg") == members(lab, "ray-train-pg") == 7
        (cluster,) = lab.clusters_of("train")
        for name in ("rc", cluster):
            lab.edit_group(name, "g", replicas=3)
        await lab.until(lambda: members(lab, "ray-rc-pg") == members(lab, "ray-train-pg") == 4, "what is wanted now")

    play(story, setup(autoscaler(), settings={"autoscaling_reserve": "desired"}))


def test_both_clusters_of_a_rayservice_are_gangs() -> None:
    async def story(lab: Lab) -> None:
        labels = {**NIGHT, "ray.io/priority-class-name": "high", "volcano.sh/network-topology-mode": "hard"}
        lab.create(build_rayservice("sv", groups=2, labels=labels))
        ready = "status of the service"
        await lab.until(lambda: lab.conditions(RAYSERVICE, "sv").get("Ready", {}).get("status") == "True", ready)
        (active,) = lab.clusters_of("sv")
        service = lab.get(RAYSERVICE, "sv")
        config = {**service["spec"]["rayClusterConfig"], "rayVersion": "2.53.0"}
        config["workerGroupSpecs"][0]["replicas"] = 3
        lab.edit(RAYSERVICE, "sv", rayClusterConfig=config)
        await lab.until(lambda: len(lab.clusters_of("sv")) == 2, "two clusters")
        (pending,) = set(lab.clusters_of("sv")) - {active}
        await lab.until(lambda: len(lab.pods(pending)) == 4, "the pods of the pending one")
        for name, count in ((active, 3), (pending, 4)):
            group = lab.get(POD_GROUP, f"ray-{name}-pg")
            assert group["spec"]["minMember"] == count
            assert (group["spec"]["queue"], group["spec"]["priorityClassName"]) == ("night", "high")
            assert group["spec"]["networkTopology"] == {"mode": "hard"}
            assert groups(lab.pods(name)) == {f"ray-{name}-pg"}
            (owner,) = group["metadata"]["ownerReferences"]
            assert (owner["kind"], owner["name"]) == ("RayCluster", name)
        await lab.until(lambda: lab.clusters_of("sv") == [pending], "the first cluster is gone", within=1200)
        await lab.until(
            lambda: [g["metadata"]["name"] for g in lab.all(POD_GROUP)] == [f"ray-{pending}-pg"], "its group, too"
        )

    play(story, setup(serve=True))
