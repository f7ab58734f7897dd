"""What becomes of the pods of each group when a RayCluster is edited: how many there will be, and whether they are new.

Source: spec raycluster.md 4.4-4.9. Numbers are those that the spec asks for.
"""

from __future__ import annotations

from dataclasses import dataclass

from kuberay.api.cluster import RayClusterSpec, WorkerGroupSpec
from kuberay.api.names import HEAD_GROUP
from kuberay.plan.edit.model import GroupEffect, pods
from kuberay.plan.edit.outdated import Outdated


@dataclass(frozen=True, slots=True)
class GroupEffects:
    """Answers for one edit."""

    old: RayClusterSpec
    new: RayClusterSpec
    outdated: Outdated
    head_stays: str
    """Why an upgrade does not replace the head; empty when it may."""
    picks_victims: bool
    """Whether the operator chooses which surplus workers go."""

    def all(self) -> list[GroupEffect]:
        """Head first, then the groups of the new spec, then those that are gone from it."""
        before = {group.group_name: group for group in self.old.worker_group_specs}
        after = {group.group_name: group for group in self.new.worker_group_specs}
        listed = [*after, *(name for name in before if name not in after)]
        return [self._head(), *(self._group(name, before.get(name), after.get(name)) for name in listed)]

    def _head(self) -> GroupEffect:
        effect = GroupEffect(HEAD_GROUP, int(not self.old.suspend), int(not self.new.suspend))
        if self._with_the_cluster(effect):
            return effect
        if self.outdated.recreates:
            effect.restarts, effect.sentence = True, "restarts"
        elif HEAD_GROUP in self.outdated.rolled:
            effect.restarts = not self.head_stays
            effect.sentence = f"keeps running as it is: {self.head_stays}" if self.head_stays else "replaced, last"
            effect.resizes = effect.restarts and HEAD_GROUP in self.outdated.resized
            if effect.resizes:
                effect.sentence = "resized in place where Kubernetes can, else replaced, last"
        elif self.head_stays:
            effect.sentence = f"keeps running as it is: {self.head_stays}"
        return effect

    def _with_the_cluster(self, effect: GroupEffect) -> bool:
        """Whether suspending or resuming the cluster says all there is to say."""
        if self.old.suspend and self.new.suspend:
            effect.sentence = "suspended, as before"
        elif self.new.suspend:
            effect.sentence = "deleted: the cluster is suspended"
        elif self.old.suspend:
            effect.sentence = "made anew: the cluster is resumed"
        return bool(self.old.suspend or self.new.suspend)

    def _group(self, name: str, old: WorkerGroupSpec | None, new: WorkerGroupSpec | None) -> GroupEffect:
        before = old.desired_pods() if old is not None and not self.old.suspend else 0
        after = new.desired_pods() if new is not None and not self.new.suspend else 0
        effect = GroupEffect(name, before, after)
        if self._with_the_cluster(effect):
            return effect
        if old is None or new is None:
            effect.restarts = self.outdated.recreates and before > 0
            gone = "gone with the restart of the cluster" if effect.restarts else "drained and deleted"
            effect.sentence = f"new: {pods(after)}" if old is None else gone
            return effect
        scaled = self._scaled(old, new, before, after)
        if self.outdated.recreates:
            effect.restarts = before > 0
            effect.sentence = _joined("restarts" if before else "", scaled)
        elif name in self.outdated.rolled:
            effect.restarts = before > 0 and after > 0
            how = "replaced step by step"
            effect.resizes = effect.restarts and name in self.outdated.resized
            if effect.resizes:
                how = "resized in place where Kubernetes can, else replaced step by step"
            effect.sentence = _joined(how if effect.restarts else "", scaled)
        elif new.num_of_hosts > old.num_of_hosts:
            # A replica with fewer hosts than it shall have is incomplete, and goes as a whole (4.6).
            effect.restarts = before > 0
            hosts = "host" if old.num_of_hosts == 1 else "hosts"
            effect.sentence = f"replicas of {old.num_of_hosts} {hosts} are replaced by replicas of {new.num_of_hosts}"
        else:
            effect.sentence = scaled or "unchanged"
        return effect

    def _scaled(self, old: WorkerGroupSpec, new: WorkerGroupSpec, before: int, after: int) -> str:
        if new.suspend and not old.suspend:
            return "deleted: the group is suspended"
        if old.suspend and not new.suspend:
            return "made anew: the group is resumed"
        named = len(set(new.workers_to_delete) - set(old.workers_to_delete))
        sentence = f"{named} deleted by name" if named else ""
        if after > before:
            return _joined(sentence, f"{after - before} more")
        if after < before:
            who = "" if self.picks_victims else " once the autoscaler names them: the operator picks none"
            return _joined(sentence, f"{before - after} fewer{who}")
        return sentence


def _joined(*sentences: str) -> str:
    return ", ".join(sentence for sentence in sentences if sentence) or "unchanged"
