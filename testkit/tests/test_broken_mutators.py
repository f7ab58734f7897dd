"""Plugins that change pods and are broken in one place each: the conformance suite catches every one, by the case that should."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pytest
from broken_plugins import MakesItBesidePods, MakesOneKind, Manifest, assert_caught
from kuberay.api.kinds import RAYCLUSTER, Kind
from kuberay.hooks import OwnerContext, PodContext, hookimpl
from kuberay_testkit.conformance import MutatorUnderTest, PodMutatorConformance

RIGHT = Kind("guard.example.com", "v1", "passes", "Pass")
ASKS = "example.com/guarded"


class Sound(MakesOneKind):
    """Puts a guard into pods of clusters that ask for it, and makes an object for it before them."""

    KIND = RIGHT

    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        if ctx.kind != RAYCLUSTER or not self.asked(ctx):
            return None
        metadata = {"name": ctx.name, "namespace": ctx.namespace}
        return [{"apiVersion": RIGHT.api_version, "kind": RIGHT.kind, "metadata": metadata, "spec": {"for": ctx.name}}]

    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest | None:
        if ctx.node_type == "submitter" or not self.asked(ctx.owner):
            return None
        self.guard(ctx, pod["spec"])
        return pod

    def asked(self, owner: OwnerContext) -> bool:
        return ASKS in owner.annotations

    def guard(self, ctx: PodContext, spec: Manifest) -> None:
        spec["containers"].append({"name": "guard", "image": "guard:1"})
        spec["containers"][0].setdefault("env", []).append({"name": "GUARDED", "value": "1"})


class Suite(PodMutatorConformance):
    broken: ClassVar[type[Sound]] = Sound

    def mutator(self) -> MutatorUnderTest:
        return MutatorUnderTest(
            plugin=self.broken(),
            name="guard",
            kinds=[RIGHT],
            asks_annotations={ASKS: "yes"},
            changed=lambda pod: any(each["name"] == "guard" for each in pod["spec"]["containers"]),
            before_pods=[RIGHT],
        )


class FirstInThePod(Sound):
    """Ray's container is found by its place."""

    def guard(self, ctx: PodContext, spec: Manifest) -> None:
        spec["containers"].insert(0, {"name": "guard", "image": "guard:1"})


class TwiceTheSameVariable(Sound):
    def guard(self, ctx: PodContext, spec: Manifest) -> None:
        super().guard(ctx, spec)
        super().guard(ctx, {**spec, "containers": [spec["containers"][0]]})


class GuardsEverybody(Sound):
    def asked(self, owner: OwnerContext) -> bool:
        return True


class ReplacesVariables(Sound):
    def guard(self, ctx: PodContext, spec: Manifest) -> None:
        super().guard(ctx, spec)
        spec["containers"][0]["env"] = [{"name": "GUARDED", "value": "1"}]


class OnlyTheFirstPods(Sound):
    def __init__(self) -> None:
        self.seen = 0

    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest | None:
        self.seen += 1
        return super().mutate_pod(ctx, pod) if self.seen <= 2 else None


class NumbersItsPods(OnlyTheFirstPods):
    @hookimpl
    def mutate_pod(self, ctx: PodContext, pod: Manifest) -> Manifest | None:
        self.seen += 1
        found = Sound.mutate_pod(self, ctx, pod)
        if found is not None:
            found["spec"]["containers"][1]["env"] = [{"name": "NUMBER", "value": str(self.seen)}]
        return found


class TooLate(MakesItBesidePods, Sound):
    pass


class OneForAll(Sound):
    """Two clusters fight over one object."""

    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        found = super().pre_create_pods(ctx)
        return [{**each, "metadata": {**each["metadata"], "name": "guard"}} for each in found or ()]


class NeedsWorkers(Sound):
    @hookimpl
    def pre_create_pods(self, ctx: OwnerContext) -> Sequence[Manifest] | None:
        return super().pre_create_pods(ctx) if ctx.spec["workerGroupSpecs"] else None


BROKEN: list[tuple[type[Sound], str, str]] = [
    (FirstInThePod, "test_rays_container_stays_the_first", "the first container of the head pod is guard"),
    (TwiceTheSameVariable, "test_names_in_a_pod_are_unique", "twice in the head pod"),
    (GuardsEverybody, "test_who_does_not_ask_gets_nothing", "nobody asked for"),
    (ReplacesVariables, "test_nothing_is_taken_away_from_a_pod", "env[MINE]"),
    (OnlyTheFirstPods, "test_pods_carry_its_change", "pods without the plugin's change"),
    (OnlyTheFirstPods, "test_pods_that_come_later_carry_its_change", "lacks the plugin's change"),
    (NumbersItsPods, "test_pods_of_a_group_are_alike", "two workers differ"),
    (TooLate, "test_what_pods_need_is_there_before_them", "was made before any Pass"),
    (OneForAll, "test_clusters_have_objects_of_their_own", ""),
    (NeedsWorkers, "test_a_plain_object_is_enough", "KeyError"),
]

SUITES = {broken: type(f"Suite{broken.__name__}", (Suite,), {"broken": broken}) for broken, _, _ in BROKEN}


@pytest.mark.parametrize(("broken", "case", "words"), BROKEN, ids=[f"{b.__name__}-{c}" for b, c, _ in BROKEN])
def test_it_is_caught(broken: type[Sound], case: str, words: str) -> None:
    assert_caught(getattr(SUITES[broken](), case), words)


@pytest.mark.parametrize("case", sorted({case for _, case, _ in BROKEN}))
def test_the_sound_one_passes(case: str) -> None:
    """So what is caught above is what is broken, and nothing else."""
    getattr(Suite(), case)()
