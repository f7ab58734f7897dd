"""``spec.upgradeStrategy.clusterUpgradeOptions``: how large the steps are, how far apart, and through which gateway.

Source: spec rayservice.md 6.1 rule 6 with KubeRay's messages in KubeRay's order; cases.md GW-04.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kuberay.api.problems import Problem
from kuberay.api.service import UpgradeType
from kuberay.hooks import OwnerContext

INVALID_SPEC = "InvalidRayServiceSpec"

_WHERE = "spec.upgradeStrategy.clusterUpgradeOptions"
_TYPE = UpgradeType.INCREMENTAL.value


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a spec that has no `problems`."""

    surge: int
    """By how much one capacity changes at a time, in percent."""
    step: int
    """How many percent of the requests move at a time."""
    interval: timedelta
    """How long it is at least from one such move to the next."""
    gateway_class: str

    @classmethod
    def read(cls, owner: OwnerContext) -> Options:
        given = _given(owner)
        surge = _number(given, "maxSurgePercent")
        return cls(
            surge=100 if surge is None else surge,
            step=_number(given, "stepSizePercent") or 0,
            interval=timedelta(seconds=_number(given, "intervalSeconds") or 0),
            gateway_class=str(given.get("gatewayClassName") or ""),
        )


def problems(owner: OwnerContext) -> Sequence[Problem]:
    """What is wrong with the options, KubeRay's first reason first."""
    found = []
    if (owner.spec.get("rayClusterConfig") or {}).get("enableInTreeAutoscaling") is not True:
        path = "spec.rayClusterConfig.enableInTreeAutoscaling"
        found.append(Problem(path, f"Ray Autoscaler is required for {_TYPE}", INVALID_SPEC))
    if not _given(owner):
        return [*found, Problem(_WHERE, f"ClusterUpgradeOptions are required for {_TYPE}", INVALID_SPEC)]
    for field, message in _wrong(_given(owner)):
        found.append(Problem(f"{_WHERE}.{field}", message, INVALID_SPEC))
    return found


def _wrong(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    surge, step = _number(given, "maxSurgePercent"), _number(given, "stepSizePercent")
    surge = 100 if surge is None else surge
    if not 0 <= surge <= 100:
        yield "maxSurgePercent", "maxSurgePercent must be between 0 and 100"
    elif surge == 0:
        # KubeRay takes both zeros and then never moves anything.
        yield "maxSurgePercent", "maxSurgePercent must be greater than 0: with 0 no capacity would ever move"
    if step is None or not 0 <= step <= 100:
        yield "stepSizePercent", "stepSizePercent must be between 0 and 100"
    elif step > surge:
        yield "stepSizePercent", "stepSizePercent must be less than or equal to maxSurgePercent"
    elif step == 0:
        yield "stepSizePercent", "stepSizePercent must be greater than 0: with 0 no request would ever move"
    if (_number(given, "intervalSeconds") or 0) <= 0:
        yield "intervalSeconds", "intervalSeconds must be greater than 0"
    if not given.get("gatewayClassName"):
        yield "gatewayClassName", f"gatewayClassName is required for {_TYPE}"


def _given(owner: OwnerContext) -> Mapping[str, Any]:
    strategy = owner.spec.get("upgradeStrategy") or {}
    return strategy.get("clusterUpgradeOptions") or {}


def _number(given: Mapping[str, Any], field: str) -> int | None:
    """A whole number; None where there is none. The schema lets nothing else through."""
    value = given.get(field)
    return value if isinstance(value, int) and not isinstance(value, bool) else None
