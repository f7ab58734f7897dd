"""Which reconcile keys a change concerns: the object itself, its controller owner, and jobs that refer to it by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kuberay.api.kinds import JOB, PERSISTENT_VOLUME_CLAIM, RAYCLUSTER, RAYJOB, SECRET, Kind
from kuberay.api.names import LABEL_CLUSTER
from kuberay.api.objects import Object, RayObject


class Key(NamedTuple):
    """One object to look at. Nothing about the event that led here is kept: reconciling is level-triggered."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"


RECONCILED = {kind.kind: kind for kind in (RAYCLUSTER, RAYJOB)}
"""Kinds with a plan, by their name in owner references."""


_BY_LABEL = (SECRET, PERSISTENT_VOLUME_CLAIM, JOB)
"""Kinds that serve a RayCluster without being owned by it: a user's Secret, a claim that is to be retained, the cleanup
Job of a cluster that is deleted in the foreground."""


class SelectorIndex:
    """RayJobs that use a RayCluster they do not own (``spec.clusterSelector``), by that cluster."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], set[str]] = {}
        self._target: dict[tuple[str, str], str] = {}

    def update(self, before: Object | None, after: Object | None) -> None:
        """Follow one RayJob's change."""
        job = after or before
        if job is None:
            return
        key = (job.namespace, job.name)
        old = self._target.pop(key, "")
        if old:
            self._jobs.get((job.namespace, old), set()).discard(job.name)
        selector = after.spec.get("clusterSelector") if isinstance(after, RayObject) else None
        name = selector.get(LABEL_CLUSTER) if isinstance(selector, dict) else None
        if isinstance(name, str) and name:
            self._target[key] = name
            self._jobs.setdefault((job.namespace, name), set()).add(job.name)

    def users_of(self, namespace: str, cluster: str) -> Iterator[Key]:
        for name in sorted(self._jobs.get((namespace, cluster), ())):
            yield Key(RAYJOB, namespace, name)


def concerned(kind: Kind, obj: Object, selectors: SelectorIndex) -> Iterator[Key]:
    """Keys to look at because *obj* changed."""
    if kind.kind in RECONCILED and RECONCILED[kind.kind] == kind:
        yield Key(kind, obj.namespace, obj.name)
    owner = obj.metadata.controller
    if owner is not None and owner.kind in RECONCILED and owner.api_version.startswith("ray.io/"):
        yield Key(RECONCILED[owner.kind], obj.namespace, owner.name)
    elif owner is None and kind in _BY_LABEL and obj.metadata.labels.get(LABEL_CLUSTER):
        yield Key(RAYCLUSTER, obj.namespace, obj.metadata.labels[LABEL_CLUSTER])
    if kind == RAYCLUSTER:
        yield from selectors.users_of(obj.namespace, obj.name)
