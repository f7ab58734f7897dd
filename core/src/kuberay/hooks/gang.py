"""How large a gang is: the arithmetic over groups of expected pods that all schedulers with gangs share.

Source: spec plugins.md 2. Where KubeRay multiplies resources by unclamped replicas while it counts clamped ones, members
and resources here are of the same pods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kuberay.api import quantity
from kuberay.api.names import HEAD_GROUP, SUBMITTER_GROUP
from kuberay.hooks.types import GroupSize


@dataclass(frozen=True, slots=True)
class GangSize:
    """How many pods must fit at once, and what they request together (canonical quantities by resource name)."""

    members: int
    resources: Mapping[str, str] = field(default_factory=dict)


NOTHING = GangSize(0)
"""The gang of an owner that wants no pods."""


def gang_size(groups: Iterable[GroupSize], *, at_minimum: bool = False) -> GangSize:
    """The head and the workers of *groups*: those wanted now, or with *at_minimum* the ``minReplicas`` of each group.

    The submitter's pod is no member: it starts when the others run, so a gang that waited for it would wait for ever.
    """
    members = 0
    amounts: list[Mapping[str, str]] = []
    for group in groups:
        if group.name == SUBMITTER_GROUP:
            continue
        count = 1 if group.name == HEAD_GROUP else group.minimum if at_minimum else group.desired
        if count:
            members += count
            amounts.append({name: quantity.multiply(amount, count) for name, amount in group.requests.items()})
    return GangSize(members, add_requests(amounts))


def submitter_requests(groups: Iterable[GroupSize]) -> Mapping[str, str]:
    """What the submitter's pod requests; nothing when there is none."""
    return next((group.requests for group in groups if group.name == SUBMITTER_GROUP), {})


def add_requests(amounts: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """The sum by resource name, in the order in which the names come up."""
    names = dict.fromkeys(name for each in amounts for name in each)
    return {name: quantity.add_all(each[name] for each in amounts if name in each) for name in names}
