"""Which reconcile keys a change concerns: the object itself, its controller owner, and jobs that refer to it by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import JOB, PERSISTENT_VOLUME_CLAIM, POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, SECRET, Kind
from kuberay.api.names import HEAD, LABEL_CLUSTER, LABEL_NODE_TYPE, LABEL_ORIGIN_CRD, LABEL_ORIGIN_NAME
from kuberay.api.objects import Object, RayObject


class Key(NamedTuple):
    """One object to look at. Nothing about the event that led here is kept: reconciling is level-triggered."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"


RECONCILED = {kind.kind: kind for kind in (RAYCLUSTER, RAYJOB, RAYCRONJOB)}
"""Kinds with a plan, by their name in owner references."""


_OVER = (JobDeploymentStatus.COMPLETE, JobDeploymentStatus.FAILED)

_BY_LABEL = (SECRET, PERSISTENT_VOLUME_CLAIM, JOB)
"""Kinds that serve a RayCluster without being owned by it: a user's Secret, a claim that is to be retained, the cleanup
Job of a cluster that is deleted in the foreground."""


class SelectorIndex:
    """RayJobs to look at because of what they do not own: the RayCluster of a ``spec.clusterSelector``, and the head of
    their RayCluster, with which the Ray job and a submitter in the head pod come and go."""

    def __init__(self) -> None:
        self._selected = _ByCluster()
        self._running = _ByCluster()

    def update(self, before: Object | None, after: Object | None) -> None:
        """Follow one RayJob's change."""
        job = after or before
        if job is None:
            return
        selector = after.spec.get("clusterSelector") if isinstance(after, RayObject) else None
        self._selected.set(job, selector.get(LABEL_CLUSTER) if isinstance(selector, dict) else None)
        over = isinstance(after, RayObject) and after.status.get("jobDeploymentStatus") in _OVER
        self._running.set(
            job, after.status.get("rayClusterName") if isinstance(after, RayObject) and not over else None
        )

    def users_of(self, namespace: str, cluster: str) -> Iterator[Key]:
        """The RayJobs that select a RayCluster."""
        return self._selected.jobs(namespace, cluster)

    def running_on(self, namespace: str, cluster: str) -> Iterator[Key]:
        """The RayJobs that a RayCluster is for, and that have not ended."""
        return self._running.jobs(namespace, cluster)


class _ByCluster:
    """RayJobs by the name of one RayCluster each."""

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], set[str]] = {}
        self._target: dict[tuple[str, str], str] = {}

    def set(self, job: Object, cluster: Any) -> None:
        key = (job.namespace, job.name)
        old = self._target.pop(key, "")
        if old:
            jobs = self._jobs[job.namespace, old]
            jobs.discard(job.name)
            if not jobs:
                del self._jobs[job.namespace, old]
        if isinstance(cluster, str) and cluster:
            self._target[key] = cluster
            self._jobs.setdefault((job.namespace, cluster), set()).add(job.name)

    def jobs(self, namespace: str, cluster: str) -> Iterator[Key]:
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
    elif kind == POD and obj.metadata.labels.get(LABEL_ORIGIN_CRD) == RAYJOB.kind:
        # A submitter: its owner is the Job.
        yield Key(RAYJOB, obj.namespace, obj.metadata.labels.get(LABEL_ORIGIN_NAME, ""))
    elif kind == POD and obj.metadata.labels.get(LABEL_NODE_TYPE) == HEAD:
        yield from selectors.running_on(obj.namespace, obj.metadata.labels.get(LABEL_CLUSTER, ""))
