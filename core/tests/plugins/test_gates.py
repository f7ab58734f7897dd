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


def test_every_gate_of_the_spec_has_its_stage_default_and_owner():
    """Spec plugins.md 14."""
    rows = FeatureGates().report([], [])
    assert {row.gate: (row.stage, row.default, row.owner) for row in rows} == {
        "RayClusterStatusConditions": ("BETA", True, "core"),
        "RayJobDeletionPolicy": ("BETA", True, "core"),
        "RayMultiHostIndexing": ("BETA", True, "core"),
        "RayServiceIncrementalUpgrade": ("BETA", True, "gateway-upgrade"),
        "RayCronJob": ("ALPHA", False, "core"),
        "SidecarSubmitterRestart": ("ALPHA", False, "core"),
        "RayClusterNetworkPolicy": ("ALPHA", False, "networkpolicy"),
        "GCSFaultToleranceEmbeddedStorage": ("ALPHA", False, "core"),
        "RayClusterMTLS": ("ALPHA", False, "mtls"),
        "RayClusterHistoryServer": ("ALPHA", False, "nobody"),
        "KubernetesWAS": ("ALPHA", False, "nobody"),
    }


def test_who_serves_a_gate_and_whether_it_is_there():
    gates = FeatureGates("Shiny=true", PLUGINS)
    rows = {row.gate: row for row in gates.report(["mtls", "shiny"], ["shiny"])}
    assert (rows["Shiny"].owner, rows["Shiny"].installed, rows["Shiny"].enabled, rows["Shiny"].value) == (
        "shiny",
        True,
        True,
        True,
    )
    assert (rows["RayClusterMTLS"].installed, rows["RayClusterMTLS"].enabled) == (True, False)
    assert (rows["RayCronJob"].installed, rows["RayCronJob"].enabled) == (True, True)
    assert (rows["KubernetesWAS"].installed, rows["KubernetesWAS"].enabled) == (False, False)


@pytest.mark.parametrize(
    ("text", "installed", "enabled", "sentences"),
    [
        ("", [], [], []),
        ("RayCronJob=true", [], [], []),
        ("KubernetesWAS=true", [], [], ["KubernetesWAS is on and has no effect: nothing in this release serves it"]),
        (
            "RayClusterMTLS=true",
            [],
            [],
            ["RayClusterMTLS is on and has no effect: pip install kuberay-mtls and add mtls to plugins.enabled"],
        ),
        (
            "RayClusterMTLS=true",
            ["mtls"],
            [],
            ["RayClusterMTLS is on and has no effect: add mtls to plugins.enabled"],
        ),
        ("RayClusterMTLS=true", ["mtls"], ["mtls"], []),
    ],
)
def test_a_gate_that_nobody_serves_says_so_when_it_is_turned_on(text, installed, enabled, sentences):
    found = FeatureGates(text).without_effect(installed, enabled)
    assert found == [f"feature gate {sentence}" for sentence in sentences]
