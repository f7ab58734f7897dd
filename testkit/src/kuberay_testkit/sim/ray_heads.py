"""Ray heads and the jobs that really run on them: what is true, and what a dashboard says of it, late, wrongly or not at all.

A head is the Ray container of a head pod, by UID and restarts. When it ends, its jobs die with it, and the next head of the
same address knows none of them. `RayHeads` is the `DashboardClient` of all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal, TypeVar

from kuberay.api.kinds import POD, SERVICE
from kuberay.api.names import HEAD, LABEL_CLUSTER, LABEL_NODE_TYPE
from kuberay.api.times import format_time, from_milliseconds
from kuberay.ray.dashboard import (
    Activity,
    DashboardError,
    DashboardRefusedError,
    DashboardTarget,
    DashboardUnreachableError,
    SubmissionExistsError,
)
from kuberay.ray.jobinfo import JobInfo

from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

Outcome = Literal["SUCCEEDED", "FAILED", "RUNNING"]
"""How a job ends by itself; ``RUNNING``: it does not."""

LOST = "LOST"
"""What becomes of a job whose head ends; no dashboard ever says so."""

_T = TypeVar("_T")


@dataclass(slots=True)
class Run:
    """A job that a head accepted: it goes its way, whatever dashboards say of it."""

    namespace: str
    cluster: str
    job_id: str
    head: str
    by: str
    """Who submitted it: ``operator``, ``submitter``, ``sidecar`` or ``user``."""
    accepted: float
    """Seconds on the server's clock."""
    sent: float
    """When the request was sent that was accepted then."""
    outcome: Outcome
    status: str = "PENDING"
    """The truth: as Ray has it, or `LOST`."""
    ended: float | None = None
    forgotten: bool = False
    """Whether its head's dashboard lost its record."""
    told: list[tuple[float, JobInfo]] = field(default_factory=list)
    """What a dashboard that is up to date would say, since when."""

    @property
    def over(self) -> bool:
        return self.ended is not None

    @property
    def lost(self) -> bool:
        """Whether nobody can find out how it ended, if it did."""
        return self.forgotten or self.status == LOST

    def __str__(self) -> str:
        return f"{self.job_id} by {self.by} on {self.head} at {self.accepted:.1f} s: {self.status}"


@dataclass(slots=True)
class Head:
    """One life of a Ray container."""

    key: str
    life: str
    pod: str
    namespace: str
    cluster: str
    begun: float
    up_at: float
    """From when on its dashboard answers."""
    runs: dict[str, Run] = field(default_factory=dict)
    """What its dashboard knows."""
    lag: float = 0.0
    """How many seconds its dashboard is behind the truth."""


@dataclass(slots=True)
class Weather:
    """How likely each call to a dashboard goes wrong, until `clear`."""

    random: Random
    intensity: float = 0.0
    went_wrong: int = 0
    """How many calls did."""

    def draw(self) -> str:
        """What happens to one call; empty: nothing."""
        if not self.intensity or self.random.random() >= self.intensity:
            return ""
        self.went_wrong += 1
        return self.random.choice(("refuse", "500", "garbage", "acts late", "answer lost", "answers late"))

    def clear(self) -> None:
        self.intensity = 0.0


Fate = Callable[[str, str, str], tuple[Outcome, float]]
"""By namespace, cluster and job id: how the job ends, and after how many seconds."""


