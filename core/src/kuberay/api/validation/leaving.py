"""Whether what a RayCluster says about workers that leave is refused: drain timeout and disruption budgets.

These are this operator's own fields (docs/draining.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from kuberay.api.cluster import DisruptionBudget, RayClusterSpec
from kuberay.api.names import ANNOTATION_DRAIN_TIMEOUT

Found = tuple[str, str]

MAX_DRAIN_SECONDS = 7 * 24 * 3600
_PERCENT = re.compile(r"(0|[1-9][0-9]?|100)%")


def leaving_problems(spec: RayClusterSpec, annotations: Mapping[str, str]) -> Iterator[Found]:
    """*annotations* are those of the object that holds the spec."""
    seconds = annotations.get(ANNOTATION_DRAIN_TIMEOUT)
    if seconds is not None and not _is_timeout(seconds):
        yield (
            f"metadata.annotations[{ANNOTATION_DRAIN_TIMEOUT}]",
            f"{ANNOTATION_DRAIN_TIMEOUT} must be a whole number of seconds from 0 to {MAX_DRAIN_SECONDS}, "
            f"not '{seconds}'",
        )
    budgets = [("headGroupSpec", spec.head_group_spec.disruption_budget)]
    budgets += [(f"workerGroupSpecs[{n}]", group.disruption_budget) for n, group in enumerate(spec.worker_group_specs)]
    for path, budget in budgets:
        if budget is not None:
            yield from _budget_problems(f"{path}.disruptionBudget", budget)


def _is_timeout(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6 and int(text) <= MAX_DRAIN_SECONDS


def _budget_problems(path: str, budget: DisruptionBudget) -> Iterator[Found]:
    limits = {"minAvailable": budget.min_available, "maxUnavailable": budget.max_unavailable}
    given = {name: value for name, value in limits.items() if value is not None}
    if len(given) != 1:
        yield path, "exactly one of minAvailable and maxUnavailable must be set"
    for name, value in given.items():
        if isinstance(value, int) and value < 0:
            yield f"{path}.{name}", f"{name} must not be negative"
        elif isinstance(value, str) and not _PERCENT.fullmatch(value):
            yield f"{path}.{name}", f"{name} must be a whole number or a percentage from 0% to 100%, not '{value}'"
