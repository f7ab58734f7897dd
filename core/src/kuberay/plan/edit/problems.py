"""Why a Ray object, new or edited, would be refused: by the schema, by a rule about changes, or by the operator.

What was wrong before already is no reason to refuse an edit. Source: spec raycluster.md 1 and 1.8, rayjob.md 6, rayservice.md 6, cases.md RC-35.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from kuberay.api.job import RayJobSpec
from kuberay.api.problems import Problem
from kuberay.api.structural import structural_problems, transition_problems
from kuberay.api.validation.cluster import validate_cluster
from kuberay.api.validation.cronjob import validate_cronjob
from kuberay.api.validation.job import validate_job
from kuberay.hooks.calls import Hooks, NoHooks
from kuberay.plan.config import PlanConfig
from kuberay.plan.edit.service_problems import service_problems
from kuberay.plan.job.submit_command import unsubmittable

Manifest = Mapping[str, Any]


def edit_problems(
    before: Manifest | None,
    wanted: Manifest,
    after: Manifest,
    schema: dict[str, Any],
    gates: Mapping[str, bool],
    hooks: Hooks | None = None,
    config: PlanConfig | None = None,
) -> list[Problem]:
    """*wanted* is what the user wrote, *after* what would be stored; without *before* it is a new object. Of a RayService
    the upgrade strategy, which *hooks* may offer, has a say."""
    problems = [*structural_problems(wanted.get("spec") or {}, schema, "spec")]
    if not problems:
        problems += _operator_problems(after, gates, hooks, config)
    if before is None:
        return _once(problems)
    known = {
        *structural_problems(before.get("spec") or {}, schema, "spec"),
        *_operator_problems(before, gates, hooks, config),
    }
    problems = [problem for problem in problems if problem not in known]
    problems += transition_problems(before.get("spec"), after.get("spec"), schema, "spec")
    return _once(problems)


def _operator_problems(
    manifest: Manifest, gates: Mapping[str, bool], hooks: Hooks | None, config: PlanConfig | None
) -> list[Problem]:
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    name, labels, annotations = (
        str(metadata.get("name") or ""),
        metadata.get("labels") or {},
        metadata.get("annotations") or {},
    )
    match manifest.get("kind"):
        case "RayJob":
            return [*validate_job(name, labels, annotations, spec, gates), *_submission_problems(spec)]
        case "RayService":
            return service_problems(manifest, gates, hooks or NoHooks(), config or PlanConfig())
        case "RayCronJob":
            return validate_cronjob(name, annotations, spec, gates)
    return validate_cluster(name, labels, annotations, spec, gates)


def _submission_problems(spec: Manifest) -> list[Problem]:
    """What the operator finds besides the rules of the spec."""
    try:
        return unsubmittable(RayJobSpec.parse(dict(spec)))
    except ValidationError:
        return []  # told by the rules of the spec


def _once(problems: list[Problem]) -> list[Problem]:
    return list({(problem.path, problem.message): problem for problem in problems}.values())
