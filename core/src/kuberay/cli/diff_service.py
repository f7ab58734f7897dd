"""What an edit of a RayService would do: the operator's own plan is asked with and without each changed field.

There are no rules of its own here about what needs another RayCluster; only why something does nothing is put in words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.names import MANAGED_BY
from kuberay.api.problems import Problem
from kuberay.cli.diff_job_world import Rules
from kuberay.cli.diff_service_play import Played
from kuberay.cli.diff_service_words import Strategy, held, nothing, strategy_of
from kuberay.cli.edited import edited, object_changes
from kuberay.cli.service_world import SIDES, ServiceSituation, cluster_of
from kuberay.operator.foresight import Happening
from kuberay.plan.edit import edit_effects
from kuberay.plan.edit.changes import FieldChange
from kuberay.plan.edit.model import EditEffects, Effect, GroupEffect

Manifest = dict[str, Any]
_CONFIG = "spec.rayClusterConfig."
_MOST_GONE = 3
SUSPENDED = "the RayService is suspended"


class ServiceEffect(StrEnum):
    """What one changed field does."""

    REFUSED = "refused"
    NEW_CLUSTER = "new-cluster"
    """Another RayCluster is made."""
    SAME_CLUSTER = "same-cluster"
    """Pods of the RayCluster that serves are replaced."""
    SUSPENDS = "suspends"
    IN_PLACE = "in-place"
    """Counts at once, and no pod that runs is replaced."""
    LATER = "later"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ServiceChange:
    """One changed field and what it does."""

    change: FieldChange
    effect: ServiceEffect
    sentence: str


@dataclass(slots=True)
class ServiceEffects:
    """Everything about one edit of a RayService."""

    exists: bool = True
    strategy: str = ""
    """By which upgrade strategy the new spec is rolled out."""
    serving: str = ""
    """The RayCluster that serves."""
    new_clusters: list[str] = field(default_factory=list)
    """RayClusters that are made at once."""
    groups: list[GroupEffect] = field(default_factory=list)
    """What becomes of the pods of the RayCluster that serves, where it is changed."""
    restarted_groups: list[str] = field(default_factory=list)
    at_once: list[str] = field(default_factory=list)
    """What the operator does in its first passes, and would not without the edit."""
    then: list[str] = field(default_factory=list)
    """What follows if all goes well."""
    changes: list[ServiceChange] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


_PODS = {
    Effect.RESTARTS_CLUSTER: ServiceEffect.SAME_CLUSTER,
    Effect.REPLACES_PODS: ServiceEffect.SAME_CLUSTER,
    Effect.RESIZES_PODS: ServiceEffect.SAME_CLUSTER,
    Effect.HELD_BACK: ServiceEffect.LATER,
    Effect.SUSPENDS: ServiceEffect.SUSPENDS,
}
"""What it means for a RayService that an edit does so to its RayCluster; all else is in place."""


def service_effects(
    live: ServiceSituation | None, after: Manifest, rules: Rules, problems: Sequence[Problem], *, from_file: bool
) -> ServiceEffects:
    """What happens when *live* becomes *after*, both as the API server stores them."""
    effects = ServiceEffects(exists=live is not None, problems=list(problems))
    if live is None:
        return effects
    before = live.service
    changes = object_changes(before, after)
    effects.serving = live.active
    if problems:
        sentence = "the edit is refused: nothing is taken over"
        effects.changes = [ServiceChange(change, ServiceEffect.REFUSED, sentence) for change in changes]
        return effects
    manager = after["spec"].get("managedBy")
    if manager not in (None, "", MANAGED_BY):
        effects.notes.append(f"spec.managedBy is {manager}: this operator leaves the RayService alone.")
        sentence = "left to who manages it"
        effects.changes = [ServiceChange(change, ServiceEffect.NOTHING, sentence) for change in changes]
        return effects
    if not changes:
        return effects
    if from_file:
        effects.notes.append("The file tells nothing of RayClusters: the service is taken to run as the file says.")
    pending = cluster_of(live.service.get("status") or {}, SIDES[1])
    if pending and live.active:
        effects.notes.append(f"An upgrade is under way already: RayCluster {pending} is being prepared.")
    answers = _Answers(live, changes, rules)
    _tell_whole(effects, answers)
    effects.changes = [answers.of(change) for change in changes]
    return effects


def _tell_whole(effects: ServiceEffects, answers: _Answers) -> None:
    base, whole = answers.played([]), answers.played(answers.changes)
    effects.strategy = answers.strategy.name
    effects.new_clusters = [name for name in whole.made if name not in base.made]
    effects.at_once = [what for what in whole.at_once if what not in base.at_once]
    effects.notes += [f"The operator will warn: {note}" for note in whole.warnings if note not in base.warnings]
    if (pods := _pods(base, whole, answers.rules)) is not None:
        effects.groups, effects.restarted_groups = pods.groups, pods.restarted_groups
        effects.notes += pods.notes
    known = {each.what: each.at for each in base.later}
    effects.then = [
        f"{answers.span(each) or 'as soon as that is ready'}: {each.what}"
        for each in whole.later
        if known.get(each.what) != each.at and each.what not in effects.at_once
    ]
    if effects.new_clusters and effects.serving:
        effects.notes.append(_needs(whole.made[effects.new_clusters[0]], answers.strategy))


@dataclass(slots=True)
class _Answers:
    """The futures of one edit. What one field does is what would be different without it, or with it alone."""

    live: ServiceSituation
    changes: Sequence[FieldChange]
    rules: Rules
    _known: dict[tuple[str, ...], Played] = field(default_factory=dict)
    _strategy: Strategy | None = None

    @property
    def strategy(self) -> Strategy:
        if self._strategy is None:
            self._strategy = strategy_of(edited(self.live.service, self.changes, self.rules.now), self.rules)
        return self._strategy

    def played(self, changes: Sequence[FieldChange]) -> Played:
        key = tuple(change.path for change in changes)
        if key not in self._known:
            self._known[key] = Played(self.live, changes, self.rules)
        return self._known[key]

    def of(self, change: FieldChange) -> ServiceChange:
        """The answer for one field."""
        others = [other for other in self.changes if other is not change]
        base, whole = self.played([]), self.played(self.changes)
        alone, without = self.played([change]), self.played(others)
        new = [name for name in whole.made if name not in base.made]
        if new and (found := self._with_new_cluster(new[0], alone, without, base, whole)):
            return ServiceChange(change, ServiceEffect.NEW_CLUSTER, found)
        for old, now in ((without, whole), (base, alone)):
            # What it would do alone counts where it is done, though for another field as well.
            found_effect = self._at_once(change, old, now, whole)
            if found_effect is not None:
                return ServiceChange(change, *found_effect)
            later = self._later(old.later, now.later, whole.later)
            if later:
                return ServiceChange(change, ServiceEffect.LATER, "; ".join(later))
        counts_later, sentence = nothing(change, whole, self.live, self.strategy)
        return ServiceChange(change, ServiceEffect.LATER if counts_later else ServiceEffect.NOTHING, sentence)

    def _with_new_cluster(self, new: str, alone: Played, without: Played, base: Played, whole: Played) -> str:
        """What is said of a field that has another RayCluster made, or that counts for it alone; empty for others."""
        needed = new not in without.made or any(name not in base.made for name in alone.made)
        told = [what for what in whole.at_once if what not in without.at_once and new not in what]
        if needed:
            return "; ".join([_another(new, self.live.active, self.strategy), *(f"at once: {what}" for what in told)])
        if told or (whole.made[new], whole.given.get(new)) == (without.made[new], without.given.get(new)):
            return ""
        stays = f"; RayCluster {self.live.active} stays as it is" if self.live.active else ""
        return f"with RayCluster {new}, which is made anyway{stays}"

    def _at_once(
        self, change: FieldChange, old: Played, now: Played, whole: Played
    ) -> tuple[ServiceEffect, str] | None:
        fresh = [what for what in now.at_once if what not in old.at_once and what in whole.at_once]
        gone = [what for what in old.at_once if what not in now.at_once and what not in whole.at_once]
        if not fresh and not gone:
            return None
        if not fresh and now is whole and (why := held(whole)):
            return ServiceEffect.LATER, f"{why}. That keeps this from happening: {'; '.join(gone)}"
        if any(what.startswith(SUSPENDED) for what in fresh):
            return ServiceEffect.SUSPENDS, f"at once: {'; '.join(fresh)}"
        made = [name for name in now.made if name not in old.made and name in whole.made]
        if made:
            return ServiceEffect.NEW_CLUSTER, _another(made[0], self.live.active, self.strategy)
        if change.path.startswith(_CONFIG) and (told := self._in_its_cluster(change)):
            return told
        words = [*(f"at once: {what}" for what in fresh), *(f"no more: {what}" for what in gone)]
        return ServiceEffect.IN_PLACE, "; ".join(words)

    def _in_its_cluster(self, change: FieldChange) -> tuple[ServiceEffect, str] | None:
        """What it does to the RayCluster that serves; None when that has no such field, or is not changed."""
        whole = self.played(self.changes)
        pods = _pods(self.played([]), whole, self.rules)
        path = f"spec.{change.path.removeprefix(_CONFIG)}"
        found = next((each for each in pods.changes if each.change.path == path), None) if pods is not None else None
        if found is None or whole.serving is None:
            return None
        effect = _PODS.get(found.effect, ServiceEffect.IN_PLACE)
        away = "; the service is away until they are back" if found.effect == Effect.RESTARTS_CLUSTER else ""
        how = "no other one is made; " if effect == ServiceEffect.SAME_CLUSTER else ""
        return effect, f"in RayCluster {whole.serving['metadata']['name']}: {how}{found.sentence}{away}"

    def _later(self, old: Sequence[Happening], now: Sequence[Happening], whole: Sequence[Happening]) -> list[str]:
        before, after = ({each.what: each for each in some} for some in (old, now))
        told = []
        for what, each in after.items():
            was = before.get(what)
            if each not in whole:
                continue
            if was is None or was.at != each.at:
                instead = f", not {self.span(was) or 'at once'}" if was is not None else ""
                told.append(f"{what} {self.span(each) or 'when it is ready'}{instead}")
        if told:
            return told
        gone = [what for what in before if what not in after and all(each.what != what for each in whole)]
        return [f"keeps this from happening: {'; '.join(gone[:_MOST_GONE])}"] if gone else []

    def span(self, happening: Happening) -> str:
        """How long it takes from when all is ready; empty for at once."""
        seconds = int((happening.at - self.rules.now).total_seconds())
        return f"{seconds} s later" if seconds > 0 else ""


def _pods(old: Played, now: Played, rules: Rules) -> EditEffects | None:
    """What becomes of the pods of the RayCluster that serves; None when it is not changed."""
    if old.serving is None or now.serving is None or old.serving["metadata"]["name"] != now.serving["metadata"]["name"]:
        return None
    if old.serving["spec"] == now.serving["spec"]:
        return None
    return edit_effects(old.serving, now.serving, random_pod_delete=rules.config.random_pod_delete)


def _another(name: str, serving: str, strategy: Strategy) -> str:
    if not serving:
        return f"another RayCluster is made, {name}: nothing serves yet"
    how = "requests move to it step by step" if strategy.step_by_step else "twice the resources until it has taken over"
    return f"another RayCluster is made, {name} ({strategy.named}): {how}; RayCluster {serving} serves meanwhile"


def _needs(spec: Mapping[str, Any], strategy: Strategy) -> str:
    """What an upgrade needs besides what is there."""
    try:
        pods = 1 + sum(group.desired_pods() for group in RayClusterSpec.parse(spec).worker_group_specs)
    except ValidationError:
        return "Both RayClusters need their resources meanwhile."
    if strategy.step_by_step:
        surge = "" if strategy.surge is None else f", at most {strategy.surge} % of its replicas at a time"
        return f"Both RayClusters need their resources meanwhile: another head, and workers as its share grows{surge}."
    return (
        f"Both RayClusters need their resources until then, so twice the resources: the new one has {pods} "
        f"{'pod' if pods == 1 else 'pods'}. upgradeStrategy.type Rolling or Recreate would do without."
    )
