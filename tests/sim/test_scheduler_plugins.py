"""Coscheduling over time: PodGroups of scheduler-plugins follow what is wanted, and come back; its CRD may be absent."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api.kinds import EVENT, RAYCLUSTER, RAYJOB
from kuberay_scheduler_plugins.podgroup import LABEL_POD_GROUP, POD_GROUP
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob
from kuberay_testkit.lab import Lab, Manifest, Setup, play
from kuberay_testkit.sim.gangs import GangRules
from kuberay_testkit.sim.heads_world import OUTCOMES, SECONDS

GANG = {"ray.io/gang-scheduling-enabled": "true"}
LONG = {SECONDS: "300"}


def coscheduling() -> GangRules:
    """The scheduler: pods of a group start when that many of them are there."""
    return GangRules(
        scheduler_name="scheduler-plugins-scheduler",
        group=POD_GROUP,
        gang_of=lambda pod: pod["metadata"].get("labels", {}).get(LABEL_POD_GROUP, ""),
        gang_size=lambda group: group["spec"].get("minMember", 0),
    )


def setup(**settings: Any) -> Setup:
    return Setup(
        plugins=["scheduler-plugins"],
        settings={"scheduler-plugins": settings},
        kinds=[POD_GROUP],
        gangs=coscheduling(),
    )


def size(lab: Lab, name: str) -> tuple[int, Mapping[str, str]]:
    spec = lab.get(POD_GROUP, name)["spec"]
    return spec["minMember"], spec.get("minResources", {})


def groups(pods: Sequence[Manifest]) -> set[str | None]:
    return {pod["metadata"]["labels"].get(LABEL_POD_GROUP) for pod in pods}


def of(count: int) -> tuple[int, Mapping[str, str]]:
    """The size of *count* pods of one CPU and one gibibyte each."""
    return count, {"cpu": str(count), "memory": f"{count}Gi"}


def test_the_group_follows_scaling_suspension_and_resumption() -> None:
    """SP-01: and a PodGroup deleted by hand comes back."""

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("rc", groups=[build_group("g", 5)], labels=GANG))
        await lab.until_ready("rc")
        assert size(lab, "rc") == of(6)
        lab.edit_group("rc", "g", replicas=2)
        await lab.until(lambda: size(lab, "rc") == of(3), "the smaller size")
        await lab.rest()
        # A pod that is lost now is replaced, and started: the group does not wait for those that were scaled away.
        lost = lab.pods("rc", group="g")[0]["metadata"]["name"]
        lab.world.kubelet.fail("lab", lost)
        await lab.until(lambda: lost not in {p["metadata"]["name"] for p in lab.pods("rc")}, "its end")
        await lab.until_ready("rc")
        assert len(lab.pods("rc")) == 3
        lab.edit(RAYCLUSTER, "rc", suspend=True)
        await lab.until(lambda: not lab.pods("rc"), "no pods")
        await lab.rest()
        assert size(lab, "rc") == (1, {}), "the least that the kind allows"
        replicas = copy.deepcopy(lab.get(RAYCLUSTER, "rc")["spec"]["workerGroupSpecs"])
        replicas[0]["replicas"] = 8
        lab.edit(RAYCLUSTER, "rc", suspend=False, workerGroupSpecs=replicas)
        await lab.until_ready("rc")
        assert size(lab, "rc") == of(9)
        uid = lab.get(POD_GROUP, "rc")["metadata"]["uid"]
        lab.delete(POD_GROUP, "rc")
        await lab.until(lambda: _is_another(lab, uid), "another PodGroup", within=20)
        assert size(lab, "rc") == of(9)

    play(story, setup())


def _is_another(lab: Lab, uid: str) -> bool:
    found = [group["metadata"]["uid"] for group in lab.all(POD_GROUP)]
    return bool(found) and found != [uid]


def test_every_host_counts() -> None:
    """SP-03"""

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("rc", groups=[build_group("tpu", 2, numOfHosts=4)], labels=GANG))
        await lab.until_ready("rc")
        assert size(lab, "rc") == of(9)
        assert {pod["spec"]["schedulerName"] for pod in lab.pods("rc")} == {"scheduler-plugins-scheduler"}

    play(story, setup())


def test_the_scheduler_name_is_what_the_administrator_says() -> None:
    """SP-03"""

    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("rc", labels=GANG))
        lab.create(build_rayjob("train", annotations=LONG))
        await lab.until_ready("rc")
        await lab.until_job("train", "Running")
        assert {pod["spec"]["schedulerName"] for pod in lab.pods()} == {"second"}

    play(story, setup(scheduler_name="second"))


def test_the_group_of_a_rayjob_goes_with_each_of_its_clusters() -> None:
    async def story(lab: Lab) -> None:
        job = build_rayjob("train", groups=2, labels=GANG, backoffLimit=1, shutdownAfterJobFinishes=True)
        job["metadata"]["annotations"] = {OUTCOMES: "FAILED,SUCCEEDED", SECONDS: "60"}
        lab.create(job)
        seen: list[str] = []
        for _ in range(2):
            await lab.until_job("train", "Running")
            (cluster,) = lab.clusters_of("train")
            (group,) = lab.all(POD_GROUP)
            assert group["metadata"]["name"] == cluster
            assert groups(lab.pods(cluster)) == {cluster}
            await lab.rest(quiet=5)
            assert size(lab, cluster) == of(3), "the submitter has its place"
            seen.append(cluster)
            await lab.until(lambda: seen[-1] not in lab.clusters_of("train"), "the end of the attempt")
        await lab.until_job("train")
        assert len(set(seen)) == 2
        await lab.rest()
        assert lab.all(POD_GROUP) == []

    play(story, setup())


def test_a_rayjob_waits_for_room_for_its_submitter_too() -> None:
    """Until its pods have started; then that room is the submitter's, and is not asked for a second time."""

    async def story(lab: Lab) -> None:
        asked: list[Mapping[str, str]] = []

        def note(_server: Any, change: Any) -> None:
            if change.stored.key.kind == POD_GROUP and change.type != "DELETED":
                asked.append(change.stored.copy()["spec"].get("minResources", {}))

        lab.world.always(note)
        lab.create(build_rayjob("train", groups=1, labels=GANG, annotations=LONG))
        await lab.until_job("train", "Running")
        await lab.rest(quiet=5)
        assert asked[0] == {"cpu": "2500m", "memory": "2248Mi"}
        assert asked[-1] == {"cpu": "2", "memory": "2Gi"}
        lab.edit(RAYJOB, "train", suspend=True, shutdownAfterJobFinishes=True)
        await lab.until_job("train", "Suspended")
        assert lab.all(POD_GROUP) == []

    play(story, setup())


