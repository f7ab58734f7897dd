"""When a RayCluster carries the finalizer that keeps it until its keys are gone from Redis, and whether there are any.

Source: spec raycluster.md 6.1, cases.md RC-21. The deletion itself is decided in `cluster_deletion`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kuberay.api import names
from kuberay.api.conditions import ClusterCondition, find_condition
from kuberay.api.kinds import RAYCLUSTER, Kind
from kuberay.api.objects import Object, Pod
from kuberay.plan.build.gcs_ft import storage_namespace
from kuberay.plan.cluster.conditions import Conditions
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.pod_health import head_started
from kuberay.plan.model import Event, Patch, Write
from kuberay.plan.observed import Observed

_UNUSED = ("HeadNeverStarted", "The head has not started yet: nothing has to be cleaned up in Redis")


def finalizer_writes(cluster: ClusterPass, *, may_make_pods: bool) -> list[Write]:
    """Adds the finalizer before the first pod is made, and takes it away when there is nothing left to do with it."""
    observed = cluster.observed
    present = names.REDIS_FINALIZER in observed.obj.metadata.finalizers
    in_redis = cluster.form.spec.gcs_ft_redis(observed.obj.metadata.annotations)
    wanted = in_redis and observed.config.redis_cleanup
    if present == wanted or not (present or may_make_pods):
        return []
    if wanted:
        added = [*observed.obj.metadata.finalizers, names.REDIS_FINALIZER]
        return [replace(_set_finalizers(observed, added), must_exist=True)]
    if in_redis or never_used(observed, cluster.children.heads):
        return [remove_finalizer(observed, None)]
    annotations = [pod.metadata.annotations for pod in cluster.children.heads]
    known = next(filter(None, (a.get(names.ANNOTATION_EXTERNAL_STORAGE_NAMESPACE) for a in annotations)), "")
    why = "fault tolerance with Redis is no longer in the spec"
    return [remove_finalizer(observed, skipped(cluster.place, why, known or storage_namespace_of(cluster)))]


def remove_finalizer(observed: Observed, told: Event | None) -> Patch:
    """Lets the object go; *told* is the event when that has happened."""
    return _set_finalizers(
        observed, [name for name in observed.obj.metadata.finalizers if name != names.REDIS_FINALIZER], told
    )


def unchanged(kind: Kind, obj: Object) -> Patch:
    """Changes nothing, and fails when *obj* is gone or no longer the version that was seen."""
    return Patch(
        kind=kind,
        namespace=obj.namespace,
        name=obj.name,
        body={"metadata": {"uid": obj.uid}},
        resource_version=obj.metadata.resource_version,
        must_exist=True,
    )


def skipped(place: str, why: str, namespace: str) -> Event:
    """The Warning that keys may remain."""
    note = (
        f"Removed the Redis cleanup finalizer of RayCluster {place} without cleaning up: {why}; Redis storage namespace "
        f'"{namespace}" may need manual cleanup'
    )
    return Event("RedisCleanupSkipped", note, type="Warning", action="Cleanup")


def storage_namespace_of(cluster: ClusterPass) -> str:
    """The storage namespace that the object asks for."""
    obj = cluster.observed.obj
    return storage_namespace(cluster.form.spec, obj.uid, obj.metadata.annotations)


def set_unused(cluster: ClusterPass, conditions: Conditions) -> None:
    """Keeps `RedisStorageUnused` from the first look at a cluster until one of its heads has started, or is gone and
    nobody knows whether it had. Asked before the head's own condition is set."""
    obj, heads = cluster.observed.obj, cluster.children.heads
    told = None
    if cluster.form.spec.gcs_ft_redis(obj.metadata.annotations) and not any(map(head_started, heads)):
        seen = (obj.status.get("head") or {}).get("podName")
        lost = bool(seen) and all(pod.name != seen for pod in heads)
        is_first_look = find_condition(conditions.items, ClusterCondition.HEAD_POD_READY) is None
        if not lost and (is_first_look or conditions.true(ClusterCondition.REDIS_UNUSED)):
            told = _UNUSED
    conditions.set_present(ClusterCondition.REDIS_UNUSED, told)


def never_used(observed: Observed, heads: Sequence[Pod]) -> bool:
    """Whether no head of the cluster has ever started, as far as that is certain."""
    status = observed.obj.status
    conditions = status.get("conditions") or ()
    if any(map(head_started, heads)):
        return False
    unused = find_condition(conditions, ClusterCondition.REDIS_UNUSED) is not None
    if heads:
        return unused or find_condition(conditions, ClusterCondition.HEAD_POD_READY) is None
    return unused and not (status.get("head") or {}).get("podName")


def _set_finalizers(observed: Observed, finalizers: list[str], done: Event | None = None) -> Patch:
    obj = observed.obj
    return Patch(
        kind=RAYCLUSTER,
        namespace=obj.namespace,
        name=obj.name,
        body={"metadata": {"finalizers": finalizers}},
        resource_version=obj.metadata.resource_version,
        done=done,
    )
