"""What `pre_create_pods` may give: manifests, waits, Secrets with random content and annotations, told apart and checked."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.hooks import PodAnnotations, RandomSecret, Wait
from kuberay.plugins.answers import AnswerError, before_pods

KINDS = {("v1", "Secret"), ("v1", "Pod")}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}
SECRET = RandomSecret("seed", {"key": 32})


def test_each_is_put_where_it_belongs() -> None:
    note, wait = PodAnnotations("x", {"a": "b"}), Wait("for something")
    found = before_pods(KINDS, [note, POD, wait, SECRET])
    assert (found.manifests, found.waits, found.secrets, found.annotations) == ([POD], [wait], [SECRET], [note])
    assert before_pods(KINDS, wait).waits == [wait]
    assert before_pods(KINDS, None).manifests == []


@pytest.mark.parametrize(
    ("kinds", "answer", "told"),
    [
        ({("v1", "Pod")}, SECRET, "the Secret seed, a kind its watches() does not name"),
        (KINDS, RandomSecret("", {"key": 32}), "a name and keys with a positive number of bytes"),
        (KINDS, RandomSecret("seed", {}), "a name and keys"),
        (KINDS, RandomSecret("seed", {"key": 0}), "a name and keys"),
        (KINDS, RandomSecret("seed", {"key": True}), "a name and keys"),
        (KINDS, "text", "a list of dict is expected"),
    ],
)
def test_what_cannot_be_made_is_refused(kinds: Any, answer: Any, told: str) -> None:
    with pytest.raises(AnswerError) as raised:
        before_pods(kinds, [answer])
    assert told in str(raised.value)
