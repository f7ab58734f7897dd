"""Which plugins load, in which order, and the one sentence said when one cannot."""

from __future__ import annotations

import re
import sys

import pytest
from kuberay.plugins.loader import PluginError, list_installed, load

MUTATE = "@hookimpl\ndef mutate_pod(ctx, pod):\n    return None\n"


def test_enabled_plugins_load_in_name_order(install):
    install("zebra", MUTATE, version="2.5")
    install("ant", "kuberay_hook_api = (1, 0)\n@hookimpl\ndef validate(ctx):\n    return []\n")
    plugins = load(["zebra", "ant", "zebra"])
    assert [(p.name, p.distribution, p.version, list(p.hooks), p.api) for p in plugins] == [
        ("ant", "kuberay-ant", "1.0", ["validate"], (1, 0)),
        ("zebra", "kuberay-zebra", "2.5", ["mutate_pod"], (1, 0)),
    ]
    assert plugins[0].module is sys.modules[plugins[0].module.__name__]
    assert plugins[1].title == "'zebra' (kuberay-zebra 2.5)"


def test_plugins_that_are_not_enabled_are_never_imported(install):
    install("broken", "raise RuntimeError('must not run')")
    install("fine", MUTATE)
    assert [p.name for p in load(["fine"])] == ["fine"]


def test_listing_imports_nothing(install):
    install("broken", "raise RuntimeError('must not run')", version="0.3")
    found = {item.name: item for item in list_installed()}
    assert (found["broken"].distribution, found["broken"].version) == ("kuberay-broken", "0.3")
    assert found["broken"].target.startswith("fake_plugin_")
    assert list(found) == sorted(found)


def test_an_entry_point_may_name_an_object(install):
    source = (
        "class Thing:\n    @hookimpl\n    def mutate_pod(self, pod):\n        return {'seen': pod}\nthing = Thing()\n"
    )
    install("object", source, attribute="thing")
    (plugin,) = load(["object"])
    assert plugin.hooks["mutate_pod"]("ctx", "pod") == {"seen": "pod"}


def test_an_entry_point_must_not_name_a_class(install):
    install(
        "object", "class Thing:\n    @hookimpl\n    def mutate_pod(self, pod):\n        return pod", attribute="Thing"
    )
    with pytest.raises(PluginError, match="its entry point names the class Thing: name a module, or an instance"):
        load(["object"])


def test_hooks_may_take_fewer_arguments_in_any_order(install):
    install(
        "few", "@hookimpl\ndef mutate_pod(pod, ctx):\n    return (pod, ctx)\n@hookimpl\ndef validate():\n    return 7\n"
    )
    (plugin,) = load(["few"])
    assert plugin.hooks["mutate_pod"]("ctx", "pod") == ("pod", "ctx")
    assert plugin.hooks["validate"]("ctx") == 7


def test_optional_plugins_may_be_missing(install):
    install("here", MUTATE)
    assert [p.name for p in load(["here", "gone"], optional={"gone"})] == ["here"]


def test_an_optional_plugin_that_is_installed_must_still_work(install):
    install("here", "import there_is_no_such_module")
    with pytest.raises(PluginError, match="cannot be imported"):
        load(["here"], optional={"here"})


def test_unknown_name_lists_what_is_installed(install):
    install("known", MUTATE)
    with pytest.raises(PluginError) as caught:
        load(["unknwon"])
    assert str(caught.value).startswith("plugin 'unknwon' is enabled but not installed")
    assert "known" in re.split(r"\(installed: ", str(caught.value))[1]


def test_a_shipped_plugin_that_is_missing_says_what_to_install(monkeypatch):
    monkeypatch.setattr("kuberay.plugins.loader._entry_points", list)
    with pytest.raises(PluginError) as caught:
        load(["kai-scheduler"])
    assert str(caught.value) == (
        "plugin 'kai-scheduler' is enabled but not installed: pip install kuberay-kai or remove the name (installed: none)"
    )


def test_a_misspelt_name_is_put_right(install):
    install("unicorns", MUTATE)
    with pytest.raises(PluginError, match=r"^plugin 'unicorn' is enabled but not installed, did you mean 'unicorns'\?"):
        load(["unicorn"])


def test_two_distributions_of_one_name_are_both_named(install):
    install("same", MUTATE, dist="kuberay-same")
    install("same", MUTATE, dist="other-same", version="3.1")
    with pytest.raises(PluginError, match=r"kuberay-same 1\.0 and by other-same 3\.1"):
        load(["same"])


