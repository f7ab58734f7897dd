"""Cases about what goes wrong while a gang is made: restarts, refusals, lost answers, late events, and CRDs that are absent."""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.hooks.types import Manifest

from kuberay_testkit.builders import build_group
from kuberay_testkit.conformance.gang_placing import GangPlacing
from kuberay_testkit.conformance.gang_suite import GangSuite, has_group
from kuberay_testkit.conformance.suite import applies, listed
from kuberay_testkit.lab import Lab
from kuberay_testkit.sim.faults import Action, Faults

_FOREIGN = "example.com/of-somebody-else"


class GangTroubles(GangSuite):
    """Requests and watches that fail. Mixed into `GangSchedulerConformance`."""

    def _survives(self, *actions: Action, times: int = 3, on: dict[str, Any] | None = None) -> None:
        """A cluster that is scaled ends as it would without the trouble, and no pod comes before its gang."""
        faults = Faults()
        for action in actions:
            faults.add(action, times=times, seconds=5.0, **(self.group_requests() if on is None else on))

        async def story(lab: Lab) -> None:
            lab.world.always(GangPlacing.no_pod_before_its_gang.__get__(self))
            lab.create(self.cluster(groups=[build_group("workers", 2, minReplicas=2)]))
            await lab.until_ready("demo")
            lab.edit_group("demo", replicas=3, minReplicas=3)
            await lab.until(lambda: len(lab.pods("demo")) == 4, "the third worker")
            await lab.rest(quiet=120)
            assert lab.ready("demo"), lab.describe()
            if self.scheduler().gang_size is not None:
                self.expect_size(lab, "demo", when=f"after {', '.join(actions)}")
            assert len(self.gang_objects(lab)) == int(self.scheduler().group is not None), sorted(
                self.gang_objects(lab)
            )

        self.play(story, faults=faults)

    def test_conflicts_are_survived(self) -> None:
        """409."""
        self._survives("conflict")

    def test_throttling_is_survived(self) -> None:
        """429 with Retry-After."""
        self._survives("throttle")

    def test_errors_of_the_server_are_survived(self) -> None:
        """500 that leaves it open whether anything was done."""
        self._survives("error_before", "error_after")

    def test_lost_answers_are_survived(self) -> None:
        self._survives("timeout_before", "timeout_after")

    def test_late_events_are_survived(self) -> None:
        """Events of one kind overtake those of another."""
        self._survives("delay_event", times=6)

    def test_repeated_events_are_survived(self) -> None:
        self._survives("repeat_event", times=20, on={})

    def test_broken_and_expired_watches_are_survived(self) -> None:
        self._survives("drop_watch", "expire_watch")

    def test_everything_at_once_is_survived(self) -> None:
        async def story(lab: Lab) -> None:
            lab.world.always(GangPlacing.no_pod_before_its_gang.__get__(self))
            lab.create(self.cluster(groups=[build_group("workers", 2, minReplicas=2)]))
            lab.create(self.job("train", 1))
            await lab.world.pass_time(60)
            lab.server.faults.stop()
            await lab.rest(quiet=150)
            assert lab.ready("demo"), lab.describe()
            await lab.until_job("train", within=1800)
            self.expect_no_more_than_lives(lab, "after everything")

        for seed in range(4):
            self.play(story, faults=Faults.mixture(seed, intensity=0.3), seed=seed)

    @has_group
    def test_a_refusal_is_told_and_overcome(self) -> None:
        """403 on the gang object: no pod, a condition that says why, and a start when it is granted."""
        faults = Faults().add("refuse", message="podgroups are not for you", **self.group_requests(), verb="apply")

        async def story(lab: Lab) -> None:
            lab.create(self.cluster())
            await lab.rest()
            assert not lab.pods("demo"), "pods without their gang"
            told = " ".join(each.get("message", "") for each in lab.conditions(RAYCLUSTER, "demo").values())
            assert "podgroups are not for you" in told, f"no condition says why nothing starts: {told!r}"
            lab.server.faults.stop()
            await lab.until_ready("demo", within=1200)

        self.play(story, faults=faults)

    # -- restarts

    def test_restarts_after_every_write_for_a_cluster(self) -> None:
        """The operator is killed after each of its writes; the next one goes on."""

        async def story(lab: Lab) -> object:
            lab.world.always(GangPlacing.no_pod_before_its_gang.__get__(self))
            lab.create(self.cluster(groups=[build_group("workers", 1, minReplicas=1)]))
            await lab.world.pass_time(5)
            lab.edit_group("demo", replicas=2, minReplicas=2)
            await lab.rest(quiet=15)
            await lab.until_ready("demo")
            size = 0 if self.scheduler().gang_size is None else self.size(lab, "demo")
            return len(lab.pods("demo")), size, sorted(self.gang_objects(lab))

        self.at_every_write(story)

    def test_restarts_after_every_write_for_a_job(self) -> None:
        async def story(lab: Lab) -> object:
            lab.create(self.job("train", 1, shutdownAfterJobFinishes=True))
            await lab.until_job("train")
            await lab.rest(quiet=15)
            self.expect_no_more_than_lives(lab, "after the job")
            return len(lab.pods()), lab.status(RAYJOB, "train").get("failed")

        self.at_every_write(story)


