"""Talking to a Ray dashboard: which requests are sent, and what their answers mean.

Source: spec rayjob.md 3.9 and 3.10, rayservice.md 2.8 and 2.10. `DashboardClient` is the contract; `kuberay.ray.http` has the real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from kuberay.ray.activity import Activity as Activity
from kuberay.ray.in_flight import ServeRequests as ServeRequests
from kuberay.ray.jobinfo import JobInfo as JobInfo
from kuberay.ray.serve import ServeDetails as ServeDetails


@dataclass(frozen=True, slots=True)
class DashboardTarget:
    """Which dashboard to ask."""

    address: str
    """``host:port`` without a scheme."""
    namespace: str = ""
    service: str = ""
    """Head service name, for access through the API server's proxy."""
    token: str | None = field(default=None, repr=False)
    """Bearer token when the cluster wants one. Never logged."""


class DashboardError(Exception):
    """A dashboard call that brought no usable answer; its text is one sentence."""


class DashboardUnreachableError(DashboardError):
    """No answer at all: name not resolved, connection refused or reset, timed out."""


class DashboardRefusedError(DashboardError):
    """An answer that is not the one wanted: another status code, or a body that does not parse."""


class SubmissionExistsError(DashboardError):
    """The submission id is taken already: the job was submitted before."""


class DashboardClient(Protocol):
    """The calls the operator makes. All raise `DashboardError` when there is no usable answer."""

    async def job_info(self, target: DashboardTarget, job_id: str) -> JobInfo | None:
        """The submission, or None when that dashboard does not know it (404)."""
        ...

    async def job_logs(self, target: DashboardTarget, job_id: str) -> str | None:
        """How the log of the submission ends (`kuberay.ray.joblogs`); None when that dashboard has none (404)."""
        ...

    async def stop_job(self, target: DashboardTarget, job_id: str) -> bool:
        """Ask Ray to stop the submission. True when it was stopped or had ended already; False when it is unknown."""
        ...

    async def submit_job(self, target: DashboardTarget, request: dict[str, Any]) -> str:
        """Submit a job (body of spec 3.10); returns its submission id. `SubmissionExistsError` when the id is taken."""
        ...

    async def activity(self, target: DashboardTarget) -> Activity:
        """Whether anything uses the cluster (`kuberay.ray.activity`)."""
        ...

    async def serve_applications(self, target: DashboardTarget) -> ServeDetails:
        """How the Serve applications are (`kuberay.ray.serve`); none where Serve does not run."""
        ...

    async def put_serve_config(self, target: DashboardTarget, body: bytes) -> None:
        """Give Serve a configuration as JSON. What it says is what is deployed then; what it leaves out is removed."""
        ...

    async def proxy_healthy(self, address: str, namespace: str, pod: str) -> bool:
        """Whether the Serve proxy at *address* (``host:port`` of *pod*) calls itself healthy."""
        ...

    async def requests_in_flight(self, address: str, namespace: str, pod: str) -> ServeRequests | None:
        """What the metrics at *address* (``host:port`` of *pod*) say about requests; None when they say nothing of Serve."""
        ...
