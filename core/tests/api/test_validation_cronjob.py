"""Which RayCronJobs are refused (spec rayjob.md 6.4 and 8.7)."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.validation.cronjob import validate_cronjob
from kuberay_testkit.builders import build_raycronjob


def problems(name: str = "cron", **spec: Any) -> list[str]:
    body = {**build_raycronjob()["spec"], **spec}
    found = validate_cronjob(name, {}, {k: v for k, v in body.items() if v is not None}, DEFAULT_GATES)
    assert all(problem.reason == "InvalidRayCronJobSpec" for problem in found)
    return [str(problem) for problem in found]


@pytest.mark.parametrize("zone", [None, "Asia/Taipei", "UTC"])
def test_141_145_accepted(zone: str | None) -> None:
    """8.7 rows 141 and 145."""
    assert problems(timeZone=zone) == []


def without_containers() -> dict[str, Any]:
    template: dict[str, Any] = build_raycronjob()["spec"]["jobTemplate"]
    template["rayClusterSpec"]["headGroupSpec"]["template"]["spec"]["containers"] = []
    return template


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        pytest.param({"schedule": "invalid cron"}, "spec.schedule", "invalid cron schedule", id="142"),
        pytest.param(
            {"jobTemplate": {}},
            "spec.jobTemplate.rayClusterSpec",
            "one of RayClusterSpec or ClusterSelector must be set",
            id="143",
        ),
        pytest.param({"jobTemplate": without_containers()}, "spec.jobTemplate", "invalid RayJob template", id="144"),
        pytest.param({"timeZone": "Invalid/Zone"}, "spec.timeZone", "invalid time zone", id="146"),
        pytest.param(
            {"schedule": "TZ=UTC 0 0 * * *"}, "spec.schedule", "cannot use TZ or CRON_TZ in schedule", id="147-TZ"
        ),
        pytest.param(
            {"schedule": "CRON_TZ=Asia/Tokyo 0 0 * * *"},
            "spec.schedule",
            "cannot use TZ or CRON_TZ in schedule",
            id="147-CRON_TZ",
        ),
        ({"schedule": "61 * * * *"}, "spec.schedule", "invalid cron schedule"),
        ({"schedule": "0 2 * * *", "timeZone": "Europe/Nowhere"}, "spec.timeZone", "unknown time zone Europe/Nowhere"),
        ({"timeZone": ""}, "spec.timeZone", "timeZone must be the name of a time zone"),
        ({"timeZone": "../etc/passwd"}, "spec.timeZone", "invalid time zone"),
        ({"timeZone": "Europe"}, "spec.timeZone", "invalid time zone"),
        ({"concurrencyPolicy": "Never"}, "spec.concurrencyPolicy", "none of Allow, Forbid, Replace"),
        ({"failedJobsHistoryLimit": -1}, "spec.failedJobsHistoryLimit", "must not be negative"),
        ({"successfulJobsHistoryLimit": -1}, "spec.successfulJobsHistoryLimit", "must not be negative"),
        ({"startingDeadlineSeconds": -1}, "spec.startingDeadlineSeconds", "must not be negative"),
        ({"startingDeadlineSeconds": "10"}, "spec.startingDeadlineSeconds", ""),
        ({"jobTemplateMetadata": {"labels": {"a b": "c"}}}, "spec.jobTemplateMetadata.labels[a b]", "alphanumeric"),
        ({"jobTemplateMetadata": {"labels": {"a": "b c"}}}, "spec.jobTemplateMetadata.labels[a]", "a valid label"),
        (
            {"jobTemplateMetadata": {"annotations": {"/a": "b"}}},
            "spec.jobTemplateMetadata.annotations[/a]",
            "non-empty",
        ),
    ],
)
def test_cj05_refused(spec: dict[str, Any], path: str, message: str) -> None:
    """CJ-05, and 8.7 rows 142 to 147: each with the field and one sentence."""
    first = problems(**spec)[0]
    assert first.startswith(path)
    assert message in first


def test_148_long_name() -> None:
    """CJ-05 and 8.7 row 148."""
    assert problems("a" * 36) == []
    assert "RayCronJob name should be no more than 36 characters" in problems("a" * 37)[0]


@pytest.mark.parametrize("name", ["1cron", "cron.daily", "Cron"])
def test_names_that_children_could_not_bear(name: str) -> None:
    """CJ-05: KubeRay makes RayJobs that are refused then."""
    assert "should be a valid DNS1035 label" in problems(name)[0]
