"""What hooks are told about an owner: its object, the sizes of its groups, and answers about unwatched objects.

Source: spec plugins.md 2 for the arithmetic, raycluster.md 0.1 for the owner reference.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from kuberay.api import quantity
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.kinds import POD, RAYCLUSTER, Kind
from kuberay.api.names import HEAD_GROUP, LABEL_GROUP, LABEL_NODE_TYPE, SUBMITTER_GROUP
from kuberay.api.objects import Child, Object, Pod, RayObject
from kuberay.hooks.types import GroupSize, LivePod, Lookup, OwnerContext
from kuberay.plan.model import ObjectProbe, Probe
from kuberay.plan.observed import Observed


def owner_reference(kind: Kind, obj: Object) -> dict[str, Any]:
    """The controller owner reference every child of *obj* carries."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": obj.name,
        "uid": obj.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_context(
    observed: Observed,
    *,
    kind: Kind,
    cluster_spec: RayClusterSpec | None,
    lookups: list[Probe],
    submitter_requests: Mapping[str, str] | None = None,
    groups: Sequence[GroupSize] | None = None,
) -> OwnerContext:
    """The context for hooks about ``observed.obj``.

    Each question a hook asks through ``lookup`` is appended to *lookups* as an `ObjectProbe`, for the plan to want.
    *groups* saves the arithmetic when the caller has it already.
    """
    obj: RayObject = observed.obj
    raw_cluster = obj.spec if kind == RAYCLUSTER else obj.spec.get("rayClusterSpec")
    return OwnerContext(
        kind=kind,
        name=obj.name,
        namespace=obj.namespace,
        uid=obj.uid,
        labels=obj.metadata.labels,
        annotations=obj.metadata.annotations,
        spec=obj.spec,
        status=obj.status,
        cluster_spec=raw_cluster,
        groups=_with_sidecars(observed, group_sizes(cluster_spec, submitter_requests) if groups is None else groups),
        now=observed.now,
        gates=observed.gates,
        lookup=_lookup(observed, lookups),
        owner_reference=owner_reference(kind, obj),
        pods=partial(_live_pods, observed),
        children=partial(_children, observed),
        child=partial(_child, observed),
        serves=observed.view.serves,
        cluster_domain=observed.config.cluster_domain,
        operator_namespace=observed.config.operator_namespace,
        login_shell=observed.config.login_shell,
    )


def _live_pods(observed: Observed) -> list[LivePod]:
    pods = cast("Sequence[Pod]", observed.view.owned(observed.obj.uid, POD))
    return [
        LivePod(
            pod.name,
            pod.metadata.labels.get(LABEL_NODE_TYPE, ""),
            pod.metadata.labels.get(LABEL_GROUP, ""),
            pod.status.pod_ip,
            pod.uid,
            pod.metadata.annotations,
        )
        for pod in pods
        if not pod.deleting and pod.status.phase not in ("Succeeded", "Failed")
    ]


def _children(observed: Observed, kind: Kind) -> list[dict[str, Any]]:
    return [child.body() for child in observed.view.owned(observed.obj.uid, kind) if isinstance(child, Child)]


def _child(observed: Observed, kind: Kind, name: str) -> dict[str, Any] | None:
    found = observed.view.get(kind, observed.obj.namespace, name)
    return found.body() if isinstance(found, Child) else None


def _lookup(observed: Observed, lookups: list[Probe]) -> Lookup:
    def lookup(kind: Kind, namespace: str, name: str) -> bool | None:
        probe = ObjectProbe(kind, namespace, name)
        if probe not in lookups:
            lookups.append(probe)
        result = observed.probes.get(probe)
        if result is None or result.outcome == "error":
            return None
        return result.outcome == "found"

    return lookup


def group_sizes(
    cluster_spec: RayClusterSpec | None, submitter_requests: Mapping[str, str] | None = None
) -> list[GroupSize]:
    """Head, worker groups in order, and the submitter when its requests are given (empty mappings count as given)."""
    groups: list[GroupSize] = []
    if cluster_spec is not None:
        groups.append(GroupSize(HEAD_GROUP, 1, 1, pod_requests(cluster_spec.head_group_spec.template), raw_desired=1))
        for group in cluster_spec.worker_group_specs:
            groups.append(
                GroupSize(
                    group.group_name,
                    desired=group.desired_pods(),
                    minimum=group.minimum_pods,
                    requests=pod_requests(group.template),
                    raw_desired=0 if group.suspend else (group.replicas or 0) * group.num_of_hosts,
                )
            )
    if submitter_requests is not None:
        groups.append(GroupSize(SUBMITTER_GROUP, 1, 1, submitter_requests, raw_desired=1))
    return groups


def _with_sidecars(observed: Observed, groups: Sequence[GroupSize]) -> Sequence[GroupSize]:
    """The groups with what the operator's configuration adds to their pods."""
    heads, workers = observed.config.head_sidecars, observed.config.worker_sidecars
    if not heads and not workers:
        return groups
    of_head = pod_requests({"spec": {"containers": heads}})
    of_worker = pod_requests({"spec": {"containers": workers}})
    added = {HEAD_GROUP: of_head, SUBMITTER_GROUP: {}}
    return [replace(group, sidecars=added.get(group.name, of_worker)) for group in groups]


def pod_requests(template: Mapping[str, Any] | None) -> dict[str, str]:
    """Requests of one pod of *template*, limits filling in what has no request, summed over its containers.

    Init containers and pod overhead do not count. Values are canonical; one that is no quantity counts as nothing,
    since the API server refuses such a pod anyway. The template is not changed.
    """
    amounts: dict[str, list[str]] = {}
    containers: Iterable[Mapping[str, Any]] = ((template or {}).get("spec") or {}).get("containers") or ()
    for container in containers:
        resources = container.get("resources") or {}
        wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        for name, amount in wanted.items():
            try:
                amounts.setdefault(name, []).append(quantity.canonical(amount))
            except ValueError:
                continue
    return {name: quantity.add_all(values) for name, values in amounts.items() if values}
