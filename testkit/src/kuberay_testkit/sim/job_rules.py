"""What must hold for RayJobs whatever fails: one run per attempt, and an end that tells what the job really did.

An attempt is a RayJob (by UID) with the job id and the RayCluster its status names. A run is a job that a head accepted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER, RAYJOB
from kuberay.api.times import parse_time

from kuberay_testkit.sim.heads_world import HeadsWorld
from kuberay_testkit.sim.ray_heads import Run
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

_ENDS = ("Complete", "Failed", "Retrying")
_TERMINAL = ("Complete", "Failed")
_RAY_ENDS = ("SUCCEEDED", "FAILED", "STOPPED")

_FINALIZER = "ray.io/rayjob-finalizer"

Place = tuple[str, str, str]
"""Namespace, RayCluster and job id: where an attempt's job is looked for."""


@dataclass(slots=True)
class Attempt:
    """One attempt of one RayJob."""

    uid: str
    name: str
    over: float | None = None
    """When the RayJob said that it is, or was deleted."""
    known: float | None = None
    """When the RayJob said first that Ray knows the job."""
    runs: list[Run] = field(default_factory=list)


class JobRules:
    """Checks every commit to a RayJob and every job that a head accepts."""

    def __init__(
        self, world: HeadsWorld, *, patience: float, leaving: float | None, check_timeout: float = 300.0
    ) -> None:
        """*check_timeout*: for how long no dashboard must have answered when a RayJob fails for that. *patience*: how old what an operator acts on may be, in seconds. *leaving*: how long a deleted RayJob may take
        to go; None when operators may be away."""
        self.world = world
        self.patience = patience
        self.leaving = leaving
        self.check_timeout = check_timeout
        self._attempts: dict[Place, Attempt] = {}
        self._counts: dict[str, Counter[str]] = {}
        world.always(self)
        world.heads.accepted.append(self._accepted)

    # -- jobs that start

    def _accepted(self, run: Run) -> None:
        try:
            self._check_run(run)
        except AssertionError as error:
            self.world.broken(error)

    def _check_run(self, run: Run) -> None:
        attempt = self._attempts.get((run.namespace, run.cluster, run.job_id))
        if run.by == "user":
            if attempt is not None:
                attempt.runs.append(run)
            return
        assert attempt is not None, f"a job that no RayJob names was started: {run}"
        # What was lost before anybody knew of it may be submitted again.
        unknown = attempt.known is None and all(each.lost for each in attempt.runs)
        told = "; ".join(str(each) for each in attempt.runs)
        assert unknown or not attempt.runs, (
            f"a second run of one attempt of RayJob {attempt.name}: {run}; before: {told}"
        )
        attempt.runs.append(run)
        if attempt.over is not None:
            late = run.sent - attempt.over
            assert late <= self.patience, (
                f"RayJob {attempt.name} was over for {late:.1f} s when a job was started: {run}"
            )

    # -- what RayJobs say

    def __call__(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        if stored.key.kind != RAYJOB:
            return
        now = server.clock.elapsed()
        if change.type == "DELETED":
            self._left(server, stored)
            self._all_over(stored, now)
            return
        status = stored.body.get("status") or {}
        before = ((change.previous.body.get("status") or {}) if change.previous is not None else {}) or {}
        old, new = before.get("jobDeploymentStatus") or "", status.get("jobDeploymentStatus") or ""
        place = _place(stored, status)
        if place is not None and (place not in self._attempts or self._attempts[place].uid != stored.uid):
            user_runs = [run for run in self.world.heads.runs if (run.namespace, run.cluster, run.job_id) == place]
            self._attempts[place] = Attempt(stored.uid, stored.key.name, runs=user_runs)
        attempt = self._attempts.get(place) if place is not None else None
        if attempt is not None and attempt.known is None and _knows(status):
            attempt.known = now
        if old in _TERMINAL:
            assert new == old, f"RayJob {stored.key.name} was {old} and is {new or 'new'} again"
        elif new in _ENDS and new != old:
            self._ended(server, stored, before, status)
        if new == "Suspended" and old != new:
            self._all_over(stored, now)
        self._count(stored, status)

    def _all_over(self, stored: Stored, now: float) -> None:
        for attempt in self._attempts.values():
            if attempt.uid == stored.uid and attempt.over is None:
                attempt.over = now

    def _ended(self, server: SimServer, stored: Stored, before: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        counts = self._counts.setdefault(stored.uid, Counter())
        state, ray = status["jobDeploymentStatus"], status.get("jobStatus") or ""
        if state in ("Failed", "Retrying"):
            counts["failed"] += 1
        elif ray == "SUCCEEDED":
            counts["succeeded"] += 1
        place = _place(stored, status)
        attempt = self._attempts.get(place) if place is not None else None
        runs = attempt.runs if attempt is not None else []
        if attempt is not None:
            attempt.over = server.clock.elapsed()
        told = f"RayJob {stored.key.name} became {state} ({status.get('reason')}, {ray or 'no jobStatus'}), runs: "
        told += "; ".join(str(run) for run in runs) or "none"
        self._check_end(server, stored, status, runs, told)
        if (before.get("jobStatus") or "") == "SUCCEEDED":
            assert state == "Complete", f"{told}, though Ray was known to say SUCCEEDED"

    def _check_end(
        self, server: SimServer, stored: Stored, status: Mapping[str, Any], runs: list[Run], told: str
    ) -> None:
        state, reason, ray = status["jobDeploymentStatus"], status.get("reason") or "", status.get("jobStatus") or ""
        really = [run.status for run in runs]
        if state == "Complete":
            assert ray in ("SUCCEEDED", "STOPPED"), told
            assert ray in _once(runs), told
            return
        if reason == "JobStatusCheckTimeoutExceeded":
            since = _age(server, status.get("jobStatusCheckFailureStartTime"))
            assert since is not None, told
            assert since >= self.check_timeout, f"{told}, after {since} s"
            return
        now = server.clock.elapsed()
        succeeded = [
            run for run in runs if run.status == "SUCCEEDED" and not run.lost and now - (run.ended or 0) > self.patience
        ]
        assert not succeeded or self._doomed(server, succeeded[0]), f"{told}, though it succeeded and Ray knows"
        match reason:
            case "AppFailed":
                running = [run for run in runs if self.world.heads.alive(run) and not run.forgotten]
                assert "FAILED" in really or not running or self._doomed(server, running[0]), f"{told}, but it runs"
            case "DeadlineExceeded" | "PreRunningDeadlineExceeded":
                field_name = "activeDeadlineSeconds" if reason == "DeadlineExceeded" else "preRunningDeadlineSeconds"
                limit, since = stored.body["spec"].get(field_name), _age(server, status.get("startTime"))
                passed = limit is not None and since is not None and since >= limit
                assert passed, f"{told}, after {since} s of {limit}"
            case "SubmissionFailed" | "JobDeploymentStatusTransitionGracePeriodExceeded":
                pass
            case _:
                raise AssertionError(f"{told}: no reason that is known")

    def _doomed(self, server: SimServer, run: Run) -> bool:
        """Whether what the job runs on is on its way out."""
        cluster = server.store.get(Key(RAYCLUSTER, run.namespace, run.cluster))
        if cluster is None or cluster.deleting:
            return True
        pod = server.store.get(Key(POD, run.namespace, run.head.split("/")[0]))
        return pod is None or pod.deleting

    def _count(self, stored: Stored, status: Mapping[str, Any]) -> None:
        counts = self._counts.get(stored.uid, Counter())
        for name in ("failed", "succeeded"):
            told = status.get(name) or 0
            assert told == counts[name], f"RayJob {stored.key.name} counts {told} {name}, where {counts[name]} did"

    def _left(self, server: SimServer, stored: Stored) -> None:
        took = _age(server, stored.metadata.get("deletionTimestamp"))
        if self.leaving is not None and took is not None:
            assert took <= self.leaving, f"RayJob {stored.key.name} took {took:.0f} s to go"

    # -- at rest

    def expect_rest(self) -> None:
        """Nothing fails any more and all time has passed that anybody waits: each RayJob has ended or says what it waits for,
        and no job runs for one that has ended."""
        for stored in self.world.server.store.all_of(RAYJOB):
            status, spec, name = stored.body.get("status") or {}, stored.body["spec"], stored.key.name
            state, ray = status.get("jobDeploymentStatus") or "", status.get("jobStatus") or ""
            place = _place(stored, status)
            attempt = self._attempts.get(place) if place is not None else None
            runs = attempt.runs if attempt is not None else []
            told = f"RayJob {name} rests {state or 'new'} ({status.get('reason')}, {ray or 'no jobStatus'}), runs: "
            told += "; ".join(str(run) for run in runs) or "none"
            alive = [run for run in runs if self.world.heads.alive(run) and not run.forgotten]
            if state in _TERMINAL:
                assert not alive, f"{told}: its job still runs"
                really = {run.status for run in runs if not run.lost}
                forced = status.get("reason") == "JobDeploymentStatusTransitionGracePeriodExceeded"
                assert ray not in _RAY_ENDS or forced or not really or ray in really, told
            elif state == "Suspended":
                assert spec.get("suspend"), told
            elif state == "Waiting":
                assert not spec.get("jobId"), told
            elif not (state == "Running" and alive):
                assert _says_why(status), f"{told}: nothing says what it waits for: {status.get('conditions')}"


def _once(runs: list[Run]) -> set[str]:
    """All that a dashboard ever had to tell of the runs."""
    return {info.status for run in runs for _, info in run.told}


def _place(stored: Stored, status: Mapping[str, Any]) -> Place | None:
    cluster, job_id = status.get("rayClusterName"), status.get("jobId")
    return (stored.key.namespace, cluster, job_id) if cluster and job_id else None


def _knows(status: Mapping[str, Any]) -> bool:
    """Whether the RayJob says that Ray knows its job."""
    conditions = {each["type"]: each["status"] for each in status.get("conditions") or ()}
    return bool(status.get("jobStatus")) or conditions.get("Submitted") == "True"


def _age(server: SimServer, time: str | None) -> float | None:
    return (server.now() - parse_time(time)).total_seconds() if time else None


def _says_why(status: Mapping[str, Any]) -> bool:
    """Whether a condition tells what is awaited."""
    told = {str(each["type"]): str(each["status"]) for each in status.get("conditions") or ()}
    waits = ("PodsWaiting", "True"), ("Accepted", "False"), ("ClusterReady", "False")
    return any(told.get(kind) == value for kind, value in waits)
