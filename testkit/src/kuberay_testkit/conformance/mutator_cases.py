"""Cases for plugins that change pods, make objects that pods need, or both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER, Kind

from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob, build_rayservice
from kuberay_testkit.conformance.pod_cases import PodCases
from kuberay_testkit.conformance.subjects import MutatorUnderTest
from kuberay_testkit.conformance.suite import applies, listed
from kuberay_testkit.lab import NAMESPACE, Lab, Manifest
from kuberay_testkit.sim.faults import Action, Faults
from kuberay_testkit.sim.registry import is_builtin_group
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change

changes_pods = applies(lambda mutator: mutator.changed is not None)
makes_objects = applies(lambda mutator: bool(mutator.before_pods))
needs_crd = applies(lambda mutator: any(not is_builtin_group(kind.group) for kind in mutator.before_pods))
is_asked = applies(lambda mutator: bool(mutator.asks or mutator.asks_labels or mutator.asks_annotations))


class MutatorCases(PodCases):
    """Mixed into `PodMutatorConformance`."""

    def mutator(self) -> MutatorUnderTest:
        """The factory that an author writes."""
        raise NotImplementedError

    def subject(self) -> MutatorUnderTest:
        return self.mutator()

    # -- objects

    def cluster(self, name: str = "demo", groups: Any = 2, **options: Any) -> Manifest:
        mutator = self.mutator()
        spec = {**mutator.asks, **options}
        return build_raycluster(
            name, groups=groups, labels=mutator.asks_labels, annotations=mutator.asks_annotations, **spec
        )

    async def everything(self, lab: Lab) -> None:
        lab.create(self.cluster("tour", {"small": 2, "large": 1}))
        lab.create(build_raycluster("other", groups=1))
        lab.create(build_rayjob("tour-job", groups=1, cluster=self.mutator().asks, shutdownAfterJobFinishes=True))
        await lab.rest()
        lab.edit_group("tour", "small", replicas=3)
        await lab.rest()
        lab.edit(RAYCLUSTER, "tour", suspend=True)
        await lab.rest()
        lab.edit(RAYCLUSTER, "tour", suspend=False)
        await lab.rest()

    def _owned(self, lab: Lab, kind: Kind, cluster: str = "demo") -> list[Manifest]:
        """Objects of *kind* that belong to a RayCluster."""
        return [
            each
            for each in lab.all(kind)
            if any(owner["name"] == cluster for owner in each["metadata"].get("ownerReferences") or ())
        ]

    def _untouched(self, pods: Sequence[Manifest]) -> list[str]:
        """Pods that should carry the plugin's change and do not."""
        mutator = self.mutator()
        assert mutator.changed is not None
        return [
            pod["metadata"]["name"]
            for pod in pods
            if pod["metadata"]["labels"].get("ray.io/node-type") in mutator.changes and not mutator.changed(pod)
        ]

    def before_pods(self, server: SimServer, change: Change) -> None:
        """An invariant: what pods need is there when one is made."""
        if change.type != "ADDED" or change.stored.key.kind != POD or change.stored.key.namespace != NAMESPACE:
            return
        cluster = change.stored.labels.get("ray.io/cluster")
        for kind in self.mutator().before_pods:
            there = any(
                owner["name"] == cluster
                for each in server.objects(kind, NAMESPACE)
                for owner in each["metadata"].get("ownerReferences") or ()
            )
            assert there, f"pod {change.stored.key.name} was made before any {kind.kind} of RayCluster {cluster}"

    # -- pods

    def test_a_cluster_that_asks_for_it_starts(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster())
            await lab.until_ready("demo")

        self.play(story)

    @changes_pods
    def test_pods_carry_its_change(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups={"small": 1, "large": 2}))
            await lab.until_ready("demo")
            missing = self._untouched(lab.pods("demo"))
            assert not missing, f"pods without the plugin's change: {missing}"

        self.play(story)

    @changes_pods
    def test_pods_of_jobs_and_services_carry_its_change(self) -> None:
        async def story(lab: Lab) -> None:
            mutator = self.mutator()
            marks: dict[str, Any] = {"labels": mutator.asks_labels, "annotations": mutator.asks_annotations}
            lab.create(build_rayjob("train", groups=1, cluster=mutator.asks, **marks))
            lab.create(build_rayservice("serve", groups=1, cluster=mutator.asks, **marks))
            await lab.until(lambda: len(lab.clusters_of("train")) == 1, "the RayCluster of the RayJob")
            await lab.until(lambda: len(lab.clusters_of("serve")) == 1, "the RayCluster of the RayService")
            clusters = [*lab.clusters_of("train"), *lab.clusters_of("serve")]
            for name in clusters:
                await lab.until(lambda name=name: len(lab.pods(name)) == 2, f"pods of RayCluster {name}")  # type: ignore[misc]
                missing = self._untouched(lab.pods(name))
                assert not missing, f"pods without the plugin's change: {missing}"

        self.play(story, serve=True)

    @is_asked
    def test_who_does_not_ask_gets_nothing(self) -> None:
        """Byte for byte the pods that are made without the plugin, and no object of it."""

        def pods(plugins: list[Any] | None) -> list[dict[str, Any]]:
            async def story(lab: Lab) -> list[dict[str, Any]]:
                lab.create(build_raycluster("plain", groups=1))
                await lab.until_ready("plain")
                for kind in self.mutator().before_pods:
                    assert not self._owned(lab, kind, "plain"), f"a {kind.kind} that nobody asked for"
                return [
                    {"name": p["metadata"]["name"], "labels": p["metadata"]["labels"], "spec": p["spec"]}
                    for p in lab.pods("plain")
                ]

            return self.play(story, plugins=plugins)

        assert pods(None) == pods(list(self.subject().with_plugins)), "pods of a cluster that did not ask are changed"

    @changes_pods
    def test_pods_that_come_later_carry_its_change(self) -> None:
        """Scaled up, resumed after a suspension, and a head that died."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups=[build_group("workers", 1, minReplicas=0)]))
            await lab.until_ready("demo")
            lab.edit_group("demo", replicas=2)
            await lab.until(lambda: len(lab.pods("demo")) == 3, "the second worker")
            lab.delete(POD, lab.pods("demo", node_type="head")[0]["metadata"]["name"])
            await lab.world.pass_time(60)
            await lab.rest()
            assert lab.ready("demo"), lab.describe()
            assert not self._untouched(lab.pods("demo")), "a pod that came later lacks the plugin's change"
            lab.edit(RAYCLUSTER, "demo", suspend=True)
            await lab.until(lambda: not lab.pods("demo"), "the end of all pods")
            lab.edit(RAYCLUSTER, "demo", suspend=False)
            await lab.until(lambda: len(lab.pods("demo")) == 3 and lab.ready("demo"), "new pods after the suspension")
            assert not self._untouched(lab.pods("demo")), "a pod after the suspension lacks the plugin's change"

        self.play(story)

    # -- objects

    @makes_objects
    def test_what_pods_need_is_there_before_them(self) -> None:
        """Also when it can not be made at first."""

        async def story(lab: Lab) -> None:
            lab.world.always(self.before_pods)
            lab.create(self.cluster())
            await lab.until_ready("demo")

        for kind in self.mutator().before_pods:
            faults = Faults()
            for verb in ("apply", "create"):
                faults.add("error_before", verb=verb, times=2, resource=kind.plural, group=kind.group)
            self.play(story, faults=faults)

    @makes_objects
    def test_deleting_the_cluster_leaves_nothing(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster())
            await lab.until_ready("demo")
            lab.delete(RAYCLUSTER, "demo")
            await lab.rest()
            left = [
                f"{kind.kind} {each['metadata']['name']}"
                for kind in self.mutator().before_pods
                for each in lab.all(kind)
            ]
            assert not left, f"orphans: {left}"

        self.play(story)

    @makes_objects
    def test_clusters_have_objects_of_their_own(self) -> None:
        """Namesakes in another namespace, and two long names that differ in their last letter."""

        async def story(lab: Lab) -> None:
            long = "a-very-long-name-that-many-would-call-too-long-for-a"
            for name in (f"{long}a", f"{long}b"):
                lab.create(self.cluster(name, 1))
            await lab.rest(quiet=60)
            for name in (f"{long}a", f"{long}b"):
                assert lab.ready(name), lab.describe()
                for kind in self.mutator().before_pods:
                    assert self._owned(lab, kind, name), f"RayCluster {name} has no {kind.kind} of its own"

        self.play(story)

    @makes_objects
    def test_an_object_that_somebody_deletes_comes_back(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster())
            await lab.until_ready("demo")
            for kind in self.mutator().before_pods:
                name = self._owned(lab, kind)[0]["metadata"]["name"]
                lab.delete(kind, name)
                await lab.until(
                    lambda kind=kind, name=name: any(
                        each["metadata"]["name"] == name for each in self._owned(lab, kind)
                    ),  # type: ignore[misc]
                    f"{kind.kind} {name} again",
                    within=1200,
                )

        self.play(story)

    @needs_crd
    def test_an_absent_crd_is_waited_for(self) -> None:
        """No pods, a condition that names what is absent, and a start once it is there."""

        async def story(lab: Lab) -> None:
            absent = [kind for kind in self.mutator().before_pods if not is_builtin_group(kind.group)]
            for kind in absent:
                lab.server.unregister(kind)
            lab.operator.start()
            lab.create(self.cluster())
            lab.create(build_raycluster("plain", groups=1))
            await lab.rest()
            assert not lab.pods("demo"), "pods without what they need"
            told = " ".join(each.get("message", "") for each in lab.conditions(RAYCLUSTER, "demo").values())
            assert any(str(kind) in told for kind in absent), f"no condition names {listed(absent)}: {told!r}"
            if self.mutator().asks:
                assert lab.ready("plain"), "a cluster that does not ask waits, too"
            for kind in absent:
                lab.server.register(kind)
            await lab.until_ready("demo", within=1200)

        self.play(story, start=False)

    # -- troubles

    def _survives(self, *actions: Action) -> None:
        faults = Faults()
        for kind in self.mutator().before_pods or (POD,):
            for action in actions:
                faults.add(action, times=2, seconds=5.0, resource=kind.plural, group=kind.group)

        async def story(lab: Lab) -> None:
            lab.world.always(self.before_pods)
            lab.create(self.cluster())
            await lab.until_ready("demo", within=1200)
            await lab.rest(quiet=120)
            assert len(lab.pods("demo")) == 3, lab.describe()
            if self.mutator().changed is not None:
                assert not self._untouched(lab.pods("demo")), f"a pod lacks the change after {', '.join(actions)}"

        self.play(story, faults=faults)

    def test_conflicts_and_throttling_are_survived(self) -> None:
        """409 and 429."""
        self._survives("conflict", "throttle")

    def test_errors_of_the_server_are_survived(self) -> None:
        """500, before and after the commit."""
        self._survives("error_before", "error_after")

    def test_late_and_repeated_events_are_survived(self) -> None:
        self._survives("delay_event", "repeat_event", "drop_watch")

    def test_everything_at_once_is_survived(self) -> None:
        async def story(lab: Lab) -> None:
            lab.world.always(self.before_pods)
            lab.create(self.cluster())
            await lab.world.pass_time(60)
            lab.server.faults.stop()
            await lab.rest(quiet=150)
            assert lab.ready("demo"), lab.describe()

        for seed in range(4):
            self.play(story, faults=Faults.mixture(seed, intensity=0.3), seed=seed)

    def test_restarts_after_every_write(self) -> None:
        async def story(lab: Lab) -> object:
            lab.world.always(self.before_pods)
            lab.create(self.cluster(groups=[build_group("workers", 1, minReplicas=1)]))
            await lab.until_ready("demo", within=1200)
            await lab.rest(quiet=15)
            owned = {str(kind): len(self._owned(lab, kind)) for kind in self.mutator().before_pods}
            return len(lab.pods("demo")), owned

        self.at_every_write(story)
