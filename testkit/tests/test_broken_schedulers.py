"""Batch schedulers that are broken in one place each: the conformance suite catches every one, by the case that should."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from broken_plugins import MakesItBesidePods, MakesOneKind, Manifest, assert_caught
from examples import LONG
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, Kind
from kuberay.hooks import FinishContext, OwnerContext, PodContext, PolicyRule, Wait, hookimpl
from kuberay.hooks.gang import NOTHING, gang_size
from kuberay_testkit.conformance import GangSchedulerConformance, SchedulerUnderTest

GROUP = Kind("batch.example.com", "v1", "gangs", "Gang")
ASKS = "example.com/gang"
IN = "example.com/in-gang"


class Sound(MakesOneKind):
    """A batch scheduler that is right; each broken one differs from it in one place."""

    KIND = GROUP

    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        if ctx.kind != RAYCLUSTER or ASKS not in ctx.labels:
            return None
        return [self.gang(ctx, 0 if ctx.spec.get("suspend") else self.size(ctx))]

    @hookimpl
    def finish(self, ctx: FinishContext) -> Sequence[Manifest] | None:
        if ctx.owner.kind != RAYCLUSTER or ASKS not in ctx.owner.labels:
            return None
        return [self.gang(ctx.owner, NOTHING.members)]

    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest:
        pod["spec"]["schedulerName"] = "gangs"
        if ctx.node_type != "submitter" and ASKS in ctx.owner.labels:
            pod["metadata"].setdefault("labels", {})[IN] = self.name(ctx.owner)
        return pod

    def size(self, ctx: OwnerContext) -> int:
        autoscaled = ctx.spec.get("enableInTreeAutoscaling") is True
        return gang_size(ctx.groups, at_minimum=autoscaled).members

    def name(self, ctx: OwnerContext) -> str:
        return ctx.name

    def gang(self, ctx: OwnerContext, size: int) -> Manifest:
        return {
            "apiVersion": GROUP.api_version,
            "kind": GROUP.kind,
            "metadata": {"name": self.name(ctx), "namespace": ctx.namespace},
            "spec": {"size": size},
        }


class Suite(GangSchedulerConformance):
    """Of the sound one; subclasses name another class."""

    broken: ClassVar[type[Sound]] = Sound

    def scheduler(self) -> SchedulerUnderTest:
        return SchedulerUnderTest(
            plugin=self.broken(),
            name="gangs",
            scheduler_name="gangs",
            group=GROUP,
            kinds=[GROUP],
            gang_of=lambda pod: pod["metadata"].get("labels", {}).get(IN, ""),
            gang_size=lambda group: group["spec"]["size"],
            opt_in_labels={ASKS: "yes"},
            job_gangs="cluster",
        )


# Broken in one place each


class AnotherAnswerEachTime(Sound):
    def __init__(self) -> None:
        self.asked = 0

    def gang(self, ctx: OwnerContext, size: int) -> Manifest:
        self.asked += 1
        gang = super().gang(ctx, size)
        gang["metadata"]["annotations"] = {"example.com/answer": str(self.asked)}
        return gang


class CountsPassesInNames(Sound):
    """A gang for each pass, of which all but the last are never used."""

    def __init__(self) -> None:
        self.passes = 0

    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        self.passes += 1
        found = super().pre_create_pods(ctx)
        return [{**each, "metadata": {**each["metadata"], "name": f"{ctx.name}-{self.passes}"}} for each in found or ()]


class OrderOfASet(Sound):
    def gang(self, ctx: OwnerContext, size: int) -> Manifest:
        gang = super().gang(ctx, size)
        gang["spec"]["queues"] = list({f"queue-{number}" for number in range(20)})
        return gang


class PodsBeforeTheGang(MakesItBesidePods, Sound):
    pass


class TheFirstSizeForEver(Sound):
    def __init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def size(self, ctx: OwnerContext) -> int:
        return self.sizes.setdefault(ctx.name, super().size(ctx))


class IgnoresHosts(Sound):
    def size(self, ctx: OwnerContext) -> int:
        return 1 + sum(int(group.get("replicas", 0)) for group in ctx.spec.get("workerGroupSpecs") or ())


class CountsContainers(Sound):
    def size(self, ctx: OwnerContext) -> int:
        groups = [ctx.spec["headGroupSpec"], *(ctx.spec.get("workerGroupSpecs") or ())]
        return sum(int(g.get("replicas", 1)) * len(g["template"]["spec"]["containers"]) for g in groups)


class WaitsForAllTheAutoscalerMayTakeAway(Sound):
    def size(self, ctx: OwnerContext) -> int:
        return gang_size(ctx.groups).members


class CountsTheSubmitter(Sound):
    """The cluster's pods wait for a submitter that waits for the cluster."""

    def size(self, ctx: OwnerContext) -> int:
        return super().size(ctx) + int(ctx.labels.get("ray.io/originated-from-crd") == "RayJob")


