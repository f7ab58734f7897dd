"""What is said about an edit of ``rayClusterConfig`` that the upgrade strategy does not roll out.

Source: spec rayservice.md 3.2 (KubeRay says nothing); once as an event, and as a condition as long as it is so.
"""

from __future__ import annotations

from kuberay.api.conditions import TRUE, ServiceCondition
from kuberay.plan.build.spec_hash import significant
from kuberay.plan.edit.changes import field_changes
from kuberay.plan.service.draft import Draft
from kuberay.plan.service.goal import UNFINISHED, read_stamp, relation, wanted
from kuberay.plan.service.likeness import canonical
from kuberay.plan.service.sides import Side

_MOST_FIELDS = 5


def tell(draft: Draft, side: Side | None) -> None:
    """Set or drop the condition; *side* is the active one. One that has never served is replaced whatever the strategy."""
    if (
        draft.strategy.on_change != "ignore"
        or side is None
        or side.cluster is None
        or side.cluster.deleting
        or relation(draft, side) != "differs"
    ):
        draft.drop_condition(ServiceCondition.EDIT_IGNORED)
        return
    kind = draft.spec.upgrade_type or "None"
    advice = f"upgradeStrategy.type {kind} rolls nothing out; choose another type, or suspend and resume"
    stamp = read_stamp(side.cluster)
    if stamp is not None and stamp.shape == UNFINISHED:
        where = f"RayCluster {draft.obj.namespace}/{side.name}"
        _say(
            draft, f"rayClusterConfig: {where} has pods of a former one, whose replacement was broken off, and {advice}"
        )
        return
    before, after = canonical(significant(side.cluster.spec)), canonical(significant(wanted(draft)))
    paths = [change.path for change in field_changes(before, after, ("rayClusterConfig",))]
    more = len(paths) - _MOST_FIELDS
    named = ", ".join(paths[:_MOST_FIELDS]) + (f" and {more} more" if more > 0 else "")
    _say(
        draft,
        f"{named or 'rayClusterConfig'}: not applied to RayCluster {draft.obj.namespace}/{side.name}, since {advice}",
    )


def _say(draft: Draft, message: str) -> None:
    stored = draft.found(ServiceCondition.EDIT_IGNORED)
    if stored is None or stored.get("message") != message:
        draft.event("RayClusterConfigEditIgnored", message, action="Update", warning=True)
    draft.condition(ServiceCondition.EDIT_IGNORED, TRUE, "NotRolledOut", message)
