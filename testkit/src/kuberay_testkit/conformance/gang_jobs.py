"""Cases about RayJobs in every mode and RayServices with both clusters: gangs that can be complete, and are given back."""

from __future__ import annotations

import copy
from typing import Any

from kuberay.api.kinds import JOB, RAYCLUSTER, RAYJOB, RAYSERVICE

from kuberay_testkit.builders import build_cluster_spec, build_group, build_rayjob
from kuberay_testkit.conformance.gang_placing import GangPlacing
from kuberay_testkit.conformance.gang_suite import GangSuite, has_group, says_size
from kuberay_testkit.lab import Lab
from kuberay_testkit.sim.heads_world import OUTCOMES, SECONDS
from kuberay_testkit.sim.service_facts import cluster_of
from kuberay_testkit.sim.store import Key

_LONG_RUN = {SECONDS: "120"}


class GangJobs(GangSuite):
    """RayJobs. Mixed into `GangSchedulerConformance`."""

    def _runs(self, mode: str) -> None:
        """A job of that submission mode starts with a gang of the right size and comes to its end."""

        async def story(lab: Lab) -> None:
            lab.world.always(GangPlacing.no_pod_before_its_gang.__get__(self))
            job = self.job(groups=[build_group("workers", 2, minReplicas=2)], submissionMode=mode)
            job["metadata"]["annotations"] = dict(_LONG_RUN)
            lab.create(job)
            await lab.until_job("train", "Running")
            (cluster,) = lab.clusters_of("train")
            if self.scheduler().gang_size is not None:
                counted = mode == "K8sJobMode"
                self.expect_size(lab, cluster, submitter=counted, when=f"of a job in {mode}")
            wrong = [
                p["metadata"]["name"]
                for p in (lab.pods() if self.scheduler().schedules_submitter else lab.pods(cluster))
                if p["spec"].get("schedulerName") != self.scheduler().scheduler_name
            ]
            assert not wrong, f"pods of a job in {mode} with another scheduler: {wrong}"
            await lab.until_job("train", "Complete", within=900)

        self.play(story)

    def test_a_job_with_a_submitter_is_no_deadlock(self) -> None:
        """The submitter comes when the cluster runs. A gang that waits for its pod waits for ever."""
        self._runs("K8sJobMode")

    def test_a_job_with_a_sidecar_submitter_runs(self) -> None:
        self._runs("SidecarMode")

    def test_a_job_submitted_by_http_runs(self) -> None:
        self._runs("HTTPMode")

    @has_group
    def test_a_job_has_one_gang_object(self) -> None:
        """Of the RayJob or of its RayCluster, never both: the second would never be complete."""

        async def story(lab: Lab) -> None:
            lab.create({**self.job(), "metadata": {**self.job()["metadata"], "annotations": dict(_LONG_RUN)}})
            await lab.until_job("train", "Running")
            kinds = {n: g["metadata"].get("ownerReferences") or [] for n, g in self.gang_objects(lab).items()}
            assert len(kinds) == 1, f"gang objects of one job: {sorted(kinds)}"
            owners = [each["kind"] for each in next(iter(kinds.values()))]
            wanted = "RayJob" if self.scheduler().job_gangs == "owner" else "RayCluster"
            assert owners == [wanted], f"the gang object belongs to {owners}, and not to the {wanted}"

        self.play(story)

    @says_size
    def test_a_job_that_is_done_gives_its_places_back(self) -> None:
        """All of them when its RayCluster goes, else down to what still runs."""

        async def story(lab: Lab) -> None:
            lab.create(self.job("kept", 2))
            lab.create(self.job("gone", 2, shutdownAfterJobFinishes=True))
            await lab.until_job("kept")
            await lab.until_job("gone")
            await lab.rest()
            assert not lab.clusters_of("gone"), lab.describe()
            self.expect_no_more_than_lives(lab, "after the jobs")

        self.play(story)

    @says_size
    def test_a_job_that_fails_gives_its_places_back(self) -> None:
        async def story(lab: Lab) -> None:
            job = self.job("train", 2, shutdownAfterJobFinishes=True)
            job["metadata"]["annotations"] = {OUTCOMES: "FAILED"}
            lab.create(job)
            await lab.until_job("train", "Failed")
            await lab.rest()
            self.expect_no_more_than_lives(lab, "after the job failed")

        self.play(story)

    def test_a_suspended_job_claims_nothing_and_runs_when_it_is_resumed(self) -> None:
        async def story(lab: Lab) -> None:
            job = self.job("train", 2, shutdownAfterJobFinishes=True)
            job["metadata"]["annotations"] = dict(_LONG_RUN)
            lab.create(job)
            await lab.until_job("train", "Running")
            lab.edit(RAYJOB, "train", suspend=True)
            await lab.until_job("train", "Suspended")
            await lab.rest()
            assert not lab.pods(), lab.describe()
            self.expect_no_more_than_lives(lab, "suspended")
            lab.edit(RAYJOB, "train", suspend=False)
            await lab.until_job("train", within=900)

        self.play(story)

    def test_a_retried_job_gets_a_gang_for_its_next_cluster(self) -> None:
        async def story(lab: Lab) -> None:
            job = self.job("train", 2, backoffLimit=1, shutdownAfterJobFinishes=True)
            job["metadata"]["annotations"] = {OUTCOMES: "FAILED,SUCCEEDED"}
            lab.create(job)
            await lab.until_job("train", within=900)
            assert lab.status(RAYJOB, "train").get("failed") == 1, lab.describe()
            await lab.rest()
            self.expect_no_more_than_lives(lab, "after a retry")

        self.play(story)

    def test_a_job_on_a_cluster_of_somebody_else_runs(self) -> None:
        """It has no cluster of its own, so its submitter must wait for no gang."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster("shared", 1))
            await lab.until_ready("shared")
            before = sorted(self.gang_objects(lab))
            job = build_rayjob(
                "guest", labels=self.scheduler().opt_in_labels, clusterSelector={"ray.io/cluster": "shared"}
            )
            lab.create(job)
            await lab.until_job("guest")
            assert sorted(self.gang_objects(lab)) == before, "the guest has a gang object of its own"

        self.play(story)

    def test_deleting_a_running_job_leaves_nothing(self) -> None:
        async def story(lab: Lab) -> None:
            job = self.job()
            job["metadata"]["annotations"] = dict(_LONG_RUN)
            lab.create(job)
            await lab.until_job("train", "Running")
            lab.delete(RAYJOB, "train")
            await lab.rest()
            left = [*lab.pods(), *lab.all(JOB), *lab.all(RAYCLUSTER), *self.gang_objects(lab).values()]
            assert not left, f"orphans: {[(each['kind'], each['metadata']['name']) for each in left]}"

        self.play(story)


class GangServices(GangSuite):
    """RayServices. Mixed into `GangSchedulerConformance`."""

    def _clusters(self, lab: Lab) -> tuple[str, str]:
        found = lab.server.store.get(Key(RAYSERVICE, "lab", "serve"))
        return ("", "") if found is None else (cluster_of(found, "active"), cluster_of(found, "pending"))

    def test_a_service_starts(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.service(groups=[build_group("workers", 2, minReplicas=2)]))
            await lab.until(lambda: bool(self._clusters(lab)[0]), "an active RayCluster")
            if self.scheduler().gang_size is not None:
                self.expect_size(lab, self._clusters(lab)[0], when="of a RayService")

        self.play(story, serve=True)

    def test_an_upgrade_has_a_gang_for_each_cluster(self) -> None:
        """Both run side by side for a while, and must be complete on their own; the old one's goes with it."""

        async def story(lab: Lab) -> None:
            service = self.service(groups=[build_group("workers", 1, minReplicas=1)], rayClusterDeletionDelaySeconds=20)
            lab.create(service)
            await lab.until(lambda: bool(self._clusters(lab)[0]), "an active RayCluster")
            await lab.rest()
            old = self._clusters(lab)[0]
            lab.edit(RAYSERVICE, "serve", rayClusterConfig=_another(service["spec"]["rayClusterConfig"]))
            await lab.until(lambda: len(lab.pods(self._clusters(lab)[1] or "-")) == 4, "pods of the pending RayCluster")
            new = self._clusters(lab)[1]
            if self.scheduler().gang_size is not None:
                for name in (old, new):
                    self.expect_size(lab, name, when="during an upgrade")
                gangs = {self.scheduler().gang_of(lab.pods(name)[0]) for name in (old, new)}
                assert len(gangs) == 2, f"both RayClusters of a service are in the gang {gangs}"
            await lab.until(lambda: self._clusters(lab) == (new, ""), "the end of the upgrade")
            await lab.rest(quiet=60)
            assert [each["metadata"]["name"] for each in lab.all(RAYCLUSTER)] == [new], lab.describe()
            assert len(self.gang_objects(lab)) == int(self.scheduler().group is not None), sorted(
                self.gang_objects(lab)
            )

        self.play(story, serve=True)


def _another(cluster: dict[str, Any]) -> dict[str, Any]:
    """A cluster spec that needs new pods, with three workers."""
    changed = copy.deepcopy(cluster or build_cluster_spec())
    changed["headGroupSpec"]["template"]["spec"]["containers"][0]["image"] += "-next"
    changed["workerGroupSpecs"][0].update(replicas=3, minReplicas=3)
    return changed
