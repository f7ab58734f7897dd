"""What a refused RayCluster gets: a condition and one event, and nothing that runs is touched.

Source: spec raycluster.md 2.1 and 7, cases.md RC-35. The condition goes away when the spec is corrected.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.conditions import FALSE, ClusterCondition
from kuberay.api.gates import STATUS_CONDITIONS
from kuberay.api.problems import Problem
from kuberay.api.times import format_time
from kuberay.api.validation.cluster import INVALID_SPEC, event_note
from kuberay.plan.cluster.conditions import Conditions, conditions_of
from kuberay.plan.model import Event, Plan
from kuberay.plan.observed import Observed


def refuse(observed: Observed, problems: Sequence[Problem]) -> Plan:
    """Tells all *problems* in the condition, the first one in the event. Both once per news."""
    obj = observed.obj
    first = problems[0]
    reason = first.reason or INVALID_SPEC
    event = Event(
        reason,
        event_note(first, obj.namespace, obj.name),
        type="Warning",
        action="Validate",
        field_path=first.path,
    )
    message = "; ".join(str(problem) for problem in problems)
    plan = Plan(waiting=message)
    if not observed.gate(STATUS_CONDITIONS):
        plan.events = [event]
        return plan
    before = conditions_of(obj.status)
    conditions = Conditions(before, observed.now)
    conditions.set(ClusterCondition.SPEC_VALID, FALSE, reason, message, obj.metadata.generation)
    if conditions.items != before:
        plan.status = {
            **obj.status,
            "conditions": conditions.items,
            "lastUpdateTime": format_time(observed.now),
            "observedGeneration": obj.metadata.generation,
        }
        told = [(c.get("reason"), c.get("message")) for c in before if c.get("type") == ClusterCondition.SPEC_VALID]
        if told != [(reason, message)]:
            plan.events = [event]
    return plan
