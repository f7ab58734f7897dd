"""What each hook must give back, and be like to be used: the type of an answer, and then its content.

Every function takes the raw answer of a plugin and returns it in its full form, or raises `AnswerError`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kuberay.hooks.service_upgrade import UpgradeStep
from kuberay.hooks.types import Manifest, Problem
from kuberay.plugins import answers, soundness
from kuberay.plugins.answers import service_strategy as service_strategy
from kuberay.plugins.answers import strategy as strategy
from kuberay.plugins.answers import yes_or_no as yes_or_no
from kuberay.plugins.copies import is_still

Kinds = Collection[tuple[str, str]]
"""apiVersion and kind of each object that the plugin may return."""


def problems(answer: Any) -> list[Problem]:
    return soundness.problems(answers.list_of(Problem, answer))


def parameters(answer: Any) -> dict[str, str]:
    return soundness.parameters(answers.start_params(answer))


def sentences(answer: Any) -> list[str]:
    return soundness.sentences(answers.sentences(answer))


def objects(kinds: Kinds, namespace: str, answer: Any) -> list[Manifest]:
    return soundness.children(answers.objects(kinds, answer), namespace)


def before_pods(kinds: Kinds, namespace: str, answer: Any) -> answers.BeforePods:
    found = answers.before_pods(kinds, answer)
    return answers.BeforePods(
        soundness.children(found.manifests, namespace),
        [soundness.wait(wait) for wait in found.waits],
        [soundness.secret(secret) for secret in found.secrets],
        [soundness.pod_annotations(annotations) for annotations in found.annotations],
    )


def step(kinds: Kinds, namespace: str, answer: Any) -> UpgradeStep:
    return soundness.step(answers.upgrade_step(kinds, answer), namespace)


def changed(given: Manifest, text: bytes, as_it_was: Manifest, answer: Any) -> Manifest | None:
    """The changed manifest, or None for no change. *text* is that of *given* when it was given (`copies.copy_and_text`)."""
    if (answer is None or answer is given) and is_still(given, text):
        return None
    found = answers.changed_manifest(given, as_it_was, answer)
    return None if found is None or found == as_it_was else soundness.changed(as_it_was, found)


def mapping(answer: Any) -> Mapping[str, Any] | None:
    return None if answer is None else soundness.plain(answers.mapping(answer), "a mapping")
