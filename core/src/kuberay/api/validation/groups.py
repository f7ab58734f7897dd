"""Whether head and worker groups are refused: containers, replica counts, resources, labels, names.

Source: spec raycluster.md 1.8 rules 1-11. Problems are pairs of field path below the spec and message.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuberay.api.cluster import GroupSpec, RayClusterSpec, WorkerGroupSpec
from kuberay.api.syntax import label_key_errors, label_value_errors
from kuberay.api.versions import Version, parse_version

Found = tuple[str, str]

PRIORITY_SINCE = Version(2, 56)
_RESOURCE_PARAMS = ("num-cpus", "num-gpus", "memory", "resources")


def head_problems(spec: RayClusterSpec) -> Iterator[Found]:
    """Rules 1-4."""
    head = spec.head_group_spec
    if not head.pod_spec.get("containers"):
        yield (
            "headGroupSpec.template.spec.containers",
            "headGroupSpec should have at least one container",
        )
    yield from _resource_and_label_problems(head, "headGroupSpec", "Head")


def worker_problems(spec: RayClusterSpec) -> Iterator[Found]:
    """Rules 5-11, group by group."""
    for index, group in enumerate(spec.worker_group_specs):
        path = f"workerGroupSpecs[{index}]"
        if not group.pod_spec.get("containers"):
            yield f"{path}.template.spec.containers", "workerGroupSpec should have at least one container"
        yield from _replica_problems(spec, group, path)
        yield from _resource_and_label_problems(group, path, group.group_name)
        yield from _idle_problems(spec, group, path)
        if group.priority:
            yield from _priority_problems(spec, group, path)


def group_name_problems(spec: RayClusterSpec) -> Iterator[Found]:
    """Names that are missing or used twice. KubeRay leaves these to the schema and to an optional webhook."""
    seen: set[str] = set()
    for index, group in enumerate(spec.worker_group_specs):
        path = f"workerGroupSpecs[{index}].groupName"
        if not group.group_name:
            yield path, "worker group name must not be empty"
        elif group.group_name in seen:
            yield path, "worker group names must be unique"
        seen.add(group.group_name)


def _replica_problems(spec: RayClusterSpec, group: WorkerGroupSpec, path: str) -> Iterator[Found]:
    name, low, high = group.group_name, group.min_replicas, group.max_replicas
    if not spec.autoscaling and (low is None or high is None):
        missing = "minReplicas" if low is None else "maxReplicas"
        yield (
            f"{path}.{missing}",
            f"worker group {name} must set both minReplicas and maxReplicas when autoscaling is disabled",
        )
    if low is not None and low < 0:
        yield f"{path}.minReplicas", f"worker group {name} has negative minReplicas {low}"
    elif high is not None and high < 0:
        yield f"{path}.maxReplicas", f"worker group {name} has negative maxReplicas {high}"
    elif group.lower > group.upper:
        yield (
            f"{path}.minReplicas",
            f"worker group {name} has minReplicas {group.lower} greater than maxReplicas {group.upper}",
        )


def _resource_and_label_problems(group: GroupSpec, path: str, name: str) -> Iterator[Found]:
    params = group.ray_start_params
    if group.resources and any(params.get(key) for key in _RESOURCE_PARAMS):
        yield (
            f"{path}.resources",
            f"resource fields should not be set in both rayStartParams and Resources for {name} group;"
            " please use only one",
        )
    if "labels" in params:
        yield (
            f"{path}.rayStartParams.labels",
            f"rayStartParams['labels'] is not supported for {name} group; please use the top-level Labels field"
            " instead",
        )
    errors = []
    for key, value in sorted(group.labels.items()):
        wrong = "; ".join(label_key_errors(key))
        if wrong:
            errors.append(f"invalid label key for {name} group: '{key}', error: {wrong}")
        wrong = "; ".join(label_value_errors(value))
        if wrong:
            errors.append(f"invalid label value for key '{key}' in {name} group: '{value}', error: {wrong}")
    if errors:
        yield f"{path}.labels", "; ".join(errors)


def _idle_problems(spec: RayClusterSpec, group: WorkerGroupSpec, path: str) -> Iterator[Found]:
    seconds, where = group.idle_timeout_seconds, f"{path}.idleTimeoutSeconds"
    if seconds is None:
        return
    if seconds < 0:
        yield where, f"worker group {group.group_name}: idleTimeoutSeconds must be non-negative, got {seconds}"
    if not spec.autoscaler_v2:
        yield (
            where,
            f"worker group {group.group_name}: idleTimeoutSeconds is set, but autoscaler v2 is not enabled. Please set"
            " .spec.autoscalerOptions.version to 'v2' (or set RAY_enable_autoscaler_v2 environment variable to 'true'"
            " in the head pod if using KubeRay < 1.4.0)",
        )


def _priority_problems(spec: RayClusterSpec, group: WorkerGroupSpec, path: str) -> Iterator[Found]:
    where, subject = f"{path}.priority", f"worker group {group.group_name}: priority is set"
    if not spec.ray_version:
        yield (
            where,
            f"{subject}, but RayVersion was not specified. Ray version {PRIORITY_SINCE} or later is required",
        )
        return
    try:
        version = parse_version(spec.ray_version)
    except ValueError as error:
        yield where, f"{subject}, but RayVersion format is invalid: {spec.ray_version}, {error}"
        return
    if version < PRIORITY_SINCE:
        yield where, f"{subject}, but minimum Ray version is {PRIORITY_SINCE}, got {spec.ray_version}"
    if not spec.autoscaler_v2:
        yield (
            where,
            f"{subject} to {group.priority}, but autoscaler v2 is not enabled. Priority is only supported with"
            " autoscaler v2 enabled",
        )
