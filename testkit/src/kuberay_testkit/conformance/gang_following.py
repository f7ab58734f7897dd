"""Cases about a RayCluster's gang later on: it follows scaling, hosts, suspension and the autoscaler's bounds."""

from __future__ import annotations

from kuberay.api.kinds import POD, RAYCLUSTER

from kuberay_testkit.builders import build_group
from kuberay_testkit.conformance.gang_suite import (
    AUTOSCALER,
    GangSuite,
    has_sized_group,
    says_size,
    stands_in_for_the_autoscaler,
)
from kuberay_testkit.conformance.suite import applies
from kuberay_testkit.lab import Lab
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change


class GangFollowing(GangSuite):
    """Mixed into `GangSchedulerConformance`."""

    async def _ready_with(self, lab: Lab, pods: int, when: str) -> None:
        """The cluster ``demo`` is ready with so many pods, and its gang is as large as its spec asks for."""
        await lab.until(lambda: lab.ready("demo") and len(lab.pods("demo")) == pods, f"{pods} running pods {when}")
        await lab.rest()
        assert lab.ready("demo"), lab.describe()
        self.expect_size(lab, "demo", when=when)
        self.expect_no_more_than_lives(lab, when)

    @says_size
    def test_it_grows_with_replicas(self) -> None:
        """Before the new pods: they must not start without each other, or be left out."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 2, minReplicas=1)]))
            await self._ready_with(lab, 3, "at first")
            lab.edit_group("demo", replicas=5)
            await self._ready_with(lab, 6, "after scaling up")
            lab.edit_group("demo", replicas=6, minReplicas=6)
            await self._ready_with(lab, 7, "after raising the minimum")

        self.play(story)

    @has_sized_group
    def test_it_shrinks_with_replicas(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 5, minReplicas=5)]))
            await self._ready_with(lab, 6, "at first")
            lab.edit_group("demo", replicas=1, minReplicas=1)
            await self._ready_with(lab, 2, "after scaling down")

        self.play(story)

    @applies(
        lambda scheduler: (
            scheduler.group is not None and scheduler.gang_size is not None and scheduler.sizes == "desired"
        )
    )
    def test_it_grows_before_the_pods_it_grows_for(self) -> None:
        """In the moment a pod is made, the gang has a place for it."""
        scheduler = self.scheduler()

        def a_place_for_each(server: SimServer, change: Change) -> None:
            if change.type != "ADDED" or change.stored.key.kind != POD:
                return
            pod = change.stored.copy()
            gang, group, size = scheduler.gang_of(pod), scheduler.group, scheduler.gang_size
            found = None if group is None else server.peek(group, pod["metadata"]["namespace"], gang)
            if found is not None and size is not None:
                members = len(self.gangs().members(server, pod["metadata"]["namespace"], gang))
                assert members <= size(found), f"pod number {members} was made when {gang} said {size(found)}"

        async def story(lab: Lab) -> None:
            lab.world.always(a_place_for_each)
            lab.create(self.cluster(groups=[build_group("workers", 1, minReplicas=1)]))
            await self._ready_with(lab, 2, "at first")
            lab.edit_group("demo", replicas=4, minReplicas=4)
            await self._ready_with(lab, 5, "after scaling up")

        self.play(story)

    @has_sized_group
    def test_it_follows_groups_that_come_and_go(self) -> None:
        async def story(lab: Lab) -> None:
            first, second = build_group("workers", 1, minReplicas=1), build_group("more", 2, minReplicas=2)
            lab.create(self.cluster(groups=[first]))
            await self._ready_with(lab, 2, "at first")
            lab.edit(RAYCLUSTER, "demo", workerGroupSpecs=[first, second])
            await self._ready_with(lab, 4, "with a second group")
            lab.edit(RAYCLUSTER, "demo", workerGroupSpecs=[first])
            await lab.rest()
            self.expect_size(lab, "demo", when="without the second group")

        self.play(story)

    @has_sized_group
    def test_it_counts_hosts_when_replicas_change(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 1, minReplicas=1, numOfHosts=3)]))
            await self._ready_with(lab, 4, "at first")
            lab.edit_group("demo", replicas=2, minReplicas=2)
            await self._ready_with(lab, 7, "with two replicas of three hosts")

        self.play(story)

    @says_size
    def test_a_suspended_cluster_claims_nothing(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=2))
            await lab.until_ready("demo")
            lab.edit(RAYCLUSTER, "demo", suspend=True)
            await lab.until(lambda: not lab.pods("demo"), "the end of all pods")
            await lab.rest()
            self.expect_no_more_than_lives(lab, "suspended")

        self.play(story)

    def test_a_resumed_cluster_runs_again(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 2, minReplicas=2)]))
            await lab.until_ready("demo")
            for _ in range(2):
                lab.edit(RAYCLUSTER, "demo", suspend=True)
                await lab.until(lambda: not lab.pods("demo"), "the end of all pods")
                await lab.rest()
                lab.edit(RAYCLUSTER, "demo", suspend=False)
                await lab.until(lambda: len(lab.pods("demo")) == 3, "new pods after the suspension")
                await lab.until_ready("demo")
                if self.scheduler().gang_size is not None:
                    self.expect_size(lab, "demo", when="after a suspension")

        self.play(story)

    def test_a_cluster_that_begins_suspended_claims_nothing_and_starts_later(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=2, suspend=True))
            await lab.rest()
            assert not lab.pods("demo")
            self.expect_no_more_than_lives(lab, "suspended from the beginning")
            lab.edit(RAYCLUSTER, "demo", suspend=False)
            await lab.until_ready("demo")

        self.play(story)

    @has_sized_group
    def test_a_suspended_group_claims_nothing(self) -> None:
        async def story(lab: Lab) -> None:
            groups = [build_group("workers", 2, minReplicas=2), build_group("rests", 2, minReplicas=2)]
            lab.create(self.cluster(groups=groups))
            await self._ready_with(lab, 5, "at first")
            lab.edit_group("demo", "rests", suspend=True)
            await self._ready_with(lab, 3, "with a suspended group")
            lab.edit_group("demo", "rests", suspend=None)
            await self._ready_with(lab, 5, "with the group again")

        plugins = self._with_autoscaler()
        self.play(story, plugins=plugins)

    @has_sized_group
    def test_it_follows_the_autoscalers_minimum(self) -> None:
        """And not what the autoscaler does between minimum and maximum, where only the minimum is waited for."""

        async def story(lab: Lab) -> None:
            group = build_group("workers", 1, minReplicas=1, maxReplicas=8)
            lab.create(self.cluster(groups=[group], enableInTreeAutoscaling=True))
            await lab.until_ready("demo")
            self.expect_size(lab, "demo", when="at first")
            lab.edit_group("demo", replicas=4)
            await lab.until(lambda: len(lab.pods("demo")) == 5, "the pods that the autoscaler asked for")
            await lab.rest()
            self.expect_size(lab, "demo", when="after the autoscaler scaled up")
            lab.edit_group("demo", minReplicas=3)
            await lab.rest()
            self.expect_size(lab, "demo", when="with another minimum")
            assert lab.ready("demo"), lab.describe()

        self.play(story, plugins=self._with_autoscaler())

    def test_a_pod_that_dies_is_replaced(self) -> None:
        """The new one joins a gang that runs."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 3, minReplicas=3)]))
            await lab.until_ready("demo")
            victim = lab.pods("demo", node_type="worker")[0]["metadata"]["name"]
            lab.delete(POD, victim)
            await lab.until(lambda: len(lab.pods("demo")) == 4 and lab.ready("demo"), "a new worker")

        self.play(story)

    def test_a_head_that_dies_is_replaced(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 2, minReplicas=2)]))
            await lab.until_ready("demo")
            lab.delete(POD, lab.pods("demo", node_type="head")[0]["metadata"]["name"])
            await lab.rest()
            assert len(lab.pods("demo", node_type="head")) == 1, lab.describe()
            assert lab.ready("demo"), lab.describe()

        self.play(story)

    def test_deleting_the_cluster_leaves_nothing(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=2))
            await lab.until_ready("demo")
            lab.delete(RAYCLUSTER, "demo")
            await lab.rest()
            assert not lab.pods(), lab.describe()
            assert not self.gang_objects(lab), f"gang objects that nobody owns: {sorted(self.gang_objects(lab))}"

        self.play(story)

    def _with_autoscaler(self) -> list[object]:
        given = [self.plugin(), *self.subject().with_plugins]
        named = [getattr(each, "name", each) for each in given]
        return given if AUTOSCALER in named else [*given, stands_in_for_the_autoscaler()]