class GangObjects(GangSuite):
    """The kind that may be absent, and objects that others touch. Mixed into `GangSchedulerConformance`."""

    def _insists(self, manifest: Manifest) -> Manifest:
        metadata = manifest["metadata"]
        labels = {**metadata.get("labels", {}), **self.scheduler().insist_labels}
        return {**manifest, "metadata": {**metadata, "labels": labels}}

    def _told(self, lab: Lab, kind: object, name: str) -> str:
        return " ".join(each.get("message", "") for each in lab.conditions(kind, name).values())  # type: ignore[arg-type]

    @has_group
    def test_an_absent_crd_is_waited_for(self) -> None:
        """No pods without their gang, a condition that names what is absent, and a start once it is there."""

        async def story(lab: Lab) -> None:
            group = self.scheduler().group
            assert group is not None
            lab.server.unregister(group)
            lab.operator.start()
            lab.create(self._insists(self.cluster()))
            await lab.rest()
            assert not lab.pods("demo"), "pods without their gang"
            told = self._told(lab, RAYCLUSTER, "demo")
            assert str(group) in told, f"no condition names {group}: {told!r}"
            idle = await lab.idle(600)
            assert len(idle) <= 60, f"{len(idle)} requests in ten minutes of waiting: {listed(idle)}"
            lab.server.register(group)
            await lab.until_ready("demo", within=1200)
            assert str(group) not in self._told(lab, RAYCLUSTER, "demo"), "the condition stays"

        self.play(story, start=False)

    @has_group
    def test_an_absent_crd_holds_a_job_up_and_does_not_fail_it(self) -> None:
        async def story(lab: Lab) -> None:
            group = self.scheduler().group
            assert group is not None
            lab.server.unregister(group)
            lab.operator.start()
            lab.create(self._insists(self.job()))
            await lab.rest()
            assert not lab.pods(), "pods without their gang"
            lab.server.register(group)
            await lab.until_job("train", within=1800)

        self.play(story, start=False)

    @applies(lambda scheduler: scheduler.group is not None and bool(scheduler.opt_in_labels or scheduler.insist_labels))
    def test_an_absent_crd_is_none_of_the_others_business(self) -> None:
        """Who is in no gang starts without it."""

        async def story(lab: Lab) -> None:
            group = self.scheduler().group
            assert group is not None
            lab.server.unregister(group)
            lab.operator.start()
            lab.create({**self.cluster("plain"), "metadata": {"name": "plain"}})
            await lab.until_ready("plain")

        self.play(story, start=False)

    @has_group
    def test_a_crd_that_goes_leaves_what_runs(self) -> None:
        async def story(lab: Lab) -> None:
            group = self.scheduler().group
            assert group is not None
            lab.create(self.cluster())
            await lab.until_ready("demo")
            before = {pod["metadata"]["uid"] for pod in lab.pods("demo")}
            lab.server.unregister(group)
            await lab.restart()
            await lab.rest()
            assert {pod["metadata"]["uid"] for pod in lab.pods("demo")} == before, "pods were touched"

        self.play(story)

    @has_group
    def test_fields_of_others_on_the_gang_object_stay(self) -> None:
        """The scheduler's status, somebody's annotation and finalizer, and a field that the plugin does not know."""

        async def story(lab: Lab) -> None:
            group = self.scheduler().group
            assert group is not None
            lab.create(self.cluster(groups=[build_group("workers", 1, minReplicas=1)]))
            await lab.until_ready("demo")
            (name,) = self.gang_objects(lab)
            foreign = {
                "metadata": {"annotations": {_FOREIGN: "yes"}, "labels": {_FOREIGN: "yes"}},
                "spec": {"ofTomorrow": 7},
            }
            lab.server.patch(group, "lab", name, foreign, manager="somebody")
            lab.server.set_status(group, "lab", name, {"phase": "Running", "running": 2}, manager="the-scheduler")
            lab.edit_group("demo", replicas=2, minReplicas=2)
            await lab.rest()
            found = lab.get(group, name)
            assert _kept(found), f"what others wrote on {name} was dropped: {found}"
            idle = await lab.idle()
            assert not idle, f"a fight over {name}: {listed(idle)}"

        self.play(story)

    @has_group
    def test_a_gang_object_that_somebody_deletes_comes_back(self) -> None:
        async def story(lab: Lab) -> None:
            group = self.scheduler().group
            assert group is not None
            lab.create(self.cluster())
            await lab.until_ready("demo")
            (name,) = self.gang_objects(lab)
            lab.delete(group, name)
            await lab.until(lambda: name in self.gang_objects(lab), f"{group.kind} {name} again", within=1200)

        self.play(story)

    @has_group
    def test_a_namesake_of_somebody_else_is_left_alone(self) -> None:
        """It is told, its owner keeps it, and no pod starts in it."""

        async def story(lab: Lab) -> None:
            group = self.scheduler().group
            assert group is not None
            lab.create(self.cluster())
            await lab.until_ready("demo")
            (name,) = self.gang_objects(lab)
            body = lab.get(group, name)
            lab.delete(RAYCLUSTER, "demo")
            await lab.rest()
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner"}
            made = lab.create({**owner, "metadata": {"name": "owner"}})
            owner |= {"uid": made["metadata"]["uid"], "controller": True}  # type: ignore[dict-item]
            foreign = {"apiVersion": body["apiVersion"], "kind": body["kind"], "spec": body["spec"]}
            theirs = lab.create({**foreign, "metadata": {"name": name, "ownerReferences": [owner]}})
            lab.create(self.cluster())
            await lab.rest()
            assert not lab.pods("demo"), "pods in the gang of somebody else"
            found = lab.get(group, name)
            assert found["metadata"]["resourceVersion"] == theirs["metadata"]["resourceVersion"], "it was changed"
            assert name in lab.describe(), f"nothing says that {name} is somebody else's\n{lab.describe()}"

        self.play(story)


def _kept(found: Manifest) -> bool:
    metadata = found["metadata"]
    marks = [(metadata.get(part) or {}).get(_FOREIGN) for part in ("annotations", "labels")]
    return marks == ["yes", "yes"] and found["spec"].get("ofTomorrow") == 7 and found["status"]["phase"] == "Running"
