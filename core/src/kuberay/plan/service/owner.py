"""What plugins and upgrade strategies are told about a RayService.

Source: spec plugins.md 2. Its RayClusters are told about by their own plans.
"""

from __future__ import annotations

from dataclasses import replace

from kuberay.api.kinds import RAYSERVICE
from kuberay.hooks.types import OwnerContext
from kuberay.plan.build.context import owner_context
from kuberay.plan.service.draft import Draft


def service_context(draft: Draft) -> OwnerContext:
    """The RayService as hooks see it."""
    known = draft.memo.get("owner")
    if isinstance(known, OwnerContext):
        return known
    found = owner_context(
        draft.observed, kind=RAYSERVICE, cluster_spec=draft.spec.ray_cluster_config, lookups=draft.lookups
    )
    context = replace(found, cluster_spec=draft.obj.spec.get("rayClusterConfig"))
    draft.memo["owner"] = context
    return context
