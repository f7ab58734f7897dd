"""Answers of the right type that cannot be used are failures; texts that are too long are cut."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from kuberay.hooks import Problem, UpgradeStep, Wait
from kuberay.hooks.types import PodAnnotations, RandomSecret
from kuberay.plugins import checks
from kuberay.plugins.answers import AnswerError

LONG = "é" * 5_000
KINDS = {("v1", "Service")}
DEEP: dict[str, Any] = {}
for _ in range(2_000):
    DEEP = {"x": DEEP}
LOOP: dict[str, Any] = {}
LOOP["loop"] = LOOP


def service(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, **more}


def pod() -> dict[str, Any]:
    owner = {"kind": "RayCluster", "uid": "u"}
    metadata = {"name": "p", "namespace": "lab", "labels": {"ray.io/cluster": "c"}, "ownerReferences": [owner]}
    spec = {"containers": [{"name": "ray-head"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def pods_with(change: Callable[[dict[str, Any]], Any]) -> Callable[[], Any]:
    def answer() -> Any:
        changed = pod()
        change(changed)
        return checks.changed(pod(), b"", pod(), changed)

    return answer


def objects(*manifests: Any) -> Callable[[], Any]:
    return lambda: checks.objects(KINDS, "lab", list(manifests))


def before_pods(*answer: Any) -> Callable[[], Any]:
    return lambda: checks.before_pods(KINDS | {("v1", "Secret")}, "lab", list(answer))


UNUSABLE: dict[str, tuple[Callable[[], Any], str]] = {
    "a set": (objects(service(spec={1})), "Service s that is no JSON: Type is not JSON serializable: set"),
    "a number as a key": (objects(service(spec={1: 2})), "Service s that is no JSON: Dict key must be str"),
    "half a character": (objects(service(spec={"a": "\ud800"})), "Service s that is no JSON: str is not valid UTF-8"),
    "a number without end": (objects(service(spec={"a": 10**40})), "Service s that is no JSON: Integer exceeds"),
    "too deep": (objects(service(spec=DEEP)), "Service s that is no JSON: Recursion limit reached"),
    "in itself": (objects(service(spec=LOOP)), "Service s that is no JSON: Recursion limit reached"),
    "a function": (
        objects(service(spec=lambda: 1)),
        "Service s that is no JSON: Type is not JSON serializable: function",
    ),
    "huge": (objects(service(spec={"a": "x" * 2_000_000})), "Service s of 2,000,0"),
    "elsewhere": (
        objects(service(metadata={"name": "s", "namespace": "other"})),
        "Service s in namespace 'other', and its owner is in 'lab'",
    ),
    "namespace of no text": (objects(service(metadata={"name": "s", "namespace": 5})), "in namespace 5"),
    "owners": (
        objects(service(metadata={"name": "s", "ownerReferences": "me"})),
        "metadata.ownerReferences is no list of mappings",
    ),
    "wait without a reason": (before_pods(Wait("")), "a Wait without a reason"),
    "wait of no text": (before_pods(Wait(5)), "a Wait whose reason is 5, no text"),  # type: ignore[arg-type]
    "event of two words": (before_pods(Wait("x", "two words")), "the reason 'two words', one word"),
    "secret of gigabytes": (before_pods(RandomSecret("s", {"k": 10**9})), "the Secret s of more than 500,000 bytes"),
    "annotation of no text": (before_pods(PodAnnotations("p", {"a": 1})), "'a': 1, names and values must be texts"),  # type: ignore[dict-item]
    "pod of no text": (before_pods(PodAnnotations(None, {})), "whose pod is None, no text"),  # type: ignore[arg-type]
    "problem of no text": (lambda: checks.problems([Problem("a", None)]), "message is None, no text"),  # type: ignore[arg-type]
    "problem without words": (lambda: checks.problems([Problem("a", "")]), "a Problem without a message"),
    "problem's reason": (lambda: checks.problems([Problem("a", "b", "Too Many")]), "the reason 'Too Many'"),
    "parameter of two words": (lambda: checks.parameters({"a; rm": "1"}), "the parameter 'a; rm'"),
    "long parameter": (lambda: checks.parameters({"a": LONG}), "longer than 1000 characters"),
    "renamed": (pods_with(lambda p: p["metadata"].update(name="q")), "changed metadata.name"),
    "moved": (pods_with(lambda p: p["metadata"].update(namespace="q")), "changed metadata.namespace"),
    "generated": (pods_with(lambda p: p["metadata"].update(generateName="q")), "changed metadata.generateName"),
    "orphaned": (pods_with(lambda p: p["metadata"].pop("ownerReferences")), "changed metadata.ownerReferences"),
    "label gone": (pods_with(lambda p: p["metadata"].pop("labels")), "changed the label ray.io/cluster"),
    "label changed": (
        pods_with(lambda p: p["metadata"]["labels"].update({"ray.io/cluster": "d"})),
        "changed the label",
    ),
    "labels of another type": (
        pods_with(lambda p: p["metadata"].update(labels=["a"])),
        "metadata.labels is no mapping",
    ),
    "another kind": (pods_with(lambda p: p.update(kind="Job")), "changed kind"),
    "no containers": (pods_with(lambda p: p["spec"].update(containers=[])), "a pod without spec.containers"),
    "containers of no list": (pods_with(lambda p: p["spec"].update(containers=None)), "a pod without spec.containers"),
    "a nameless container": (pods_with(lambda p: p["spec"]["containers"].append({})), "a container that has no name"),
    "a pod with a set": (pods_with(lambda p: p["spec"].update(x={1})), "a manifest that is no JSON"),
    "a huge pod": (pods_with(lambda p: p["spec"].update(x="y" * 2_000_000)), "a manifest of 2,000,"),
    "a step for ever": (
        lambda: checks.step(KINDS, "lab", UpgradeStep(look_after=timedelta.max)),
        "a day at most is expected",
    ),
    "a step in the past": (lambda: checks.step(KINDS, "lab", UpgradeStep(look_after=timedelta(-1))), "a day at most"),
    "a strategy that is no mapping": (lambda: checks.mapping([1]), "returned list, a mapping or None is expected"),
    "perhaps": (lambda: checks.yes_or_no(1), "returned int, True or False is expected"),
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_what_cannot_be_used_is_a_failure_of_the_plugin(case):
    answer, sentence = UNUSABLE[case]
    with pytest.raises(AnswerError) as caught:
        answer()
    assert sentence in str(caught.value)
    assert len(str(caught.value)) < 2_000


def test_long_texts_are_cut():
    (problem,) = checks.problems([Problem(LONG, LONG)])
    assert (len(problem.path), len(problem.message), problem.message[-1]) == (1_000, 1_000, "…")
    assert len(checks.sentences([LONG] * 50)) == 20
    assert len(checks.problems([Problem("a", "b")] * 50)) == 20
    (wait,) = before_pods(Wait(LONG))().waits
    assert len(wait.reason) == 1_000
    step = checks.step(KINDS, "lab", UpgradeStep(message=LONG, waiting=LONG))
    assert (len(step.message), len(step.waiting)) == (1_000, 1_000)


def test_half_characters_are_replaced_in_what_is_told():
    assert checks.sentences(["a\ud800b"]) == ["a?b"]


def test_what_passes_is_out_of_the_plugins_hands():
    mine = service(spec=defaultdict(dict, ports=[{"port": 1}]))
    (found,) = objects(mine)()
    mine["spec"]["ports"].clear()
    assert found["spec"] == {"ports": [{"port": 1}]}
    assert type(found["spec"]) is dict
    changed = pod()
    changed["spec"]["extra"] = shared = ["a"]
    passed = checks.changed(pod(), b"", pod(), changed)
    shared.append("b")
    assert passed is not None
    assert passed["spec"]["extra"] == ["a"]


def test_pods_may_get_more_of_everything():
    changed = pod()
    changed["metadata"]["labels"] |= {"ray.io/more": "1", "team": "x"}
    changed["metadata"]["annotations"] = {"a": "b"}
    changed["spec"]["containers"].insert(0, {"name": "first"})
    assert checks.changed(pod(), b"", pod(), changed) == changed
    assert checks.changed(pod(), b"", pod(), pod()) is None
