"""A Ray dashboard without Ray: jobs and Serve applications by address, and the ways a dashboard fails.

Implements `kuberay.ray.dashboard.DashboardClient` for all heads of a simulated cluster at once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
import orjson
from kuberay.api.times import format_time, from_milliseconds
from kuberay.ray.dashboard import (
    Activity,
    DashboardRefusedError,
    DashboardTarget,
    DashboardUnreachableError,
    ServeRequests,
    SubmissionExistsError,
)
from kuberay.ray.in_flight import parse_requests
from kuberay.ray.jobinfo import JobInfo
from kuberay.ray.serve import ServeDetails

from kuberay_testkit.serve import FakeServe
from kuberay_testkit.sim.clock import Clock, VirtualClock

Mode = Literal["ok", "refuse", "slow", "500", "garbage"]
"""``refuse``: connection refused; ``slow``: answers after `FakeDashboard.slow_seconds`; ``500``: an internal error;
``garbage``: 200 with a body that is no job."""


@dataclass(slots=True)
class Head:
    """One dashboard."""

    jobs: dict[str, JobInfo] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    """How the logs of jobs end, by job id."""
    use: str = ""
    """What else uses the cluster (drivers, actors, tasks), in a few words; empty when nothing does."""
    last_end: int = 0
    """When the last use ended, in milliseconds."""
    serve: FakeServe = field(default_factory=FakeServe)
    mode: Mode = "ok"
    failures_left: int | None = None
    """After so many failing calls the mode is ``ok`` again; None: it stays."""


class FakeDashboard:
    """Every address is a dashboard that answers and knows no jobs, until told otherwise."""

    def __init__(
        self,
        *,
        clock: Clock | None = None,
        timeout: float = 2.0,
        latency: float = 0.01,
        token: str | None = None,
        strict: bool = False,
    ) -> None:
        """*timeout* in seconds is when callers give up. With *token* set, others are answered 401. *strict*: addresses
        that `up` did not name refuse connections."""
        self.clock = clock or VirtualClock()
        self.timeout = timeout
        self.latency = latency
        self.slow_seconds = 5.0
        self.token = token
        self.strict = strict
        self.calls: list[tuple[str, str, str]] = []
        """(call, address, job id or pod) in order."""
        self.proxies: dict[str, bool | None] = {}
        """By address, whether the Serve proxy there is healthy; None: nobody answers. Others are, unless *strict*."""
        self.metrics: dict[str, str | None] = {}
        """By address, what a Ray node's metrics say, in Prometheus' text format; None: nobody answers. Others say nothing,
        unless *strict*: then nobody answers there."""
        self._heads: dict[str, Head] = {}

    # -- what tests say

    def up(self, address: str) -> Head:
        """The dashboard at *address*, answering from now on."""
        return self._heads.setdefault(address, Head())

    def down(self, address: str) -> None:
        """The head is gone, and its jobs with it."""
        self._heads[address] = Head(mode="refuse")

    def fail(self, mode: Mode, *, address: str = "", times: int | None = None) -> None:
        """Let the dashboard at *address* (all known ones when empty) fail; *times* calls, or until `fail("ok")`."""
        heads = [self.up(address)] if address else list(self._heads.values())
        for head in heads:
            head.mode, head.failures_left = mode, times

    def job(self, address: str, job_id: str) -> JobInfo | None:
        head = self._heads.get(address)
        return head.jobs.get(job_id) if head else None

    def set_job(self, address: str, job_id: str, status: str, *, message: str = "", **members: Any) -> JobInfo:
        """Put a job into *status* (``PENDING``, ``RUNNING``, ``STOPPED``, ``SUCCEEDED``, ``FAILED``); start and end
        times follow unless given."""
        now = int(self.clock.now().timestamp() * 1000)
        old = self.job(address, job_id) or JobInfo(submission_id=job_id)
        known = {**msgspec.structs.asdict(old), "status": status, "message": message, **members}
        if status not in ("PENDING", "") and not known["start_time"]:
            known["start_time"] = now
        info = JobInfo(**known)
        if info.terminal and not info.end_time:
            info.end_time = now
        self.up(address).jobs[job_id] = info
        return info

    def use(self, address: str, what: str = "a driver is connected") -> None:
        """Something other than a submitted job uses the cluster, until `leave`."""
        self.up(address).use = what

    def leave(self, address: str) -> None:
        """Nothing but submitted jobs uses the cluster any more."""
        head = self.up(address)
        head.use, head.last_end = "", int(self.clock.now().timestamp() * 1000)

    def serve(self, address: str) -> FakeServe:
        """Serve of the head at *address*."""
        return self.up(address).serve

    def count(self, call: str) -> int:
        return Counter(name for name, _, _ in self.calls)[call]

    # -- the contract

    async def job_info(self, target: DashboardTarget, job_id: str) -> JobInfo | None:
        return (await self._answer("job_info", target, job_id)).jobs.get(job_id)

    async def job_logs(self, target: DashboardTarget, job_id: str) -> str | None:
        return (await self._answer("job_logs", target, job_id)).logs.get(job_id)

    async def stop_job(self, target: DashboardTarget, job_id: str) -> bool:
        head = await self._answer("stop_job", target, job_id)
        info = head.jobs.get(job_id)
        if info is None:
            return False
        if not info.terminal:
            self.set_job(target.address, job_id, "STOPPED", message="Job was intentionally stopped.")
        return True

    async def activity(self, target: DashboardTarget) -> Activity:
        head = await self._answer("activity", target, "")
        if head.use:
            return Activity(True, head.use)
        if not all(job.terminal for job in head.jobs.values()):
            return Activity(True, "a submitted job has not ended")
        last = max([head.last_end, *(job.end_time for job in head.jobs.values())])
        return Activity(False, last_end=format_time(from_milliseconds(last)) if last else "")

    async def serve_applications(self, target: DashboardTarget) -> ServeDetails:
        head = await self._answer("serve_applications", target, "")
        return head.serve.details(self.clock.now().timestamp())

    async def put_serve_config(self, target: DashboardTarget, body: bytes) -> None:
        head = await self._answer("put_serve_config", target, "")
        if head.serve.refusal:
            raise DashboardRefusedError(f"UpdateDeployments fail: 400 Bad Request {head.serve.refusal}")
        head.serve.take(orjson.loads(body), self.clock.now().timestamp())

    async def proxy_healthy(self, address: str, namespace: str, pod: str) -> bool:
        self.calls.append(("proxy_healthy", address, pod))
        await asyncio.sleep(self.latency)
        healthy = self.proxies.get(address, None if self.strict else True)
        if healthy is None:
            raise DashboardUnreachableError(f"GET http://{address}/-/healthz failed: connection refused")
        return healthy

    async def requests_in_flight(self, address: str, namespace: str, pod: str) -> ServeRequests | None:
        self.calls.append(("requests_in_flight", address, pod))
        await asyncio.sleep(self.latency)
        text = self.metrics.get(address, None if self.strict else "")
        if text is None:
            raise DashboardUnreachableError(f"GET http://{address}/metrics failed: connection refused")
        try:
            return parse_requests(text.encode())
        except ValueError as error:
            raise DashboardRefusedError(f"the metrics of pod {namespace}/{pod} cannot be used: {error}") from error

    async def submit_job(self, target: DashboardTarget, request: dict[str, Any]) -> str:
        job_id = str(request.get("submission_id") or "")
        head = await self._answer("submit_job", target, job_id)
        job_id = job_id or f"raysubmit_{len(head.jobs):016d}"
        if job_id in head.jobs:
            raise SubmissionExistsError(f"job {job_id} was submitted before")
        self.set_job(
            target.address,
            job_id,
            "PENDING",
            entrypoint=str(request.get("entrypoint", "")),
            metadata=dict(request.get("metadata") or {}),
            runtime_env=dict(request.get("runtime_env") or {}),
        )
        return job_id

    async def _answer(self, call: str, target: DashboardTarget, job_id: str) -> Head:
        """The head, after its latency, unless it is failing."""
        self.calls.append((call, target.address, job_id))
        await asyncio.sleep(self.latency)
        head = self._heads.get(target.address) if self.strict else self.up(target.address)
        if head is None:
            raise DashboardUnreachableError(f"cannot connect to {target.address}: name not resolved")
        mode = head.mode
        if mode != "ok" and head.failures_left is not None:
            head.failures_left -= 1
            if head.failures_left <= 0:
                head.mode, head.failures_left = "ok", None
        match mode:
            case "refuse":
                raise DashboardUnreachableError(f"cannot connect to {target.address}: connection refused")
            case "slow":
                await asyncio.sleep(min(self.slow_seconds, self.timeout))
                if self.slow_seconds >= self.timeout:
                    raise DashboardUnreachableError(f"{target.address} did not answer within {self.timeout:g} s")
            case "500":
                raise DashboardRefusedError(f"{call} fail: HTTP 500 Internal Server Error")
            case "garbage":
                raise DashboardRefusedError(f"{call} fail: the answer is not JSON: <html>")
        if self.token is not None and target.token != self.token:
            raise DashboardRefusedError(f"{call} fail: HTTP 401 Unauthorized")
        return head
