"""Which submission modes there are, and what each of them needs from the common machine.

Source: spec rayjob.md 3. A mode is a value: the machine asks it, and never compares names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kuberay.api.job import JobSubmissionMode, RayJobSpec


@dataclass(frozen=True, slots=True)
class Mode:
    """A way to bring the job to Ray."""

    name: JobSubmissionMode
    submitter: Literal["job", "sidecar", ""] = ""
    """Who submits and follows the job, so that its end is awaited too: a Kubernetes Job, a container of the head pod, or
    nobody."""
    posts: bool = False
    """Whether the operator itself hands the job to the dashboard."""
    waits: bool = False
    """Whether a user submits the job, and tells its id."""

    @property
    def submitter_job(self) -> bool:
        """Whether a Kubernetes Job submits."""
        return self.submitter == "job"

    @property
    def sidecar(self) -> bool:
        """Whether a container of the head pod submits."""
        return self.submitter == "sidecar"


K8S_JOB = Mode(JobSubmissionMode.K8S_JOB, submitter="job")
_MODES = {
    mode.name: mode
    for mode in (
        K8S_JOB,
        Mode(JobSubmissionMode.SIDECAR, submitter="sidecar"),
        Mode(JobSubmissionMode.HTTP, posts=True),
        Mode(JobSubmissionMode.INTERACTIVE, waits=True),
    )
}


def mode_named(word: str) -> Mode | None:
    """The mode of that name, if there is one."""
    return next((mode for name, mode in _MODES.items() if name == word), None)


def mode_of(spec: RayJobSpec) -> Mode:
    """The mode a spec asks for; for an attempt that is under way see `Draft.mode`. A word that names none (refused before anything is made) submits nothing."""
    return _MODES[spec.mode] if spec.mode is not None else Mode(JobSubmissionMode.INTERACTIVE)
