"""What a write does to field ownership: who claims what afterwards, and when an apply conflicts.

Claims live in ``metadata.managedFields``, one entry per manager, operation and subresource.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

import orjson
from kuberay.api.kinds import Kind

from kuberay_testkit.sim import fields, merge
from kuberay_testkit.sim.fields import Path, Paths
from kuberay_testkit.sim.status import APIError, apply_conflict, invalid


@dataclass(frozen=True, slots=True)
class Manager:
    """Who wrote, and how."""

    name: str
    operation: Literal["Apply", "Update"]
    api_version: str
    subresource: str = ""


@dataclass(slots=True)
class Claim:
    """The fields one manager owns since *time* (RFC 3339)."""

    paths: Paths
    time: str
    _encoded: bytes | None = field(default=None, repr=False)

    def encoded(self) -> orjson.Fragment:
        """``fieldsV1``, ready to be part of a serialised object."""
        if self._encoded is None:
            self._encoded = _encode(self.paths)
        return orjson.Fragment(self._encoded)


Claims = Mapping[Manager, Claim]


@lru_cache(maxsize=1024)
def _encode(paths: Paths) -> bytes:
    """Cached: objects made from one template claim the same fields."""
    return orjson.dumps(fields.encode(paths))


def render(claims: Claims) -> list[dict[str, Any]]:
    """``metadata.managedFields``: applies first, then by time and name."""
    entries = []
    ordered = sorted(claims.items(), key=lambda item: (item[0].operation, item[1].time, item[0].name))
    for manager, claim in ordered:
        entry: dict[str, Any] = {
            "manager": manager.name,
            "operation": manager.operation,
            "apiVersion": manager.api_version,
            "time": claim.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": claim.encoded(),
        }
        if manager.subresource:
            entry["subresource"] = manager.subresource
        entries.append(entry)
    return entries


def after_update(
    old: Mapping[str, Any], new: Mapping[str, Any], claims: Claims, manager: Manager, now: str
) -> dict[Manager, Claim]:
    """Claims after a create, PUT or patch that is not an apply: the writer takes what it changed from everybody."""
    difference = fields.compare(old, new)
    if not difference:
        return dict(claims)
    gone = difference.changed | difference.removed
    result: dict[Manager, Claim] = {}
    for other, claim in claims.items():
        if other == manager or claim.paths.isdisjoint(gone):
            result[other] = claim
        elif left := claim.paths - gone:
            result[other] = Claim(left, claim.time)
    mine = result.pop(manager, None)
    paths = frozenset(((mine.paths if mine else frozenset()) | difference.changed) - difference.removed)
    if paths:
        same = mine is not None and mine.paths == paths and not difference.changed
        result[manager] = mine if same and mine is not None else Claim(paths, now)
    return result


def apply(
    live: bytes,
    config: Mapping[str, Any],
    claims: Claims,
    manager: Manager,
    *,
    force: bool,
    now: str,
) -> tuple[dict[str, Any], dict[Manager, Claim]]:
    """Lay *config* over *live* (JSON) for *manager*, and drop what it claimed before and nobody claims now.

    Returns the new object and claims. Raises a 409 `APIError` when another manager's field would change and *force* is
    off.
    """
    before: dict[str, Any] = orjson.loads(live)
    body: dict[str, Any] = orjson.loads(live)
    check_keys(config)
    wanted = fields.paths_of(config)
    merge.overlay(body, orjson.loads(orjson.dumps(config)))
    others = {other: claim for other, claim in claims.items() if other != manager}
    mine = claims.get(manager)
    if mine is not None:
        dropped = _droppable(mine.paths - wanted, others)
        if dropped:
            merge.remove(body, dropped)
    difference = fields.compare(before, body)
    clashes = [(other, path) for other, claim in others.items() for path in sorted(claim.paths & difference.changed)]
    if clashes and not force:
        raise apply_conflict([(_printed(other), fields.show(path)) for other, path in clashes])
    lost = difference.removed | {path for _, path in clashes}
    result: dict[Manager, Claim] = {}
    for other, claim in others.items():
        if claim.paths.isdisjoint(lost):
            result[other] = claim
        elif left := claim.paths - lost:
            result[other] = Claim(left, claim.time)
    if wanted:
        same = mine is not None and mine.paths == wanted
        result[manager] = mine if same and not difference and mine is not None else Claim(wanted, now)
    return body, result


def check_keys(config: Mapping[str, Any]) -> None:
    """Raise the 500 a real server answers when a keyed list of an applied configuration names a key twice."""
    found = fields.repeated_key(config)
    if found:
        raise APIError(500, "", f"failed to create typed patch object: {found}")


def _droppable(candidates: Paths, others: Claims) -> set[Path]:
    """Those of *candidates* that no other manager claims, neither themselves nor anything inside them."""
    if not candidates:
        return set()
    kept: set[Path] = set()
    for claim in others.values():
        for path in claim.paths:
            for depth in range(1, len(path) + 1):
                kept.add(path[:depth])
    return set(candidates - kept)


def check_emptied(kind: Kind, name: str, wanted: Mapping[str, Any], claims: Claims, manager: Manager) -> None:
    """Raise the 422 for an empty map that is applied in place of one whose content was all of *manager*: it becomes null,
    which no CRD schema accepts."""
    mine = claims.get(manager)
    if mine is None:
        return
    theirs = [claim.paths for other, claim in claims.items() if other != manager]
    for path in sorted(fields.paths_of(wanted)):
        value: Any = wanted
        for element in path:
            value = value.get(element[2:]) if isinstance(value, dict) and element.startswith("f:") else None
        if value != {} or path[0] == "f:metadata" or not _is_above(path, mine.paths):
            continue
        if not any(_is_above(path, paths) for paths in theirs):
            place = [element[2:] for element in path]
            why = f'Invalid value: "null": {".".join(place[1:])} in body must be of type object: "null"'
            raise invalid(kind, name, ("FieldValueTypeInvalid", ".".join(place), why))


def _is_above(path: Path, others: Paths) -> bool:
    return any(len(other) > len(path) and other[: len(path)] == path for other in others)


def _printed(manager: Manager) -> str:
    text = f'"{manager.name}"'
    if manager.subresource:
        text += f' with subresource "{manager.subresource}"'
    if manager.operation == "Update":
        text += f" using {manager.api_version}"
    return text


def same_claims(first: Claims, second: Claims) -> bool:
    """Whether two maps claim the same, whatever the times."""
    if first.keys() != second.keys():
        return False
    return all(first[manager].paths == second[manager].paths for manager in first)
