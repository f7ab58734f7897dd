"""What a RayCluster asks for in numbers, worked out once per version of the object and kept with it.

Everything here depends on the spec alone. Source: spec raycluster.md 1.4, 5.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kuberay.api import quantity
from kuberay.api.cluster import MAX_REPLICAS, RayClusterSpec
from kuberay.api.objects import RayObject
from kuberay.api.problems import Problem
from kuberay.hooks.types import GroupSize
from kuberay.plan.build.context import group_sizes
from kuberay.plan.build.spec_hash import spec_hash
from kuberay.plan.build.start_params import is_gpu


@dataclass(slots=True)
class ClusterForm:
    """The parsed spec and what follows from it."""

    spec: RayClusterSpec
    groups: Sequence[GroupSize]
    """Head first, then the worker groups in order."""
    desired_workers: int
    minimum_workers: int
    maximum_workers: int
    resources: dict[str, str]
    """``desiredCPU``, ``desiredMemory``, ``desiredGPU``, ``desiredTPU`` of the status."""
    hash: str
    problems: Sequence[Problem] | None = None
    """What validation found; None before it was asked."""
    checked_with: tuple[object, ...] = ()
    """What else validation looked at."""


def cluster_form(obj: RayObject) -> ClusterForm:
    """The form of *obj*, cached on it. Raises pydantic's ValidationError when the spec cannot be read."""
    if isinstance(obj.parsed, ClusterForm):
        return obj.parsed
    spec = obj.parsed if isinstance(obj.parsed, RayClusterSpec) else RayClusterSpec.parse(obj.spec)
    groups = group_sizes(spec)
    workers = spec.worker_group_specs
    form = ClusterForm(
        spec=spec,
        groups=groups,
        desired_workers=sum(group.desired for group in groups[1:]),
        minimum_workers=sum(group.minimum for group in groups[1:]),
        maximum_workers=min(sum(group.maximum_pods for group in workers), MAX_REPLICAS),
        resources=_desired_resources(groups),
        hash=spec_hash(obj.spec),
    )
    obj.parsed = form
    return form


def _desired_resources(groups: Sequence[GroupSize]) -> dict[str, str]:
    totals: dict[str, list[str]] = {}
    for group in groups:
        if group.raw_desired > 0:
            for name, amount in group.requests.items():
                totals.setdefault(name, []).append(quantity.multiply(amount, group.raw_desired))
    gpus = [amount for name in sorted(totals) if is_gpu(name) for amount in totals[name]]
    return {
        "desiredCPU": quantity.add_all(totals.get("cpu", ())),
        "desiredMemory": quantity.add_all(totals.get("memory", ())),
        "desiredGPU": quantity.add_all(gpus),
        "desiredTPU": quantity.add_all(totals.get("google.com/tpu", ())),
    }
