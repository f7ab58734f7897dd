"""Whether a RayJob is refused, and what a refusal means for one that has started already.

Source: spec rayjob.md 2.1 (4) and 6; cases.md RJ-09 and RJ-27: rules bind only until the RayCluster is made, and a
corrected RayJob starts.
"""

from __future__ import annotations

from pydantic import ValidationError

from kuberay.api.cluster import parse_problems
from kuberay.api.conditions import TRUE, JobCondition, find_condition
from kuberay.api.job import JobDeploymentStatus, JobFailedReason, JobStatus, RayJobSpec
from kuberay.api.objects import RayObject
from kuberay.api.problems import Problem
from kuberay.api.validation.job import INVALID_SPEC, event_note, validate_job
from kuberay.plan.job.draft import Draft
from kuberay.plan.job.hook_calls import job_context
from kuberay.plan.job.ray_cluster import alive, find_cluster
from kuberay.plan.job.starting import begin
from kuberay.plan.job.submit_command import unsubmittable
from kuberay.plan.secret_access import token_problems


def read_spec(obj: RayObject) -> RayJobSpec | list[Problem]:
    """The typed spec, kept with the object, or what is wrong with its form."""
    if isinstance(obj.parsed, RayJobSpec):
        return obj.parsed
    try:
        spec = RayJobSpec.parse(obj.spec)
    except ValidationError as error:
        return parse_problems(error, "spec", INVALID_SPEC)
    obj.parsed = spec
    return spec


def problems_of(draft: Draft) -> list[Problem]:
    """Everything that speaks against the RayJob, KubeRay's first reason first."""
    obj, spec = draft.obj, draft.spec
    problems = validate_job(
        obj.name, obj.metadata.labels, obj.metadata.annotations, spec, draft.observed.gates, obj.status
    )
    problems += unsubmittable(spec)
    if spec.ray_cluster_spec is not None:
        options, path = spec.ray_cluster_spec.auth_options, "spec.rayClusterSpec.authOptions"
        problems += token_problems(draft.observed.config, obj.namespace, options, path)
    found, failures = draft.observed.hooks.validate(job_context(draft))
    draft.blame(list(failures))
    return [*problems, *found]


def started(draft: Draft) -> bool:
    """Whether the RayJob is past the point where a refusal stops it: it has a cluster, or an end."""
    state = draft.state
    if state in (JobDeploymentStatus.NEW, JobDeploymentStatus.VALIDATION_FAILED, None):
        return False
    if state == JobDeploymentStatus.SUSPENDED:
        return draft.spec.suspend
    return state != JobDeploymentStatus.INITIALIZING or find_cluster(draft) is not None


def refuse(draft: Draft, problems: list[Problem]) -> None:
    """Stop before anything is made: ValidationFailed with KubeRay's first reason. Said once, not in each pass."""
    first, status = problems[0], draft.status
    known = status.get("jobDeploymentStatus") == JobDeploymentStatus.VALIDATION_FAILED
    if not known or status.get("message") != first.message:
        _tell(draft, first)
    status["jobDeploymentStatus"] = JobDeploymentStatus.VALIDATION_FAILED.value
    status["reason"] = JobFailedReason.VALIDATION_FAILED.value
    status["message"] = first.message
    draft.refuse(_sentence(problems))
    draft.wait(f"the RayJob is refused: {first.message}")


def accept(draft: Draft) -> None:
    """Say that nothing speaks against the RayJob; of one that is over only if the contrary was told."""
    stored = find_condition(draft.status.get("conditions") or [], JobCondition.ACCEPTED)
    over = draft.state is None or draft.state.terminal
    if (stored is None and not over) or (stored is not None and stored.get("status") != TRUE):
        draft.condition(JobCondition.ACCEPTED, TRUE, "Valid", "the spec is valid")


def warn(draft: Draft, problems: list[Problem]) -> None:
    """Tell of a refusal that stops nothing, once per change: the job goes on as far as its spec can be followed."""
    sentence = _sentence(problems)
    stored = find_condition(draft.status.get("conditions") or [], JobCondition.ACCEPTED)
    if stored is None or stored.get("message") != sentence:
        _tell(draft, problems[0])
    draft.refuse(sentence)


def recover(draft: Draft) -> None:
    """ValidationFailed, but the spec is fine now: start, go on with the cluster that is still there, or stay at the end."""
    status = draft.status
    for key in ("reason", "message"):
        status.pop(key, None)
    if draft.time("endTime") is not None:
        # KubeRay refuses a job that is over, too. It must not run again.
        failed = draft.job_status not in (JobStatus.SUCCEEDED, JobStatus.STOPPED)
        status["jobDeploymentStatus"] = (JobDeploymentStatus.FAILED if failed else JobDeploymentStatus.COMPLETE).value
        status["reason"] = JobFailedReason.APP_FAILED.value if draft.job_status == JobStatus.FAILED else ""
        return
    if alive(find_cluster(draft)):
        status["jobDeploymentStatus"] = JobDeploymentStatus.INITIALIZING.value
        return
    for key in ("jobId", "rayClusterName", "dashboardURL", "rayClusterStatus", "jobStatus", "rayJobInfo"):
        status.pop(key, None)
    begin(draft)


def _tell(draft: Draft, problem: Problem) -> None:
    note = event_note(problem, draft.obj.namespace, draft.obj.name)
    draft.event(problem.reason or INVALID_SPEC, note, action="Validate", warning=True, field_path=problem.path)


def _sentence(problems: list[Problem]) -> str:
    return "; ".join(str(problem) for problem in problems)
