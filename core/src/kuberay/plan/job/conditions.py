"""What the five conditions of a RayJob say that users and scripts wait for: Accepted, ClusterReady, Submitted, Running, Finished.

They follow from the rest of the status and change only together with it, so they cost no write of their own. What is over
(Complete, Failed) is not told again. Source: this operator's own (docs/differences); states of spec rayjob.md 1.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api.conditions import FALSE, TRUE, ClusterCondition, JobCondition, find_condition, is_true
from kuberay.api.job import JobDeploymentStatus, JobStatus
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.submission import seen

State = JobDeploymentStatus
_TROUBLE = (ClusterCondition.PODS_NOT_READY, ClusterCondition.PODS_WAITING, ClusterCondition.REPLICA_FAILURE)
_FOLLOWED = (State.INITIALIZING, State.WAITING, State.RUNNING, State.COMPLETE, State.FAILED)
_LAST_LINES = 10
_MAX_SUMMARY = 2000
"""Letters of the last lines that condition ``Finished`` repeats from ``status.message``."""


def tell(draft: Draft) -> None:
    """Bring the conditions up to date with what this pass decided."""
    state = draft.state
    stored = draft.obj.status.get("jobDeploymentStatus") or ""
    if state is None or (state.terminal and state == stored):
        return
    if state == State.VALIDATION_FAILED:
        return
    _cluster_ready(draft, state)
    _submitted(draft, state)
    _running(draft, state)
    _finished(draft, state)


def _cluster_ready(draft: Draft, state: State) -> None:
    name = draft.status.get("rayClusterName")
    if not name or state not in _FOLLOWED:
        draft.condition(JobCondition.CLUSTER_READY, FALSE, "NoRayCluster", _without_cluster(state))
        return
    where = f"RayCluster {draft.obj.namespace}/{name}"
    status: Mapping[str, Any] = draft.status.get("rayClusterStatus") or {}
    if status.get("state") == "ready":
        draft.condition(JobCondition.CLUSTER_READY, TRUE, "RayClusterReady", f"{where} is ready")
        return
    reason, trouble = _trouble(status.get("conditions") or ())
    draft.condition(
        JobCondition.CLUSTER_READY, FALSE, reason, f"{where} is not ready{f': {trouble}' if trouble else ''}"
    )


def _without_cluster(state: State) -> str:
    match state:
        case State.SUSPENDED | State.SUSPENDING:
            return "a suspended RayJob has no RayCluster"
        case State.RETRYING | State.NEW:
            return "the next attempt gets a RayCluster of its own"
    return "no RayCluster is named yet"


def _trouble(conditions: Sequence[Mapping[str, Any]]) -> tuple[str, str]:
    """Reason and message of what keeps a cluster from being ready, as the cluster's own conditions have it."""
    for type_ in _TROUBLE:
        found = find_condition(conditions, type_)
        if found is not None and found.get("status") == TRUE:
            return str(found.get("reason") or "RayClusterNotReady"), str(found.get("message") or "")
    return "RayClusterNotReady", ""


def _submitted(draft: Draft, state: State) -> None:
    job_id = draft.status.get("jobId")
    if state not in _FOLLOWED:
        draft.condition(JobCondition.SUBMITTED, FALSE, "NoAttempt", "no attempt is under way")
    elif seen(draft):
        if not is_true(draft.status.get("conditions") or (), JobCondition.SUBMITTED):
            draft.condition(JobCondition.SUBMITTED, TRUE, "JobSubmitted", f"Ray knows job {job_id}")
    elif is_true(draft.status.get("conditions") or (), JobCondition.SUBMITTED):
        pass
    elif draft.mode.waits and not job_id:
        draft.condition(JobCondition.SUBMITTED, FALSE, "WaitingForJobID", "a user submits the job and tells its id")
    elif state == State.INITIALIZING:
        draft.condition(JobCondition.SUBMITTED, FALSE, "WaitingForRayCluster", "the RayCluster comes first")
    else:
        draft.condition(JobCondition.SUBMITTED, FALSE, "NotSubmittedYet", f"Ray does not know job {job_id} yet")


def _running(draft: Draft, state: State) -> None:
    if state == State.RUNNING and draft.job_status == JobStatus.RUNNING:
        draft.condition(JobCondition.RUNNING, TRUE, "JobRunning", f"Ray runs job {draft.status.get('jobId')}")
        return
    word = draft.job_status.capitalize() if draft.job_status and state == State.RUNNING else ""
    reason = {"": "NotRunning", "Pending": "JobPending"}.get(word, f"Job{word}")
    told = f"the RayJob is {state.value or 'new'}"
    draft.condition(JobCondition.RUNNING, FALSE, reason, f"{told}, and Ray says {draft.job_status}" if word else told)


def _finished(draft: Draft, state: State) -> None:
    status = draft.status
    if state == State.COMPLETE:
        word = "Stopped" if draft.job_status == JobStatus.STOPPED else "Succeeded"
        draft.condition(JobCondition.FINISHED, TRUE, word, f"job {status.get('jobId')} {word.lower()}")
    elif state == State.FAILED:
        draft.condition(JobCondition.FINISHED, TRUE, status.get("reason") or "Failed", _last_lines(status))
    elif state == State.RETRYING:
        attempts = (draft.spec.backoff_limit or 0) + 1
        told = f"attempt {status['failed']} of {attempts} failed ({status.get('reason')}): {_last_lines(status)}"
        draft.condition(JobCondition.FINISHED, FALSE, "Retrying", told)
    elif find_condition(status.get("conditions") or (), JobCondition.FINISHED) is None or state == State.SUSPENDED:
        draft.condition(JobCondition.FINISHED, FALSE, "NotFinished", "the RayJob has not ended")


def _last_lines(status: Mapping[str, Any]) -> str:
    """The end of the message: of a job's log it is the end that tells what went wrong."""
    lines = str(status.get("message") or status.get("reason") or "").strip().splitlines()
    return "\n".join(lines[-_LAST_LINES:])[-_MAX_SUMMARY:]