def test_a_job_on_a_foreign_cluster_runs_and_is_told_that_its_label_has_no_effect() -> None:
    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("shared", groups=1, labels=GANG))
        await lab.until_ready("shared")
        lab.create(build_rayjob("guest", labels=GANG, clusterSelector={"ray.io/cluster": "shared"}))
        await lab.until_job("guest")
        assert [group["metadata"]["name"] for group in lab.all(POD_GROUP)] == ["shared"]
        assert size(lab, "shared") == of(2)
        warned = [each for each in lab.all(EVENT) if each["reason"] == "PluginWarning"]
        assert [each["regarding"]["name"] for each in warned] == ["guest"]

    play(story, setup())


def test_an_absent_crd_holds_up_who_asks_for_a_gang_and_nobody_else() -> None:
    async def story(lab: Lab) -> None:
        lab.server.unregister(POD_GROUP)
        lab.operator.start()
        lab.create(build_raycluster("plain", groups=1))
        lab.create(build_raycluster("gang", groups=1, labels=GANG))
        await lab.until_ready("plain")
        assert lab.pods("gang") == []
        waiting = lab.conditions(RAYCLUSTER, "gang")["PodsWaiting"]
        assert "podgroups.scheduling.x-k8s.io is not served by this cluster" in waiting["message"]
        lab.server.register(POD_GROUP)
        await lab.until_ready("gang", within=1200)
        assert size(lab, "gang") == of(2)

    play(story, setup(), start=False)


def test_a_group_that_kuberay_made_is_taken_over() -> None:
    """KubeRay's has no controller, only an owner with which it is collected, and never changes."""

    async def story(lab: Lab) -> None:
        cluster = lab.create(build_raycluster("rc", groups=2, labels=GANG))
        reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "uid": cluster["metadata"]["uid"]}
        theirs = {
            "apiVersion": POD_GROUP.api_version,
            "kind": POD_GROUP.kind,
            "metadata": {"name": "rc", "namespace": "lab", "ownerReferences": [reference]},
            "spec": {"minMember": 9, "minResources": {"cpu": "9", "memory": "9Gi"}},
        }
        made = lab.server.create(theirs, manager="ray-operator")
        lab.operator.start()
        await lab.until_ready("rc")
        found = lab.get(POD_GROUP, "rc")
        assert found["metadata"]["uid"] == made["metadata"]["uid"]
        assert size(lab, "rc") == of(3)
        (owner,) = found["metadata"]["ownerReferences"]
        assert owner["controller"] is True
        assert await lab.idle() == []

    play(story, setup(), start=False)


def test_a_group_of_somebody_else_is_left_alone() -> None:
    async def story(lab: Lab) -> None:
        lab.create(
            {
                "apiVersion": POD_GROUP.api_version,
                "kind": POD_GROUP.kind,
                "metadata": {"name": "rc", "namespace": "lab"},
                "spec": {"minMember": 4},
            }
        )
        lab.create(build_raycluster("rc", groups=2, labels=GANG))
        await lab.rest()
        assert size(lab, "rc") == (4, {})
        assert lab.pods("rc") == []
        told = lab.conditions(RAYCLUSTER, "rc")["PodsWaiting"]["message"]
        assert "PodGroup lab/rc already exists and is not owned by this RayCluster" in told

    play(story, setup())


def test_pods_that_wait_are_let_go_when_the_label_is_taken_off() -> None:
    async def story(lab: Lab) -> None:
        lab.create(build_raycluster("rc", groups=2, labels=GANG))
        await lab.until_ready("rc")
        lab.server.patch(RAYCLUSTER, "lab", "rc", {"metadata": {"labels": {"ray.io/gang-scheduling-enabled": None}}})
        await lab.until(lambda: size(lab, "rc") == (1, {}), "the size that holds nobody back")
        before = {pod["metadata"]["name"] for pod in lab.pods("rc")}
        lab.edit_group("rc", replicas=3)
        await lab.until(lambda: len(lab.pods("rc")) == 4, "another worker")
        (late,) = (pod for pod in lab.pods("rc") if pod["metadata"]["name"] not in before)
        assert groups([late]) == {None}

    play(story, setup())
