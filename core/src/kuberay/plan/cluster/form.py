"""What a RayCluster asks for in numbers, worked out once per version of the object and kept with it.

All but `ClusterForm.allocatable` depends on the spec alone. Source: spec raycluster.md 1.4, 5.1 and 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from kuberay.api import quantity
from kuberay.api.cluster import MAX_REPLICAS, RayClusterSpec
from kuberay.api.objects import Pod, RayObject
from kuberay.api.problems import Problem
from kuberay.hooks.types import GroupSize
from kuberay.plan.build.context import group_sizes
from kuberay.plan.build.group_hash import group_hashes
from kuberay.plan.build.spec_hash import spec_hash
from kuberay.plan.build.start_params import is_gpu

_MOST_TOTALS = 8
"""Remembered sums per cluster: those of the present counts and of the last few."""


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
    group_hashes: Mapping[str, str] = field(default_factory=dict)
    """By group name, the head's included; empty unless the upgrade strategy is Rolling."""
    has_budgets: bool = False
    """Whether any group asks for a PodDisruptionBudget."""
    has_fallback: bool = False
    """Whether a worker group names another one to run in when it finds no node."""
    problems: Sequence[Problem] | None = None
    """What validation found; None before it was asked."""
    checked_with: tuple[object, ...] = ()
    """What else validation looked at."""
    _totals: dict[tuple[int, ...], dict[str, str]] = field(default_factory=dict)
    _allocatable: tuple[tuple[tuple[str, str], ...], dict[str, str]] = ((), {})
    """Uids and versions of the ready pods last asked for, and the answer."""

    def totals(self, counts: Sequence[int]) -> dict[str, str]:
        """What so many pods of each group, head first, request together, by resource name."""
        key = tuple(counts)
        known = self._totals.get(key)
        if known is None:
            amounts: dict[str, list[str]] = {}
            for group, count in zip(self.groups, key, strict=True):
                if count:
                    for name, amount in group.requests.items():
                        amounts.setdefault(name, []).append(quantity.multiply(amount, count))
            if len(self._totals) >= _MOST_TOTALS:
                self._totals.clear()
            known = self._totals[key] = {name: quantity.add_all(amounts[name]) for name in sorted(amounts)}
        return known

    def allocatable(self, ready: Sequence[Sequence[Pod]]) -> dict[str, str]:
        """What the *ready* pods of each group, head first, request together, by resource name. Live pods may be of
        another size than the present spec says; containers that the user did not write do not count."""
        key = tuple((pod.uid, pod.metadata.resource_version) for pods in ready for pod in pods)
        if key != self._allocatable[0]:
            amounts: dict[str, list[str]] = {}
            templates = (self.spec.head_group_spec, *self.spec.worker_group_specs)
            for template, pods in zip(templates, ready, strict=True):
                containers = ((template.template.get("spec") or {}).get("containers")) or ()
                written = {container.get("name") for container in containers}
                for pod in pods:
                    _add_requests(amounts, pod, written)
            self._allocatable = key, {name: quantity.add_all(amounts[name]) for name in sorted(amounts)}
        return self._allocatable[1]


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
        group_hashes=group_hashes(obj.spec, spec) if spec.upgrade_strategy and spec.upgrade_strategy.rolling else {},
        has_budgets=any(group.disruption_budget is not None for group in (spec.head_group_spec, *workers)),
        has_fallback=any(group.fallback is not None for group in workers),
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


def _add_requests(amounts: dict[str, list[str]], pod: Pod, written: Set[str]) -> None:
    """As `group_sizes` counts: a limit stands in for a missing request."""
    for container in pod.spec.containers:
        if container.resources is None or container.name not in written:
            continue
        for name, amount in {**container.resources.limits, **container.resources.requests}.items():
            try:
                amounts.setdefault(name, []).append(quantity.canonical(amount))
            except ValueError:
                continue
