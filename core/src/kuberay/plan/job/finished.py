"""What is cleaned up after a job is Complete or Failed, and when.

Source: spec rayjob.md 4.8. Only the first branch that applies is taken; the submitter Job stays for its logs.
"""

from __future__ import annotations

from kuberay.api.gates import DELETION_POLICY
from kuberay.api.job import DeletionPolicy, JobDeploymentStatus, JobFailedReason
from kuberay.api.objects import RayObject
from kuberay.api.validation.deletion_rules import deletion_problems
from kuberay.plan.job import deadlines, hook_calls
from kuberay.plan.job.deletion_policies import achieved, carry_out, due_at
from kuberay.plan.job.deletion_rules import rule_to_follow
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.in_flight import asked_until, may_come_yet
from kuberay.plan.job.job_probe import stop_call
from kuberay.plan.job.legacy_deletion import legacy_policy
from kuberay.plan.job.ray_cluster import alive, dashboard_url, find_cluster
from kuberay.plan.job.silence import silence_submitter
from kuberay.plan.job.submission import submitted
from kuberay.plan.job.submitter_watch import look_at_job
from kuberay.plan.model import ProbeResult

_ENDS_THE_JOB = (DeletionPolicy.DELETE_CLUSTER, DeletionPolicy.DELETE_SELF)


def tidy(draft: Draft) -> None:
    """Complete and Failed: stop what still runs, delete what it is time for, let plugins release what they hold."""
    cluster = find_cluster(draft)
    failed = draft.state == JobDeploymentStatus.FAILED
    policy = policy_to_follow(draft, cluster)
    if policy is not None:
        carry_out(draft, policy, cluster)
    answer, given_up = None, True
    if failed and policy not in _ENDS_THE_JOB and cluster is not None and alive(cluster) and _may_still_run(draft):
        answer, given_up = _stop(draft, cluster)
    if policy != DeletionPolicy.DELETE_SELF:
        silence_submitter(draft, answer, given_up=given_up)
    hook_calls.clean_up(draft, "Failed" if failed else "Complete", cluster, wait=False)


def _stop(draft: Draft, cluster: RayObject) -> tuple[ProbeResult | None, bool]:
    """A limit that passed ends the work, not only the waiting for it. That is tried for as long as checks may fail. Returns
    the answer, and whether nobody waits for one any more."""
    known = draft.status.get("dashboardURL")
    if not known and (draft.mode.sidecar or look_at_job(draft).present):
        # Who submits need not wait for what the RayJob has waited for in vain.
        draft.status["dashboardURL"] = dashboard_url(draft, cluster)
    call = stop_call(draft, cluster, until_answered=True)
    ended_at = draft.time("endTime") or draft.now
    answer, given_up = None, False
    if submitted(draft) or not may_come_yet(draft, cluster, ended_at):
        answer = draft.observed.probes.get(call) if call is not None else None
        answered = answer is not None and answer.outcome != "error"
        given_up = not answered and deadlines.passed(draft, asked_until(draft, cluster, ended_at))
        if call is not None and not given_up:
            draft.want(call)
    draft.status["dashboardURL"] = known
    return answer, given_up


def policy_to_follow(draft: Draft, cluster: RayObject | None) -> DeletionPolicy | None:
    """What is to be deleted now, if anything; otherwise the pass is repeated when the next thing is due."""
    spec = draft.spec
    if spec.deletion_strategy is not None and draft.observed.gate(DELETION_POLICY):
        if any(deletion_problems(spec, draft.observed.gates)):
            # Made invalid after the start: what it says is told to be wrong, and nothing is deleted by it.
            return None
        if spec.deletion_strategy.deletion_rules:
            return rule_to_follow(draft, cluster)
        policy = legacy_policy(draft)
        if policy is not None:
            return _when_due(draft, policy, cluster)
    if not spec.shutdown_after_job_finishes or not draft.uses_own_cluster:
        return None
    itself = draft.observed.config.delete_rayjob_after_finish
    return _when_due(draft, DeletionPolicy.DELETE_SELF if itself else DeletionPolicy.DELETE_CLUSTER, cluster)


def _when_due(draft: Draft, policy: DeletionPolicy, cluster: RayObject | None) -> DeletionPolicy | None:
    """*policy*, unless it is done or ``ttlSecondsAfterFinished`` is not over."""
    due = due_at(draft, draft.spec.ttl_seconds_after_finished)
    if achieved(draft, policy, cluster) or due is None:
        return None
    return policy if deadlines.passed(draft, due) else None


def _may_still_run(draft: Draft) -> bool:
    """Whether Ray may still be running a job that counts as failed."""
    if draft.time("rayJobInfo", "endTime") is not None:
        return False
    forced = draft.status.get("reason") == JobFailedReason.TRANSITION_GRACE_PERIOD_EXCEEDED
    return forced or not draft.ray_job_ended
