"""The recorded RayCronJobs, without an API server: what KubeRay makes of them, and what is passed on beyond that."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from kuberay_testkit.golden import load_case

GOLDEN = Path(__file__).parents[2] / "data" / "golden" / "raycronjob"


def play(world: Callable[..., Any], name: str, seconds: int) -> Any:
    manifest = yaml.safe_load((GOLDEN / name / "input.yaml").read_text())
    w = world()
    w.cron["spec"] = manifest["spec"]
    w.cron["metadata"] = {**w.cron["metadata"], **manifest["metadata"]}
    for _ in range(0, seconds, 5):
        w.settle()
        w.now += timedelta(seconds=5)
    return w


@pytest.mark.parametrize("name", ["cron-suspended", "cron-yearly"])
def test_nothing_is_made(world: Callable[..., Any], name: str) -> None:
    w, expected = play(world, name, 75), load_case(GOLDEN / name).expected
    assert w.jobs == {}
    assert "lastScheduleTime" not in w.status
    assert [{"about": "RayCronJob", "message": e.note, "reason": e.reason, "type": e.type} for e in w.events] == (
        expected["events"]
    )


def test_cj03_a_job_each_minute(world: Callable[..., Any]) -> None:
    """CJ-03: as KubeRay's, but for the label and the annotation of the schedule."""
    w = play(world, "cron-minute", 75)
    (job,), (recorded,) = w.jobs.values(), load_case(GOLDEN / "cron-minute").expected["children"]
    found, wanted = job["metadata"], recorded["metadata"]
    assert found["name"] == wanted["name"].replace("<minutes>", "28401121")
    assert found["labels"] == {**wanted["labels"], "team": "blue"}
    assert found["annotations"] == {"ray.io/cronjob-scheduled-timestamp": "2024-01-01T00:01:00Z", "memo": "x"}
    assert [{k: v for k, v in owner.items() if k != "uid"} for owner in found["ownerReferences"]] == (
        wanted["ownerReferences"]
    )
    # What is recorded has the API server's defaults in it.
    assert {key: recorded["spec"][key] for key in job["spec"] if key != "rayClusterSpec"} == {
        key: value for key, value in job["spec"].items() if key != "rayClusterSpec"
    }
    assert job["spec"] == w.cron["spec"]["jobTemplate"]
