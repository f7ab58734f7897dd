"""How the submitter Job of an attempt is doing: absent, at work, or finished, and if it failed, why.

Source: spec rayjob.md 2.4 (7) and 3.4. Only the conditions Complete and Failed count.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from kuberay.api.kinds import JOB
from kuberay.api.objects import Job
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.ray_cluster import owned_by


@dataclass(frozen=True, slots=True)
class Submitter:
    """The submitter as seen now."""

    job: Job | None
    """None also when a Job of that name belongs to someone else; see ``foreign``."""
    foreign: bool = False
    finished_at: datetime | None = None
    failure: str | None = None
    """KubeRay's message when the Job failed."""

    @property
    def going(self) -> bool:
        """Whether it is being deleted."""
        return self.job is not None and self.job.deleting


def look_at_submitter(draft: Draft) -> Submitter:
    """The submitter Job named like the RayJob."""
    found = draft.observed.view.get(JOB, draft.obj.namespace, draft.obj.name)
    if not isinstance(found, Job):
        return Submitter(None)
    if not owned_by(draft, found):
        return Submitter(None, foreign=True)
    failure = finished_at = None
    for condition in found.status.conditions:
        if condition.type not in ("Complete", "Failed") or condition.status != "True":
            continue
        finished_at = finished_at or condition.last_transition_time or draft.now
        if condition.type == "Failed":
            failure = f"Job submission has failed. Reason: {condition.reason}. Message: {condition.message}"
    return Submitter(found, finished_at=finished_at, failure=failure)
