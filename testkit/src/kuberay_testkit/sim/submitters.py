"""What submitters do: pods of submitter Jobs and sidecars of heads, which run the script of spec rayjob.md 3.2 step by step.

They read the dashboard's address and the job's id where the script has them: in their environment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kuberay.api import kinds
from kuberay.api.names import HEAD, LABEL_NODE_TYPE
from kuberay.ray.dashboard import SubmissionExistsError

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.kubelet import SimKubelet
from kuberay_testkit.sim.ray_heads import Head, RayHeads, Run
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

CONTAINER = "ray-job-submitter"
"""Name of the sidecar."""

_WAIT, _ASK, _SUBMIT, _FOLLOW, _DONE = "wait", "ask", "submit", "follow", "done"


@dataclass(slots=True)
class _Script:
    """How far one container has come."""

    address: str
    job_id: str
    step: str = _WAIT
    run: Run | None = None


class SimSubmitters(Controller):
    """Runs the script of every submitter pod and sidecar, for as long as its pod is there, also while it has to go."""

    def __init__(
        self, server: SimServer, kubelet: SimKubelet, heads: RayHeads, *, follower_fails: bool = False
    ) -> None:
        """*follower_fails*: ``ray job logs --follow`` of this Ray exits with 1 when the job failed or its head went away."""
        self.kubelet = kubelet
        self.heads = heads
        self.follower_fails = follower_fails
        self._scripts: dict[str, _Script] = {}
        super().__init__(server, delay=(0.2, 1.0))

    def observe(self, change: Change) -> None:
        pod = change.stored
        if pod.key.kind != kinds.POD:
            return
        if change.type == "DELETED":
            self._scripts.pop(pod.uid, None)
        elif _phase(pod) == "Running" and pod.uid not in self._scripts:
            container = _script_container(self.server, pod)
            if container is not None:
                env = {each["name"]: each.get("value", "") for each in container.get("env") or ()}
                self._scripts[pod.uid] = _Script(env["RAY_DASHBOARD_ADDRESS"], env["RAY_JOB_SUBMISSION_ID"])
                self.enqueue(pod.key)

    def sync(self, key: Key) -> None:
        pod = self.server.store.get(key)
        script = self._scripts.get(pod.uid) if pod is not None else None
        if pod is None or script is None or script.step == _DONE or _phase(pod) != "Running":
            return
        sidecar = pod.labels.get(LABEL_NODE_TYPE) == HEAD
        head = self.heads.head_of(pod.uid) if sidecar else self.heads.serving(script.address)
        job_id = script.job_id
        match script.step:
            case "wait":
                if head is None:
                    self.enqueue(key, 2.0)
                    return
                # With a sidecar of its own head nobody asks first: it cannot have been there before.
                self._go(key, script, _SUBMIT if sidecar else _ASK)
            case "ask":
                known = head is not None and job_id in head.runs
                if known and head is not None:
                    script.run = head.runs[job_id]
                self._go(key, script, _FOLLOW if known else _SUBMIT)
            case "submit":
                self._submit(key, pod, script, head, job_id, sidecar=sidecar)
            case "follow":
                self._follow(key, pod, script, head, sidecar=sidecar)

    def _go(self, key: Key, script: _Script, step: str) -> None:
        script.step = step
        self.enqueue(key, self.heads.random.uniform(0.2, 2.0))

    def _submit(self, key: Key, pod: Stored, script: _Script, head: Head | None, job_id: str, *, sidecar: bool) -> None:
        if head is None:
            self._exit(pod, script, 1)
            return
        try:
            script.run = self.heads.submit(head, job_id, "sidecar" if sidecar else "submitter")
        except SubmissionExistsError:
            self._exit(pod, script, 1)
            return
        self._go(key, script, _FOLLOW)

    def _follow(self, key: Key, pod: Stored, script: _Script, head: Head | None, *, sidecar: bool) -> None:
        run = script.run
        if run is not None and not run.over and not run.forgotten and head is not None:
            self.enqueue(key, 1.0)
            return
        well = run is not None and run.over and not run.lost
        if sidecar:
            # Without --no-wait the exit code is the job's.
            self._exit(pod, script, 0 if well and run is not None and run.status == "SUCCEEDED" else 1)
        elif self.follower_fails:
            self._exit(pod, script, 0 if well and run is not None and run.status != "FAILED" else 1)
        else:
            self._exit(pod, script, 0)

    def _exit(self, pod: Stored, script: _Script, code: int) -> None:
        script.step = _DONE
        namespace, name = pod.key.namespace, pod.key.name
        if pod.labels.get(LABEL_NODE_TYPE) == HEAD:
            reason = "Completed" if code == 0 else "Error"
            ended = {"exitCode": code, "reason": reason, "finishedAt": self.server.now().strftime("%Y-%m-%dT%H:%M:%SZ")}
            self.kubelet.set_container(namespace, name, CONTAINER, {"terminated": ended})
        elif code == 0:
            self.kubelet.finish(namespace, name)
        else:
            self.kubelet.fail(namespace, name, exit_code=code)


def _phase(pod: Stored) -> str:
    return str((pod.body.get("status") or {}).get("phase", ""))


def _script_container(server: SimServer, pod: Stored) -> dict[str, Any] | None:
    """The container of *pod* that submits; None when none does."""
    containers: list[dict[str, Any]] = pod.body["spec"].get("containers") or []
    if pod.labels.get(LABEL_NODE_TYPE) == HEAD:
        return next((each for each in containers if each["name"] == CONTAINER), None)
    for owner in pod.owners():
        job = server.store.by_uid(str(owner.get("uid")))
        above = job.owners() if job is not None and job.key.kind == kinds.JOB else []
        if any(each.get("kind") == kinds.RAYJOB.kind for each in above):
            return containers[0]
    return None
