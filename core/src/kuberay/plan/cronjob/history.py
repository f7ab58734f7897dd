"""Which ended RayJobs are deleted: the oldest ones beyond ``successfulJobsHistoryLimit`` and ``failedJobsHistoryLimit``.

As in batch/v1 CronJob; but a limit that is not set keeps all of them, as KubeRay does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from kuberay.api.cronjob import RayCronJobSpec
from kuberay.api.objects import RayObject
from kuberay.plan.cronjob.children import Children, scheduled_for
from kuberay.plan.cronjob.concurrency import delete_child
from kuberay.plan.model import Write


def surplus(spec: RayCronJobSpec, children: Children, handled: datetime | None) -> list[Write]:
    """Deletions. *handled* is the newest start that is on record: until then a RayJob is the only trace of its start,
    which would be made again without it."""
    return [
        *_beyond(spec.successful_jobs_history_limit, children.complete, "successfulJobsHistoryLimit", handled),
        *_beyond(spec.failed_jobs_history_limit, children.failed, "failedJobsHistoryLimit", handled),
    ]


def _beyond(limit: int | None, jobs: Sequence[RayObject], field: str, handled: datetime | None) -> list[Write]:
    if limit is None:
        return []
    oldest = jobs[: max(len(jobs) - limit, 0)]
    return [
        # Tidying may fail without keeping the next start from being made.
        replace(delete_child(job, f"beyond {field}"), optional=True)
        for job in oldest
        if not job.deleting and handled is not None and (scheduled_for(job) or handled) <= handled
    ]
