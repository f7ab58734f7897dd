"""What is wrong with an object, and what it merely should be warned of: the checks of a pass, without the pass.

Source: spec operator.md 10 and 11. Plugins are asked as in a pass, and their own failures refuse nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import ValidationError

from kuberay.api.cluster import RayClusterSpec
from kuberay.api.cronjob import RayCronJobSpec
from kuberay.api.gates import CRON_JOB, how_to_switch_on
from kuberay.api.job import RayJobSpec
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.api.names import MANAGED_BY
from kuberay.api.objects import RayObject
from kuberay.api.problems import Problem
from kuberay.api.service import RayServiceSpec
from kuberay.api.validation.autoscaling import restart_policy_warning
from kuberay.api.validation.cluster import name_problems, validate_cluster
from kuberay.api.validation.cronjob import INVALID_SPEC as INVALID_CRONJOB
from kuberay.api.validation.cronjob import MAX_NAME as CRONJOB_NAME
from kuberay.api.validation.job import validate_job
from kuberay.api.validation.service import validate_service
from kuberay.hooks.calls import PluginFailure, PluginWarning
from kuberay.plan import plugin_warnings
from kuberay.plan.build.context import owner_context
from kuberay.plan.cluster.form import cluster_form
from kuberay.plan.cluster.plugin_calls import missing_plugin_of
from kuberay.plan.cronjob import acceptance as cronjob_acceptance
from kuberay.plan.job import acceptance as job_acceptance
from kuberay.plan.job.draft import Draft as JobDraft
from kuberay.plan.job.hook_calls import job_context
from kuberay.plan.observed import Observed
from kuberay.plan.secret_access import token_problems
from kuberay.plan.service import acceptance as service_acceptance
from kuberay.plan.service import upgrade
from kuberay.plan.service.draft import Draft as ServiceDraft
from kuberay.plan.service.owner import service_context


@dataclass(frozen=True, slots=True)
class Verdict:
    """Without problems the object may be stored."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """One sentence each."""


def judge(kind: Kind, observed: Observed) -> Verdict:
    """The verdict about ``observed.obj``, one of the four Ray kinds. Pure; only the object, gates, configuration and plugins
    are looked at."""
    return _JUDGES[kind](observed)


def is_foreign(obj: RayObject) -> bool:
    """Whether another controller looks after it, by ``spec.managedBy``."""
    return obj.spec.get("managedBy") not in (None, "", MANAGED_BY)


def _cluster(observed: Observed) -> Verdict:
    obj = observed.obj
    metadata = obj.metadata
    try:
        form = cluster_form(obj)
    except ValidationError:
        # Told by the validation, which reads the spec once more, behind what is wrong with the name.
        found = validate_cluster(obj.name, metadata.labels, metadata.annotations, obj.spec, observed.gates, obj.status)
        return Verdict(found)
    found = [
        *validate_cluster(obj.name, metadata.labels, metadata.annotations, form.spec, observed.gates, obj.status),
        *token_problems(observed.config, obj.namespace, form.spec.auth_options, "spec.authOptions"),
    ]
    if found:
        return Verdict(found)
    owner = owner_context(observed, kind=RAYCLUSTER, cluster_spec=form.spec, lookups=[], groups=form.groups)
    problems, failures = observed.hooks.validate(owner)
    if problems:
        return Verdict(list(problems))
    said = [restart_policy_warning(form.spec), missing_plugin_of(form.spec, observed.hooks)]
    warnings = [sentence for sentence in said if sentence] + _failed(failures)
    return Verdict([], warnings + _sentences(*plugin_warnings.of_cluster(observed.hooks, owner)))


def _job(observed: Observed) -> Verdict:
    obj = observed.obj
    metadata, spec = obj.metadata, job_acceptance.read_spec(obj)
    if not isinstance(spec, RayJobSpec):
        return Verdict(
            validate_job(obj.name, metadata.labels, metadata.annotations, obj.spec, observed.gates, obj.status)
        )
    draft = JobDraft.start(observed, spec)
    problems = job_acceptance.problems_of(draft)
    if problems:
        return Verdict(problems)
    warnings = [*_missing(observed, spec.ray_cluster_spec, "rayClusterSpec"), *_failed(draft.failures)]
    return Verdict([], warnings + _sentences(*observed.hooks.warn(job_context(draft))))


def _service(observed: Observed) -> Verdict:
    obj = observed.obj
    metadata, spec = obj.metadata, service_acceptance.read_spec(obj)
    if not isinstance(spec, RayServiceSpec):
        return Verdict(
            validate_service(obj.name, metadata.labels, metadata.annotations, obj.spec, observed.gates, obj.status)
        )
    draft = ServiceDraft.start(observed, spec)
    upgrade.choose(draft)
    problems = service_acceptance.problems_of(draft)
    if problems:
        return Verdict(problems)
    warnings = [*_missing(observed, spec.ray_cluster_config, "rayClusterConfig"), *_failed(draft.failures)]
    return Verdict([], warnings + _sentences(*observed.hooks.warn(service_context(draft))))


def _cronjob(observed: Observed) -> Verdict:
    if not observed.gate(CRON_JOB):
        return Verdict([], [f"RayCronJobs are not served, nothing will be started; {how_to_switch_on(CRON_JOB)}"])
    obj, spec = observed.obj, cronjob_acceptance.read_spec(observed.obj)
    if not isinstance(spec, RayCronJobSpec):
        return Verdict([*name_problems("RayCronJob", obj.name, CRONJOB_NAME, INVALID_CRONJOB), *spec])
    problems = cronjob_acceptance.problems_of(observed, spec)
    if problems:
        return Verdict(problems)
    return Verdict([], _missing(observed, spec.job_template.ray_cluster_spec, "jobTemplate.rayClusterSpec"))


_JUDGES: Mapping[Kind, Callable[[Observed], Verdict]] = {
    RAYCLUSTER: _cluster,
    RAYJOB: _job,
    RAYSERVICE: _service,
    RAYCRONJOB: _cronjob,
}


def _sentences(warnings: Sequence[PluginWarning], failures: Sequence[PluginFailure]) -> list[str]:
    return [str(warning.problem) for warning in warnings] + _failed(failures)


def _missing(observed: Observed, spec: RayClusterSpec | None, path: str) -> list[str]:
    """A plugin that the RayCluster inside needs, with the field's whole path."""
    sentence = missing_plugin_of(spec, observed.hooks, f"spec.{path}") if spec is not None else ""
    return [sentence] if sentence else []


def _failed(failures: Sequence[PluginFailure]) -> list[str]:
    return [f"plugin {each.plugin} failed in {each.hook}, so it checked nothing: {each.error}" for each in failures]
