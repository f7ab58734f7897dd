"""Whether a RayCronJob is refused, and how that is told: a condition, and an event when the reason is new.

Source: spec rayjob.md 5.2 (2) and 6.4. RayJobs that exist are left alone; a corrected one goes on.
"""

from __future__ import annotations

from pydantic import ValidationError

from kuberay.api.cluster import parse_problems
from kuberay.api.conditions import FALSE, CronCondition, find_condition
from kuberay.api.cronjob import RayCronJobSpec
from kuberay.api.objects import RayObject
from kuberay.api.problems import Problem
from kuberay.api.validation.cronjob import INVALID_SPEC, validate_cronjob
from kuberay.plan.cronjob.child import child_annotations
from kuberay.plan.model import Event
from kuberay.plan.observed import Observed


def read_spec(obj: RayObject) -> RayCronJobSpec | list[Problem]:
    """The typed spec, kept with the object, or what is wrong with its form."""
    if isinstance(obj.parsed, RayCronJobSpec):
        return obj.parsed
    try:
        spec = RayCronJobSpec.parse(obj.spec)
    except ValidationError as error:
        return parse_problems(error, "spec", INVALID_SPEC)
    obj.parsed = spec
    return spec


def problems_of(observed: Observed, spec: RayCronJobSpec) -> list[Problem]:
    """Everything that speaks against it, KubeRay's first reason first."""
    return validate_cronjob(observed.obj.name, child_annotations(observed.obj, spec), spec, observed.gates)


def sentence(problems: list[Problem]) -> str:
    """All of them, for the condition."""
    return "; ".join(str(problem) for problem in problems)


def refusal(obj: RayObject, problems: list[Problem]) -> list[Event]:
    """The event about the first problem, unless the condition says the same already."""
    stored = find_condition(obj.status.get("conditions") or [], CronCondition.ACCEPTED)
    if stored is not None and stored.get("status") == FALSE and stored.get("message") == sentence(problems):
        return []
    first = problems[0]
    note = f"{obj.namespace}/{obj.name}: {first.message}"
    return [Event(first.reason or INVALID_SPEC, note, "Warning", "Validate", field_path=first.path)]
