"""What a RayCluster of a RayService looks like when it is made.

Source: spec rayservice.md 2.6 (construction).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from kuberay.api import names
from kuberay.api.kinds import RAYCLUSTER, RAYSERVICE
from kuberay.plan.build.context import owner_reference
from kuberay.plan.model import Manifest
from kuberay.plan.service.draft import ACTIVE, Draft
from kuberay.plan.service.goal import GROUPS, Stamp, cluster_strategy, goal_stamp, wanted

_FOR_THE_SERVICE = (
    names.ANNOTATION_UPGRADE_PAUSED,
    names.ANNOTATION_UPGRADE_ABORTED,
    names.ANNOTATION_DELETE_DRAINED,
)
"""Annotations that steer the RayService and say nothing about a RayCluster. KubeRay knows none of them."""


def build_cluster(draft: Draft, name: str) -> Manifest:
    """The RayCluster *name* for the present ``rayClusterConfig``."""
    obj = draft.obj
    spec = cluster_spec(draft)
    if draft.strategy.own_services and draft.cluster_name(ACTIVE):
        # It begins with as little as may be, and the autoscaler lets it grow with the share it gets.
        for group in spec.get(GROUPS) or ():
            group.pop("replicas", None)
    return {
        "apiVersion": RAYCLUSTER.api_version,
        "kind": RAYCLUSTER.kind,
        "metadata": {
            "name": name,
            "namespace": obj.namespace,
            "labels": cluster_labels(draft),
            "annotations": {**cluster_annotations(draft), **stamped(draft, goal_stamp(draft))},
            "ownerReferences": [owner_reference(RAYSERVICE, obj)],
        },
        "spec": spec,
    }


def cluster_spec(draft: Draft) -> dict[str, Any]:
    """A copy of ``rayClusterConfig``, with the upgrade strategy that the RayService's strategy wants of the RayCluster."""
    spec: dict[str, Any] = copy.deepcopy(dict(wanted(draft)))
    strategy = cluster_strategy(draft)
    if strategy is not None:
        spec["upgradeStrategy"] = strategy
    return spec


def cluster_labels(draft: Draft) -> dict[str, str]:
    """Those of the RayService, and whose RayCluster it is."""
    obj = draft.obj
    return {
        **obj.metadata.labels,
        names.LABEL_ORIGIN_NAME: obj.name,
        names.LABEL_ORIGIN_CRD: RAYSERVICE.kind,
    }


def cluster_annotations(draft: Draft) -> dict[str, str]:
    """Those of the RayService that are not about itself alone."""
    return {key: value for key, value in draft.obj.metadata.annotations.items() if key not in _FOR_THE_SERVICE}


def stamped(draft: Draft, stamp: Stamp, spec: Mapping[str, Any] | None = None) -> dict[str, str]:
    """The annotations that say which configuration the RayCluster follows, and who says so. *spec* is the RayCluster's,
    where it is not the one that is asked for."""
    return {
        names.ANNOTATION_CLUSTER_HASH: stamp.text,
        names.ANNOTATION_WORKER_GROUPS: str(len((wanted(draft) if spec is None else spec).get(GROUPS) or ())),
        names.ANNOTATION_OPERATOR_VERSION: draft.observed.config.operator_version,
    }
