"""Whether a RayCronJob is refused: its name, its schedule and zone, its template.

Source: spec rayjob.md 6.4 (C1-C6); cases.md CJ-05. Pinned messages are KubeRay's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from kuberay.api.cluster import parse_problems
from kuberay.api.cron import ScheduleError, parse_schedule
from kuberay.api.cronjob import ConcurrencyPolicy, RayCronJobSpec
from kuberay.api.problems import Problem
from kuberay.api.syntax import label_key_errors, label_value_errors
from kuberay.api.validation.cluster import name_problems
from kuberay.api.validation.job import job_spec_problems

INVALID_SPEC = "InvalidRayCronJobSpec"

MAX_NAME = 36

Found = tuple[str, str]


def validate_cronjob(
    name: str, annotations: Mapping[str, str], spec: RayCronJobSpec | Mapping[str, Any], gates: Mapping[str, bool]
) -> list[Problem]:
    """All problems, KubeRay's first one first. *annotations* are those its RayJobs will have. Empty means accepted."""
    problems = list(name_problems("RayCronJob", name, MAX_NAME, INVALID_SPEC))
    if not isinstance(spec, RayCronJobSpec):
        try:
            spec = RayCronJobSpec.parse(spec)
        except ValidationError as error:
            return problems + parse_problems(error, "spec", INVALID_SPEC)
    for found in (_schedule_problems(spec.schedule), _zone_problems(spec.time_zone)):
        problems += _told(found)
    for problem in job_spec_problems(spec.job_template, annotations, gates, "spec.jobTemplate"):
        problems.append(Problem(problem.path, f"invalid RayJob template: {problem.message}", INVALID_SPEC))
    for found in (_limit_problems(spec), _metadata_problems(spec)):
        problems += _told(found)
    return problems


def read_zone(name: str) -> ZoneInfo | None:
    """The zone of that IANA name; None when there is none."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        # The last for names of folders, as "Europe".
        return None


def _told(found: Iterator[Found]) -> list[Problem]:
    return [Problem(f"spec.{where}", message, INVALID_SPEC) for where, message in found]


def _schedule_problems(schedule: str) -> Iterator[Found]:
    if "TZ" in schedule:
        yield "schedule", "cannot use TZ or CRON_TZ in schedule; use timeZone instead"
        return
    try:
        parse_schedule(schedule)
    except ScheduleError as error:
        yield "schedule", f"invalid cron schedule: {error}"


def _zone_problems(name: str | None) -> Iterator[Found]:
    if name == "":
        yield "timeZone", "timeZone must be the name of a time zone, or be left out"
    elif name is not None and read_zone(name) is None:
        yield "timeZone", f"invalid time zone: unknown time zone {name}"


def _limit_problems(spec: RayCronJobSpec) -> Iterator[Found]:
    if spec.policy is None:
        policies = ", ".join(ConcurrencyPolicy)
        yield "concurrencyPolicy", f"concurrencyPolicy {spec.concurrency_policy!r} is none of {policies}"
    for where, value in (
        ("successfulJobsHistoryLimit", spec.successful_jobs_history_limit),
        ("failedJobsHistoryLimit", spec.failed_jobs_history_limit),
        ("startingDeadlineSeconds", spec.starting_deadline_seconds),
    ):
        if value is not None and value < 0:
            yield where, f"{where} must not be negative"


def _metadata_problems(spec: RayCronJobSpec) -> Iterator[Found]:
    for key, value in spec.template_labels.items():
        for error in (*label_key_errors(key), *label_value_errors(value)):
            yield f"jobTemplateMetadata.labels[{key}]", error
    for key in spec.template_annotations:
        for error in label_key_errors(key.lower()):
            yield f"jobTemplateMetadata.annotations[{key}]", error
