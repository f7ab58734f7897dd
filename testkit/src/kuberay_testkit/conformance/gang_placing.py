"""Cases about a RayCluster's gang when it is made: who is in it, how large it is, and that no pod is made before it."""

from __future__ import annotations

import re
from typing import Any

from kuberay.api import quantity
from kuberay.api.kinds import POD

from kuberay_testkit.builders import build_group, build_pod_template, build_raycluster
from kuberay_testkit.conformance.gang_suite import (
    GangSuite,
    has_group,
    has_opt_in,
    says_resources,
    says_size,
    stands_in_for_the_autoscaler,
)
from kuberay_testkit.lab import NAMESPACE, Lab, Manifest
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change

_LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LONG = "a-very-long-name-that-many-would-call-too-long-for-a-clus"


class GangPlacing(GangSuite):
    """Mixed into `GangSchedulerConformance`."""

    def _sized(self, groups: Any, **spec: Any) -> None:
        """A cluster of *groups* starts with a gang of the right size."""

        async def story(lab: Lab) -> None:
            lab.create(self.cluster("demo", groups, **spec))
            await lab.until_ready("demo")
            self.expect_size(lab, "demo")

        plugins = [self.plugin(), *self.subject().with_plugins]
        if spec.get("enableInTreeAutoscaling") and all(getattr(p, "name", p) != "autoscaler-v2" for p in plugins):
            plugins.append(stands_in_for_the_autoscaler())
        self.play(story, plugins=plugins)

    # -- who is in it

    def test_every_pod_names_the_scheduler(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups={"small": 1, "large": 2}))
            await lab.until(lambda: len(lab.pods("demo")) == 4, "four pods")
            found = {pod["metadata"]["name"]: pod["spec"].get("schedulerName") for pod in lab.pods("demo")}
            wrong = {name: given for name, given in found.items() if given != self.scheduler().scheduler_name}
            assert not wrong, f"pods with another schedulerName than {self.scheduler().scheduler_name}: {wrong}"

        self.play(story)

    @says_size
    def test_all_pods_of_a_cluster_are_in_one_gang(self) -> None:
        async def story(lab: Lab) -> None:
            lab.create(self.cluster(groups={"small": 1, "large": 2}))
            await lab.until_ready("demo")
            gangs = {pod["metadata"]["name"]: self.scheduler().gang_of(pod) for pod in lab.pods("demo")}
            assert all(gangs.values()), f"pods in no gang: {gangs}"
            assert len(set(gangs.values())) == 1, f"pods of one cluster in several gangs: {gangs}"

        self.play(story)

    @says_size
    def test_clusters_have_gangs_of_their_own(self) -> None:
        """Also those whose names begin alike, and namesakes in another namespace."""

        async def story(lab: Lab) -> None:
            for name in ("demo", "demo-2"):
                lab.create(self.cluster(name, 1))
            other = self.cluster("demo", 3)
            lab.create({**other, "metadata": {**other["metadata"], "namespace": "other"}})
            await lab.rest()
            gangs = {self.scheduler().gang_of(lab.pods(name)[0]) for name in ("demo", "demo-2")}
            assert len(gangs) == 2, f"two clusters share the gang {gangs}"
            for name in ("demo", "demo-2"):
                assert lab.ready(name), lab.describe()
                self.expect_size(lab, name, when="beside a namesake in another namespace")

        self.play(story)

    @has_opt_in
    def test_without_the_label_there_is_no_gang(self) -> None:
        """The pods run all the same."""

        async def story(lab: Lab) -> None:
            lab.create(build_raycluster("plain", groups=2))
            await lab.until_ready("plain")
            assert not self.gang_objects(lab), f"a gang nobody asked for: {sorted(self.gang_objects(lab))}"
            marked = [pod["metadata"]["name"] for pod in lab.pods("plain") if self.scheduler().gang_of(pod)]
            assert not marked, f"pods in a gang nobody asked for: {marked}"

        self.play(story)

    @says_size
    def test_long_names_stay_valid_and_apart(self) -> None:
        """Two clusters that differ in the last letter only, with names as long as the operator allows."""

        async def story(lab: Lab) -> None:
            pair = [f"{_LONG[:52]}{letter}" for letter in "ab"]
            for name in pair:
                lab.create(self.cluster(name, 1))
            await lab.rest()
            gangs = []
            for name in pair:
                assert lab.ready(name), lab.describe()
                (gang,) = {self.scheduler().gang_of(pod) for pod in lab.pods(name)}
                gangs.append(gang)
                assert _SUBDOMAIN.fullmatch(gang), f"{gang!r} can be no name of an object"
                assert len(gang) <= 253, f"{gang!r} can be no name of an object"
            assert len(set(gangs)) == 2, f"clusters {pair} share the gang {gangs[0]}"
            for pod in lab.pods():
                _check_labels(pod)

        self.play(story)

    # -- before the pods

    @has_group
    def test_no_pod_is_made_before_its_gang(self) -> None:
        """Also when the gang object can not be made at first."""

        async def story(lab: Lab) -> None:
            lab.world.always(self.no_pod_before_its_gang)
            lab.create(self.cluster(groups={"small": 2, "large": 1}))
            await lab.until_ready("demo")

        self.play(story, faults=Faults().add("error_before", verb="apply", times=2, **self.group_requests()))

    def no_pod_before_its_gang(self, server: SimServer, change: Change) -> None:
        """An invariant: the gang object that a new pod names is there, and large enough to mean it."""
        scheduler = self.scheduler()
        if scheduler.group is None or change.type != "ADDED" or change.stored.key.kind != POD:
            return
        pod = change.stored.copy()
        gang = scheduler.gang_of(pod)
        if not gang:
            return
        found = server.peek(scheduler.group, pod["metadata"]["namespace"], gang)
        assert found is not None, f"pod {pod['metadata']['name']} was made before {scheduler.group.kind} {gang}"
        assert scheduler.gang_size is None or scheduler.gang_size(found) > 0, (
            f"{gang} had no members when a pod was made"
        )

    # -- how large it is

    @says_size
    def test_the_size_is_head_and_workers(self) -> None:
        self._sized(3)

    @says_size
    def test_the_size_sums_up_groups(self) -> None:
        self._sized([build_group("small", 2, minReplicas=1), build_group("large", 3, minReplicas=2)])

    @says_size
    def test_the_size_counts_every_host(self) -> None:
        self._sized([build_group("tpu", 2, numOfHosts=4, minReplicas=1)])

    @says_size
    def test_the_size_keeps_to_minimum_and_maximum(self) -> None:
        self._sized([build_group("raised", 0, minReplicas=2), build_group("cut", 9, maxReplicas=3)])

    @says_size
    def test_the_size_of_a_cluster_without_workers_is_its_head(self) -> None:
        self._sized([])

    @says_size
    def test_the_size_counts_pods_and_not_containers(self) -> None:
        template = build_pod_template()
        template["spec"]["containers"].append({"name": "logs", "image": "logs:1"})
        template["spec"]["initContainers"] = [{"name": "fetch", "image": "fetch:1"}]
        self._sized([build_group("workers", 2, minReplicas=1, template=template)])

    @says_size
    def test_the_size_leaves_suspended_groups_out(self) -> None:
        self._sized([build_group("runs", 2, minReplicas=1), build_group("rests", 3, minReplicas=2, suspend=True)])

    @says_size
    def test_the_size_of_an_autoscaled_cluster(self) -> None:
        """What the autoscaler may take away again must not be waited for, where the scheduler says so."""
        self._sized([build_group("workers", 4, minReplicas=1)], enableInTreeAutoscaling=True)

    @says_size
    def test_a_group_without_replicas_counts_its_minimum(self) -> None:
        self._sized([build_group("workers", None, minReplicas=2)])

    @says_resources
    def test_the_resources_are_what_the_pods_request(self) -> None:
        """Sidecars of the user count: they are in the pods that must fit."""

        async def story(lab: Lab) -> None:
            template = build_pod_template(cpu="2", memory="3Gi")
            sidecar = {
                "name": "logs",
                "image": "logs:1",
                "resources": {"requests": {"cpu": "250m"}, "limits": {"memory": "64Mi"}},
            }
            template["spec"]["containers"].append(sidecar)
            group = build_group("workers", 2, minReplicas=2, template=template)
            lab.create(self.cluster("demo", [group]))
            await lab.until_ready("demo")
            told = self.scheduler().gang_resources
            assert told is not None
            found = told(self.speaker(lab, lab.pods("demo")))
            wanted = {name: quantity.add_all(["1", "2", "2", "250m", "250m"]) for name in ("cpu",)}
            wanted["memory"] = quantity.add_all(["1Gi", "3Gi", "3Gi", "64Mi", "64Mi"])
            same = {name: quantity.canonical(found.get(name, "0")) for name in wanted}
            assert same == wanted, f"the gang says {same}, and its pods request {wanted}"

        self.play(story)


def _check_labels(pod: Manifest) -> None:
    for label, value in (pod["metadata"].get("labels") or {}).items():
        valid = len(value) <= 63 and _LABEL_VALUE.fullmatch(value)
        assert valid, f"label {label} of pod {pod['metadata']['name']} in {NAMESPACE} can not be {value!r}"
