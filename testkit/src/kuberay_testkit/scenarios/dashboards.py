"""The Ray heads of a scenario, one per RayCluster, answering HTTP requests as Ray's dashboard and Serve's proxy do; nothing
is on a network.

`PlayedSession` stands in for the aiohttp session of the operator's real dashboard client, so that requests and answers
are what they would be on the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import orjson
from kuberay.kube.clock import Clock
from kuberay.ray.jobinfo import TERMINAL

from kuberay_testkit.scenarios.serve import APPLICATIONS, HEALTH, Answer, Serve

JOBS = "/api/jobs"
DASHBOARD_PORT, SERVE_PORT = "8265", "8000"


@dataclass(slots=True)
class Conduct:
    """How a head answers."""

    refuse: bool = False
    """Whether the dashboard refuses connections."""
    fail: Mapping[str, int] = field(default_factory=dict)
    """By method, or ``*``: the code every request is answered with."""
    slow: Mapping[str, float] = field(default_factory=dict)
    """By method, or ``*``: seconds before a request is looked at."""
    proxy: bool = True
    """Whether the Serve proxy says that it is healthy."""


@dataclass(slots=True)
class Dashboard:
    """One cluster's head. Its state outlives the pod."""

    conduct: Conduct = field(default_factory=Conduct)
    serve: Serve = field(default_factory=Serve)
    jobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[dict[str, Any]] = field(default_factory=list)
    """What it received, in order: ``call`` and, where there was one, ``body``."""


@dataclass(slots=True)
class Dashboards:
    """All dashboards of one namespace, and the ways they fail."""

    clock: Clock
    alive: Callable[[str], bool]
    """Whether that cluster has a head that runs, whose dashboard can answer."""
    ready: Callable[[str], bool]
    """Whether that head is ready: its Serve proxy answers no sooner."""
    heard: Callable[[], None] = lambda: None
    """Called after each request."""
    status_of_unknown: str = ""
    """Status of jobs nobody told the dashboard of: they stand for submissions by a submitter. Empty: there are none."""
    conduct: Conduct = field(default_factory=Conduct)
    """Of heads that are yet to come."""
    apps: str = "RUNNING"
    """Status of applications that are configured on heads that are yet to come."""
    by_cluster: dict[str, Dashboard] = field(default_factory=dict)

    def of(self, cluster: str) -> Dashboard:
        """That of a cluster, made when it is asked for first."""
        if cluster not in self.by_cluster:
            self.by_cluster[cluster] = Dashboard(replace(self.conduct), Serve(self.apps))
        return self.by_cluster[cluster]

    def set_job(self, cluster: str, job_id: str, status: str, message: str = "") -> None:
        """Put a job into *status*, whether it was known or not."""
        jobs, now = self.of(cluster).jobs, self._now()
        job = jobs.setdefault(job_id, _new_job(job_id, now))
        job.update(status=status, message=message)
        if status in TERMINAL:
            job["end_time"] = now

    def forget(self) -> None:
        """No dashboard knows any job any more."""
        for dashboard in self.by_cluster.values():
            dashboard.jobs.clear()

    async def receive(self, cluster: str, method: str, path: str, body: bytes) -> Answer:
        """Answer one request. Raises aiohttp's errors where nobody answers."""
        if not self.alive(cluster) or self.of(cluster).conduct.refuse:
            raise aiohttp.ClientConnectionError(f"connection to the head of {cluster} refused")
        dashboard = self.of(cluster)
        conduct = dashboard.conduct
        path = path.partition("?")[0]
        request: dict[str, Any] = {"call": f"{method} {path}"}
        if body:
            request["body"] = orjson.loads(body)
        dashboard.requests.append(request)
        self.heard()
        pause = conduct.slow.get(method, conduct.slow.get("*", 0))
        if pause:
            await asyncio.sleep(pause)
        code = conduct.fail.get(method, conduct.fail.get("*"))
        if code is not None:
            return code, b"{}"
        if path == APPLICATIONS:
            return dashboard.serve.answer(method, request.get("body"))
        return self._answer(dashboard, method, path, request.get("body") or {})

    async def ask_proxy(self, cluster: str, method: str, path: str) -> Answer:
        """Answer one request to the Serve proxy of the head."""
        if not self.ready(cluster):
            raise aiohttp.ClientConnectionError(f"connection to the proxy of {cluster} refused")
        if (method, path) != ("GET", HEALTH):
            return 404, b"Path not found"
        return (200, b"success") if self.of(cluster).conduct.proxy else (503, b"unhealthy")

    def _answer(self, dashboard: Dashboard, method: str, path: str, body: Mapping[str, Any]) -> Answer:
        if method == "POST" and path.rstrip("/") == JOBS:
            return self._submit(dashboard, body)
        if path.startswith(f"{JOBS}/"):
            job_id, _, rest = path.removeprefix(f"{JOBS}/").partition("/")
            job = self._job(dashboard, job_id)
            if job is None:
                return 404, f"Job {job_id} does not exist".encode()
            if method == "GET" and not rest:
                return 200, orjson.dumps(job)
            if method == "POST" and rest == "stop":
                stopped = job["status"] not in TERMINAL
                if stopped:
                    job.update(status="STOPPED", end_time=self._now())
                return 200, orjson.dumps({"stopped": stopped})
        return 404, b"404: Not Found"

    def _submit(self, dashboard: Dashboard, body: Mapping[str, Any]) -> Answer:
        job_id = str(body.get("submission_id") or f"raysubmit_{len(dashboard.jobs):016d}")
        if job_id in dashboard.jobs:
            text = f"Job with submission_id {job_id} already exists. Please use a different submission_id."
            return 500, text.encode()
        job = _new_job(job_id, self._now())
        job.update({key: body[key] for key in ("entrypoint", "metadata", "runtime_env") if key in body})
        dashboard.jobs[job_id] = job
        return 200, orjson.dumps({"job_id": job_id, "submission_id": job_id})

    def _job(self, dashboard: Dashboard, job_id: str) -> dict[str, Any] | None:
        job = dashboard.jobs.get(job_id)
        if job is None and self.status_of_unknown:
            job = dashboard.jobs[job_id] = _new_job(job_id, self._now())
            job["status"] = self.status_of_unknown
            if self.status_of_unknown in TERMINAL:
                job["end_time"] = job["start_time"]
        return job

    def _now(self) -> int:
        return int(self.clock.now().timestamp() * 1000)


