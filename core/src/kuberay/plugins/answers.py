"""What each hook may give back: an answer of another type is the plugin's failure, told in one sentence.

Every function takes the raw answer and returns it in its full form (None becomes the empty answer), or raises `AnswerError`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeVar

from kuberay.hooks.types import Manifest, UpgradeContext, UpgradeStrategy, Wait

Item = TypeVar("Item")


class AnswerError(Exception):
    """A hook gave back something it must not."""


def list_of(kind: type[Item], answer: Any) -> list[Item]:
    """A list or tuple of *kind*; None is the empty list."""
    if answer is None:
        return []
    if not isinstance(answer, list | tuple):
        raise AnswerError(f"returned {_type(answer)}, a list of {kind.__name__} is expected")
    for item in answer:
        if not isinstance(item, kind):
            raise AnswerError(f"returned a list with {_type(item)} in it, a list of {kind.__name__} is expected")
    return list(answer)


def start_params(answer: Any) -> dict[str, str]:
    """Parameters of ``ray start``: strings to strings."""
    if answer is None:
        return {}
    if not isinstance(answer, Mapping):
        raise AnswerError(f"returned {_type(answer)}, a dictionary of ray start parameters is expected")
    for name, value in answer.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise AnswerError(f"returned {name!r}: {value!r}, names and values must be strings")
        if name.startswith("-"):
            raise AnswerError(f"returned the parameter {name!r}, names are written without dashes")
    return dict(answer)


def changed_manifest(given: Manifest, as_it_was: Manifest, answer: Any) -> Manifest | None:
    """The changed manifest, or None for no change.

    *given* is the copy the plugin got and *as_it_was* what it looked like; a plugin that changed its copy and then
    returned nothing surely meant to return it, so that is refused instead of dropping its work.
    """
    if answer is None:
        if given != as_it_was:
            raise AnswerError("changed the manifest it was given but returned None: return the changed manifest")
        return None
    if not isinstance(answer, dict):
        raise AnswerError(f"returned {_type(answer)}, a manifest (dict) or None is expected")
    for part in ("metadata", "spec"):
        if not isinstance(answer.get(part), dict):
            raise AnswerError(f"returned a manifest without {part}")
    return answer


def objects_and_waits(kinds: Collection[tuple[str, str]], answer: Any) -> tuple[list[Manifest], list[Wait]]:
    """Manifests of *kinds* (apiVersion and kind), a `Wait`, or a list with both."""
    if isinstance(answer, Wait):
        return [], [answer]
    if not isinstance(answer, list | tuple):
        return objects(kinds, answer), []
    waits = [item for item in answer if isinstance(item, Wait)]
    return objects(kinds, [item for item in answer if not isinstance(item, Wait)]), waits


def objects(kinds: Collection[tuple[str, str]], answer: Any) -> list[Manifest]:
    """Manifests with a name, of *kinds* (apiVersion and kind)."""
    found: list[Manifest] = list_of(dict, answer)
    for manifest in found:
        kind = (manifest.get("apiVersion"), manifest.get("kind"))
        metadata = manifest.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if not (isinstance(name, str) and name):
            raise AnswerError(f"returned a {kind[1] or 'manifest'} without metadata.name")
        if kind not in kinds:
            raise AnswerError(f"returned {kind[1]} {name} of {kind[0]}, a kind its watches() does not name")
    return found


def strategy(ctx: UpgradeContext, answer: Any) -> UpgradeStrategy | None:
    """The strategy that ``ctx.type`` names, or None."""
    if answer is None:
        return None
    if not isinstance(answer, UpgradeStrategy):
        raise AnswerError(f"returned {_type(answer)}, an UpgradeStrategy or None is expected")
    if answer.name != ctx.type:
        raise AnswerError(f"returned the strategy {answer.name!r} when {ctx.type!r} was asked for")
    return answer


def sentences(answer: Any) -> Sequence[str]:
    """Reasons as text."""
    return list_of(str, answer)


def _type(value: Any) -> str:
    return "None" if value is None else type(value).__name__
