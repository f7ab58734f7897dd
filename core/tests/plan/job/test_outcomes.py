"""The table of docs/rayjob-outcomes.md, cell by cell: one ending in each mode, whatever dies, and no attempt runs twice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from kuberay.api.kinds import JOB, RAYCLUSTER, RAYJOB
from kuberay.plan.model import StopJobCall

PAGE = Path(__file__).parents[4] / "docs" / "rayjob-outcomes.md"
MODES = ("K8sJobMode", "HTTPMode", "SidecarMode", "InteractiveMode")
USER_JOB = "user-job"
RETRY = {"backoffLimit": 1}
SUSPENDABLE = {"shutdownAfterJobFinishes": True}

Make = Callable[..., Any]


class Play:
    """One RayJob in one mode, and what may happen to it."""

    def __init__(self, make: Make, mode: str, **spec: Any) -> None:
        self.mode = mode
        self.world = make(submissionMode=mode, **spec)
        self.attempts: list[str] = []

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.world.status
        return status

    @property
    def state(self) -> str:
        return str(self.status.get("jobDeploymentStatus", ""))

    def until(self, state: str, *, job: str | None = None, timeout: float = 60) -> None:
        self.world.until(lambda: self.state == state and (job is None or self.status.get("jobStatus") == job), timeout)

    def run(self) -> None:
        """The job runs, brought to Ray as the mode has it."""
        if self.mode == "InteractiveMode":
            self.until("Waiting")
            self.tell()
        elif self.mode != "HTTPMode":
            self.world.settings["job"] = "RUNNING"
        self.until("Running", job="RUNNING")

    def tell(self) -> None:
        """A user submits the job and tells its id."""
        self.world.set_job("RUNNING", job_id=USER_JOB)
        self.world.edit({"spec.jobId": USER_JOB})

    def end_job(self, status: str = "SUCCEEDED", message: str = "") -> None:
        """Ray ends the job; who submitted it notices."""
        self.world.set_job(status, message)
        self.world.settings.pop("job", None)
        self.end_submitter(status == "SUCCEEDED")

    def end_submitter(self, ok: bool) -> None:
        if self.mode == "K8sJobMode":
            # Following the log of a job that failed is no failure.
            self.world.end_submitter("succeeded")
        elif self.mode == "SidecarMode":
            self.world.end_sidecar(0 if ok else 1)

    def fail_submitter(self) -> None:
        """For good: all its restarts are spent."""
        if self.mode == "K8sJobMode":
            for _ in range(3):
                self.world.end_submitter("failed")
        else:
            self.world.end_sidecar(1)

    def rest(self, seconds: float = 60) -> None:
        self.world.run(seconds)

    def away(self, seconds: float) -> None:
        """No operator for a while."""
        self.world.now += timedelta(seconds=seconds)
        self.world.restart()

    def lose_head(self, *, new: bool) -> None:
        self.world.lose_head(new=new and self.mode != "SidecarMode")


def _ended(status: str) -> Callable[[Play], None]:
    def play(play: Play) -> None:
        play.run()
        play.end_job(status)
        play.rest()

    return play


def _head_lost(play: Play) -> None:
    play.run()
    play.lose_head(new=True)
    play.rest(90)


def _head_gone(play: Play) -> None:
    play.run()
    play.lose_head(new=False)
    play.rest(400)


def _head_lost_early(play: Play) -> None:
    play.world.settings["worker"] = "none"
    play.rest(5)
    play.world.lose_head(new=True)
    play.rest(5)
    play.world.settings["worker"] = "ready"
    play.run()
    play.end_job()
    play.rest()


def _node_lost(play: Play) -> None:
    """The head stays for a while without an answer, then it is evicted and another one made elsewhere."""
    play.run()
    play.world.refuse = True
    play.rest(60)
    play.world.refuse = False
    play.lose_head(new=True)
    play.rest(60)


def _worker_lost(play: Play) -> None:
    play.run()
    pods = play.world.pods[play.status["rayClusterName"]]
    pods.pop("worker-0")
    play.rest(20)
    play.end_job()
    play.rest()


def _submitter_pod_lost(play: Play) -> None:
    """RJ-04: one pod of the submitter fails; the Job makes another, which follows the same submission."""
    play.run()
    play.world.end_submitter("failed")
    play.rest(20)
    assert play.state == "Running"
    play.end_job()
    play.rest()


def _submitter_fails_running(play: Play) -> None:
    play.run()
    play.fail_submitter()
    play.rest()
    assert play.world.dashboard().jobs[play.status["jobId"]]["status"] == "STOPPED", "the Ray job was left running"


def _submitter_fails_job(status: str) -> Callable[[Play], None]:
    """RJ-16: the submitter's exit code tells nothing about the job."""

    def play(play: Play) -> None:
        play.run()
        play.world.set_job(status)
        play.fail_submitter()
        play.rest()

    return play


