"""Whether a RayJob is refused: its name, its spec, its status.

Source: spec rayjob.md 6.1 and 6.2. Pinned messages are KubeRay's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from kuberay.api.cluster import parse_problems
from kuberay.api.job import JobDeploymentStatus, JobSubmissionMode, RayJobSpec
from kuberay.api.problems import Problem
from kuberay.api.runtime_env import runtime_env_error
from kuberay.api.validation.cluster import name_problems, spec_problems, upgrade_problems
from kuberay.api.validation.deletion_rules import deletion_problems
from kuberay.api.validation.lifecycle import ownership_problems

INVALID_METADATA = "InvalidRayJobMetadata"
INVALID_SPEC = "InvalidRayJobSpec"
INVALID_STATUS = "InvalidRayJobStatus"

MAX_NAME = 47
_MOST_TOLD = 1000
"""Letters of a runtime environment that a message repeats."""

Found = tuple[str, str]

_INVALID = "The RayJob spec is invalid: "


def validate_job(
    name: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    spec: RayJobSpec | Mapping[str, Any],
    gates: Mapping[str, bool],
    status: Mapping[str, Any] | None = None,
) -> list[Problem]:
    """All problems, KubeRay's first one first; ``reason`` is the event reason. Empty means accepted.

    The message of the first problem is what KubeRay writes to ``status.message``.
    """
    problems = list(name_problems("RayJob", name, MAX_NAME, INVALID_METADATA, "The RayJob metadata is invalid: "))
    if not isinstance(spec, RayJobSpec):
        try:
            spec = RayJobSpec.parse(spec)
        except ValidationError as error:
            return problems + parse_problems(error, "spec", INVALID_SPEC)
    problems += job_spec_problems(spec, annotations, gates)
    waiting = (status or {}).get("jobDeploymentStatus") == JobDeploymentStatus.WAITING
    if waiting and spec.mode != JobSubmissionMode.INTERACTIVE:
        message = (
            "invalid RayJob State: JobDeploymentStatus cannot be `Waiting` when SubmissionMode is not InteractiveMode"
        )
        problems.append(Problem("status.jobDeploymentStatus", message, INVALID_STATUS))
    return problems


def job_spec_problems(
    spec: RayJobSpec, annotations: Mapping[str, str], gates: Mapping[str, bool], path: str = "spec"
) -> list[Problem]:
    """Rules S1-S28, then our own. *annotations* are the RayJob's."""

    def told(found: Iterator[Found]) -> list[Problem]:
        return [Problem(f"{path}.{where}", message, INVALID_SPEC) for where, message in found]

    problems = told(_shutdown_problems(spec))
    problems += told(deletion_problems(spec, gates))
    problems += told(_cluster_choice_problems(spec))
    problems += told(_mode_problems(spec))
    cluster = spec.ray_cluster_spec
    if cluster is not None:
        where = f"{path}.rayClusterSpec"
        if cluster.auth_options is not None and cluster.auth_options.enable_k8s_token_auth:
            message = f"{_INVALID}authOptions.enableK8sTokenAuth is not supported for RayJob"
            problems.append(Problem(f"{where}.authOptions.enableK8sTokenAuth", message, INVALID_SPEC))
        for problem in spec_problems(cluster, annotations, gates, where, INVALID_SPEC):
            problems.append(Problem(problem.path, _INVALID + problem.message, INVALID_SPEC))
    problems += told(_runtime_env_problems(spec.runtime_env_yaml))
    problems += told(_limit_problems(spec))
    problems += told(_unknown_mode(spec))
    if cluster is not None:
        problems += upgrade_problems(cluster, "RayJob", f"{path}.rayClusterSpec", INVALID_SPEC)
        problems += ownership_problems(cluster, "RayJob", f"{path}.rayClusterSpec", INVALID_SPEC)
    return problems


def event_note(problem: Problem, namespace: str, name: str) -> str:
    """The note of the Warning event about *problem* (7.1)."""
    return f"{namespace}/{name}: {problem.message}"


