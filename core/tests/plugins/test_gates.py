"""Which gates are on for which ``--feature-gates`` text."""

from __future__ import annotations

import pytest
from kuberay.api.gates import CORE_GATES
from kuberay.hooks import FeatureGate
from kuberay.plugins.gates import FeatureGates, GateError

PLUGINS = {"shiny": [FeatureGate("Shiny", False, "ALPHA", "shines"), FeatureGate("Old", True, "GA", "is there")]}


def test_defaults_are_the_declared_ones():
    gates = FeatureGates("", PLUGINS)
    assert dict(gates) == {**{name: default for name, default, _, _ in CORE_GATES}, "Shiny": False, "Old": True}
    assert list(gates) == sorted(gates)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("RayCronJob=true", {"RayCronJob": True}),
        (" RayCronJob = 1 , Shiny=T,", {"RayCronJob": True, "Shiny": True}),
        ("RayMultiHostIndexing=false", {"RayMultiHostIndexing": False}),
        ("RayCronJob=true,RayCronJob=false", {}),
        ("Old=F", {"Old": False}),
        ("AllAlpha=true,Shiny=false", {name: True for name, _, stage, _ in CORE_GATES if stage == "ALPHA"}),
        ("Shiny=false,AllAlpha=true", {name: True for name, _, stage, _ in CORE_GATES if stage == "ALPHA"}),
        ("AllBeta=false", {name: False for name, _, stage, _ in CORE_GATES if stage == "BETA"}),
    ],
)
def test_text_changes_values(text, changed):
    assert dict(FeatureGates(text, PLUGINS)) == {**FeatureGates("", PLUGINS), **changed}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("RayCron=true", r"unknown feature gate 'RayCron' \(known: AllAlpha, AllBeta, .*RayCronJob.*Shiny.*\)"),
        ("RayCronJob", "has no value: write RayCronJob=true or RayCronJob=false"),
        ("RayCronJob=maybe", "RayCronJob must be true or false, not 'maybe'"),
        ("=true", "unknown feature gate ''"),
    ],
)
def test_wrong_text_is_one_sentence(text, sentence):
    with pytest.raises(GateError, match=sentence):
        FeatureGates(text, PLUGINS)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("RayCronJob", "brought by the core and by plugin 'other'"),
        ("Shiny", "brought by plugin 'shiny' and by plugin 'other'"),
        ("AllBeta", "plugin 'other' brings the feature gate AllBeta"),
    ],
)
def test_names_are_unique(name, sentence):
    with pytest.raises(GateError, match=sentence):
        FeatureGates("", {**PLUGINS, "other": [FeatureGate(name, False, "BETA", "")]})


def test_help_names_every_gate():
    lines = FeatureGates("", PLUGINS).describe()
    assert "Shiny=true|false (ALPHA - default=false): shines" in lines
    assert len(lines) == len(CORE_GATES) + 2 + 2
