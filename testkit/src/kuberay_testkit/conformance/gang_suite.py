"""What cases about gangs share: objects that ask for a gang, the size it should have, and the size it says it has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.plugins.loader import Plugin

from kuberay_testkit.builders import build_raycluster, build_rayjob, build_rayservice
from kuberay_testkit.conformance.pod_cases import PodCases
from kuberay_testkit.conformance.subjects import SchedulerUnderTest
from kuberay_testkit.conformance.suite import applies
from kuberay_testkit.lab import NAMESPACE, Lab, Manifest
from kuberay_testkit.plugins import plugin_from
from kuberay_testkit.sim.gangs import GangRules

says_size = applies(lambda scheduler: scheduler.gang_size is not None)
has_group = applies(lambda scheduler: scheduler.group is not None)
has_sized_group = applies(lambda scheduler: scheduler.group is not None and scheduler.gang_size is not None)
has_opt_in = applies(lambda scheduler: bool(scheduler.opt_in_labels))
says_resources = applies(lambda scheduler: scheduler.gang_resources is not None)

AUTOSCALER = "autoscaler-v2"


def stands_in_for_the_autoscaler() -> Plugin:
    """Enough of the autoscaler's plugin for the core to make a cluster with ``enableInTreeAutoscaling``."""
    return plugin_from(AUTOSCALER, validate=lambda ctx: [])


class GangSuite(PodCases):
    """Objects and sizes."""

    def scheduler(self) -> SchedulerUnderTest:
        """The factory that an author writes."""
        raise NotImplementedError

    def subject(self) -> SchedulerUnderTest:
        return self.scheduler()

    def gangs(self) -> GangRules:
        scheduler = self.scheduler()
        return GangRules(
            scheduler_name=scheduler.scheduler_name,
            group=scheduler.group,
            gang_of=scheduler.gang_of,
            gang_size=scheduler.gang_size,
            reserves=scheduler.reserves,
        )

    def group_requests(self) -> dict[str, Any]:
        """For `Faults.add`: requests about gang objects, or about pods where there are none."""
        group = self.scheduler().group
        return {"resource": POD.plural} if group is None else {"resource": group.plural, "group": group.group}

    # -- objects that ask for a gang

    def cluster(
        self, name: str = "demo", groups: Any = 2, *, labels: Mapping[str, str] | None = None, **spec: Any
    ) -> Manifest:
        return build_raycluster(
            name, groups=groups, labels={**self.scheduler().opt_in_labels, **(labels or {})}, **spec
        )

    def job(self, name: str = "train", groups: Any = 2, **spec: Any) -> Manifest:
        return build_rayjob(name, groups=groups, labels=self.scheduler().opt_in_labels, **spec)

    def service(self, name: str = "serve", groups: Any = 2, **spec: Any) -> Manifest:
        return build_rayservice(name, groups=groups, labels=self.scheduler().opt_in_labels, **spec)

    # -- sizes

    def expected_size(self, cluster_spec: Mapping[str, Any], *, submitter: bool = False) -> int:
        """Head and workers by the subject's own rule; with *submitter* its pod, where the subject counts it."""
        scheduler = self.scheduler()
        autoscaled = cluster_spec.get("enableInTreeAutoscaling") is True
        rule = scheduler.autoscaled_sizes if autoscaled else scheduler.sizes
        size = 1 + int(submitter and scheduler.counts_submitter)
        for group in cluster_spec.get("workerGroupSpecs") or ():
            if group.get("suspend"):
                continue
            least = int(group.get("minReplicas", 0))
            wanted = max(least, min(int(group.get("replicas", least)), int(group.get("maxReplicas", 2**31 - 1))))
            size += int(group.get("numOfHosts", 1)) * (least if rule == "minimum" else wanted)
        return size

    def speaker(self, lab: Lab, pods: Sequence[Manifest]) -> Manifest:
        """What says the size of the gang of *pods*: the gang object that they name, or the pod that was made last."""
        scheduler = self.scheduler()
        assert pods, f"there are no pods\n{lab.describe()}"
        newest = max(pods, key=lambda pod: (pod["metadata"]["creationTimestamp"], pod["metadata"]["name"]))
        if scheduler.group is None:
            return newest
        gang = scheduler.gang_of(newest)
        assert gang, f"pod {newest['metadata']['name']} names no gang"
        return lab.get(scheduler.group, gang, namespace=newest["metadata"]["namespace"])

    def size(self, lab: Lab, cluster: str) -> int:
        """What the gang of a RayCluster says now."""
        size = self.scheduler().gang_size
        assert size is not None
        return size(self.speaker(lab, lab.pods(cluster)))

    def expect_size(self, lab: Lab, cluster: str, *, submitter: bool = False, when: str = "") -> None:
        """The gang of a RayCluster has the size that its spec asks for."""
        wanted = self.expected_size(lab.get(RAYCLUSTER, cluster)["spec"], submitter=submitter)
        found = self.size(lab, cluster)
        where = f" {when}" if when else ""
        assert found == wanted, (
            f"the gang of RayCluster {cluster} says {found} pods{where}, and its spec asks for {wanted}"
        )

    def gang_objects(self, lab: Lab) -> dict[str, Manifest]:
        """By name."""
        group = self.scheduler().group
        return {} if group is None else {each["metadata"]["name"]: each for each in lab.all(group, namespace=NAMESPACE)}

    def expect_no_more_than_lives(self, lab: Lab, when: str) -> None:
        """No gang object claims places that no pod uses: others would wait for them for ever."""
        scheduler = self.scheduler()
        if scheduler.gang_size is None:
            return
        for name, gang in self.gang_objects(lab).items():
            members = len(self.gangs().members(lab.server, NAMESPACE, name))
            size = scheduler.gang_size(gang)
            assert size <= max(members, scheduler.idle_size), (
                f"{when}: {name} says {size} pods, and {members} are there"
            )

    async def everything(self, lab: Lab) -> None:
        lab.create(self.cluster("tour", {"small": 2, "large": 1}))
        lab.create(self.job("tour-job", 1, shutdownAfterJobFinishes=True))
        lab.create(self.job("tour-kept", 1))
        await lab.rest()
        lab.edit_group("tour", "small", replicas=3)
        await lab.rest()
        lab.edit(RAYCLUSTER, "tour", suspend=True)
        await lab.rest()
        lab.edit(RAYCLUSTER, "tour", suspend=False)
        await lab.rest()
