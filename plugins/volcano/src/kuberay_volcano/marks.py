"""How pods and RayClusters say which gang they are in: annotations, and the labels Volcano reads.

Source: spec plugins.md 4, golden/plugins/volcano-*.
"""

from __future__ import annotations

from kuberay.api.names import LABEL_PRIORITY_CLASS
from kuberay.hooks import OwnerContext
from kuberay.hooks.types import Manifest

from kuberay_volcano import podgroup

ANNOTATION_GROUP = "scheduling.k8s.io/group-name"
ANNOTATION_TASK = "volcano.sh/task-spec"


def mark(owner: OwnerContext, manifest: Manifest, task: str) -> Manifest:
    """*manifest* with the owner's queue and priority as labels and, where the owner has a gang, its name and *task*.

    The submitter of a job that runs on somebody else's cluster is in no gang: a name would keep it pending for ever.
    """
    metadata = manifest.setdefault("metadata", {})
    copied = {key: owner.labels[key] for key in (podgroup.LABEL_QUEUE, LABEL_PRIORITY_CLASS) if owner.labels.get(key)}
    if copied:
        metadata["labels"] = {**(metadata.get("labels") or {}), **copied}
    if owner.cluster_spec is not None:
        gang = {ANNOTATION_GROUP: podgroup.group_name(owner), ANNOTATION_TASK: task}
        metadata["annotations"] = {**(metadata.get("annotations") or {}), **gang}
    return manifest
