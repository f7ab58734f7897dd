"""What ``status.message`` says of a job that failed: Ray's words, and the end of the log where they lack it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kuberay.plan.job.message import MAX_BYTES, bounded
from kuberay.plan.model import JobInfoProbe, JobLogsProbe, ProbeResult


@pytest.mark.parametrize("message", ["", "short", "x" * MAX_BYTES])
def test_short_messages_stay(message: str) -> None:
    assert bounded(message) == message


@pytest.mark.parametrize("letter", ["x", "é", "語", "🙂"])
def test_long_messages_lose_their_middle(letter: str) -> None:
    cut = bounded(f"begin {letter * 50_000} end")
    assert len(cut.encode()) <= MAX_BYTES
    assert cut.startswith("begin ")
    assert cut.endswith(f"{letter} end")
    assert "\n[… cut …]\n" in cut
    start, _, end = cut.partition("[… cut …]")
    assert len(end) > 2 * len(start), "the end tells why"


def test_lone_surrogates_do_no_harm() -> None:
    assert bounded("\ud800" * 40_000).encode()


def running(new_world: Any, **spec: Any) -> Any:
    world = new_world(submissionMode="HTTPMode", **spec)
    world.until(lambda: world.status.get("jobStatus") == "RUNNING", 30)
    return world


def end(world: Any, message: str, log: str = "") -> None:
    cluster, job_id = world.status["rayClusterName"], world.status["jobId"]
    board = world.dashboards[cluster]
    board.logs[job_id] = log
    milliseconds = int(world.now.timestamp() * 1000)
    board.jobs[job_id] |= {"status": "FAILED", "message": message, "end_time": milliseconds}


LOGS = (
    "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\nValueError: no"
)


def test_rays_message_with_lines_of_the_log_is_taken_word_for_word(new_world: Any) -> None:
    world = running(new_world)
    end(world, LOGS, "never asked for")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed", 10)
    assert world.status["message"] == LOGS
    assert not any(isinstance(probe, JobLogsProbe) for probe in world.results)


@pytest.mark.parametrize("message", ["", "Job entrypoint command failed with exit code 1, last available logs:\n"])
def test_a_message_without_them_gets_the_end_of_the_log(new_world: Any, message: str) -> None:
    world = running(new_world)
    end(world, message, "Traceback\nValueError: no")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed", 10)
    assert world.status["message"] == (
        f"{message.strip() or 'The job failed.'}\nLast lines of its log:\nTraceback\nValueError: no"
    )
    assert [t["jobStatus"] for t in world.transitions][-2:] == ["RUNNING", "FAILED"], "the end is written once"


def test_without_a_log_the_message_stays(new_world: Any) -> None:
    world = running(new_world)
    end(world, "runtime_env setup failed")
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed", 10)
    assert world.status["message"] == "runtime_env setup failed"


def hold_back_logs(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question about the log is never answered."""

    def poll(self: Any) -> None:
        asked = {probe: when for probe, when in self._asked.items() if not isinstance(probe, JobLogsProbe)}
        left = {probe: when for probe, when in self._asked.items() if isinstance(probe, JobLogsProbe)}
        self._asked = asked
        real_poll(self)
        self._asked.update(left)

    real_poll = type(world)._poll
    monkeypatch.setattr(type(world), "_poll", poll)


def test_a_log_that_is_never_answered_is_not_waited_for_long(new_world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = running(new_world)
    hold_back_logs(world, monkeypatch)
    end(world, "boom", "lines")
    begun = world.now
    world.until(lambda: world.plan.waiting == "the Ray job has failed; its log is asked for", 10)
    assert world.status["jobStatus"] == "RUNNING"
    world.until(lambda: world.status["jobDeploymentStatus"] == "Failed", 70)
    assert world.status["message"] == "boom"
    assert world.now - begun <= timedelta(seconds=66)


def test_an_end_that_was_told_is_not_forgotten_when_the_head_dies(
    new_world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = running(new_world)
    hold_back_logs(world, monkeypatch)
    end(world, "boom", "lines")
    world.until(lambda: world.plan.waiting == "the Ray job has failed; its log is asked for", 10)
    (info,) = [probe for probe in world.results if isinstance(probe, JobInfoProbe)]
    (logs,) = [probe for probe in world.plan.probes if isinstance(probe, JobLogsProbe)]
    value = world.results[info].value
    world.results = {
        info: ProbeResult("error", world.now, value, "gone", world.now),
        logs: ProbeResult("error", world.now, {}, "gone", world.now),
    }
    status = world.decide().status
    assert (status["jobDeploymentStatus"], status["reason"], status["message"]) == ("Failed", "AppFailed", "boom")
    assert "jobStatusCheckFailureStartTime" not in status
