"""Minimal valid manifests of the Ray kinds, for tests that say only what they care about.

Every call gives a new dictionary. Keyword arguments go into ``spec`` as they are (wire names, camelCase).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

IMAGE = "rayproject/ray:2.52.0"
RAY_VERSION = "2.52.0"

Manifest = dict[str, Any]


def build_pod_template(
    container: str = "ray-worker",
    *,
    image: str = IMAGE,
    cpu: str = "1",
    memory: str = "1Gi",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A pod template with one container; other arguments go into the pod's ``spec``."""
    resources = {"cpu": cpu, "memory": memory}
    body: Manifest = {"name": container, "image": image}
    body["resources"] = {"requests": dict(resources), "limits": dict(resources)}
    template: Manifest = {"spec": {"containers": [body], **spec}}
    metadata = {key: dict(value) for key, value in (("annotations", annotations), ("labels", labels)) if value}
    if metadata:
        template["metadata"] = metadata
    return template


def build_group(name: str = "workers", replicas: int | None = 1, **group: Any) -> Manifest:
    """One worker group; without *replicas* the operator's default counts."""
    body: Manifest = {
        "groupName": name,
        "minReplicas": 0,
        "maxReplicas": max(10, replicas or 0),
        "rayStartParams": {},
        "template": build_pod_template(),
    }
    if replicas is not None:
        body["replicas"] = replicas
    body.update(group)
    return body


def _groups(groups: Mapping[str, int] | Iterable[Manifest] | int) -> list[Manifest]:
    if isinstance(groups, int):
        return [build_group(replicas=groups)] if groups else []
    if isinstance(groups, Mapping):
        return [build_group(name, replicas) for name, replicas in groups.items()]
    return list(groups)


def build_cluster_spec(groups: Mapping[str, int] | Iterable[Manifest] | int = 1, **spec: Any) -> Manifest:
    """``spec`` of a RayCluster. *groups*: worker count of the one group, counts by group name, or whole groups."""
    return {
        "rayVersion": RAY_VERSION,
        "headGroupSpec": {"rayStartParams": {}, "template": build_pod_template("ray-head")},
        "workerGroupSpecs": _groups(groups),
        **spec,
    }


def _metadata(
    name: str, namespace: str, labels: Mapping[str, str] | None, annotations: Mapping[str, str] | None
) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if annotations:
        metadata["annotations"] = dict(annotations)
    return metadata


def build_raycluster(
    name: str = "raycluster",
    *,
    namespace: str = "default",
    groups: Mapping[str, int] | Iterable[Manifest] | int = 1,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Manifest:
    """A RayCluster with a head and worker *groups* (see `build_cluster_spec`)."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": _metadata(name, namespace, labels, annotations),
        "spec": build_cluster_spec(groups, **spec),
    }


def build_rayjob(
    name: str = "rayjob",
    *,
    namespace: str = "default",
    groups: Mapping[str, int] | Iterable[Manifest] | int = 1,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cluster: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """A RayJob that makes its own cluster; *cluster* adds to ``rayClusterSpec``. With ``clusterSelector=`` it makes
    none."""
    body: Manifest = {"entrypoint": "python -c 'import ray; ray.init()'"}
    if "clusterSelector" not in spec:
        body["rayClusterSpec"] = build_cluster_spec(groups, **(cluster or {}))
    body.update(spec)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayJob",
        "metadata": _metadata(name, namespace, labels, annotations),
        "spec": body,
    }


SERVE_CONFIG = """\
applications:
- name: app
  import_path: app:v1
  route_prefix: /
"""


def build_rayservice(
    name: str = "rayservice",
    *,
    namespace: str = "default",
    groups: Mapping[str, int] | Iterable[Manifest] | int = 1,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    cluster: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """A RayService with one Serve application; *cluster* adds to ``rayClusterConfig``."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "metadata": _metadata(name, namespace, labels, annotations),
        "spec": {
            "rayClusterConfig": build_cluster_spec(groups, **(cluster or {})),
            "serveConfigV2": SERVE_CONFIG,
            **spec,
        },
    }


def build_raycronjob(
    name: str = "raycronjob",
    schedule: str = "*/5 * * * *",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    template: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """A RayCronJob whose RayJobs make their own clusters; *template* adds to ``jobTemplate``."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCronJob",
        "metadata": _metadata(name, namespace, labels, annotations),
        "spec": {"schedule": schedule, "jobTemplate": build_rayjob(**(template or {}))["spec"], **spec},
    }