def _submitter_fails_early(play: Play) -> None:
    play.until("Running")
    play.fail_submitter()
    play.rest(50)


def _submitter_done_unknown(play: Play) -> None:
    play.until("Running")
    play.end_submitter(ok=True)
    play.rest()


def _submitter_done_unanswered(play: Play) -> None:
    """A success must not become a failure because nobody could be asked for a while."""
    play.run()
    play.world.refuse = True
    play.rest(40)
    play.end_job()
    play.rest(90)
    assert play.state == "Running"
    play.world.refuse = False
    play.rest(40)


def _nobody_reaches_the_head(play: Play) -> None:
    play.world.refuse = True
    play.until("Running")
    play.rest(10)
    play.fail_submitter()
    play.rest(60)


def _submitter_done_running(play: Play) -> None:
    play.run()
    play.end_submitter(ok=True)
    play.rest(50)


def _submitter_never_ends(play: Play) -> None:
    play.run()
    play.world.set_job("SUCCEEDED")
    play.rest(60)
    assert play.state == "Running"
    play.rest(260)


def _submitter_deleted(play: Play) -> None:
    play.run()
    play.world.delete(JOB, "j")
    play.rest(20)
    play.world.set_job("SUCCEEDED")
    play.rest()


def _submitter_deleted_early(play: Play) -> None:
    play.until("Running")
    play.world.delete(JOB, "j")
    play.rest(10)
    play.world.settings["job"] = "RUNNING"
    play.rest(10)
    play.end_job()
    play.rest()


def _dashboard(seconds: float, **trouble: Any) -> Callable[[Play], None]:
    def play(play: Play) -> None:
        play.run()
        before = {name: getattr(play.world, name) for name in trouble}
        for name, value in trouble.items():
            setattr(play.world, name, value)
        play.rest(seconds)
        for name, value in before.items():
            setattr(play.world, name, value)
        if play.state == "Running":
            play.rest(10)
            play.end_job()
        play.rest()

    return play


def _submission_refused(seconds: float) -> Callable[[Play], None]:
    def play(play: Play) -> None:
        play.world.fail_post = 500
        play.until("Running")
        play.rest(seconds)
        play.world.fail_post = 0
        play.rest(10)
        if play.state == "Running":
            play.end_job()
        play.rest()

    return play


def _submission_unanswered(play: Play) -> None:
    """RJ-07: the dashboard takes the job and the client has given up by then."""
    play.world.fail_post = 504
    play.until("Running")
    play.rest(2)
    play.world.set_job("RUNNING")
    play.rest(10)
    play.end_job()
    play.rest()


def _submission_impossible(play: Play) -> None:
    play.world.edit({"spec.entrypointResources": "not JSON"})
    play.rest()


def _away(status: str) -> Callable[[Play], None]:
    def play(play: Play) -> None:
        play.run()
        play.end_job(status)
        play.away(900)
        play.rest()

    return play


def _cluster_deleted(play: Play) -> None:
    play.run()
    play.world.delete(RAYCLUSTER, play.status["rayClusterName"])
    play.world.settings.pop("job", None)
    play.rest()


def _never_ready(play: Play) -> None:
    play.world.settings["worker"] = "none"
    # A head that submits is watched for a while after the end: its job may come late, and is stopped then.
    play.rest(400 if play.world.job["spec"]["submissionMode"] == "SidecarMode" else 60)


def _nobody_tells(play: Play) -> None:
    play.until("Waiting")
    play.rest()


def _unknown_id(play: Play) -> None:
    play.until("Waiting")
    play.world.edit({"spec.jobId": "nobody-submitted-it"})
    play.until("Running")
    assert "knows no job nobody-submitted-it" in play.world.told[0]["message"]
    play.rest()


def _deadline_running(play: Play) -> None:
    play.run()
    play.rest(60)
    stopped = [post for post in play.world.dashboard().posts if post.endswith("/stop")]
    assert stopped, "the Ray job was left running"


def _suspended_early(play: Play) -> None:
    play.world.settings["worker"] = "none"
    play.until("Initializing")
    play.rest(5)
    _suspend(play)


def _suspend(play: Play) -> None:
    play.world.edit({"spec.suspend": True})
    play.rest(20)
    objects = {kind.kind for kind, _ in play.world.objects}
    assert not objects & {"RayCluster", "Job"}, "a suspended job gives back everything"


def _suspended_waiting(play: Play) -> None:
    """RJ-23: a queue preempts a job that waits for its user."""
    play.until("Waiting")
    _suspend(play)


def _suspended_running(play: Play) -> None:
    play.run()
    _suspend(play)


