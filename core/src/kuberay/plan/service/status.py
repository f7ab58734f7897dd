"""What the status of a RayService says at the end of a pass: mirrors, endpoints, conditions.

Source: spec rayservice.md 5.
"""

from __future__ import annotations

import copy

from kuberay.api.conditions import ServiceCondition
from kuberay.plan.service import conditions, endpoints, waiting
from kuberay.plan.service.draft import ACTIVE, PENDING, Draft
from kuberay.plan.service.sides import side_of


def tell(draft: Draft) -> None:
    """Bring everything up to date that follows from what this pass has found and decided."""
    status = draft.status
    status["observedGeneration"] = draft.obj.metadata.generation
    for key in (ACTIVE, PENDING):
        side = side_of(draft, key)
        cluster = side.cluster if side is not None else None
        draft.side(key).pop("rayClusterStatus", None)
        if cluster is not None and cluster.status:
            draft.side(key)["rayClusterStatus"] = copy.deepcopy(cluster.status)
    found = endpoints.count(draft)
    status["numServeEndpoints"] = found
    conditions.update(draft, found)
    status["serviceStatus"] = "Running" if draft.is_true(ServiceCondition.READY) else ""
    waiting.tell(draft)
