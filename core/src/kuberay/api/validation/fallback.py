"""Whether the fallbacks between worker groups are refused. A feature of this operator; KubeRay has none.

Problems are pairs of field path below the spec and message.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuberay.api.cluster import RayClusterSpec

Found = tuple[str, str]


def fallback_problems(spec: RayClusterSpec) -> Iterator[Found]:
    """The group it names must exist, be another one of the same shape, and have no fallback of its own."""
    for index, group in enumerate(spec.worker_group_specs):
        fallback = group.fallback
        if fallback is None:
            continue
        path, subject = f"workerGroupSpecs[{index}].fallback", f"worker group {group.group_name}: fallback"
        if fallback.after_seconds < 1:
            yield f"{path}.afterSeconds", f"{subject}.afterSeconds must be at least 1, got {fallback.after_seconds}"
        if spec.autoscaling:
            yield path, f"{subject} cannot be used with enableInTreeAutoscaling: the autoscaler chooses groups itself"
        target = spec.group(fallback.group_name)
        where = f"{path}.groupName"
        if target is None:
            yield where, f"{subject}.groupName names no worker group: {fallback.group_name!r}"
        elif target.group_name == group.group_name:
            yield where, f"{subject}.groupName must name another worker group"
        elif target.fallback is not None:
            yield (
                where,
                f"{subject}.groupName: worker group {target.group_name} has a fallback itself; chains are not followed",
            )
        elif target.num_of_hosts != group.num_of_hosts:
            yield (
                where,
                f"{subject}.groupName: worker group {target.group_name} has numOfHosts {target.num_of_hosts}, "
                f"not {group.num_of_hosts} as this group",
            )
