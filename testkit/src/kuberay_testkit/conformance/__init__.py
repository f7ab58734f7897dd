"""Cases that a simulation and the real thing must both pass (`api_semantics`), and suites for plugins (README.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kuberay_testkit.conformance.subjects import MutatorUnderTest, SchedulerUnderTest, StrategyUnderTest
    from kuberay_testkit.conformance.suites import (
        GangSchedulerConformance,
        PodMutatorConformance,
        UpgradeStrategyConformance,
    )

_SUBJECTS = ("MutatorUnderTest", "SchedulerUnderTest", "StrategyUnderTest")
_SUITES = ("GangSchedulerConformance", "PodMutatorConformance", "UpgradeStrategyConformance")

__all__ = [
    "GangSchedulerConformance",
    "MutatorUnderTest",
    "PodMutatorConformance",
    "SchedulerUnderTest",
    "StrategyUnderTest",
    "UpgradeStrategyConformance",
]


def __getattr__(name: str) -> Any:
    """The suites are imported when they are asked for: they bring the whole operator."""
    if name in _SUBJECTS:
        from kuberay_testkit.conformance import subjects

        return getattr(subjects, name)
    if name in _SUITES:
        from kuberay_testkit.conformance import suites

        return getattr(suites, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
