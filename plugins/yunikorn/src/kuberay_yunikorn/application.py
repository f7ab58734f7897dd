"""Which application and queue of YuniKorn the pods of an owner belong to, and how pods and RayClusters say so.

Source: spec plugins.md 5, golden/plugins/yunikorn-*. A gang needs an application of its own: YuniKorn reads the task groups
of an application's first pod and of no other.
"""

from __future__ import annotations

import hashlib
from typing import Any

from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE
from kuberay.api.names import LABEL_ORIGIN_CRD
from kuberay.hooks import OwnerContext
from kuberay.hooks.types import Manifest

from kuberay_yunikorn import task_groups

LABEL_APP_ID = "yunikorn.apache.org/app-id"
LABEL_QUEUE = "yunikorn.apache.org/queue"
ANNOTATION_POLICY = "yunikorn.apache.org/schedulingPolicyParameters"
"""Style and timeout of a gang; YuniKorn reads it on pods."""

TARGET_APP_ID = "applicationId"
TARGET_QUEUE = "queue"

_LONGEST = 63


def application(ctx: OwnerContext, cluster: str) -> str:
    """The application's id; empty: YuniKorn's choice. *cluster* is the RayCluster whose gang it is."""
    given = ctx.labels.get(LABEL_APP_ID, "")
    if not task_groups.has_gang(ctx):
        return given
    if not given:
        return _short(f"{ctx.namespace}-{cluster}") if cluster else ""
    if ctx.kind == RAYCLUSTER and ctx.labels.get(LABEL_ORIGIN_CRD) == RAYSERVICE.kind:
        # A service has two RayClusters during an upgrade, and each of them is a gang.
        return _short(f"{given}-{cluster.rpartition('-')[2]}")
    return given


def cluster_of(ctx: OwnerContext) -> str:
    """The RayCluster that *ctx* is, or that its RayJob runs on."""
    return ctx.name if ctx.kind == RAYCLUSTER else str(ctx.status.get("rayClusterName") or "")


def label(ctx: OwnerContext, manifest: Manifest, cluster: str) -> None:
    """Put application and queue on a pod, a pod template or a RayCluster."""
    labels: dict[str, Any] = {**(manifest["metadata"].get("labels") or {})}
    own_id = ctx.labels.get(LABEL_APP_ID) or not (labels.get(TARGET_APP_ID) or labels.get(LABEL_APP_ID))
    if own_id and (app_id := application(ctx, cluster)):
        labels[TARGET_APP_ID] = app_id
    if queue := ctx.labels.get(LABEL_QUEUE):
        labels[TARGET_QUEUE] = queue
    if labels:
        manifest["metadata"]["labels"] = labels


def annotate(manifest: Manifest, **annotations: str) -> None:
    """Add annotations, by their full names."""
    metadata = manifest["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), **annotations}


def _short(name: str) -> str:
    """A label value: cut ones end in a hash of the whole."""
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
