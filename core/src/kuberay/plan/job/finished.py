"""What is cleaned up after a job is Complete or Failed, and when.

Source: spec rayjob.md 4.8. Only the first branch that applies is taken; the submitter Job stays for its logs.
"""

from __future__ import annotations

from datetime import timedelta

from kuberay.api.job import JobDeploymentStatus, JobFailedReason
from kuberay.api.kinds import RAYJOB
from kuberay.api.objects import RayObject
from kuberay.plan.job import deadlines, hook_calls
from kuberay.plan.job.cluster_removal import delete_cluster
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.job_probe import stop_call
from kuberay.plan.job.ray_cluster import alive, find_cluster
from kuberay.plan.model import Delete


def tidy(draft: Draft) -> None:
    """Complete and Failed: stop what still runs, shut down when it is time, let plugins release what they hold."""
    cluster = find_cluster(draft)
    failed = draft.state == JobDeploymentStatus.FAILED
    simple = draft.uses_own_cluster and draft.spec.deletion_strategy is None
    shut_down = simple and draft.spec.shutdown_after_job_finishes and _due(draft)
    if shut_down:
        _shut_down(draft, cluster)
    elif failed and alive(cluster) and _may_still_run(draft):
        # A limit that passed ends the work, not only the waiting for it.
        call = stop_call(draft, cluster)
        if call is not None:
            draft.want(call)
    hook_calls.clean_up(draft, "Failed" if failed else "Complete", cluster, wait=False)


def _due(draft: Draft) -> bool:
    ended_at = draft.time("endTime")
    ttl = timedelta(seconds=max(draft.spec.ttl_seconds_after_finished, 0))
    return ended_at is not None and deadlines.passed(draft, ended_at + ttl)


def _shut_down(draft: Draft, cluster: RayObject | None) -> None:
    if draft.observed.config.delete_rayjob_after_finish:
        obj = draft.obj
        draft.write(Delete(kind=RAYJOB, namespace=obj.namespace, name=obj.name, uid=obj.uid))
        return
    draft.write(*delete_cluster(draft, cluster))


def _may_still_run(draft: Draft) -> bool:
    """Whether Ray may still be running a job that counts as failed."""
    if draft.time("rayJobInfo", "endTime") is not None:
        return False
    forced = draft.status.get("reason") == JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED
    return forced or not draft.ray_job_ended
