"""Which reconcile keys a change concerns: the object itself, its controller owner, and who refers to it by name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kuberay.api.job import JobDeploymentStatus
from kuberay.api.kinds import (
    ENDPOINT_SLICE,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RAYCLUSTER,
    RAYCRONJOB,
    RAYJOB,
    RAYSERVICE,
    SECRET,
    Kind,
)
from kuberay.api.names import (
    HEAD,
    LABEL_CLUSTER,
    LABEL_NODE_TYPE,
    LABEL_ORIGIN_CRD,
    LABEL_ORIGIN_NAME,
    LABEL_SERVE,
)
from kuberay.api.objects import EndpointSlice, Object, Pod, RayObject


class Key(NamedTuple):
    """One object to look at. Nothing about the event that led here is kept: reconciling is level-triggered."""

    kind: Kind
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.namespace}/{self.name}"


RECONCILED = {kind.kind: kind for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB)}
"""Kinds with a plan, by their name in owner references."""


_OVER = (JobDeploymentStatus.COMPLETE, JobDeploymentStatus.FAILED)

_BY_LABEL = (SECRET, PERSISTENT_VOLUME_CLAIM, JOB)
"""Kinds that serve a RayCluster without being owned by it: a user's Secret, one that goes with a pod of the cluster, a claim
that is to be retained, the cleanup Job of a cluster that is deleted in the foreground."""


class References:
    """Objects to look at because of what they do not own: RayJobs because of the RayCluster of a ``spec.clusterSelector``
    and of the head of their RayCluster, with which the Ray job and a submitter in the head pod come and go; RayServices
    because of the pods of their active and pending RayCluster."""

    def __init__(self) -> None:
        self._selected = _ByCluster(RAYJOB)
        self._running = _ByCluster(RAYJOB)
        self._serving = _ByCluster(RAYSERVICE)

    def update(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """Follow one object's change; of kinds that refer to nothing, too."""
        obj = after or before
        if obj is None or kind not in (RAYJOB, RAYSERVICE):
            return
        ray = after if isinstance(after, RayObject) else None
        if kind == RAYSERVICE:
            self._serving.set(obj, *(_serving_clusters(ray) if ray is not None else ()))
            return
        selector = ray.spec.get("clusterSelector") if ray is not None else None
        self._selected.set(obj, selector.get(LABEL_CLUSTER) if isinstance(selector, dict) else None)
        over = ray is None or ray.status.get("jobDeploymentStatus") in _OVER
        self._running.set(obj, ray.status.get("rayClusterName") if ray is not None and not over else None)

    def users_of(self, namespace: str, cluster: str) -> Iterator[Key]:
        """The RayJobs that select a RayCluster."""
        return self._selected.users(namespace, cluster)

    def running_on(self, namespace: str, cluster: str) -> Iterator[Key]:
        """The RayJobs that a RayCluster is for, and that have not ended."""
        return self._running.users(namespace, cluster)

    def served_by(self, namespace: str, cluster: str) -> Iterator[Key]:
        """The RayServices whose active or pending RayCluster it is."""
        return self._serving.users(namespace, cluster)


def _serving_clusters(service: RayObject) -> Iterator[Any]:
    for side in ("activeServiceStatus", "pendingServiceStatus"):
        stored = service.status.get(side)
        yield stored.get("rayClusterName") if isinstance(stored, dict) else None


class _ByCluster:
    """Objects of one kind by the names of the RayClusters they refer to."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind
        self._users: dict[tuple[str, str], set[str]] = {}
        self._targets: dict[tuple[str, str], set[str]] = {}

    def set(self, user: Object, *clusters: Any) -> None:
        key = (user.namespace, user.name)
        old = self._targets.pop(key, set())
        new = {cluster for cluster in clusters if isinstance(cluster, str) and cluster}
        for cluster in old - new:
            users = self._users[user.namespace, cluster]
            users.discard(user.name)
            if not users:
                del self._users[user.namespace, cluster]
        for cluster in new - old:
            self._users.setdefault((user.namespace, cluster), set()).add(user.name)
        if new:
            self._targets[key] = new

    def users(self, namespace: str, cluster: str) -> Iterator[Key]:
        for name in sorted(self._users.get((namespace, cluster), ())):
            yield Key(self._kind, namespace, name)


def changed(kind: Kind, before: Object | None, after: Object | None, references: References) -> set[Key]:
    """Keys to look at because an object was what it was *before* and is *after*; None: not there."""
    keys = {key for obj in (before, after) if obj is not None for key in concerned(kind, obj, references)}
    if kind in (POD, ENDPOINT_SLICE):
        services = {key for obj in (before, after) if obj is not None for key in _services_of(kind, obj, references)}
        if services and _for_serving(before) != _for_serving(after):
            keys |= services
    return keys


def concerned(kind: Kind, obj: Object, references: References) -> Iterator[Key]:
    """Keys to look at whatever it is about *obj* that changed."""
    if kind.kind in RECONCILED and RECONCILED[kind.kind] == kind:
        yield Key(kind, obj.namespace, obj.name)
    owner = obj.metadata.controller
    if owner is not None and owner.kind in RECONCILED and owner.api_version.startswith("ray.io/"):
        yield Key(RECONCILED[owner.kind], obj.namespace, owner.name)
    elif kind in _BY_LABEL and obj.metadata.labels.get(LABEL_CLUSTER) and (owner is None or owner.kind == POD.kind):
        yield Key(RAYCLUSTER, obj.namespace, obj.metadata.labels[LABEL_CLUSTER])
    if kind == RAYCLUSTER:
        yield from references.users_of(obj.namespace, obj.name)
    elif kind == POD and obj.metadata.labels.get(LABEL_ORIGIN_CRD) == RAYJOB.kind:
        # A submitter: its owner is the Job.
        yield Key(RAYJOB, obj.namespace, obj.metadata.labels.get(LABEL_ORIGIN_NAME, ""))
    elif kind == POD and obj.metadata.labels.get(LABEL_NODE_TYPE) == HEAD:
        yield from references.running_on(obj.namespace, obj.metadata.labels.get(LABEL_CLUSTER, ""))


def _services_of(kind: Kind, obj: Object, references: References) -> Iterator[Key]:
    """RayServices that a pod serves, or that an EndpointSlice counts for."""
    labels = obj.metadata.labels
    if kind == POD:
        yield from references.served_by(obj.namespace, labels.get(LABEL_CLUSTER, ""))
    elif labels.get(LABEL_ORIGIN_CRD) == RAYSERVICE.kind and labels.get(LABEL_ORIGIN_NAME):
        # The label is the service's, which names a RayService, or the RayCluster that a service of its own is for.
        yield Key(RAYSERVICE, obj.namespace, labels[LABEL_ORIGIN_NAME])
        yield from references.served_by(obj.namespace, labels[LABEL_ORIGIN_NAME])


def _for_serving(obj: Object | None) -> object:
    """What of a pod or an EndpointSlice matters to a RayService: they change often in other ways."""
    if isinstance(obj, EndpointSlice):
        return obj.ready or None
    if not isinstance(obj, Pod) or not obj.status.pod_ip:
        return None  # Not there, or not yet.
    return (
        obj.uid,
        obj.metadata.deletion_timestamp,
        obj.metadata.labels.get(LABEL_SERVE),
        obj.status.phase,
        obj.status.pod_ip,
        [(each.name, each.ready, each.restart_count) for each in obj.status.container_statuses],
        [(each.status, each.last_transition_time) for each in obj.status.conditions if each.type == "Ready"],
    )
