"""Renders docs/gates.md: every feature gate of the core and of the shipped plugins, and who serves it."""

from __future__ import annotations

from kuberay.api.shipped import PACKAGES
from kuberay.plugins.gates import FeatureGates, GateReport
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager

_HEAD = """\
# Feature gates

<!-- Written by `make generate` from core/src/kuberay/api/gates.py and the plugins' hook feature_gates. Change those, not this page. -->

Switched by `--feature-gates Name=true,Other=false`, the key `featureGates` of [the configuration file](settings.md), the environment variable
`KUBERAY_FEATURE_GATES`, or the value `featureGates` of [the chart](charts.md). `AllAlpha` and `AllBeta` switch a whole stage. `kuberay gates` lists
them with their values, and whether what serves them is on.

| Gate | Stage | Default | Served by | What it is for |
|---|---|---|---|---|
"""


def reports() -> list[GateReport]:
    """All gates, with every shipped plugin on. Plugins are asked one by one: two batch schedulers cannot be on at once."""
    brought = {
        plugin: gates for name in PACKAGES for plugin, gates in PluginManager(load([name])).feature_gates().items()
    }
    return FeatureGates("", brought).report(list(PACKAGES), list(PACKAGES))


def render() -> str:
    """The whole page."""
    return _HEAD + "".join(f"{_row(gate)}\n" for gate in reports())


def _row(gate: GateReport) -> str:
    owner = {"core": "the core", "nobody": "nothing of this release: it is accepted and has no effect"}.get(gate.owner)
    served = owner or f"the plugin `{gate.owner}`"
    return f"| `{gate.gate}` | {gate.stage} | {'on' if gate.default else 'off'} | {served} | {gate.description} |"
