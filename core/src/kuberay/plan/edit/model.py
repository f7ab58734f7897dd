"""What is told about an edit of a RayCluster: plain data, for people and for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kuberay.api.problems import Problem
from kuberay.plan.edit.changes import FieldChange


class Effect(StrEnum):
    """What one changed field does."""

    REFUSED = "refused"
    RESTARTS_CLUSTER = "restarts-cluster"
    REPLACES_PODS = "replaces-pods"
    RESIZES_PODS = "resizes-pods"
    HELD_BACK = "held-back"
    """Asks for pods to be replaced that are not, until somebody agrees."""
    SUSPENDS = "suspends"
    RESUMES = "resumes"
    SCALES = "scales"
    UPDATES_IN_PLACE = "updates-in-place"
    NEW_PODS_ONLY = "new-pods-only"
    NO_PODS = "no-pods"


class Restarts(StrEnum):
    """How much of the cluster an edit restarts."""

    NOTHING = "nothing"
    GROUPS = "groups"
    CLUSTER = "cluster"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ChangeEffect:
    """One changed field and what it does."""

    change: FieldChange
    effect: Effect
    sentence: str


@dataclass(slots=True)
class GroupEffect:
    """What becomes of the pods of one group; the head is the group ``headgroup``."""

    name: str
    before: int
    after: int
    restarts: bool = False
    resizes: bool = False
    """Restarts only where Kubernetes cannot change CPU and memory of a running pod."""
    sentence: str = "unchanged"


@dataclass(slots=True)
class EditEffects:
    """Everything about one edit."""

    exists: bool = True
    """Whether the object is there already."""
    strategy: str = "None"
    """``upgradeStrategy.type`` of the new spec: what decides about pods of an earlier one."""
    restarts: Restarts = Restarts.NOTHING
    groups: list[GroupEffect] = field(default_factory=list)
    changes: list[ChangeEffect] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    """Why the edit would be refused; then nothing that runs is touched."""
    notes: list[str] = field(default_factory=list)

    @property
    def restarted_groups(self) -> list[str]:
        """Names of the groups whose pods are replaced."""
        return [group.name for group in self.groups if group.restarts]


def pods(number: int) -> str:
    """A number of pods in words."""
    return "1 pod" if number == 1 else f"{number} pods"