def _suspended_retrying(play: Play) -> None:
    """RJ-23: … and one between two attempts."""
    play.run()
    cluster = play.world.cluster
    cluster["metadata"]["finalizers"] = ["test/hold"]
    play.end_job("FAILED")
    play.until("Retrying")
    play.world.edit({"spec.suspend": True})
    play.rest(5)
    assert play.state == "Retrying"
    cluster = play.world.cluster
    cluster["metadata"]["finalizers"] = []
    play.world._remove(RAYCLUSTER, cluster["metadata"]["name"])
    play.rest(20)


def _resumed(play: Play) -> None:
    play.run()
    first = (play.status["rayClusterName"], play.status["jobId"])
    _suspend(play)
    play.world.edit({"spec.suspend": False, "spec.jobId": None})
    play.run()
    second = (play.status["rayClusterName"], play.status["jobId"])
    assert first[0] != second[0]
    assert first[1] != second[1] or play.mode == "InteractiveMode"
    play.end_job()
    play.rest()


def _suspended_late(play: Play) -> None:
    play.run()
    play.end_job()
    play.until("Complete")
    play.world.edit({"spec.suspend": True})
    play.rest()


def _edited(**changes: Any) -> Callable[[Play], None]:
    def play(play: Play) -> None:
        play.run()
        play.world.edit({f"spec.{name}": value for name, value in changes.items()})
        play.rest(20)
        assert play.state == "Running"
        play.end_job()
        play.rest()

    return play


def _another_mode(play: Play) -> None:
    """RJ-01: a job is not handed in a second way."""
    other = "HTTPMode" if play.mode != "HTTPMode" else "K8sJobMode"
    _edited(submissionMode=other)(play)


def _deleted(play: Play) -> None:
    play.run()
    dashboard = play.world.dashboard()
    play.world.delete(RAYJOB, "j")
    play.rest()
    assert dashboard.posts[-1].endswith("/stop"), "the Ray job was left running"


def _deleted_without_dashboard(play: Play) -> None:
    play.run()
    play.world.refuse = True
    play.rest(10)
    play.world.delete(RAYJOB, "j")
    play.rest(40)


PLAYS: dict[str, tuple[Callable[[Play], None], dict[str, Any]]] = {
    "the job succeeds": (_ended("SUCCEEDED"), {}),
    "the job fails": (_ended("FAILED"), {}),
    "the job fails, retries are left": (_ended("FAILED"), RETRY),
    "the job is stopped through Ray": (_ended("STOPPED"), {}),
    "the head is lost while the job runs": (_head_lost, {}),
    "the head is lost while the job runs, retries are left": (_head_lost, RETRY),
    "the head is lost and never comes back": (_head_gone, {}),
    "the head is lost before the job was handed in": (_head_lost_early, {}),
    "the head's node fails": (_node_lost, {}),
    "a worker is lost": (_worker_lost, {}),
    "a submitter pod is lost or evicted, another follows": (_submitter_pod_lost, {}),
    "the submitter fails for good while the job runs": (_submitter_fails_running, {}),
    "the submitter fails, but the job succeeded": (_submitter_fails_job("SUCCEEDED"), {}),
    "the submitter fails, and the job failed": (_submitter_fails_job("FAILED"), {}),
    "the submitter fails before it handed the job in": (_submitter_fails_early, {}),
    "the submitter fails before it handed the job in, retries are left": (_submitter_fails_early, RETRY),
    "the submitter succeeds, but Ray does not know the job": (_submitter_done_unknown, {}),
    "the submitter succeeds while the dashboard is away, and so did the job": (_submitter_done_unanswered, {}),
    "the submitter cannot reach the head, nor can the operator": (_nobody_reaches_the_head, {}),
    "the submitter succeeds, but the job runs on": (_submitter_done_running, {}),
    "the job succeeds, but the submitter never ends": (_submitter_never_ends, {}),
    "the submitter Job is deleted while the job runs": (_submitter_deleted, {}),
    "the submitter Job is deleted before it handed the job in": (_submitter_deleted_early, {}),
    "the dashboard refuses connections for a minute": (_dashboard(60, refuse=True), {}),
    "the dashboard refuses connections for ten minutes": (_dashboard(600, refuse=True), {}),
    "the dashboard is slower than the limit of a request for a minute": (_dashboard(60, slow=5), {}),
    "the dashboard answers each question with an error for a minute": (_dashboard(60, fail_get=500), {}),
    "the submission is refused for a minute": (_submission_refused(60), {}),
    "the submission is refused for ten minutes": (_submission_refused(600), {}),
    "the submission arrives, but its answer does not": (_submission_unanswered, {}),
    "the submission cannot be written": (_submission_impossible, {}),
    "the operator is away while the job succeeds": (_away("SUCCEEDED"), {}),
    "the operator is away while the job fails": (_away("FAILED"), {}),
    "the RayCluster is deleted while the job runs": (_cluster_deleted, {}),
    "the RayCluster is deleted while the job runs, retries are left": (_cluster_deleted, RETRY),
    "the RayCluster never gets ready, preRunningDeadlineSeconds": (_never_ready, {"preRunningDeadlineSeconds": 30}),
    "the RayCluster never gets ready, activeDeadlineSeconds": (_never_ready, {"activeDeadlineSeconds": 30}),
    "nobody tells a job id, preRunningDeadlineSeconds": (_nobody_tells, {"preRunningDeadlineSeconds": 30}),
    "nobody tells a job id, activeDeadlineSeconds": (_nobody_tells, {"activeDeadlineSeconds": 30}),
    "the told job id is unknown, activeDeadlineSeconds": (_unknown_id, {"activeDeadlineSeconds": 30}),
    "activeDeadlineSeconds pass while the job runs, retries are left": (
        _deadline_running,
        {"activeDeadlineSeconds": 40, **RETRY},
    ),
    "suspended before the RayCluster is ready": (_suspended_early, SUSPENDABLE),
    "suspended while a job id is awaited": (_suspended_waiting, SUSPENDABLE),
    "suspended while the job runs": (_suspended_running, SUSPENDABLE),
    "suspended between two attempts": (_suspended_retrying, {**SUSPENDABLE, **RETRY}),
    "suspended while the job runs, and resumed": (_resumed, SUSPENDABLE),
    "suspended after the end": (_suspended_late, {**SUSPENDABLE, "ttlSecondsAfterFinished": 1000}),
    "edited into something invalid while the job runs": (_edited(ttlSecondsAfterFinished=-5), {}),
    "the entrypoint is edited while the job runs": (_edited(entrypoint="python b.py"), {}),
    "the submission mode is edited while the job runs": (_another_mode, {}),
    "the RayJob is deleted while the job runs": (_deleted, {}),
    "the RayJob is deleted while the dashboard is away": (_deleted_without_dashboard, {}),
}


