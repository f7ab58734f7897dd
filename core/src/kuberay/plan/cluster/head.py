"""What happens to the head pod: it is created, kept, replaced, or left for the user to sort out.

Source: spec raycluster.md 4.4, cases.md RC-07 and AS-03.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api import names
from kuberay.api.conditions import ClusterCondition, is_true
from kuberay.api.objects import Pod
from kuberay.plan.build.pods import PodPlace
from kuberay.plan.cluster.deletions import unhealthy_head
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.pod_health import deletion_reason, is_over


def too_many_heads(heads: Sequence[Pod]) -> str:
    """KubeRay's sentence about more than one head; empty when there is at most one that has not ended."""
    running = [pod for pod in heads if not is_over(pod)]
    if len(running) <= 1:
        return ""
    listed = " ".join(pod.name for pod in running)
    return f"{len(running)} head pods found [{listed}]. Please delete extra head pods"


def decide_head(cluster: ClusterPass) -> PodDecision:
    """A head that has ended is deleted and replaced in one pass; one that still runs something is waited for."""
    decision = PodDecision()
    current: Pod | None = None
    for pod in cluster.children.heads:
        if not pod.deleting and deletion_reason(pod, names.HEAD):
            decision.delete.append(unhealthy_head(pod))
        if not is_over(pod):
            current = pod
    if current is not None:
        decision.keep.append((head_place(cluster, current.name), current))
        return decision
    if stays_without_head(cluster):
        decision.blocked = (
            f"the head pod is gone and the annotation {names.ANNOTATION_NO_HEAD_RESTART} says not to restart it"
        )
        return decision
    fixed = _fixed_name(cluster)
    if fixed and cluster.namer.taken(fixed):
        decision.blocked = f"the name of the head pod, {fixed}, is still taken"
    else:
        decision.create.append(head_place(cluster, fixed or fresh_head_name(cluster)))
    return decision


def stays_without_head(cluster: ClusterPass) -> bool:
    """Whether a lost head must not come back: the cluster was ready once and the annotation is exactly ``true``."""
    obj = cluster.observed.obj
    conditions = obj.status.get("conditions") or ()
    return obj.metadata.annotations.get(names.ANNOTATION_NO_HEAD_RESTART) == "true" and is_true(
        conditions, ClusterCondition.PROVISIONED
    )


def _fixed_name(cluster: ClusterPass) -> str:
    """The name that the operator's configuration or the template pins; empty when a fresh one is due."""
    if cluster.observed.config.deterministic_head_pod_name:
        return names.pod_name_prefix(cluster.name, names.HEAD).removesuffix("-")
    metadata = cluster.form.spec.head_group_spec.template.get("metadata") or {}
    return metadata.get("name") or ""


def fresh_head_name(cluster: ClusterPass) -> str:
    """Another name than the last head had: autoscaler v2 takes a reused one for the head it has written off."""
    prefix = names.pod_name_prefix(cluster.name, names.HEAD)
    last = (cluster.observed.obj.status.get("head") or {}).get("podName") or ""
    return cluster.namer.pod(prefix, names.HEAD_GROUP, 0, 0, avoid=last)


def head_place(cluster: ClusterPass, name: str) -> PodPlace:
    """Where a head of that name belongs."""
    fixed = cluster.observed.config.deterministic_head_pod_name
    return PodPlace(
        node_type="head",
        group=cluster.form.spec.head_group_spec,
        group_name=names.HEAD_GROUP,
        name=name,
        generate_name="" if fixed else names.pod_name_prefix(cluster.name, names.HEAD),
    )