class ASubmitterInNoQueue(Sound):
    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest:
        return pod if ctx.node_type == "submitter" else super().mutate_pod(ctx, pod)


class KeepsPlacesWhenSuspended(Sound):
    @hookimpl
    def finish(self, ctx: FinishContext) -> Sequence[Manifest] | None:
        return None


class GangsOfJobsThatNeverShrink(Sound):
    """A gang for each RayJob too, which nothing takes back."""

    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        if ctx.kind == RAYJOB and ctx.cluster_spec is not None:
            return [self.gang(ctx, self.size(ctx))]
        return super().pre_create_pods(ctx)


class OrphanGangs(Sound):
    def gang(self, ctx: OwnerContext, size: int) -> Manifest:
        gang = super().gang(ctx, size)
        gang["metadata"]["ownerReferences"] = []
        return gang


class OneGangForBothClustersOfAService(Sound):
    def name(self, ctx: OwnerContext) -> str:
        return ctx.labels.get("ray.io/originated-from-cr-name", ctx.name)


class CutsNames(Sound):
    def name(self, ctx: OwnerContext) -> str:
        return ctx.name[:40]


class GangsForEverybody(Sound):
    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        return [self.gang(ctx, self.size(ctx))] if ctx.kind == RAYCLUSTER else None


class ForgetsWorkers(Sound):
    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest | None:  # type: ignore[override]
        return None if ctx.node_type == "worker" else super().mutate_pod(ctx, pod)


class RebuildsPods(Sound):
    """From the fields it knows."""

    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest:
        pod = super().mutate_pod(ctx, pod)
        known = (
            "containers",
            "initContainers",
            "volumes",
            "schedulerName",
            "restartPolicy",
            "nodeSelector",
            "tolerations",
        )
        return {**pod, "spec": {key: value for key, value in pod["spec"].items() if key in known}}


class ChangesItsInput(Sound):
    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        ctx.spec.setdefault("suspend", False)
        return super().pre_create_pods(ctx)


class UndeclaredPermissions(Sound):
    @hookimpl
    def rbac_rules(self) -> Sequence[PolicyRule]:
        return [PolicyRule([GROUP.group], [GROUP.plural], ["create", "get", "list", "watch"])]


class NothingToWatchBy(Sound):
    @hookimpl
    def rbac_rules(self) -> Sequence[PolicyRule]:
        return [PolicyRule([GROUP.group], [GROUP.plural], ["create", "get", "patch"])]


class BlanketPermissions(Sound):
    @hookimpl
    def rbac_rules(self) -> Sequence[PolicyRule]:
        return [PolicyRule([GROUP.group], ["*"], ["*"])]


class NeverForgetsAnAbsentCrd(Sound):
    def __init__(self) -> None:
        self.absent = False

    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Any:
        self.absent = self.absent or not ctx.serves(GROUP)
        return [Wait(f"{GROUP} is not served")] if self.absent else super().pre_create_pods(ctx)


class StartsWithoutTheCrd(Sound):
    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        return super().pre_create_pods(ctx) if ctx.serves(GROUP) else None

    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest:
        return super().mutate_pod(ctx, pod) if ctx.owner.serves(GROUP) else pod


class Asynchronous(Sound):
    @hookimpl
    async def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest:  # type: ignore[override]
        return Sound.mutate_pod(self, ctx, pod)


class ReadsAFile(Sound):
    def size(self, ctx: OwnerContext) -> int:
        with open("/proc/meminfo") as file:
            return super().size(ctx) + 0 * len(file.readline())


class Sleeps(Sound):
    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest:
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.03:
            pass
        return super().mutate_pod(ctx, pod)


class SleepsForReal(Sound):
    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest:
        time.sleep(1)
        return super().mutate_pod(ctx, pod)


class TellsTheTime(Sound):
    def gang(self, ctx: OwnerContext, size: int) -> Manifest:
        gang = super().gang(ctx, size)
        gang["metadata"]["annotations"] = {"example.com/seen": ctx.now.isoformat()}
        return gang


class AnotherGangForEachSize(Sound):
    def name(self, ctx: OwnerContext) -> str:
        return f"{ctx.name}-{self.size(ctx)}"


class RaisesWithoutALabel(Sound):
    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest:
        pod["metadata"].setdefault("labels", {})["team"] = ctx.owner.labels["example.com/team"]
        return super().mutate_pod(ctx, pod)


class NoJson(Sound):
    def gang(self, ctx: OwnerContext, size: int) -> Manifest:
        gang = super().gang(ctx, size)
        gang["spec"]["queues"] = frozenset({"only"})
        return gang


