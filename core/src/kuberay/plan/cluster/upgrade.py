"""What happens to pods that were made from another spec.

Source: spec raycluster.md 4.9, cases.md RC-04 and RC-17; docs/upgrades.md for Rolling, which marks them in the pass for
the decisions about each group. Without a strategy nothing happens to them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kuberay.api.kinds import POD
from kuberay.api.names import ANNOTATION_OPERATOR_VERSION, ANNOTATION_UPGRADE_HASH
from kuberay.hooks.calls import PluginFailure
from kuberay.hooks.types import OwnerContext, UpgradeContext
from kuberay.plan.cluster import deletions
from kuberay.plan.cluster.head import stays_without_head
from kuberay.plan.cluster.outdated import find_outdated
from kuberay.plan.cluster.pod_decision import ClusterPass
from kuberay.plan.cluster.rolling_head import refusal
from kuberay.plan.model import Patch, Write

UNFINISHED = "unfinished"
"""In place of a hash: the pods of the RayCluster are not all of one spec."""

_RECREATE = "Recreate"
"""The core's own strategy, which deletes all pods."""


@dataclass(slots=True)
class UpgradeDecision:
    """Whether all pods go now, and the writes."""

    recreate: bool = False
    writes: list[Write] = field(default_factory=list)
    last: list[Write] = field(default_factory=list)
    """What is written only when all of `writes` were made."""
    refused: str = ""
    """Why pods of another spec stay although the strategy replaces them."""
    failures: list[PluginFailure] = field(default_factory=list)
    """Of plugins that were asked for a strategy."""


def decide_upgrade(cluster: ClusterPass, owner: OwnerContext) -> UpgradeDecision:
    """Looks at the head only. A head made by another version of the operator is brought up to date in its annotations
    and otherwise left alone: that version may have hashed differently."""
    strategy_type = cluster.form.spec.upgrade_strategy.type if cluster.form.spec.upgrade_strategy else None
    if cluster.form.group_hashes:
        found = find_outdated(cluster, head_annotations(cluster))
        cluster.outdated, cluster.resizing = found.pods, found.resizing
        return UpgradeDecision(writes=found.writes)
    head = cluster.children.head
    if not strategy_type or strategy_type == "None" or head is None:
        return UpgradeDecision()
    annotations = head.metadata.annotations
    made_from = annotations.get(ANNOTATION_UPGRADE_HASH, "")
    version = annotations.get(ANNOTATION_OPERATOR_VERSION, "")
    wanted = cluster.form.hash
    if version and version != cluster.observed.config.operator_version:
        if head.deleting:
            return UpgradeDecision()
        body = {"metadata": {"annotations": head_annotations(cluster)}}
        return UpgradeDecision(writes=[Patch(kind=POD, namespace=head.namespace, name=head.name, body=body)])
    if not made_from or made_from == wanted:
        return UpgradeDecision()
    context = UpgradeContext(owner=owner, type=strategy_type, head_hash=made_from, wanted_hash=wanted)
    failures: list[PluginFailure] = []
    if strategy_type != _RECREATE and not _asked_to_recreate(cluster, context, failures):
        return UpgradeDecision(failures=failures)
    if stays_without_head(cluster):
        # Nothing would work without the head, which does not come back.
        why = refusal(cluster.form.spec, cluster.observed.obj.metadata.annotations, stays=True)
        return UpgradeDecision(refused=f"the head pod {head.name} is not of the present spec: {why}")
    why = "due to spec change with Recreate upgradeStrategy"
    done = deletions.deleted("DeletedPod", f"Deleted all Pods for RayCluster {cluster.place} {why}")
    failed = f"Failed deleting Pods {why} for RayCluster {cluster.place}"
    # The head goes last: it alone says that workers are of the former spec, and some of their deletions may fail.
    heads = {pod.name for pod in cluster.children.heads}
    pods = sorted(cluster.children.pods, key=lambda pod: pod.name in heads)
    writes = deletions.all_pods(pods, done, failed)
    split = sum(write.name not in heads for write in writes)
    return UpgradeDecision(True, list(writes[:split]), list(writes[split:]))


def _asked_to_recreate(cluster: ClusterPass, context: UpgradeContext, failures: list[PluginFailure]) -> bool:
    """Whether a plugin has a strategy of that type, and it replaces all pods."""
    hooks = cluster.observed.hooks
    strategy = hooks.upgrade_strategy(context, failures)
    if strategy is None:
        return False
    says, failed = hooks.recreate_all(strategy, context)
    failures += failed
    return says


def head_annotations(cluster: ClusterPass) -> dict[str, str]:
    """What a head pod says about its making."""
    return {
        ANNOTATION_UPGRADE_HASH: cluster.form.hash,
        ANNOTATION_OPERATOR_VERSION: cluster.observed.config.operator_version,
    }


def new_head_annotations(cluster: ClusterPass) -> dict[str, str]:
    """What a head pod says that is made now. Beside workers of a former spec it does not claim the present one: Recreate, if it
    is chosen before those are replaced, goes by the head alone."""
    found = head_annotations(cluster)
    if cluster.outdated or cluster.resizing:
        found[ANNOTATION_UPGRADE_HASH] = UNFINISHED
    return found
