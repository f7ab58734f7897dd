"""The three suites that authors of plugins subclass."""

from __future__ import annotations

from kuberay_testkit.conformance.gang_following import GangFollowing
from kuberay_testkit.conformance.gang_jobs import GangJobs, GangServices
from kuberay_testkit.conformance.gang_placing import GangPlacing
from kuberay_testkit.conformance.gang_troubles import GangObjects, GangTroubles
from kuberay_testkit.conformance.mutator_cases import MutatorCases
from kuberay_testkit.conformance.plugin_cases import PluginCases
from kuberay_testkit.conformance.upgrade_cases import UpgradeCases


class GangSchedulerConformance(
    PluginCases, GangPlacing, GangFollowing, GangJobs, GangServices, GangTroubles, GangObjects
):
    """Cases for a batch scheduler. Define `scheduler`, which returns a `SchedulerUnderTest`."""


class PodMutatorConformance(PluginCases, MutatorCases):
    """Cases for a plugin that changes pods or makes objects they need. Define `mutator`, which returns a
    `MutatorUnderTest`."""


class UpgradeStrategyConformance(PluginCases, UpgradeCases):
    """Cases for a strategy of RayService upgrades. Define `strategy`, which returns a `StrategyUnderTest`."""
