"""Whose pods an edit makes anew, by the rules the passes go by: the spec's hash for Recreate, each group's for Rolling.

Source: spec raycluster.md 4.9, cases.md RC-04 and RC-17.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.plan.build.group_hash import group_hashes, known_scheme, same_but_size
from kuberay.plan.build.spec_hash import spec_hash
from kuberay.plan.edit.changes import FieldChange

Manifest = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Older:
    """Which running pods were made from an earlier spec than the one that is stored."""

    cluster: bool = False
    """The head says so of the spec as a whole."""
    groups: frozenset[str] = frozenset()
    """Groups with pods that say so of their group."""


def older_pods(stored: Manifest, pods: Iterable[Manifest]) -> Older:
    """*stored* is the object as the API server holds it, *pods* are those of the cluster."""
    spec = stored.get("spec") or {}
    try:
        parsed = RayClusterSpec.parse(spec)
    except ValidationError:
        return Older()
    wanted, hashes = spec_hash(spec), group_hashes(spec, parsed)
    older, groups = False, set()
    for pod in pods:
        metadata = pod.get("metadata") or {}
        annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
        group = labels.get(names.LABEL_GROUP, "")
        if labels.get(names.LABEL_NODE_TYPE) == names.HEAD:
            told = annotations.get(names.ANNOTATION_UPGRADE_HASH)
            older = older or (bool(told) and told != wanted)
        told = annotations.get(names.ANNOTATION_GROUP_HASH, "")
        if told and known_scheme(told) and told != hashes.get(group, told):
            groups.add(group)
    return Older(older, frozenset(groups))


@dataclass(slots=True)
class Outdated:
    """What the whole edit makes anew. `of_change` says the same of one field."""

    before: Manifest
    after: Manifest
    strategy: str
    older: Older = field(default_factory=Older)
    recreates: bool = False
    """All pods at once."""
    rolled: set[str] = field(default_factory=set)
    """Groups whose pods are replaced step by step; among them `HEAD_GROUP`."""
    resized: set[str] = field(default_factory=set)
    """Those of `rolled` in which only CPU or memory of containers change."""

    def __post_init__(self) -> None:
        if self.strategy == "Recreate":
            self.recreates = self.older.cluster or _spec_hash(self.before) != _spec_hash(self.after)
        elif self.strategy == "Rolling":
            old, new = _group_hashes(self.before), _group_hashes(self.after)
            self.rolled = {
                name for name in new if name in old and (name in self.older.groups or old[name] != new[name])
            }
            self.resized = {name for name in self.rolled - self.older.groups if same_but_size(old[name], new[name])}

    def of_change(self, change: FieldChange) -> set[str]:
        """Groups that this field alone makes anew; with Recreate the empty name stands for all."""
        if self.strategy not in ("Recreate", "Rolling") or change.steps[0] != "spec":
            return set()
        pairs = (
            (self.before, change.made_in(self.before)),
            (change.made_in(self.after, backwards=True), self.after),
        )
        if self.strategy == "Recreate":
            return {""} if any(_spec_hash(one) != _spec_hash(other) for one, other in pairs) else set()
        found: set[str] = set()
        for one, other in pairs:
            try:
                old, new = _group_hashes(one), _group_hashes(other)
            except ValidationError:
                continue  # Half an edit need not be a spec.
            found |= {name for name in self.rolled if name in old and name in new and old[name] != new[name]}
        return found


def _spec_hash(manifest: Manifest) -> str:
    return spec_hash(manifest.get("spec") or {})


def _group_hashes(manifest: Manifest) -> dict[str, str]:
    spec = manifest.get("spec") or {}
    return group_hashes(spec, RayClusterSpec.parse(spec))
