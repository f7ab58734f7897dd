"""What one pass over a RayService looks at, in which order: one module per question, after deletion and validation.

Source: spec rayservice.md 2.2.
"""

from __future__ import annotations

from kuberay.api.names import MANAGED_BY
from kuberay.api.service import RayServiceSpec
from kuberay.plan.model import Plan
from kuberay.plan.observed import Observed
from kuberay.plan.service import (
    abandoned,
    acceptance,
    beside,
    clusters,
    deletion,
    failed_write,
    heads,
    services,
    serving,
    status,
    suspension,
    timeout,
    upgrade,
)
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.owner import service_context


def plan_service(observed: Observed) -> Plan:
    """The plan of one pass over a RayService. Never raises for anything the object says."""
    obj = observed.obj
    if obj.spec.get("managedBy") not in (None, MANAGED_BY) and not obj.deleting:
        # A deleted one may have our finalizer from before, and nobody else would take it off.
        return Plan()
    if observed.failure is not None:
        return failed_write.tell(observed, observed.failure)
    spec = acceptance.read_spec(obj)
    draft = Draft.start(observed, spec if isinstance(spec, RayServiceSpec) else acceptance.stand_in(obj))
    if obj.deleting:
        return deletion.let_go(draft)
    if deletion.hold_on(draft):
        # Nothing is made before the finalizer is there.
        return draft.finish()
    abandoned.tidy(draft)
    upgrade.choose(draft)
    problems = spec if not isinstance(spec, RayServiceSpec) else acceptance.problems_of(draft)
    if problems:
        acceptance.refuse(draft, problems)
        return draft.finish()
    if suspension.rules(draft) or timeout.over(draft):
        return draft.finish()
    draft.ask_for_warnings(service_context(draft))
    clusters.keep(draft)
    heads.label(draft)
    serving.configure(draft)
    upgrade.advance(draft)
    services.keep(draft)
    beside.keep(draft)
    status.tell(draft)
    return draft.finish()
