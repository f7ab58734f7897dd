"""The pending RayCluster is made once its name is stored, and both follow edits that need no other one.

Source: spec rayservice.md 2.2 and 2.6.
"""

from __future__ import annotations

from kuberay.api.kinds import RAYCLUSTER
from kuberay.plan.model import Create, Event
from kuberay.plan.service import edit_ignored, in_place
from kuberay.plan.service.cluster_body import build_cluster
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.sides import Side, both_sides
from kuberay.plan.service.strategies import Missing


def keep(draft: Draft) -> None:
    """Make what is missing, update what is there, and tell of edits that reach neither."""
    active, pending = both_sides(draft)
    if pending is not None and pending.cluster is None and not isinstance(draft.strategy, Missing):
        _create(draft, pending)
    for side in (active, pending):
        if side is not None:
            in_place.follow(draft, side)
    edit_ignored.tell(draft, active)


def _create(draft: Draft, side: Side) -> None:
    what = f"the RayCluster {draft.obj.namespace}/{side.name}"
    draft.write(
        Create(
            kind=RAYCLUSTER,
            namespace=draft.obj.namespace,
            name=side.name,
            body=build_cluster(draft, side.name),
            done=Event("CreatedRayCluster", f"Created {what}", action="Create"),
            failed=lambda error: Event(
                "FailedToCreateRayCluster", f"Failed to create {what}: {error}", "Warning", "Create"
            ),
        )
    )
