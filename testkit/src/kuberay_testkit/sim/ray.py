"""What Ray does in a simulated cluster: submitter pods bring jobs to the dashboard, jobs run for a while and end.

Reads job id and dashboard address where any tool finds them: in the RayJob's status.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from kuberay.api import kinds

from kuberay_testkit.dashboard import FakeDashboard
from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.kubelet import SimKubelet
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

Outcome = Literal["SUCCEEDED", "FAILED", "STOPPED", "RUNNING"]
"""How a job ends; ``RUNNING``: it does not."""


class SimRay(Controller):
    """Plays the submitter of each RayJob in K8sJobMode and the job itself."""

    def __init__(
        self,
        server: SimServer,
        kubelet: SimKubelet,
        dashboard: FakeDashboard,
        *,
        runtime: tuple[float, float] = (5.0, 20.0),
        outcome: Callable[[dict[str, Any]], Outcome] = lambda _rayjob: "SUCCEEDED",
    ) -> None:
        """*runtime* is the range of seconds a job runs; *outcome* decides from the RayJob how it ends."""
        self.kubelet = kubelet
        self.dashboard = dashboard
        self.runtime = runtime
        self.outcome = outcome
        self._ends: dict[str, float] = {}
        super().__init__(server, delay=(0.2, 1.0))

    def observe(self, change: Change) -> None:
        stored = change.stored
        if stored.key.kind == kinds.POD and change.type != "DELETED" and self._rayjob(stored) is not None:
            self.enqueue(stored.key)

    def _rayjob(self, pod: Stored) -> Stored | None:
        """The RayJob whose submitter *pod* is: pod → Job → RayJob."""
        for owner in pod.owners():
            job = self.server.store.by_uid(str(owner.get("uid")))
            if job is None or job.key.kind != kinds.JOB:
                continue
            for above in job.owners():
                rayjob = self.server.store.by_uid(str(above.get("uid")))
                if rayjob is not None and rayjob.key.kind == kinds.RAYJOB:
                    return rayjob
        return None

    def sync(self, key: Key) -> None:
        pod = self.server.store.get(key)
        rayjob = self._rayjob(pod) if pod is not None else None
        if pod is None or rayjob is None or (pod.body.get("status") or {}).get("phase") != "Running":
            return
        status = rayjob.body.get("status") or {}
        address = str(status.get("dashboardURL") or "").removeprefix("http://")
        job_id = str(status.get("jobId") or "")
        if not address or not job_id:
            self.enqueue(key, 1.0)
            return
        now = self.server.clock.elapsed()
        info = self.dashboard.job(address, job_id)
        if info is None:
            # A submitter looks whether its job exists before it submits, so a retried pod follows the first one's job.
            entrypoint = str(rayjob.body["spec"].get("entrypoint", ""))
            info = self.dashboard.set_job(address, job_id, "RUNNING", entrypoint=entrypoint)
            low, high = self.runtime
            self._ends[job_id] = now + low + (high - low) * self.server.random.random()
        if not info.terminal:
            left = self._ends.get(job_id, now) - now
            if left > 1e-6:
                self.enqueue(key, left)
                return
            outcome = self.outcome(rayjob.copy())
            if outcome == "RUNNING":
                self.enqueue(key, 60.0)
                return
            info = self.dashboard.set_job(address, job_id, outcome)
        if info.status == "SUCCEEDED":
            self.kubelet.finish(key.namespace, key.name)
        else:
            self.kubelet.fail(key.namespace, key.name)
