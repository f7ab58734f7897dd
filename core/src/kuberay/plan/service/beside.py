"""Objects that plugins want beside a RayService that serves, whatever its upgrade strategy: routes that lead to it, for example.

Source: spec plugins.md 1.2. None of them stops the service.
"""

from __future__ import annotations

from kuberay.plan.service import endpoints
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.owner import service_context
from kuberay.plan.service.upgrade_step import applies


def keep(draft: Draft) -> None:
    """Have them applied after everything else; not before somebody is behind the serve service."""
    if not endpoints.count(draft):
        return
    answer = draft.observed.hooks.extra_resources(service_context(draft))
    draft.blame(answer.failures)
    draft.late += applies(draft, answer.manifests, "a plugin", "extra_resources", optional=True) or ()