def _shutdown_problems(spec: RayJobSpec) -> Iterator[Found]:
    without = f"{_INVALID}a RayJob with shutdownAfterJobFinishes set to false"
    if spec.suspend and not spec.shutdown_after_job_finishes:
        yield "suspend", f"{without} is not allowed to be suspended"
    if spec.ttl_seconds_after_finished < 0:
        yield "ttlSecondsAfterFinished", f"{_INVALID}TTLSecondsAfterFinished must be a non-negative integer"
    if spec.ttl_seconds_after_finished > 0 and not spec.shutdown_after_job_finishes:
        yield "ttlSecondsAfterFinished", f"{without} cannot have TTLSecondsAfterFinished"


def _cluster_choice_problems(spec: RayJobSpec) -> Iterator[Found]:
    if spec.suspend and spec.cluster_selector:
        yield "suspend", f"{_INVALID}the ClusterSelector mode doesn't support the suspend operation"
    if spec.ray_cluster_spec is None and not spec.cluster_selector:
        yield "rayClusterSpec", f"{_INVALID}one of RayClusterSpec or ClusterSelector must be set"
    if spec.cluster_selector and not spec.selected_cluster:
        yield "clusterSelector", "cluster name in ClusterSelector should not be empty"
    if spec.cluster_selector and spec.mode == JobSubmissionMode.SIDECAR:
        yield "clusterSelector", "ClusterSelector is not supported in SidecarMode"
    if spec.cluster_selector and spec.retries > 0:
        yield "backoffLimit", f"{_INVALID}BackoffLimit is incompatible with ClusterSelector"


def _mode_problems(spec: RayJobSpec) -> Iterator[Found]:
    if spec.mode == JobSubmissionMode.INTERACTIVE and spec.retries > 0:
        yield "backoffLimit", f"{_INVALID}BackoffLimit is incompatible with InteractiveMode"
    if spec.mode != JobSubmissionMode.SIDECAR:
        return
    if spec.submitter_pod_template is not None:
        yield "submitterPodTemplate", "Currently, SidecarMode doesn't support SubmitterPodTemplate"
    if spec.submitter_config is not None:
        yield "submitterConfig", "Currently, SidecarMode doesn't support SubmitterConfig"
    if spec.ray_cluster_spec is not None:
        policy = spec.ray_cluster_spec.head_group_spec.pod_spec.get("restartPolicy")
        if policy not in (None, "", "Never"):
            yield (
                "rayClusterSpec.headGroupSpec.template.spec.restartPolicy",
                "restartPolicy for head Pod should be Never or unset when using SidecarMode",
            )


def _runtime_env_problems(text: str) -> Iterator[Found]:
    detail = runtime_env_error(text) if text else ""
    if detail:
        told = text if len(text) <= _MOST_TOLD else f"{text[:_MOST_TOLD]}…"
        yield "runtimeEnvYAML", f"failed to unmarshal RuntimeEnvYAML: {told}: {detail}"


def _limit_problems(spec: RayJobSpec) -> Iterator[Found]:
    if spec.active_deadline_seconds is not None and spec.active_deadline_seconds <= 0:
        yield "activeDeadlineSeconds", f"{_INVALID}activeDeadlineSeconds must be a positive integer"
    if spec.pre_running_deadline_seconds is not None and spec.pre_running_deadline_seconds <= 0:
        yield "preRunningDeadlineSeconds", f"{_INVALID}preRunningDeadlineSeconds must be a positive integer"
    if spec.retries < 0:
        yield "backoffLimit", f"{_INVALID}backoffLimit must be a positive integer"


def _unknown_mode(spec: RayJobSpec) -> Iterator[Found]:
    if spec.mode is None:
        modes = ", ".join(JobSubmissionMode)
        yield "submissionMode", f"{_INVALID}submissionMode {spec.submission_mode!r} is none of {modes}"
