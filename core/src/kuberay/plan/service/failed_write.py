"""What is told when a write of the pass failed: nothing of what was decided holds, but the reason shows.

Source: spec rayservice.md 2.1 (KubeRay writes no status in such a pass).
"""

from __future__ import annotations

import copy

from kuberay.api.conditions import TRUE, ServiceCondition, set_condition
from kuberay.plan.model import Plan, WriteFailure
from kuberay.plan.observed import Observed
from kuberay.plan.service.persistence import status_to_write


def tell(observed: Observed, failure: WriteFailure) -> Plan:
    """The stored status, with the failure as a condition."""
    sentence = f"{failure.kind} {failure.name}: {failure.message}"
    if observed.obj.deleting:
        return Plan(waiting=sentence)
    wanted = copy.deepcopy(observed.obj.status)
    wanted["conditions"] = set_condition(
        wanted.get("conditions") or [],
        ServiceCondition.WAITING.value,
        TRUE,
        failure.reason or "WriteFailed",
        sentence,
        observed.now,
    )
    return Plan(status=status_to_write(observed.obj.status, wanted, observed.now), waiting=sentence)
