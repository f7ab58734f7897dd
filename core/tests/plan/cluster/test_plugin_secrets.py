"""Secrets with random content and annotations of pods, as plugins ask for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from kuberay.api.kinds import POD, SECRET
from kuberay.hooks import OwnerContext, PodAnnotations, RandomSecret, Wait, Watch
from kuberay.hooks.calls import NoHooks, Resources
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Create, Patch


class Hooks(NoHooks):
    """A plugin that wants one Secret, and says something on pods."""

    def __init__(self) -> None:
        self.seen: list[list[str]] = []
        self.notes: list[PodAnnotations] = []
        self.waits: list[Wait] = []

    def pre_create_pods(self, ctx: OwnerContext) -> Resources:
        self.seen.append([child["metadata"]["name"] for child in ctx.children(SECRET)])
        secret = RandomSecret("seed", {"key": 16}, {"a": "b"})
        return Resources(
            secrets=[("mine", secret)], annotations=self.notes, waits=[("mine", wait) for wait in self.waits]
        )

    def watches(self) -> Sequence[Watch]:
        return [Watch(SECRET, label_selector="ray.io/plugin=mine")]


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


def secrets(tiny: Any) -> list[Create]:
    return [write for write in tiny.writes if isinstance(write, Create) and write.kind == SECRET]


def test_a_secret_is_asked_for_until_it_is_there_and_read_back(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    (write,) = secrets(tiny)
    assert write.random_data == {"key": 16}
    assert isinstance(write.body, dict)
    assert write.body["metadata"]["labels"] == {"a": "b", "ray.io/plugin": "mine"}
    assert write.body["metadata"]["ownerReferences"][0]["controller"] is True
    assert hooks.seen[0] == []
    assert hooks.seen[-1] == ["seed"]
    del tiny.objects[SECRET, "seed"]
    tiny.settle()
    assert len(secrets(tiny)) == 2


def test_a_secret_that_cannot_be_made_holds_pods_back_and_says_so(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.refuse = lambda write: "exceeded quota: secrets" if write.kind == SECRET else ""
    tiny.reconcile()
    assert not tiny.pods
    waiting = next(c for c in tiny.status["conditions"] if c["type"] == "PodsWaiting")
    assert "exceeded quota" in waiting["message"]
    assert ("FailedToCreateSecret", "Failed creating Secret default/seed, exceeded quota: secrets") in [
        (event.reason, event.note) for event in tiny.events
    ]


def test_what_a_plugin_waits_for_in_vain_is_told_with_what_failed(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    """A wait for something that could not be made would otherwise be all that a user sees."""
    hooks.waits = [Wait("waiting for a seed")]
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.refuse = lambda write: "exceeded quota: secrets" if write.kind == SECRET else ""
    tiny.reconcile()
    waiting = next(c for c in tiny.status["conditions"] if c["type"] == "PodsWaiting")
    assert waiting["message"] == "waiting for a seed; Secret seed: exceeded quota: secrets"
    assert waiting["reason"] == "Mine"


def test_annotations_are_put_on_pods_that_lack_them_once(kubernetes: Any, cluster: Any, hooks: Hooks) -> None:
    tiny = kubernetes(cluster(), hooks=hooks)
    tiny.settle()
    (head,) = (name for name, pod in tiny.pods.items() if pod["metadata"]["labels"]["ray.io/node-type"] == "head")
    tiny.add(POD, {"metadata": {"name": "foreign"}, "spec": {"containers": []}})
    hooks.notes = [PodAnnotations(name, {"ray.io/x": "1"}) for name in (head, "foreign", "gone")]
    tiny.settle()
    patches = [write for write in tiny.writes if isinstance(write, Patch) and write.kind == POD]
    assert [(write.name, write.body["metadata"]["annotations"], write.optional) for write in patches] == [
        (head, {"ray.io/x": "1"}, True)
    ]
    assert patches[0].body["metadata"]["uid"] == tiny.objects[POD, head]["metadata"]["uid"]


def test_where_the_operator_may_not_use_secrets_pods_wait_and_say_so(
    kubernetes: Any, cluster: Any, hooks: Hooks
) -> None:
    tiny = kubernetes(cluster(), hooks=hooks, config=PlanConfig(secret_namespaces=frozenset({"other"})))
    tiny.settle()
    assert secrets(tiny) == []
    assert [kind for kind, _ in tiny.objects if kind == POD] == []
    told = " ".join(c["message"] for c in tiny.cluster["status"]["conditions"])
    assert "secretNamespaces does not name the namespace default" in told
