"""When a RayJob's status is worth a write, and the exact form in which it is written.

Source: spec rayjob.md 2.5. A message, reason or counter that changes alone is not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from kuberay.api.job import JobDeploymentStatus
from kuberay.api.times import format_time

_DECISIVE = (
    "jobStatus",
    "jobDeploymentStatus",
    "jobStatusCheckFailureStartTime",
    "jobId",
    "rayClusterName",
    "dashboardURL",
    "startTime",
    "conditions",
)
_DECISIVE_OF_CLUSTER = (
    "state",
    "reason",
    "readyWorkerReplicas",
    "availableWorkerReplicas",
    "desiredWorkerReplicas",
    "minWorkerReplicas",
    "maxWorkerReplicas",
    "endpoints",
    "head",
    "conditions",
)


def status_to_write(stored: Mapping[str, Any], wanted: Mapping[str, Any], now: datetime) -> dict[str, Any] | None:
    """The whole status to apply, or None when nothing decisive differs from what is stored.

    A job that ends in this write gets ``endTime``. Empty members are left out.
    """
    if not _differs(stored, wanted):
        return None
    status = {key: value for key, value in wanted.items() if value not in (None, "", {}, [])}
    state = status.get("jobDeploymentStatus")
    ended = state in (JobDeploymentStatus.COMPLETE, JobDeploymentStatus.FAILED)
    # What KubeRay moved to ValidationFailed after its end has not ended again.
    known = (state, JobDeploymentStatus.VALIDATION_FAILED)
    if ended and (stored.get("jobDeploymentStatus") not in known or "endTime" not in status):
        status["endTime"] = format_time(now)
    return status


def _differs(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    if any((stored.get(key) or None) != (wanted.get(key) or None) for key in _DECISIVE):
        return True
    old, new = stored.get("rayClusterStatus") or {}, wanted.get("rayClusterStatus") or {}
    return any((old.get(key) or None) != (new.get(key) or None) for key in _DECISIVE_OF_CLUSTER)
