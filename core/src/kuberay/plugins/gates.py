"""Which feature gates there are, which are on, and who serves them: the core's and the plugins', as settings say.

The text is ``Name=true,Other=false``; ``AllAlpha`` and ``AllBeta`` switch a whole stage, single names win over them, and
of two values for one name the later counts. Source: spec plugins.md 14.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kuberay.api.gates import CORE_GATES, GATE_PLUGINS
from kuberay.api.shipped import PACKAGES
from kuberay.hooks.types import FeatureGate

_STAGES = {"AllAlpha": "ALPHA", "AllBeta": "BETA"}
_TRUE = {"1", "t", "T", "true", "TRUE", "True"}
_FALSE = {"0", "f", "F", "false", "FALSE", "False"}


class GateError(ValueError):
    """The gates cannot be read. The text is one sentence."""


@dataclass(frozen=True, slots=True)
class GateReport:
    """One gate as ``kuberay gates`` lists it."""

    gate: str
    stage: str
    default: bool
    value: bool
    owner: str
    """``core``, the plugin that serves it, or ``nobody``."""
    installed: bool
    """Whether what serves it is installed."""
    enabled: bool
    """Whether what serves it is on: the gate then has its effect."""
    description: str


class FeatureGates(Mapping[str, bool]):
    """Every known gate with its value, in name order.

    *plugins* maps plugin names to the gates they bring. Raises `GateError` when two bring the same name, or when *text*
    names an unknown gate or has a value that is no boolean.
    """

    def __init__(self, text: str = "", plugins: Mapping[str, Sequence[FeatureGate]] | None = None) -> None:
        self.known = _known(plugins or {})
        self._brought_by = {gate.name: plugin for plugin, gates in (plugins or {}).items() for gate in gates}
        chosen = _parse(text, self.known)
        self._values = {name: chosen.get(name, gate.default) for name, gate in self.known.items()}

    def __getitem__(self, name: str) -> bool:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def report(self, installed: Collection[str], enabled: Collection[str]) -> list[GateReport]:
        """Every gate, and who serves it of the plugins that are *installed* and *enabled* (by name)."""
        rows = []
        for gate in self.known.values():
            plugin = self._brought_by.get(gate.name, GATE_PLUGINS.get(gate.name, "core"))
            there, on = plugin == "core" or plugin in installed, plugin == "core" or plugin in enabled
            owner = plugin or "nobody"
            rows.append(
                GateReport(gate.name, gate.stage, gate.default, self[gate.name], owner, there, on, gate.description)
            )
        return rows

    def without_effect(self, installed: Collection[str], enabled: Collection[str]) -> list[str]:
        """A sentence for each gate that was switched on although what serves it is not on."""
        return [
            f"feature gate {row.gate} is on and has no effect: {_why_not(row)}"
            for row in self.report(installed, enabled)
            if row.value and not row.default and not row.enabled
        ]

    def describe(self) -> list[str]:
        """One line per gate for the help text: ``Name=true|false (ALPHA - default=false): what it does``."""
        lines = [f"{stage}=true|false (all gates of that stage)" for stage in _STAGES]
        for gate in self.known.values():
            default = str(gate.default).lower()
            lines.append(f"{gate.name}=true|false ({gate.stage} - default={default}): {gate.description}")
        return lines


def core_gate(text: str, name: str) -> bool:
    """Whether *text* leaves the core's gate *name* on, before plugins are known: what else stands there, and whether it is
    right, is not looked at. `FeatureGates` does that."""
    given = {key.strip(): value.strip() for key, _, value in (part.partition("=") for part in text.split(","))}
    default, stage = next((default, stage) for gate, default, stage, _ in CORE_GATES if gate == name)
    of_stage = next((all_of for all_of, its in _STAGES.items() if its == stage), "")
    chosen = given.get(name, given.get(of_stage))
    return default if chosen is None else chosen in _TRUE


def _why_not(row: GateReport) -> str:
    if row.owner == "nobody":
        return "nothing in this release serves it"
    if row.installed:
        return f"add {row.owner} to plugins.enabled"
    return f"pip install {PACKAGES.get(row.owner, row.owner)} and add {row.owner} to plugins.enabled"


def _known(plugins: Mapping[str, Sequence[FeatureGate]]) -> dict[str, FeatureGate]:
    found: dict[str, tuple[str, FeatureGate]] = {}
    for name, default, stage, description in CORE_GATES:
        found[name] = ("the core", FeatureGate(name, default, stage, description))  # type: ignore[arg-type]
    for plugin, gates in plugins.items():
        for gate in gates:
            owner = f"plugin {plugin!r}"
            if gate.name in _STAGES:
                raise GateError(
                    f"{owner} brings the feature gate {gate.name}, which stands for a whole stage: rename it"
                )
            if gate.name in found:
                raise GateError(f"feature gate {gate.name} is brought by {found[gate.name][0]} and by {owner}")
            found[gate.name] = (owner, gate)
    return {name: found[name][1] for name in sorted(found)}


def _parse(text: str, known: Mapping[str, FeatureGate]) -> dict[str, bool]:
    stages: dict[str, bool] = {}
    single: dict[str, bool] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals:
            raise GateError(f"feature gate {name!r} has no value: write {name}=true or {name}=false")
        if name not in known and name not in _STAGES:
            raise GateError(f"unknown feature gate {name!r} (known: {', '.join((*_STAGES, *known))})")
        if value not in _TRUE | _FALSE:
            raise GateError(f"feature gate {name} must be true or false, not {value!r}")
        (stages if name in _STAGES else single)[name] = value in _TRUE
    by_stage = {
        gate.name: stages[stage_name]
        for stage_name, stage in _STAGES.items()
        if stage_name in stages
        for gate in known.values()
        if gate.stage == stage
    }
    return {**by_stage, **single}