def _new_job(job_id: str, now: int) -> dict[str, Any]:
    return {
        "type": "SUBMISSION",
        "job_id": None,
        "submission_id": job_id,
        "driver_info": None,
        "status": "RUNNING",
        "entrypoint": "",
        "message": "",
        "error_type": None,
        "start_time": now,
        "end_time": None,
        "metadata": {},
        "runtime_env": {},
    }


Route = Callable[[str], tuple[Dashboards, str] | None]
"""From a host name or a pod's address to the heads of its namespace and the cluster; None: there is no such host."""


class PlayedResponse:
    """What an aiohttp response is to the dashboard client."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    @property
    def content(self) -> PlayedResponse:
        """The stream of the answer; here all of it comes at once."""
        return self

    async def iter_any(self) -> AsyncIterator[bytes]:
        yield self._body


class PlayedSession:
    """What an aiohttp session is to the dashboard client."""

    def __init__(self, route: Route) -> None:
        self._route = route

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        *,
        data: bytes | None = None,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's
        **_options: Any,
    ) -> AsyncIterator[PlayedResponse]:
        host, _, path = url.removeprefix("http://").partition("/")
        name, _, port = host.partition(":")
        found = self._route(name)
        if found is None:
            raise aiohttp.ClientConnectionError(f"{name}: name not resolved")
        dashboards, cluster = found
        async with asyncio.timeout(timeout.total):
            if port == DASHBOARD_PORT:
                status, body = await dashboards.receive(cluster, method, f"/{path}", data or b"")
            elif port == SERVE_PORT:
                status, body = await dashboards.ask_proxy(cluster, method, f"/{path}")
            else:
                raise aiohttp.ClientConnectionError(f"{host}: connection refused")
        yield PlayedResponse(status, body)