BROKEN: list[tuple[type[Sound], str, str]] = [
    (AnotherAnswerEachTime, "test_the_same_question_gets_the_same_answer", "asked the same"),
    (CountsPassesInNames, "test_the_same_question_gets_the_same_answer", "asked the same"),
    (CountsPassesInNames, "test_conflicts_are_survived", ""),
    (OrderOfASet, "test_another_process_gives_the_same_bytes", "in another process the answer was another one"),
    (PodsBeforeTheGang, "test_no_pod_is_made_before_its_gang", "was made before Gang"),
    (PodsBeforeTheGang, "test_everything_at_once_is_survived", "was made before Gang"),
    (TheFirstSizeForEver, "test_it_grows_with_replicas", "after scaling up"),
    (TheFirstSizeForEver, "test_it_shrinks_with_replicas", "after scaling down"),
    (TheFirstSizeForEver, "test_it_follows_groups_that_come_and_go", "with a second group"),
    (IgnoresHosts, "test_the_size_counts_every_host", "says 3 pods, and its spec asks for 9"),
    (IgnoresHosts, "test_the_size_keeps_to_minimum_and_maximum", ""),
    (CountsContainers, "test_the_size_counts_pods_and_not_containers", ""),
    (WaitsForAllTheAutoscalerMayTakeAway, "test_the_size_of_an_autoscaled_cluster", "its spec asks for 2"),
    (CountsTheSubmitter, "test_a_job_with_a_submitter_is_no_deadlock", "needs 4 pods at once and 3 are there"),
    (ASubmitterInNoQueue, "test_a_job_with_a_submitter_is_no_deadlock", "with another scheduler"),
    (
        KeepsPlacesWhenSuspended,
        "test_a_suspended_cluster_claims_nothing",
        "suspended: demo says 3 pods, and 0 are there",
    ),
    (GangsOfJobsThatNeverShrink, "test_a_job_has_one_gang_object", "gang objects of one job"),
    (GangsOfJobsThatNeverShrink, "test_a_job_that_is_done_gives_its_places_back", "after the jobs"),
    (OrphanGangs, "test_deleting_the_cluster_leaves_nothing", "nobody owns"),
    (OneGangForBothClustersOfAService, "test_an_upgrade_has_a_gang_for_each_cluster", ""),
    (CutsNames, "test_long_names_stay_valid_and_apart", ""),
    (GangsForEverybody, "test_without_the_label_there_is_no_gang", "a gang nobody asked for"),
    (ForgetsWorkers, "test_every_pod_names_the_scheduler", "another schedulerName"),
    (RebuildsPods, "test_nothing_is_taken_away_from_a_pod", "spec.ofTomorrow"),
    (ChangesItsInput, "test_what_it_is_given_stays_as_it_was", "changed the context"),
    (UndeclaredPermissions, "test_every_request_is_inside_the_declared_permissions", "patch batch.example.com gangs"),
    (NothingToWatchBy, "test_it_may_do_what_its_watches_need", "watch"),
    (BlanketPermissions, "test_it_asks_for_no_blanket_permissions", "asks for *"),
    (NeverForgetsAnAbsentCrd, "test_an_absent_crd_is_waited_for", "state ready of RayCluster demo"),
    (StartsWithoutTheCrd, "test_an_absent_crd_is_waited_for", "pods without their gang"),
    (Asynchronous, "test_the_operator_accepts_it", "is async"),
    (ReadsAFile, "test_hooks_touch_no_file_socket_or_process", "/proc/meminfo"),
    (Sleeps, "test_hooks_are_quick", "mutate_pod"),
    (SleepsForReal, "test_hooks_touch_no_file_socket_or_process", "time.sleep"),
    (TellsTheTime, "test_nothing_is_written_when_nothing_changes", "apply gangs.batch.example.com"),
    (AnotherGangForEachSize, "test_fields_of_others_on_the_gang_object_stay", ""),
    (RaisesWithoutALabel, "test_no_hook_raises", "example.com/team"),
    (RaisesWithoutALabel, "test_a_plain_object_is_enough", ""),
    (NoJson, "test_answers_are_plain_json", "frozenset"),
]

LONG_ONLY = {CountsPassesInNames, TellsTheTime}
"""They make the operator write without end, which takes long to be seen; one of the kind is enough by default."""
BROKEN = [each for each in BROKEN if LONG or each[0] not in LONG_ONLY]

SUITES = {broken: type(f"Suite{broken.__name__}", (Suite,), {"broken": broken}) for broken, _, _ in BROKEN}
vars().update({suite.__name__: suite for suite in SUITES.values()})


@pytest.mark.parametrize(("broken", "case", "words"), BROKEN, ids=[f"{b.__name__}-{c}" for b, c, _ in BROKEN])
def test_it_is_caught(broken: type[Sound], case: str, words: str) -> None:
    assert_caught(getattr(SUITES[broken](), case), words, Exception)


@pytest.mark.parametrize("case", sorted({case for _, case, _ in BROKEN}))
def test_the_sound_one_passes(case: str) -> None:
    """So what is caught above is what is broken, and nothing else."""
    getattr(Suite(), case)()
