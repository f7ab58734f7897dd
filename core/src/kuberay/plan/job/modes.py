"""Which submission modes this version knows, and what each of them needs from the common machine.

Source: spec rayjob.md 3. A mode is a value: the machine asks it, and never compares names.
"""

from __future__ import annotations

from dataclasses import dataclass

from kuberay.api.job import JobSubmissionMode, RayJobSpec
from kuberay.api.problems import Problem


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to bring the job to Ray."""

    name: JobSubmissionMode
    submitter_job: bool
    """Whether a Kubernetes Job submits, and its end is awaited."""


K8S_JOB = Mode(JobSubmissionMode.K8S_JOB, submitter_job=True)

_SUPPORTED = {mode.name: mode for mode in (K8S_JOB,)}


def mode_of(spec: RayJobSpec) -> Mode | None:
    """The mode a spec asks for, or None when this version does not know it."""
    return _SUPPORTED.get(spec.mode) if spec.mode is not None else None


def unsupported(spec: RayJobSpec) -> list[Problem]:
    """What a spec asks for that this version cannot do; such a RayJob is refused before anything is created."""
    problems = []
    if spec.mode is not None and mode_of(spec) is None:
        message = f"submissionMode {spec.mode.value} is not supported by this version"
        problems.append(Problem("spec.submissionMode", message))
    if spec.deletion_strategy is not None:
        problems.append(Problem("spec.deletionStrategy", "deletionStrategy is not supported by this version"))
    return problems
