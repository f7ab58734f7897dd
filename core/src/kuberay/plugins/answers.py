"""What each hook may give back: an answer of another type is the plugin's failure, told in one sentence.

Every function takes the raw answer and returns it in its full form (None becomes the empty answer), or raises `AnswerError`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from kuberay.hooks.service_upgrade import ServiceUpgradeStrategy, Share, UpgradeStep
from kuberay.hooks.types import Manifest, PodAnnotations, RandomSecret, UpgradeContext, UpgradeStrategy, Wait

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


@dataclass(slots=True)
class BeforePods:
    """What `pre_create_pods` gave, by what it is."""

    manifests: list[Manifest] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    secrets: list[RandomSecret] = field(default_factory=list)
    annotations: list[PodAnnotations] = field(default_factory=list)


def before_pods(kinds: Collection[tuple[str, str]], answer: Any) -> BeforePods:
    """A `Wait`, or a list of those, manifests of *kinds* (apiVersion and kind), `RandomSecret` and `PodAnnotations`."""
    if isinstance(answer, Wait):
        return BeforePods(waits=[answer])
    if not isinstance(answer, list | tuple):
        return BeforePods(objects(kinds, answer))
    found = BeforePods()
    manifests = []
    for item in answer:
        if isinstance(item, Wait):
            found.waits.append(item)
        elif isinstance(item, PodAnnotations):
            found.annotations.append(item)
        elif isinstance(item, RandomSecret):
            if not item.name or not item.keys or not all(type(n) is int and n > 0 for n in item.keys.values()):
                raise AnswerError(f"returned {item!r}: a name and keys with a positive number of bytes are expected")
            if ("v1", "Secret") not in kinds:
                raise AnswerError(f"returned the Secret {item.name}, a kind its watches() does not name")
            found.secrets.append(item)
        else:
            manifests.append(item)
    found.manifests = objects(kinds, manifests)
    return found


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
    """The RayCluster's strategy that ``ctx.type`` names, or None; one for RayServices is none."""
    if answer is None or isinstance(answer, ServiceUpgradeStrategy):
        return None
    if not isinstance(answer, UpgradeStrategy):
        raise AnswerError(f"returned {_type(answer)}, an UpgradeStrategy or None is expected")
    _check_name(ctx, answer.name)
    if not callable(answer.recreate_all):
        raise AnswerError(
            f"returned a strategy whose recreate_all is {_type(answer.recreate_all)}, a function is expected"
        )
    return answer


def service_strategy(ctx: UpgradeContext, answer: Any) -> ServiceUpgradeStrategy | None:
    """The RayService's strategy that ``ctx.type`` names, or None; one for RayClusters is none."""
    if answer is None or isinstance(answer, UpgradeStrategy):
        return None
    if not isinstance(answer, ServiceUpgradeStrategy):
        raise AnswerError(f"returned {_type(answer)}, a ServiceUpgradeStrategy or None is expected")
    _check_name(ctx, answer.name)
    if answer.on_change not in ("new-cluster", "same-cluster", "ignore"):
        raise AnswerError(f"returned a strategy whose on_change is {answer.on_change!r}")
    if not isinstance(answer.own_services, bool):
        raise AnswerError(
            f"returned a strategy whose own_services is {answer.own_services!r}, True or False is expected"
        )
    for first_cluster in (True, False):
        _check_share(Share(capacity=answer.first_capacity(first_cluster=first_cluster)))
    return answer


def _check_name(ctx: UpgradeContext, name: str) -> None:
    if name != ctx.type:
        raise AnswerError(f"returned the strategy {name!r} when {ctx.type!r} was asked for")


def upgrade_step(kinds: Collection[tuple[str, str]], answer: Any) -> UpgradeStep:
    """A step that can be performed: one ending at most, shares in percent, and manifests of *kinds*."""
    if not isinstance(answer, UpgradeStep):
        raise AnswerError(f"returned {_type(answer)}, an UpgradeStep is expected")
    for side in (answer.active, answer.pending):
        _check_share(side)
    for name, kind in _STEP_FIELDS.items():
        if not isinstance(getattr(answer, name), kind):
            raise AnswerError(f"returned a step whose {name} is {getattr(answer, name)!r}")
    endings = [name for name in ("promote", "give_up", "replace") if getattr(answer, name)]
    if len(endings) > 1:
        raise AnswerError(f"returned a step with both {' and '.join(endings)}")
    objects(kinds, answer.manifests)
    return answer


_STEP_FIELDS: Mapping[str, Any] = {
    "promote": bool,
    "give_up": bool,
    "replace": bool,
    "rolling_back": bool,
    "message": str,
    "waiting": str,
    "look_after": timedelta | None,
}


def _check_share(share: Any) -> None:
    if share is None:
        return
    if not isinstance(share, Share):
        raise AnswerError(f"returned a step with {_type(share)} where a Share or None is expected")
    for percent in (share.capacity, share.traffic):
        if percent is not None and (type(percent) is not int or not 0 <= percent <= 100):
            raise AnswerError(f"returned a share of {percent!r}, a whole number from 0 to 100 or None is expected")
    if share.moved is not None and (not isinstance(share.moved, datetime) or share.moved.tzinfo is None):
        raise AnswerError(f"returned a share moved at {share.moved!r}, a time with a time zone is expected")


def yes_or_no(answer: Any) -> bool:
    """True or False, and nothing that only counts as one of them."""
    if not isinstance(answer, bool):
        raise AnswerError(f"returned {_type(answer)}, True or False is expected")
    return answer


def mapping(answer: Any) -> dict[str, Any]:
    """A mapping."""
    if not isinstance(answer, Mapping):
        raise AnswerError(f"returned {_type(answer)}, a mapping or None is expected")
    return dict(answer)


def sentences(answer: Any) -> Sequence[str]:
    """Reasons as text."""
    return list_of(str, answer)


def _type(value: Any) -> str:
    return "None" if value is None else type(value).__name__
