"""What happens to the head pod: it is created, kept, replaced, or left for the user to sort out.

Source: spec raycluster.md 4.4 and rayjob.md 3.5, cases.md RC-07, AS-03 and RJ-10.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api import names
from kuberay.api.conditions import TRUE, ClusterCondition, is_true
from kuberay.api.objects import Pod
from kuberay.plan.build.head_once import head_is_final, head_submits, no_head_restart
from kuberay.plan.build.pods import PodPlace
from kuberay.plan.cluster.conditions import Conditions
from kuberay.plan.cluster.deletions import unhealthy_head
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.pod_health import deletion_reason, head_started, is_over


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
    untold = start_is_news(cluster)
    for pod in cluster.children.heads:
        if not pod.deleting and not untold and deletion_reason(pod, names.HEAD):
            decision.delete.append(unhealthy_head(pod))
        if not is_over(pod):
            current = pod
    if current is not None:
        decision.keep.append((head_place(cluster, current.name), current))
        return decision
    if stays_without_head(cluster):
        decision.blocked = why_no_head(cluster)
        return decision
    fixed = _fixed_name(cluster)
    if fixed and cluster.namer.taken(fixed):
        decision.blocked = f"the name of the head pod, {fixed}, is still taken"
    else:
        decision.create.append(head_place(cluster, fixed or fresh_head_name(cluster)))
    return decision


def stays_without_head(cluster: ClusterPass) -> bool:
    """Whether a head that is lost now must not come back."""
    obj = cluster.observed.obj
    return head_is_final(obj.metadata.annotations, obj.status) or start_is_news(cluster)


def why_no_head(cluster: ClusterPass) -> str:
    """Why a lost head does not come back."""
    why = f"the head pod is gone and the annotation {names.ANNOTATION_NO_HEAD_RESTART} says not to restart it"
    if head_submits(cluster.observed.obj.metadata.labels):
        return f"{why}: a new head would submit the RayJob a second time"
    return why


def start_is_news(cluster: ClusterPass) -> bool:
    """Whether a head has started that submits a RayJob, and the status does not say so yet. Until it does the pod is not
    touched: an operator that ended in between would take its place for one never filled."""
    obj = cluster.observed.obj
    return (
        head_submits(obj.metadata.labels)
        and no_head_restart(obj.metadata.annotations)
        and not is_true(obj.status.get("conditions") or (), ClusterCondition.HEAD_STARTED)
        and any(map(_has_started, cluster.children.heads))
    )


def set_head_started(cluster: ClusterPass, conditions: Conditions) -> None:
    """Keeps ``HeadStarted`` from the first start on, also when the cluster is suspended and resumed."""
    if start_is_news(cluster):
        told = "The head has started and may have submitted the RayJob: no other head is made for this RayCluster"
        conditions.set(ClusterCondition.HEAD_STARTED, TRUE, "RayContainerStarted", told)


def _has_started(pod: Pod) -> bool:
    """A pod that its node did not admit has failed without an address, and nothing is told of its containers."""
    refused = pod.status.phase == "Failed" and not pod.status.container_statuses and not pod.status.pod_ip
    return head_started(pod) and not refused


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