def test_doubles_of_a_plugin_that_is_not_enabled_do_no_harm(install):
    install("same", MUTATE, dist="kuberay-same")
    install("same", MUTATE, dist="other-same")
    install("fine", MUTATE)
    assert [p.name for p in load(["fine"])] == ["fine"]
    assert [item.distribution for item in list_installed() if item.name == "same"] == ["kuberay-same", "other-same"]


REFUSED = {
    "broken import": ("import there_is_no_such_module", "cannot be imported .*ModuleNotFoundError.*there_is_no_such"),
    "raises at import": ("raise ValueError('bad\\nday')", "cannot be imported .*ValueError: bad$"),
    "unknown hook": (
        "@hookimpl\ndef mutate_pods(ctx, pod):\n    return pod",
        r"no hook, did you mean mutate_pod\(\)\?",
    ),
    "no hook at all": (
        "@hookimpl\ndef frobnicate():\n    return 1",
        r"frobnicate\(\) is no hook \(hooks: feature_gates",
    ),
    "unmarked hook": ("def mutate_pod(ctx, pod):\n    return pod", r"not marked: put @hookimpl on it"),
    "unmarked misspelling": ("def pre_create_pod(ctx):\n    return []", r"looks like the hook pre_create_pods\(\)"),
    "wrong argument": ("@hookimpl\ndef mutate_pod(ctx, pot):\n    return pot", "pot"),
    "async": ("@hookimpl\nasync def mutate_pod(ctx, pod):\n    return pod", r"mutate_pod\(\) is async"),
    "async generator": ("@hookimpl\nasync def validate(ctx):\n    yield 1", r"validate\(\) is async"),
    "generator": ("@hookimpl\ndef validate(ctx):\n    yield 1", r"validate\(\) is a generator"),
    "wrapper": ("@hookimpl(wrapper=True)\ndef validate(ctx):\n    return (yield)", r"validate\(\) is a wrapper"),
    "specname": ("@hookimpl(specname='mutate_pod')\ndef validate(ctx, pod):\n    return pod", "specname"),
    "no function": (
        "class Call:\n    def __call__(self, ctx): return []\nvalidate = hookimpl(Call())",
        "validate is marked as a hook but is no function",
    ),
    "marked value": (
        "class Table(dict):\n    pass\nvalidate = hookimpl(Table())",
        "validate is marked as a hook but is no function",
    ),
    "marked class": ("@hookimpl\nclass validate:\n    pass", "validate is marked as a hook but is no function"),
    "marked lambda of another name": ("mutate_podd = hookimpl(lambda ctx, pod: pod)", r"did you mean mutate_pod\(\)\?"),
    "argument misspelt": (
        "@hookimpl\ndef validate(context):\n    return []",
        r"validate\(context\) asks for 'context', and is given \(ctx\)",
    ),
    "argument nobody gives": (
        "@hookimpl\ndef mutate_pod(ctx, pod, client):\n    return pod",
        r"mutate_pod\(ctx, pod, client\) asks for 'client', and is given \(ctx, pod\)",
    ),
    "module that raises": ("def __dir__():\n    raise OSError('no disk')", "cannot be used: OSError: no disk"),
    "other major": (
        "kuberay_hook_api = (2, 0)",
        "hook API 2.0, and this operator offers 1.0: install a newer operator",
    ),
    "older major": ("kuberay_hook_api = (0, 9)", "hook API 0.9, .*: install a newer kuberay-subject"),
    "newer minor": ("kuberay_hook_api = (1, 1)", "hook API 1.1, .*: install a newer operator"),
    "api is text": ("kuberay_hook_api = '1.0'", r"must be a pair like \(1, 0\), not '1\.0'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_one_sentence(install, case):
    source, sentence = REFUSED[case]
    install("subject", source)
    with pytest.raises(PluginError, match=sentence) as caught:
        load(["subject"])
    text = str(caught.value)
    assert text.startswith("plugin 'subject' (kuberay-subject 1.0) ")
    assert "\n" not in text


@pytest.mark.parametrize(
    "source",
    [
        "def _mutate_pod(ctx, pod):\n    return pod",
        "from json import loads as validate",
        "def build_pod_group():\n    return 1",
        "settings = {'a': 1}",
    ],
)
def test_other_functions_and_values_are_left_alone(install, source):
    install("subject", source)
    assert load(["subject"])[0].hooks == {}
