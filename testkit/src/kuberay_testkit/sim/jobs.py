"""What becomes of a batch/v1 Job: its pod, its retries, and the conditions that end it.

Stands in for the Job controller for Jobs of one completion, which is what Ray submitters are.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from kuberay.api import kinds

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.environment import stamp
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

JOB_NAME = "batch.kubernetes.io/job-name"


def _phase(pod: Stored) -> str:
    return str((pod.body.get("status") or {}).get("phase", ""))


def job_condition(job: dict[str, Any] | None, type_: str) -> dict[str, Any] | None:
    """The condition of that type when it is True."""
    for condition in ((job or {}).get("status") or {}).get("conditions") or ():
        if condition["type"] == type_ and condition["status"] == "True":
            found: dict[str, Any] = condition
            return found
    return None


class JobController(Controller):
    """Makes one pod at a time per Job until it succeeds or the back-off limit is passed."""

    def __init__(
        self, server: SimServer, *, delay: tuple[float, float] = (0.05, 0.5), retry_after: float = 10.0
    ) -> None:
        """*retry_after* is the pause in seconds before the first retry; it doubles with each further one."""
        self.retry_after = retry_after
        self._lost: dict[str, int] = {}
        self._retry_at: dict[str, tuple[int, float]] = {}
        super().__init__(server, delay=delay)

    def observe(self, change: Change) -> None:
        stored = change.stored
        if stored.key.kind == kinds.JOB:
            if change.type == "DELETED":
                self._lost.pop(stored.uid, None)
                self._retry_at.pop(stored.uid, None)
            else:
                self.enqueue(stored.key)
            return
        if stored.key.kind != kinds.POD:
            return
        for owner in stored.owners():
            job = self.server.store.by_uid(str(owner.get("uid")))
            if job is not None and job.key.kind == kinds.JOB:
                if change.type == "DELETED" and _phase(stored) != "Succeeded":
                    self._lost[job.uid] = self._lost.get(job.uid, 0) + 1
                self.enqueue(job.key)

    def sync(self, key: Key) -> None:
        job = self.server.store.get(key)
        if job is None or job.deleting:
            return
        if job_condition(job.copy(), "Complete") or job_condition(job.copy(), "Failed"):
            self._expire(job)
            return
        spec = job.body["spec"]
        pods = [pod for pod in self.server.store.dependents(job.uid) if pod.key.kind == kinds.POD]
        active = [pod for pod in pods if _phase(pod) not in ("Succeeded", "Failed") and not pod.deleting]
        status: dict[str, Any] = job.copy().get("status") or {}
        now = self.server.now()
        failed = sum(_phase(pod) == "Failed" for pod in pods) + self._lost.get(job.uid, 0)
        succeeded = sum(_phase(pod) == "Succeeded" for pod in pods)
        if spec.get("suspend"):
            self._delete(active)
            self._lost.pop(job.uid, None)
            status.pop("startTime", None)
            self._write(job, status, active=0, failed=0, succeeded=succeeded, add=("Suspended", "True", "JobSuspended"))
            return
        if status.get("conditions"):
            status["conditions"] = [c for c in status["conditions"] if c["type"] != "Suspended"]
        status.setdefault("startTime", stamp(now))
        deadline = spec.get("activeDeadlineSeconds")
        started = datetime.fromisoformat(status["startTime"])
        if succeeded >= int(spec.get("completions") or 1):
            status["completionTime"] = stamp(now)
            self._write(
                job,
                status,
                active=0,
                failed=failed,
                succeeded=succeeded,
                add=("Complete", "True", "CompletionsReached"),
            )
        elif failed > int(spec.get("backoffLimit", 6)):
            self._delete(active)
            reason = "BackoffLimitExceeded"
            self._write(job, status, active=0, failed=failed, succeeded=succeeded, add=("Failed", "True", reason))
        elif deadline is not None and (now - started).total_seconds() >= deadline:
            self._delete(active)
            reason = "DeadlineExceeded"
            self._write(job, status, active=0, failed=failed, succeeded=succeeded, add=("Failed", "True", reason))
        else:
            if not active and self._may_start(job, failed):
                self._create_pod(job)
                active = [job]
            if deadline is not None:
                self.enqueue(key, max(0.0, deadline - (now - started).total_seconds()))
            self._write(job, status, active=len(active), failed=failed, succeeded=succeeded)

    def _may_start(self, job: Stored, failed: int) -> bool:
        """Whether the pause before the next attempt is over."""
        if not failed:
            return True
        now = self.server.clock.elapsed()
        known = self._retry_at.get(job.uid)
        if known is None or known[0] != failed:
            known = (failed, now + self.retry_after * 2 ** (failed - 1))
            self._retry_at[job.uid] = known
        if now >= known[1] - 1e-6:
            return True
        self.enqueue(job.key, known[1] - now)
        return False

    def _create_pod(self, job: Stored) -> None:
        template = job.copy()["spec"]["template"]
        metadata = template.get("metadata") or {}
        owner = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "name": job.key.name,
            "uid": job.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "generateName": f"{job.key.name}-",
                "namespace": job.key.namespace,
                "labels": {**(metadata.get("labels") or {}), JOB_NAME: job.key.name},
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [owner],
            },
            "spec": template["spec"],
        }
        self.server.create(pod, manager="kube-controller-manager")

    def _delete(self, pods: list[Stored]) -> None:
        for pod in pods:
            self.server.delete(*pod.key, uid=pod.uid)

    def _expire(self, job: Stored) -> None:
        """``ttlSecondsAfterFinished``."""
        ttl = job.body["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return
        ended = max(c["lastTransitionTime"] for c in job.body["status"]["conditions"])
        left = float(ttl) - (self.server.now() - datetime.fromisoformat(ended)).total_seconds()
        if left > 0:
            self.enqueue(job.key, left)
        else:
            self.server.delete(*job.key, propagation="Background", uid=job.uid)

    def _write(
        self,
        job: Stored,
        status: dict[str, Any],
        *,
        active: int,
        failed: int,
        succeeded: int,
        add: tuple[str, str, str] | None = None,
    ) -> None:
        for name, value in (("active", active), ("failed", failed), ("succeeded", succeeded)):
            if value:
                status[name] = value
            else:
                status.pop(name, None)
        if add is not None:
            type_, value_, reason = add
            conditions = [c for c in status.get("conditions") or () if c["type"] != type_]
            old = next((c for c in status.get("conditions") or () if c["type"] == type_), None)
            now = stamp(self.server.now())
            messages = {
                "BackoffLimitExceeded": "Job has reached the specified backoff limit",
                "DeadlineExceeded": "Job was active longer than specified deadline",
                "JobSuspended": "Job suspended",
                "CompletionsReached": "Reached expected number of succeeded pods",
            }
            if old is None:
                old = {"type": type_, "status": value_, "reason": reason, "message": messages[reason]}
                old["lastTransitionTime"] = old["lastProbeTime"] = now
            status["conditions"] = [*conditions, old]
        if not status.get("conditions"):
            status.pop("conditions", None)
        self.server.set_status(*job.key, status, manager="kube-controller-manager")
