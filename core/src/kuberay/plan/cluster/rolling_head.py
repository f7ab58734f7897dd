"""When a rolling upgrade replaces the head: last, and only when its end is no loss or is agreed to.

Source: docs/upgrades.md. The head holds the GCS: without fault tolerance all that runs ends with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.names import ANNOTATION_NO_HEAD_RESTART
from kuberay.api.objects import Pod
from kuberay.plan.cluster.deletions import outdated_head
from kuberay.plan.cluster.head import stays_without_head
from kuberay.plan.cluster.pod_decision import ClusterPass, PodDecision
from kuberay.plan.cluster.pod_health import is_over, is_ready
from kuberay.plan.cluster.rolling import is_going, is_of_rayservice, works


def roll_head(cluster: ClusterPass, decision: PodDecision) -> None:
    """Adds the head's deletion to *decision*, which is that about all groups, when its time has come."""
    head = outdated_head_pod(cluster)
    if head is None or head.deleting or not cluster.may_replace or refused(cluster, head):
        return
    # A head that does not work may keep new workers from becoming ready: waiting for those would be for ever.
    if not is_ready(head) or not (_workers_first(cluster, decision) or serves_alone(cluster)):
        decision.delete.append(outdated_head(head))


def outdated_head_pod(cluster: ClusterPass) -> Pod | None:
    """The head when it was made from another spec."""
    head = cluster.children.head
    return head if head is not None and head.name in cluster.outdated else None


def refused(cluster: ClusterPass, head: Pod) -> str:
    """Why the head must not be replaced and what to do about it; empty when it may be. One that has not started yet has
    nothing to lose."""
    stays = stays_without_head(cluster)
    if not stays and head.status.phase in ("", "Pending"):
        return ""
    return refusal(cluster.form.spec, cluster.observed.obj.metadata.annotations, stays=stays)


def refusal(spec: RayClusterSpec, annotations: Mapping[str, str], *, stays: bool) -> str:
    """Why a head that runs is not replaced; *stays* says that a lost one would not come back."""
    if stays:
        return (
            f"the annotation {ANNOTATION_NO_HEAD_RESTART} says not to restart the head: remove it to have the head pod "
            "replaced"
        )
    consent = spec.upgrade_strategy is not None and spec.upgrade_strategy.allow_head_restart
    if consent or spec.gcs_ft_enabled(annotations):
        return ""
    return (
        "without GCS fault tolerance a restart of the head ends all that runs in the cluster: set "
        "spec.upgradeStrategy.allowHeadRestart to true, or delete the head pod, to have it replaced"
    )


def serves_alone(cluster: ClusterPass) -> bool:
    """Whether the end of the head would leave a RayService without a pod that serves, and nobody agreed to that.

    GCS fault tolerance keeps what runs on workers. It is no help where Serve has replicas on the head only, or where the
    one worker that had some has just been replaced.
    """
    strategy = cluster.form.spec.upgrade_strategy
    if not is_of_rayservice(cluster) or (strategy is not None and strategy.allow_head_restart):
        return False
    workers = (pod for pods in cluster.children.groups.values() for pod in pods)
    return not any(is_ready(pod) and not is_going(pod) for pod in workers)


def _workers_first(cluster: ClusterPass, decision: PodDecision) -> bool:
    """Whether workers are still being replaced, or not all of them work."""
    if decision.create:
        return True
    head = cluster.children.head
    return any(
        not pod.deleting and (pod.name in cluster.outdated or pod.name in cluster.resizing or not works(cluster, pod))
        for pod in cluster.children.pods
        if pod is not head and not is_over(pod)
    )
