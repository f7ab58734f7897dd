"""Whatever the clock does and wherever the process ends: never two RayJobs for one start, and starts only go forward."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from kuberay.api.names import ANNOTATION_SCHEDULED_TIMESTAMP

SCHEDULES = ["* * * * *", "*/7 * * * *", "30 2 * * *", "@every 20s", "@every 90s", "@hourly"]
STEPS = st.one_of(
    st.tuples(st.just("clock"), st.integers(-7200, 90000)),
    st.tuples(st.just("clock"), st.integers(-90, 90)),
    st.tuples(st.just("crash"), st.just(0)),
    st.tuples(st.just("edit"), st.sampled_from(SCHEDULES)),
    st.tuples(st.just("suspend"), st.booleans()),
    st.tuples(st.just("end"), st.sampled_from(["Complete", "Failed"])),
    st.tuples(st.just("refuse"), st.booleans()),
)


def _starts(world: Any) -> list[str]:
    return [job["metadata"]["annotations"][ANNOTATION_SCHEDULED_TIMESTAMP] for job in world.made]


@settings(deadline=None, max_examples=examples(150))
@given(
    st.sampled_from(SCHEDULES),
    st.sampled_from(["Allow", "Forbid", "Replace"]),
    st.one_of(st.none(), st.integers(0, 100)),
    st.one_of(st.none(), st.integers(0, 1)),
    st.lists(STEPS, max_size=25),
)
def test_cj01_never_two_jobs_for_one_start(
    make_world: Callable[..., Any],
    schedule: str,
    policy: str,
    deadline: int | None,
    limit: int | None,
    steps: list[tuple[str, Any]],
) -> None:
    """CJ-01: under any order of clock jumps, restarts, edits and ends."""
    options = {
        "startingDeadlineSeconds": deadline,
        "successfulJobsHistoryLimit": limit,
        "failedJobsHistoryLimit": limit,
    }
    world = make_world(
        schedule, concurrencyPolicy=policy, **{key: value for key, value in options.items() if value is not None}
    )
    for step, value in steps:
        if step == "clock":
            world.now += timedelta(seconds=value)
        elif step == "edit":
            world.edit(schedule=value)
        elif step == "suspend":
            world.edit(suspend=value)
        elif step == "end" and world.jobs:
            world.end(next(iter(world.jobs)), value)
        elif step == "refuse":
            world.refuse = "no" if value else ""
        world.lose_status = step == "crash"
        with suppress(SystemExit):
            world.run()
        # The API server is asked for each name once at most, and each start is later than the one before.
        assert len(set(world.created)) == len(world.created)
        starts = _starts(world)
        assert starts == sorted(set(starts))
        running = [job for job in world.jobs.values() if not job.get("status")]
        assert len(running) <= (len(world.jobs) if policy == "Allow" else 1)
    world.refuse, world.lose_status = "", False
    world.settle()
    assert world.run().status is None, "a settled object needs no write"
