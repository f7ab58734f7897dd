"""What one changed field of a RayCluster does: restart, scale, change a service in place, or wait for the next pod.

Source: spec raycluster.md 2.3, 4.8 and 4.9; cases.md RC-04 and RC-20.
"""

from __future__ import annotations

from dataclasses import dataclass

from kuberay.api import names
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.names import HEAD_GROUP
from kuberay.plan.edit.changes import FieldChange
from kuberay.plan.edit.model import ChangeEffect, Effect, pods
from kuberay.plan.edit.outdated import Outdated

_SCALING = ("replicas", "minReplicas", "maxReplicas", "scaleStrategy")
_NO_PODS = {
    "upgradeStrategy": "how edits are rolled out; itself it changes no pod",
    "suspend": "false says the same as nothing",
    "managedBy": "who looks after the cluster; it changes no pod",
    "lifecycle": "when the operator ends the cluster; it changes no pod",
    "disruptionBudget": "the PodDisruptionBudget is changed in place",
    "fallback": "where replicas go that find no node; it changes no pod that runs",
    "idleTimeoutSeconds": "read by the running autoscaler",
    "upscalingMode": "read by the running autoscaler",
    "priority": "read by the running autoscaler",
}
"""Fields of the spec, of a group or of the autoscaler's options that no pod is made from."""
_IN_PLACE = {
    "serviceType": "the head service is changed in place",
    "headService": "the head service is changed in place",
    "headServiceAnnotations": "the head service is changed in place",
    "enableIngress": "the Ingress (on OpenShift the Route) is made or removed",
    "ingressOptions": "the Ingress is changed in place",
    "networkPolicy": "the NetworkPolicies are changed in place",
}
_OF_HEADS = ("enableInTreeAutoscaling", "autoscalerOptions")
"""Fields of the spec that only the head's pod is made from."""
_ANNOTATIONS_OF_PODS = (
    names.ANNOTATION_OVERWRITE_CMD,
    names.ANNOTATION_FT_ENABLED,
    names.ANNOTATION_EXTERNAL_STORAGE_NAMESPACE,
    names.ANNOTATION_WAIT_GCS,
    names.ANNOTATION_WAIT_GCS_CPU,
    names.ANNOTATION_WAIT_GCS_MEMORY,
)


@dataclass(frozen=True, slots=True)
class FieldEffects:
    """Answers for one edit."""

    old: RayClusterSpec
    new: RayClusterSpec
    outdated: Outdated
    head_stays: str
    """Why an upgrade does not replace the head; empty when it may."""

    def of(self, change: FieldChange) -> ChangeEffect | None:
        """None when the change says nothing: an empty map instead of none, where no rule makes a difference of it."""
        affected = self.outdated.of_change(change)
        if not affected and change.before in (None, {}, []) and change.after in (None, {}, []):
            return None
        return ChangeEffect(change, *self._effect(change, affected))

    def _effect(self, change: FieldChange, affected: set[str]) -> tuple[Effect, str]:
        if change.steps[0] == "metadata":
            return _of_metadata(change)
        steps = change.in_group
        first = steps[0] if steps else ""
        if not change.group and first == "suspend" and bool(self.new.suspend) != bool(self.old.suspend):
            if self.new.suspend:
                return Effect.SUSPENDS, "all pods are deleted; services stay"
            return Effect.RESUMES, "pods are made anew"
        if self.old.suspend or self.new.suspend:
            return Effect.NEW_PODS_ONLY, "takes effect when the cluster is resumed"
        of_worker_group = change.group not in ("", HEAD_GROUP)
        if of_worker_group and first in _SCALING:
            return Effect.SCALES, self._scaling(change)
        if affected:
            return self._replacing(affected)
        if of_worker_group and first in ("", "suspend", "numOfHosts"):
            return Effect.SCALES, self._scaling(change)
        setting = steps[1] if first == "autoscalerOptions" and len(steps) > 1 else first
        if setting in _NO_PODS:
            return Effect.NO_PODS, _NO_PODS[setting]
        if first in _IN_PLACE:
            return Effect.UPDATES_IN_PLACE, _IN_PLACE[first]
        of_head = change.group == HEAD_GROUP or (not change.group and first in _OF_HEADS)
        whose = "the next head pod" if of_head else "new pods"
        if of_worker_group:
            whose += f" of group {change.group}"
        stays = "the running one stays as it is" if of_head else "running pods stay as they are"
        return Effect.NEW_PODS_ONLY, f"only {whose}: {stays}"

    def _replacing(self, affected: set[str]) -> tuple[Effect, str]:
        if self.outdated.recreates:
            return Effect.RESTARTS_CLUSTER, "all pods are made anew: upgradeStrategy.type is Recreate"
        if self.outdated.strategy == "Recreate":
            return Effect.HELD_BACK, "all pods keep running as they are: the head must not be restarted"
        listed = ", ".join(sorted(affected))
        if affected == {HEAD_GROUP} and self.head_stays:
            return Effect.HELD_BACK, "the head keeps running as it is, until its restart is agreed to"
        if affected <= self.outdated.resized:
            return Effect.RESIZES_PODS, f"pods are resized in place where Kubernetes can, else replaced: {listed}"
        return Effect.REPLACES_PODS, f"pods are replaced step by step: {listed}"

    def _scaling(self, change: FieldChange) -> str:
        old, new = self.old.group(change.group), self.new.group(change.group)
        if old is None:
            return "the group is new"
        if new is None:
            return "the group is gone from the spec: its pods are drained and deleted"
        first = change.in_group[0]
        if first == "scaleStrategy":
            return "the pods named there are deleted"
        if first == "suspend":
            return "the pods of the group are deleted" if new.suspend else "the pods of the group come back"
        before, after = old.desired_pods(), new.desired_pods()
        return "no pod more or less" if before == after else f"{pods(before)} become {after}"


def _of_metadata(change: FieldChange) -> tuple[Effect, str]:
    name = change.steps[2] if len(change.steps) > 2 else ""
    if name == names.ANNOTATION_SERVE_SERVICE:
        return Effect.UPDATES_IN_PLACE, "the service for Ray Serve is made, or no longer kept right"
    if name in _ANNOTATIONS_OF_PODS:
        return Effect.NEW_PODS_ONLY, "only new pods: running pods stay as they are"
    return Effect.NO_PODS, "changes no pod that runs"
