"""Which RayJobs a RayCronJob has made, how far they are, and for which start each was made.

Decided by the controller reference alone; a RayJob that only carries the label is somebody else's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from kuberay.api.job import JobDeploymentStatus, JobStatus
from kuberay.api.kinds import RAYJOB
from kuberay.api.names import ANNOTATION_SCHEDULED_TIMESTAMP
from kuberay.api.objects import RayObject
from kuberay.api.times import parse_time
from kuberay.plan.cronjob.child import child_name
from kuberay.plan.observed import Observed

_FAILED = (JobDeploymentStatus.FAILED, JobDeploymentStatus.VALIDATION_FAILED)
_DAWN = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Children:
    """All RayJobs of one RayCronJob, oldest start first."""

    active: Sequence[RayObject]
    """Not ended; those that are being deleted included."""
    complete: Sequence[RayObject]
    failed: Sequence[RayObject]
    """Refused ones included: a RayJob that never began."""


def children_of(observed: Observed) -> Children:
    """What is seen of them."""
    owned = [o for o in observed.view.owned(observed.obj.uid, RAYJOB) if isinstance(o, RayObject)]
    owned.sort(key=lambda job: (scheduled_for(job) or job.metadata.creation_timestamp or _DAWN, job.name))
    return Children(
        active=[job for job in owned if not ended(job)],
        complete=[job for job in owned if _state(job) == JobDeploymentStatus.COMPLETE],
        failed=[job for job in owned if _state(job) in _FAILED],
    )


def ended(job: RayObject) -> bool:
    """Whether it will do nothing any more."""
    return _state(job) == JobDeploymentStatus.COMPLETE or _state(job) in _FAILED


def scheduled_for(job: RayObject) -> datetime | None:
    """The start it was made for, as its annotation says."""
    return _time(job.metadata.annotations.get(ANNOTATION_SCHEDULED_TIMESTAMP))


def starts_made(cronjob: str, children: Children) -> list[datetime]:
    """The starts that have a RayJob, whether the status knows of them or not. An annotation that does not go with the name
    says nothing."""
    found = []
    for job in (*children.active, *children.complete, *children.failed):
        start = scheduled_for(job)
        if start is not None and job.name in (child_name(cronjob, start, dense=dense) for dense in (False, True)):
            found.append(start)
    return sorted(found)


def last_success(children: Children) -> datetime | None:
    """When the last of them ended with SUCCEEDED."""
    ends = [_time(job.status.get("endTime")) for job in children.complete if _succeeded(job)]
    return max((end for end in ends if end is not None), default=None)


def _succeeded(job: RayObject) -> bool:
    # A job that its user stopped is Complete too.
    return bool(job.status.get("jobStatus") == JobStatus.SUCCEEDED)


def _state(job: RayObject) -> str:
    return str(job.status.get("jobDeploymentStatus") or "")


def _time(text: object) -> datetime | None:
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None
