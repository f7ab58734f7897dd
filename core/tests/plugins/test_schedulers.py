"""Which plugin is the batch scheduler, and the one sentence said when the choice is wrong (spec plugins.md 3)."""

from __future__ import annotations

import sys

import pytest
from kuberay.api.shipped import PACKAGES, SCHEDULERS
from kuberay.operator.settings import load_settings
from kuberay.operator.start import assemble
from kuberay.plugins.gates import GateError
from kuberay.plugins.loader import Plugin, PluginError
from kuberay.plugins.manager import PluginManager
from kuberay.plugins.schedulers import BatchScheduler

GANG = "@hookimpl\ndef batch_scheduler():\n    return 'ours'\n"
NONE_INSTALLED: list[object] = []


def choose(name: str, **flags: object) -> BatchScheduler | None:
    return assemble(load_settings("", {"batch_scheduler": name, "plugins": {"enabled": []}, **flags}))[0].scheduler


def refusal(name: str, **flags: object) -> str:
    with pytest.raises(PluginError) as caught:
        choose(name, **flags)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_third_partys_scheduler_is_chosen_by_its_entry_point_name(install):
    install("theirs", GANG)
    assert choose("theirs") == BatchScheduler("theirs", "ours")


def test_no_scheduler_is_chosen_unless_asked_for(install):
    install("theirs", GANG)
    assert choose("") is None


@pytest.mark.parametrize("name", SCHEDULERS)
def test_kuberays_four_names_say_which_package_is_missing(install, monkeypatch, name):
    monkeypatch.setattr("kuberay.plugins.schedulers.list_installed", lambda: NONE_INSTALLED)
    assert refusal(name) == (
        f"batchScheduler is {name!r}, which is not installed: pip install {PACKAGES[name]} "
        "(installed batch schedulers: none)"
    )


@pytest.mark.parametrize("name", ["default", "unknown-scheduler-name", "kubernetes-was-v1alpha2", "Volcano"])
def test_any_other_name_lists_the_installed_schedulers_without_importing_one(install, name):
    """O9"""
    install("theirs", f"raise RuntimeError('must not run')\n{GANG}")
    install("imported-hook", "raise RuntimeError\nfrom elsewhere import batch_scheduler")
    install("no-scheduler", "@hookimpl\ndef validate(ctx):\n    return []")
    install("no-python", "def (")
    before = set(sys.modules)
    text = refusal(name)
    assert text.startswith(f"batchScheduler is {name!r}, and no installed plugin has that name: name another one, ")
    listed = text.split("(installed batch schedulers: ")[1].rstrip(")").split(", ")
    assert {"theirs", "imported-hook"} <= set(listed)
    assert not {"no-scheduler", "no-python", "autoscaler-v2"} & set(listed)
    assert not [module for module in set(sys.modules) - before if module.startswith("fake_plugin_")]


def test_a_plugin_that_is_no_scheduler_is_refused(install):
    install("label", "@hookimpl\ndef validate(ctx):\n    return []")
    install("theirs", GANG)
    text = refusal("label")
    assert text.startswith(
        "batchScheduler is 'label', a plugin that is no batch scheduler (installed batch schedulers: "
    )
    assert "theirs" in text


def test_two_enabled_schedulers_refuse_the_start(install):
    install("theirs", GANG)
    install("others", GANG)
    assert refusal("theirs", plugins={"enabled": ["others"]}) == (
        "the plugins 'others' and 'theirs' are all batch schedulers, and pods can go to one only: keep one of them in "
        "batchScheduler and plugins.enabled"
    )


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ("return ''", "batch_scheduler() returned '', the schedulerName of pods is expected"),
        ("return 5", "batch_scheduler() returned 5, the schedulerName of pods is expected"),
        ("return 'two words'", "batch_scheduler() returned 'two words', the schedulerName"),
        ("return ['a']", "batch_scheduler() returned ['a'], the schedulerName"),
        ("raise OSError('no')", "batch_scheduler() raised OSError: no"),
    ],
)
def test_nonsense_refuses_the_start(install, body, sentence):
    install("theirs", f"@hookimpl\ndef batch_scheduler():\n    {body}\n")
    assert refusal("theirs").startswith(f"plugin 'theirs' (kuberay-theirs 1.0) cannot be used: {sentence}")


def test_the_gate_of_another_scheduler_refuses_the_start(install):
    install("theirs", GANG)
    with pytest.raises(GateError, match="KubernetesWAS and the batch scheduler 'theirs' cannot both be on"):
        choose("theirs", feature_gates="KubernetesWAS=true")


def test_the_manager_knows_a_scheduler_that_was_only_enabled():
    gang = Plugin("gang", "kuberay-gang", "1", None, {"batch_scheduler": lambda: "gang"}, (1, 0))
    assert PluginManager([gang]).scheduler == BatchScheduler("gang", "gang")
