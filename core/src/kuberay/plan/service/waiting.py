"""Why nobody is behind the serve service although Serve runs.

Source: this operator's own (docs/differences). What keeps Serve from running is told by `serving` and `cluster_trouble`,
what keeps an upgrade from moving by `upgrade_step`.
"""

from __future__ import annotations

from datetime import timedelta

from kuberay.api.conditions import ServiceCondition
from kuberay.plan.service import serving
from kuberay.plan.service.cluster_trouble import since_when
from kuberay.plan.service.draft import ACTIVE, Draft
from kuberay.plan.service.services import serve_service_name
from kuberay.plan.service.sides import side_of

ENDPOINTS_PATIENCE = timedelta(minutes=1)
"""How long it may take until pods of a RayCluster whose applications run are behind the serve service."""


def tell(draft: Draft) -> None:
    """Say so, if it lasts. Called once the conditions are up to date."""
    active = side_of(draft, ACTIVE)
    served = serving.look(draft, active) if active is not None else None
    if served is None or not served.ready or draft.is_true(ServiceCondition.READY):
        return
    words = f"no pod behind service {draft.obj.namespace}/{serve_service_name(draft)} is ready"
    since = since_when(draft.found(ServiceCondition.READY)) or draft.now
    draft.hold("NoServeEndpoints", words, since=since, patience=ENDPOINTS_PATIENCE)
