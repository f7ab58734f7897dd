"""Whether a lost head of a RayCluster must stay lost, because it would submit a RayJob a second time.

Source: spec rayjob.md 3.5, cases.md RJ-10. In SidecarMode the submitter is part of the head pod: a new head is a new run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api import names
from kuberay.api.conditions import ClusterCondition, is_true
from kuberay.api.job import JobSubmissionMode


def head_submits(labels: Mapping[str, str]) -> bool:
    """Whether the head pod of a RayCluster with these labels has the submitter of a RayJob in it."""
    return labels.get(names.LABEL_SUBMISSION_MODE) == JobSubmissionMode.SIDECAR


def no_head_restart(annotations: Mapping[str, str]) -> bool:
    """Whether the RayCluster asks for it; only exactly ``true`` counts, as in KubeRay."""
    return annotations.get(names.ANNOTATION_NO_HEAD_RESTART) == "true"


def head_is_final(annotations: Mapping[str, str], status: Mapping[str, Any]) -> bool:
    """Whether a RayCluster of these annotations and this stored status gets no other head than the one it had.

    KubeRay: once the cluster was ready. Beyond that, in SidecarMode: once its head has started (condition
    ``HeadStarted``), since that head may have submitted the job before any worker was ready.
    """
    conditions = status.get("conditions") or ()
    return no_head_restart(annotations) and (
        is_true(conditions, ClusterCondition.PROVISIONED) or is_true(conditions, ClusterCondition.HEAD_STARTED)
    )
