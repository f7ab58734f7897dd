"""What a start does about RayJobs of earlier starts that have not ended: nothing, wait for them, or delete them.

The words are batch/v1 CronJob's and mean the same; Allow is what KubeRay does.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from kuberay.api.cronjob import ConcurrencyPolicy
from kuberay.api.kinds import RAYJOB
from kuberay.api.objects import RayObject
from kuberay.api.times import format_time
from kuberay.plan.model import Delete, Event, Write


def held_by(policy: ConcurrencyPolicy | None, active: Sequence[RayObject], tick: datetime) -> str:
    """One sentence why the start waits; empty when it does not."""
    if policy != ConcurrencyPolicy.FORBID or not active:
        return ""
    # One that is being deleted still has its pods.
    running = ", ".join(job.name for job in active[:3]) + (", …" if len(active) > 3 else "")
    have = "has" if len(active) == 1 else "have"
    return f"the start of {format_time(tick)} waits: concurrencyPolicy is Forbid and {running} {have} not ended"


def replaced(policy: ConcurrencyPolicy | None, active: Sequence[RayObject]) -> list[Write]:
    """Deletions that go before the start. It does not wait until they are through, as in batch/v1."""
    if policy != ConcurrencyPolicy.REPLACE:
        return []
    return [delete_child(job, "it is replaced") for job in active if not job.deleting]


def delete_child(job: RayObject, why: str) -> Delete:
    """The deletion of one RayJob, told as events."""
    where = f"{job.namespace}/{job.name}"
    return Delete(
        kind=RAYJOB,
        namespace=job.namespace,
        name=job.name,
        uid=job.uid,
        done=Event("DeletedRayJob", f"Deleted RayJob {where}: {why}", action="Delete"),
        failed=lambda error: Event(
            "FailedToDeleteRayJob", f"Failed to delete RayJob {where}: {error}", "Warning", "Delete"
        ),
    )
