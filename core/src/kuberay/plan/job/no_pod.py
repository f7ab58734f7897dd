"""Whether the submitter Job of a RayJob has no pod, because the API server takes none: only the Job's own events tell of it.

A quota, an admission webhook, or the Pod Security Standard that the namespace enforces. Kubernetes tries again and again.
"""

from __future__ import annotations

from datetime import timedelta

from kuberay.api.kinds import POD
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.submission import submitted
from kuberay.plan.job.submitter_watch import Submitter

REASON = "SubmitterWithoutPod"
WITHIN = timedelta(seconds=30)
"""The Job controller needs a second or two."""


def tell_of_no_pod(draft: Draft, submitter: Submitter | None) -> None:
    """Say so as a condition while it lasts. A job that Ray has runs without its submitter."""
    job = submitter.job if submitter is not None and submitter.at_work else None
    if job is None or job.deleting or submitted(draft) or job.metadata.creation_timestamp is None:
        return
    status = job.status
    if status.active or status.failed or status.succeeded or draft.observed.view.owned(job.uid, POD):
        return
    due = job.metadata.creation_timestamp + WITHIN
    if draft.now < due:
        draft.wake_at(due)
        return
    where = f"{job.namespace}/{job.name}"
    sentence = (
        f"Kubernetes makes no pod for the submitter, Job {where}: a quota, an admission webhook or the pod security of the "
        f"namespace refuses it; kubectl describe job {job.name} tells which"
    )
    if draft.hold(REASON, sentence):
        draft.event(REASON, sentence, action="Create", warning=True)
