"""Whether a RayService is refused, and what a refusal means for one that serves already: nothing that runs is touched.

Source: spec rayservice.md 6.1. A corrected spec goes on by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError

from kuberay.api.cluster import parse_problems
from kuberay.api.conditions import FALSE, ServiceCondition, ServiceReason
from kuberay.api.objects import RayObject
from kuberay.api.problems import Problem
from kuberay.api.service import RayServiceSpec
from kuberay.api.validation.service import INVALID_SPEC, event_note, validate_service
from kuberay.hooks.service_upgrade import ServiceUpgradeStrategy
from kuberay.plan.secret_access import token_problems
from kuberay.plan.service import heads, serving, status, suspension, timeout
from kuberay.plan.service.draft import ACTIVE, Draft
from kuberay.plan.service.owner import service_context
from kuberay.plan.service.services import served_by
from kuberay.plan.service.strategies import Missing


def read_spec(obj: RayObject) -> RayServiceSpec | list[Problem]:
    """The typed spec, kept with the object, or what is wrong with its form."""
    if isinstance(obj.parsed, RayServiceSpec):
        return obj.parsed
    try:
        spec = RayServiceSpec.parse(obj.spec)
    except ValidationError as error:
        return parse_problems(error, "spec", INVALID_SPEC)
    obj.parsed = spec
    return spec


def stand_in(obj: RayObject) -> RayServiceSpec:
    """In place of a spec that is wrong in its form: what of it can be read. What runs is looked after by it."""
    read: dict[str, Any] = {"rayClusterConfig": {"headGroupSpec": {}}}
    for key, value in obj.spec.items():
        try:
            RayServiceSpec.parse({**read, key: value})
        except ValidationError:
            continue
        read[key] = value
    return RayServiceSpec.parse(read)


def problems_of(draft: Draft) -> list[Problem]:
    """Everything that speaks against the RayService, KubeRay's first reason first."""
    obj, hooks, owner = draft.obj, draft.observed.hooks, service_context(draft)
    of_strategy, failures = hooks.service_problems(draft.strategy, owner)
    draft.blame(list(failures))
    problems = validate_service(
        obj.name,
        obj.metadata.labels,
        obj.metadata.annotations,
        draft.spec,
        draft.observed.gates,
        obj.status,
        strategy_problems=of_strategy,
        offered_type=draft.strategy.name,
    )
    options, path = draft.spec.ray_cluster_config.auth_options, "spec.rayClusterConfig.authOptions"
    problems += token_problems(draft.observed.config, obj.namespace, options, path)
    found, failures = hooks.validate(owner)
    draft.blame(list(failures))
    problems += found
    if not problems:
        _accept(draft)
    return problems


def refuse(draft: Draft, problems: Sequence[Problem]) -> None:
    """Say so, once as an event. What runs already is looked after as it is: heads are labelled, endpoints counted, and Serve
    is asked, and given again what it has lost; nothing of the new spec reaches it."""
    first, stored = problems[0], draft.found(ServiceCondition.READY)
    if not _refused(draft) or (stored or {}).get("message") != first.told:
        note = event_note(first, draft.obj.namespace, draft.obj.name)
        draft.event(first.reason or INVALID_SPEC, note, action="Validate", warning=True, field_path=first.path)
    if draft.is_true(ServiceCondition.SUSPENDING):
        # There is no way back from here.
        suspension.rules(draft)
    elif draft.cluster_name(ACTIVE):
        draft.refused = True
        if isinstance(draft.strategy, Missing) and served_by(draft):
            # Whatever the type is meant to be, requests come through the one serve service.
            draft.strategy = ServiceUpgradeStrategy()
        heads.label(draft)
        serving.configure(draft)
        status.tell(draft)
    others = [each for each in draft.status.get("conditions") or [] if each.get("type") != ServiceCondition.READY]
    draft.status["conditions"] = [*others, stored] if stored is not None else others
    draft.condition(ServiceCondition.READY, FALSE, ServiceReason.VALIDATION_FAILED, first.told)
    # It is the deprecated twin of Ready.
    draft.status.pop("serviceStatus", None)
    draft.wait(f"the RayService is refused: {first.message}")


def _refused(draft: Draft) -> bool:
    return (draft.found(ServiceCondition.READY) or {}).get("reason") == ServiceReason.VALIDATION_FAILED


def _accept(draft: Draft) -> None:
    """The spec was refused and is right now: what was said is taken back, and time begins anew for what never served."""
    if not _refused(draft):
        return
    ready, reasons = ServiceCondition.READY, ServiceReason
    if draft.is_true(ServiceCondition.SUSPENDING):
        draft.condition(ready, FALSE, reasons.SUSPEND_IN_PROGRESS, suspension.SUSPENDING)
    elif draft.is_true(ServiceCondition.SUSPENDED):
        draft.condition(ready, FALSE, reasons.SUSPEND_COMPLETE, suspension.SUSPENDED)
    elif not draft.cluster_name(ACTIVE):
        timeout.start_clock(draft)
