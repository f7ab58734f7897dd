"""Which PodDisruptionBudgets a cluster has: one for each group that asks for it, gone with the wish or the group.

Beyond KubeRay: ``disruptionBudget`` of the head and of worker groups (docs/draining.md).
"""

from __future__ import annotations

from typing import Any

from kuberay.api import names
from kuberay.api.cluster import DisruptionBudget
from kuberay.api.kinds import POD_DISRUPTION_BUDGET, RAYCLUSTER
from kuberay.plan.build.context import owner_reference
from kuberay.plan.cluster.deletions import failure
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.service_writes import spec_is_news
from kuberay.plan.model import Apply, Delete, Event, Write


def budget_writes(cluster: ClusterPass) -> tuple[list[Write], list[Event]]:
    """Writes of all budgets, and warnings about those that cannot be had."""
    owned = cluster.observed.view.owned(cluster.observed.obj.uid, POD_DISRUPTION_BUDGET)
    if not owned and not cluster.form.has_budgets:
        return [], []
    wanted = _wanted(cluster)
    writes: list[Write] = [
        Delete(
            kind=POD_DISRUPTION_BUDGET,
            namespace=budget.namespace,
            name=budget.name,
            uid=budget.uid,
            done=Event(
                "DeletedPodDisruptionBudget", f"Deleted {_place(budget.namespace, budget.name)}", action="Delete"
            ),
        )
        for budget in owned
        if budget.name not in wanted and not budget.deleting
    ]
    warnings = []
    for name, body in wanted.items():
        place = _place(cluster.namespace, name)
        failed = failure("FailedToCreatePodDisruptionBudget", f"Failed to create {place}", "Create")
        live = cluster.observed.view.get(POD_DISRUPTION_BUDGET, cluster.namespace, name)
        if live is not None and all(budget.uid != live.uid for budget in owned) and spec_is_news(cluster):
            warnings.append(failed("it exists and belongs to somebody else; rename the worker group, or delete it"))
        writes.append(
            Apply(
                kind=POD_DISRUPTION_BUDGET,
                namespace=cluster.namespace,
                name=name,
                body=body,
                done=Event("CreatedPodDisruptionBudget", f"Created {place}", action="Create"),
                failed=failed,
                yields=True,
            )
        )
    return writes, warnings


def _wanted(cluster: ClusterPass) -> dict[str, dict[str, Any]]:
    """Manifests by name."""
    spec = cluster.form.spec
    found = {}
    head = spec.head_group_spec.disruption_budget
    if head is not None:
        body = _manifest(cluster, names.HEAD_GROUP, available(head, 0 if cluster.suspend_wanted else 1))
        found[body["metadata"]["name"]] = body
    for group in spec.worker_group_specs:
        if group.disruption_budget is not None:
            pods = 0 if cluster.suspend_wanted else cluster.desired_replicas(group) * group.num_of_hosts
            body = _manifest(cluster, group.group_name, available(group.disruption_budget, pods))
            found[body["metadata"]["name"]] = body
    return found


def available(budget: DisruptionBudget, pods: int) -> int:
    """How many of *pods* must stay. Kubernetes takes nothing but this number for pods of a controller that it does not
    know; percentages round up as it rounds them."""
    if budget.min_available is not None:
        return _amount(budget.min_available, pods)
    return max(0, pods - _amount(budget.max_unavailable or 0, pods))


def _amount(value: int | str, pods: int) -> int:
    return value if isinstance(value, int) else -(-int(value.rstrip("%")) * pods // 100)


def _manifest(cluster: ClusterPass, group: str, minimum: int) -> dict[str, Any]:
    labels = {names.LABEL_CLUSTER: cluster.name, names.LABEL_GROUP: group}
    return {
        "apiVersion": POD_DISRUPTION_BUDGET.api_version,
        "kind": POD_DISRUPTION_BUDGET.kind,
        "metadata": {
            "name": names.disruption_budget_name(cluster.name, group),
            "namespace": cluster.namespace,
            "labels": {
                **labels,
                names.LABEL_APP_NAME: names.APP_NAME,
                names.LABEL_CREATED_BY: names.COMPONENT,
            },
            "ownerReferences": [owner_reference(RAYCLUSTER, cluster.observed.obj)],
        },
        "spec": {
            "minAvailable": minimum,
            "selector": {"matchLabels": labels},
            # A pod that does not work must not keep its node from being emptied.
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    }


def _place(namespace: str, name: str) -> str:
    return f"pod disruption budget {namespace}/{name}"