def _cells() -> list[tuple[str, str, str]]:
    """What happens, mode, ending: every cell of the page that is not a dash."""
    lines = iter(PAGE.read_text().splitlines())
    header = next(line for line in lines if line.startswith("| What happens"))
    modes = [cell.strip() for cell in header.strip("|").split("|")][1:]
    assert tuple(modes) == MODES
    next(lines)
    cells = []
    for line in lines:
        if not line.startswith("|"):
            break
        what, *endings = (cell.strip() for cell in line.strip("|").split("|"))
        cells += [(what, mode, ending) for mode, ending in zip(modes, endings, strict=True) if ending != "–"]
    return cells


CELLS = _cells()


def test_the_page_and_the_plays_are_about_the_same_things() -> None:
    assert list(dict.fromkeys(what for what, _, _ in CELLS)) == list(PLAYS)


@pytest.mark.parametrize("restarts", [False, True], ids=["one operator", "restarts"])
@pytest.mark.parametrize(("what", "mode", "ending"), CELLS, ids=[f"{mode}: {what}" for what, mode, _ in CELLS])
def test_ending(new_world: Make, what: str, mode: str, ending: str, restarts: bool) -> None:
    scenario, spec = PLAYS[what]
    play = Play(new_world, mode, **spec)
    if restarts:
        tick = play.world.tick

        def restarting() -> None:
            play.world.restart()
            tick()

        play.world.tick = restarting
    scenario(play)
    assert _told(play, first=spec == RETRY and ending == "second attempt") == ending
    _each_attempt_ran_once(play)
    if ending.startswith(("Complete", "Failed")):
        assert play.world.condition("Finished")[0] == "True"
        play.world.now += timedelta(minutes=10)
        play.rest(3)
        probes = play.world.plan.probes
        assert not [probe for probe in probes if not isinstance(probe, StopJobCall)], "it is asked about for ever"


def _told(play: Play, *, first: bool) -> str:
    world = play.world
    if (RAYJOB, "j") not in world.objects:
        return "gone"
    if first and world.status["failed"] == 1 and len(world.lifecycle["RayCluster"]) >= 3:
        return "second attempt"
    if play.state == "Complete":
        return f"Complete {play.status['jobStatus']}"
    return f"{play.state} {play.status.get('reason', '')}".strip()


def _each_attempt_ran_once(play: Play) -> None:
    """No dashboard was handed the same job twice, and no two attempts shared a RayCluster."""
    for cluster, dashboard in play.world.dashboards.items():
        ids = [request["submission_id"] for request in dashboard.requests]
        assert len(ids) == len(set(ids)) <= 1, f"{cluster} was handed {ids}"
    created = [name for name in play.world.lifecycle.get("RayCluster", []) if name.startswith("created")]
    assert len(created) == len(set(created))
