"""Whether an answer of the right type can be used: sent to an API server as it is, and told in a condition.

Texts that are too long are cut, for they say something all the same; whatever else is wrong is the plugin's failure
(`AnswerError`). What passes is plain JSON that no plugin has its hands on any more.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson

from kuberay.hooks.service_upgrade import UpgradeStep
from kuberay.hooks.types import Manifest, PodAnnotations, Problem, RandomSecret, Wait
from kuberay.plugins.answers import AnswerError
from kuberay.plugins.copies import copy_json

MOST_BYTES = 1_000_000
"""Of one manifest as JSON. etcd takes no more than one and a half times that much."""
MOST_TEXT = 1_000
"""Characters of one sentence."""
MOST_SENTENCES = 20
LONGEST_PAUSE = timedelta(days=1)

_KEPT = ("name", "generateName", "namespace", "ownerReferences")
_OURS = "ray.io/"
_REASON = re.compile(r"([A-Za-z][A-Za-z0-9]{0,127})?")


def plain(manifest: Manifest, what: str) -> Manifest:
    """A copy of *manifest* as plain JSON."""
    try:
        size = len(orjson.dumps(manifest))
    except (TypeError, RecursionError) as error:
        raise AnswerError(f"returned {what} that is no JSON: {error}") from None
    if size > MOST_BYTES:
        raise AnswerError(f"returned {what} of {size:,} bytes, and the API server takes no more than {MOST_BYTES:,}")
    return copy_json(manifest)


def children(manifests: Iterable[Manifest], namespace: str) -> list[Manifest]:
    """Objects for an owner in *namespace*, where they are, too."""
    found = []
    for manifest in manifests:
        metadata = manifest["metadata"]
        what = f"{manifest['kind']} {cut(metadata['name'])}"
        checked = plain(manifest, what)
        where = metadata.get("namespace", namespace)
        if where != namespace:
            raise AnswerError(f"returned {what} in namespace {where!r}, and its owner is in {namespace!r}")
        owners = metadata.get("ownerReferences", [])
        if not isinstance(owners, list) or not all(isinstance(owner, dict) for owner in owners):
            raise AnswerError(f"returned {what} whose metadata.ownerReferences is no list of mappings")
        found.append(checked)
    return found


def changed(before: Manifest, after: Manifest) -> Manifest:
    """A changed pod or RayCluster that is still the one the operator asked about, and that it will recognise."""
    old, new = before["metadata"], after["metadata"]
    for key in _KEPT:
        if new.get(key) != old.get(key):
            raise AnswerError(f"changed metadata.{key}, by which the operator knows what is its own")
    labels = new.get("labels")
    if not isinstance(labels or {}, dict):
        raise AnswerError("returned a manifest whose metadata.labels is no mapping")
    for key, value in (old.get("labels") or {}).items():
        if key.startswith(_OURS) and (labels or {}).get(key) != value:
            raise AnswerError(f"changed the label {key}, by which the operator knows what is its own")
    for key in ("apiVersion", "kind"):
        if after.get(key) != before.get(key):
            raise AnswerError(f"changed {key}")
    if "containers" in before["spec"]:
        _check_containers(after["spec"].get("containers"))
    return plain(after, "a manifest")


def _check_containers(containers: Any) -> None:
    if not isinstance(containers, list) or not containers:
        raise AnswerError("returned a pod without spec.containers")
    if not all(isinstance(container, dict) and isinstance(container.get("name"), str) for container in containers):
        raise AnswerError("returned a pod with a container that has no name")


def parameters(params: dict[str, str]) -> dict[str, str]:
    """Parameters of ``ray start`` that fit into a command line."""
    for name, value in params.items():
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
            raise AnswerError(f"returned the parameter {cut(name)!r}, a name of letters, digits and dashes is expected")
        if len(value) > MOST_TEXT or value != cut(value):
            raise AnswerError(f"returned {name} with a value that is longer than {MOST_TEXT} characters or no text")
    return params


def problems(found: list[Problem]) -> list[Problem]:
    """Problems that can be told."""
    for problem in found:
        _check_texts(problem, "path", "message", "reason")
        _check_reason(problem.reason)
        if not problem.message:
            raise AnswerError("returned a Problem without a message")
    told = [replace(problem, path=cut(problem.path), message=cut(problem.message)) for problem in found]
    return told[:MOST_SENTENCES]


def wait(found: Wait) -> Wait:
    """A reason to wait that can be told."""
    _check_texts(found, "reason", "event")
    _check_reason(found.event)
    if not found.reason:
        raise AnswerError("returned a Wait without a reason")
    return replace(found, reason=cut(found.reason))


def sentences(found: Iterable[str]) -> list[str]:
    """Reasons that fit into a condition."""
    return [cut(text) for text in found][:MOST_SENTENCES]


def secret(found: RandomSecret) -> RandomSecret:
    """A Secret that can be made."""
    _check_texts(found, "name")
    if sum(found.keys.values()) > MOST_BYTES // 2:
        raise AnswerError(f"returned the Secret {cut(found.name)} of more than {MOST_BYTES // 2:,} bytes")
    return replace(found, keys=_texts(found.keys, None), labels=_texts(found.labels, str))


def pod_annotations(found: PodAnnotations) -> PodAnnotations:
    """Annotations that can be written."""
    _check_texts(found, "pod")
    return replace(found, annotations=_texts(found.annotations, str))


def step(found: UpgradeStep, namespace: str) -> UpgradeStep:
    """A step whose texts can be told and whose pause ends."""
    if found.look_after is not None and not timedelta(0) <= found.look_after <= LONGEST_PAUSE:
        raise AnswerError(f"returned a step whose look_after is {found.look_after}, a day at most is expected")
    manifests = children(found.manifests, namespace)
    same_type = tuple(manifests) if isinstance(found.manifests, tuple) else manifests
    return replace(found, message=cut(found.message), waiting=cut(found.waiting), manifests=same_type)


def cut(text: str) -> str:
    """At most `MOST_TEXT` characters, all of them such that JSON can carry them."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= MOST_TEXT else text[: MOST_TEXT - 1] + "…"


def _check_texts(item: Any, *fields: str) -> None:
    for field in fields:
        value = getattr(item, field)
        if not isinstance(value, str):
            raise AnswerError(f"returned a {type(item).__name__} whose {field} is {cut(repr(value))}, no text")


def _check_reason(reason: str) -> None:
    if not _REASON.fullmatch(reason):
        raise AnswerError(f"returned the reason {cut(reason)!r}, one word of letters and digits is expected")


def _texts(mapping: Any, values: type | None) -> dict[str, Any]:
    if not isinstance(mapping, Mapping):
        raise AnswerError(f"returned {type(mapping).__name__} where a mapping is expected")
    for key, value in mapping.items():
        if not isinstance(key, str) or (values is not None and not isinstance(value, values)):
            raise AnswerError(f"returned {cut(repr(key))}: {cut(repr(value))}, names and values must be texts")
    return plain(dict(mapping), "a mapping")
