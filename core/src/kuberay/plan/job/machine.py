"""Which step a RayJob takes in this pass: one handler per state, after deletion, foreign management and validation.

Source: spec rayjob.md 2.1. The order of the checks is the specification's.
"""

from __future__ import annotations

from kuberay.api.conditions import TRUE, JobCondition, set_condition
from kuberay.api.job import JobDeploymentStatus, RayJobSpec
from kuberay.api.names import MANAGED_BY
from kuberay.plan.job import (
    acceptance,
    conditions,
    deadlines,
    deletion,
    finished,
    live_edits,
    running,
    starting,
    stopping,
)
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.expected import expected_pods
from kuberay.plan.job.hook_calls import job_context
from kuberay.plan.job.persistence import status_to_write
from kuberay.plan.model import Plan, WriteFailure
from kuberay.plan.observed import Observed

_HANDLERS = {
    JobDeploymentStatus.NEW: starting.begin,
    JobDeploymentStatus.INITIALIZING: starting.initialize,
    JobDeploymentStatus.WAITING: starting.await_job_id,
    JobDeploymentStatus.RUNNING: running.run,
    JobDeploymentStatus.SUSPENDING: stopping.take_down,
    JobDeploymentStatus.RETRYING: stopping.take_down,
    JobDeploymentStatus.SUSPENDED: stopping.rest,
    JobDeploymentStatus.COMPLETE: finished.tidy,
    JobDeploymentStatus.FAILED: finished.tidy,
    JobDeploymentStatus.VALIDATION_FAILED: acceptance.recover,
}

_WARNED_ABOUT = (
    JobDeploymentStatus.NEW,
    JobDeploymentStatus.INITIALIZING,
    JobDeploymentStatus.WAITING,
    JobDeploymentStatus.RUNNING,
    JobDeploymentStatus.VALIDATION_FAILED,
)
"""States in which plugins may say that something has no effect: while the job is under way."""


def plan_job(observed: Observed) -> Plan:
    """The plan of one pass over a RayJob. Never raises for anything the object says."""
    obj = observed.obj
    if obj.spec.get("managedBy") not in (None, "", MANAGED_BY) and not obj.deleting:
        # A deleted one may have our finalizer from before, and nobody else would take it off.
        return Plan()
    if observed.failure is not None:
        return _after_failure(observed, observed.failure)
    spec = acceptance.read_spec(obj)
    malformed = not isinstance(spec, RayJobSpec)
    draft = Draft.start(observed, spec if isinstance(spec, RayJobSpec) else RayJobSpec())
    if obj.deleting:
        deletion.let_go(draft)
        plan = draft.finish()
        plan.status = None
        return plan
    problems = spec if not isinstance(spec, RayJobSpec) else acceptance.problems_of(draft)
    if not problems:
        acceptance.accept(draft)
        if draft.state in _WARNED_ABOUT:
            draft.ask_for_warnings(job_context(draft))
    elif acceptance.started(draft):
        acceptance.warn(draft, problems)
    else:
        acceptance.refuse(draft, problems)
        return draft.finish()
    if not malformed:
        handler = _HANDLERS.get(draft.state) if draft.state is not None else None
        if handler is not None:
            handler(draft)
        else:
            state = draft.status.get("jobDeploymentStatus")
            draft.hold("UnknownState", f"status.jobDeploymentStatus is {state}, which is no state of a RayJob")
        live_edits.follow_edits(draft)
        draft.plan.expected_pods = expected_pods(draft)
        conditions.tell(draft)
    return draft.finish()


def _after_failure(observed: Observed, failure: WriteFailure) -> Plan:
    """A write of this pass failed: nothing of what was decided holds, but the reason shows."""
    sentence = f"{failure.kind} {failure.name}: {failure.message}"
    stored = observed.obj.status
    found = set_condition(
        stored.get("conditions") or [],
        JobCondition.PODS_WAITING.value,
        TRUE,
        failure.reason or "WriteFailed",
        sentence,
        observed.now,
    )
    status = None
    if not observed.obj.deleting:
        status = status_to_write(stored, {**stored, "conditions": found}, observed.now)
    spec = acceptance.read_spec(observed.obj)
    look_by = deadlines.until_next(Draft.start(observed, spec)) if isinstance(spec, RayJobSpec) else None
    return Plan(status=status, waiting=sentence, look_by=look_by)