class RayHeads:
    """All heads of a simulated cluster, their jobs, and their dashboards."""

    def __init__(
        self,
        server: SimServer,
        *,
        fate: Fate = lambda *_: ("SUCCEEDED", 10.0),
        seed: int = 0,
        intensity: float = 0.0,
        timeout: float = 2.0,
        latency: float = 0.01,
    ) -> None:
        """*timeout*: after how many seconds callers give up; *intensity*: which part of all calls goes wrong."""
        self.server = server
        self.fate = fate
        self.timeout = timeout
        self.latency = latency
        self.random = Random(f"heads {seed}")
        self.weather = Weather(Random(f"weather {seed}"), intensity)
        self.runs: list[Run] = []
        """Every job that was ever accepted, in order."""
        self.calls = 0
        self.accepted: list[Callable[[Run], object]] = []
        """Who wants to know of each job that a head accepts."""
        self._heads: dict[str, Head] = {}
        self._lives = 0
        self._stop = server.store.listen(self._observe)

    def close(self) -> None:
        self._stop()

    # -- heads come and go with their containers

    def _observe(self, change: Change) -> None:
        pod = change.stored
        if pod.key.kind != POD or pod.labels.get(LABEL_NODE_TYPE) != HEAD:
            return
        life = "" if change.type == "DELETED" else _life(pod)
        head = self._heads.get(pod.uid)
        if head is not None and head.life != life:
            self._end(self._heads.pop(pod.uid))
            head = None
        if life and head is None:
            now = self.server.clock.elapsed()
            up_at = now + self.random.uniform(0.2, 3.0)
            self._lives += 1
            cluster = pod.labels.get(LABEL_CLUSTER, "")
            key = f"{life} #{self._lives}"
            self._heads[pod.uid] = Head(key, life, pod.uid, pod.key.namespace, cluster, now, up_at)

    def _end(self, head: Head) -> None:
        now = self.server.clock.elapsed()
        for run in self.runs:
            if run.head == head.key and not run.over:
                run.status, run.ended = LOST, now
        # What had ended is lost too: its record was on this head.
        for run in head.runs.values():
            run.forgotten = True

    def head_of(self, uid: str) -> Head | None:
        """The head that runs in the pod, once its dashboard answers."""
        head = self._heads.get(uid)
        return head if head is not None and self.server.clock.elapsed() >= head.up_at else None

    def serving(self, address: str) -> Head | None:
        """The head that answers at *address* (``service.namespace.svc…:port``) now."""
        name, namespace = address.split(":", 1)[0].split(".")[:2]
        service = self.server.store.get(Key(SERVICE, namespace, name))
        if service is None:
            return None
        spec = service.body["spec"]
        for uid in self._heads:
            pod, head = self.server.store.by_uid(uid), self.head_of(uid)
            if head is None or pod is None or pod.deleting or pod.key.namespace != namespace:
                continue
            if not all(pod.labels.get(key) == value for key, value in (spec.get("selector") or {}).items()):
                continue
            if spec.get("publishNotReadyAddresses") or _condition(pod, "Ready") == "True":
                return head
        return None

    def heads(self, namespace: str, cluster: str) -> list[Head]:
        """The live heads of a cluster."""
        return [head for head in self._heads.values() if (head.namespace, head.cluster) == (namespace, cluster)]

    def alive(self, run: Run) -> bool:
        """Whether the job runs right now."""
        return not run.over and any(head.key == run.head for head in self._heads.values())

    # -- what goes wrong with heads and dashboards for longer than one call

    def restart_dashboard(self, namespace: str, cluster: str, seconds: float) -> None:
        """Its dashboards are not reachable for so long; what runs goes on."""
        for head in self.heads(namespace, cluster):
            head.up_at = max(head.up_at, self.server.clock.elapsed() + seconds)

    def forget(self, namespace: str, cluster: str) -> None:
        """Its dashboards lose their records; what runs goes on."""
        for head in self.heads(namespace, cluster):
            for run in head.runs.values():
                run.forgotten = True
            head.runs.clear()

    def fall_behind(self, namespace: str, cluster: str, seconds: float) -> None:
        """Its dashboards tell what was true so many seconds ago."""
        for head in self.heads(namespace, cluster):
            head.lag = seconds

    def catch_up(self) -> None:
        """All dashboards are up to date, and answer every call."""
        self.weather.clear()
        for head in self._heads.values():
            head.lag = 0.0

    # -- jobs

    def submit(self, head: Head, job_id: str, by: str, *, sent: float | None = None) -> Run:
        """A head takes a job. `SubmissionExistsError` when it knows the id."""
        if job_id in head.runs:
            raise SubmissionExistsError(f"job {job_id} was submitted before")
        now = self.server.clock.elapsed()
        outcome, seconds = self.fate(head.namespace, head.cluster, job_id)
        run = Run(head.namespace, head.cluster, job_id, head.key, by, now, now if sent is None else sent, outcome)
        self.runs.append(run)
        head.runs[job_id] = run
        self._tell(run, "PENDING")
        loop, pending = asyncio.get_running_loop(), self.random.uniform(0.2, 3.0)
        loop.call_later(pending, self._advance, run, "RUNNING")
        if outcome != "RUNNING":
            loop.call_later(pending + seconds, self._advance, run, outcome)
        for heard in self.accepted:
            heard(run)
        return run

    def stop(self, run: Run) -> None:
        """Ray ends the job."""
        self._advance(run, "STOPPED")

    def _advance(self, run: Run, status: str) -> None:
        if run.over:
            return
        run.status = status
        if status != "RUNNING":
            run.ended = self.server.clock.elapsed()
        self._tell(run, status)

    def _tell(self, run: Run, status: str) -> None:
        now = int(self.server.now().timestamp() * 1000)
        last = run.told[-1][1] if run.told else JobInfo(submission_id=run.job_id)
        messages = {"PENDING": "Job has not started yet.", "RUNNING": "Job is currently running."}
        info = JobInfo(
            submission_id=run.job_id,
            status=status,
            message=messages.get(status, f"Job ended: {status}."),
            start_time=last.start_time or (now if status != "PENDING" else 0),
            end_time=now if status not in ("PENDING", "RUNNING") else 0,
        )
        run.told.append((self.server.clock.elapsed(), info))

    def _info(self, head: Head, job_id: str) -> JobInfo | None:
        run = head.runs.get(job_id)
        if run is None:
            return None
        before = self.server.clock.elapsed() - head.lag
        return next((info for at, info in reversed(run.told) if at <= before), run.told[0][1])

    # -- the contract

    async def job_info(self, target: DashboardTarget, job_id: str) -> JobInfo | None:
        return await self._answer(target, lambda head: self._info(head, job_id))

    async def job_logs(self, target: DashboardTarget, job_id: str) -> str | None:
        return await self._answer(target, lambda head: "" if job_id in head.runs else None)

    async def stop_job(self, target: DashboardTarget, job_id: str) -> bool:
        def stop(head: Head) -> bool:
            run = head.runs.get(job_id)
            if run is not None:
                self.stop(run)
            return run is not None

        return await self._answer(target, stop)

    async def submit_job(self, target: DashboardTarget, request: dict[str, Any]) -> str:
        sent = self.server.clock.elapsed()
        job_id = str(request.get("submission_id") or f"raysubmit_{len(self.runs):016d}")
        return await self._answer(target, lambda head: self.submit(head, job_id, "operator", sent=sent).job_id)

    async def activity(self, target: DashboardTarget) -> Activity:
        def look(head: Head) -> Activity:
            if not all(run.over for run in head.runs.values()):
                return Activity(True, "a submitted job has not ended")
            last = max((run.told[-1][1].end_time for run in head.runs.values()), default=0)
            return Activity(False, last_end=format_time(from_milliseconds(last)) if last else "")

        return await self._answer(target, look)

    async def _answer(self, target: DashboardTarget, act: Callable[[Head], _T]) -> _T:
        """What *act* does on the head that serves the address, unless the weather says otherwise."""
        self.calls += 1
        await asyncio.sleep(self.latency)
        head, place = self.serving(target.address), target.address
        trouble = self.weather.draw()
        if head is None or trouble == "refuse":
            raise DashboardUnreachableError(f"cannot connect to {place}: connection refused")
        if trouble == "500":
            raise DashboardRefusedError("the dashboard answered HTTP 500 Internal Server Error")
        if trouble == "acts late":
            # The caller gives up, or is killed; the request is on its way all the same.
            after = self.timeout * self.weather.random.uniform(0.2, 2.0)
            asyncio.get_running_loop().call_later(after, self._act_late, head, act)
            await asyncio.sleep(self.timeout)
            raise DashboardUnreachableError(f"{place} did not answer within {self.timeout:g} s")
        answer = act(head)
        match trouble:
            case "garbage":
                raise DashboardRefusedError("the answer is not JSON: <html>")
            case "answer lost":
                await asyncio.sleep(self.timeout)
                raise DashboardUnreachableError(f"{place} did not answer within {self.timeout:g} s")
            case "answers late":
                await asyncio.sleep(self.timeout * self.weather.random.uniform(0.1, 0.95))
        return answer

    def _act_late(self, head: Head, act: Callable[[Head], object]) -> None:
        if self.head_of(head.pod) is head:
            try:
                act(head)
            except DashboardError:
                return  # nobody waits for the answer


def _condition(pod: Stored, type_: str) -> str:
    conditions = (pod.body.get("status") or {}).get("conditions") or ()
    return next((str(each["status"]) for each in conditions if each["type"] == type_), "")


def runs_ray(pod: Stored) -> bool:
    """Whether the Ray container of the pod runs."""
    return bool(_life(pod))


def _life(pod: Stored) -> str:
    """Which life of the Ray container is lived in the pod; empty when none is."""
    status = pod.body.get("status") or {}
    if status.get("phase") != "Running" or _condition(pod, "Ready") == "Unknown":
        return ""
    ray = pod.body["spec"]["containers"][0]["name"]
    for each in status.get("containerStatuses") or ():
        if each["name"] == ray and "running" in (each.get("state") or {}):
            return f"{pod.key.name}/{pod.uid[:8]}/{each.get('restartCount', 0)}"
    return ""
