"""What an edit of a RayCluster would do to its pods: nothing, single groups, or the whole cluster.

Source: spec raycluster.md 4, cases.md RC-04, RC-17, RC-20. The rules are those of the passes; here they are only asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from kuberay.api.cluster import RayClusterSpec, parse_problems
from kuberay.api.names import HEAD_GROUP, MANAGED_BY
from kuberay.api.problems import Problem
from kuberay.plan.build.head_once import head_is_final, no_head_restart
from kuberay.plan.build.services import changes_headless, head_service
from kuberay.plan.cluster.pod_decision import chooses_victims
from kuberay.plan.cluster.rolling_head import refusal
from kuberay.plan.edit.changes import field_changes
from kuberay.plan.edit.fields import FieldEffects
from kuberay.plan.edit.groups import GroupEffects
from kuberay.plan.edit.model import ChangeEffect, EditEffects, Effect, GroupEffect, Restarts
from kuberay.plan.edit.outdated import Older, Outdated

Manifest = Mapping[str, Any]


def edit_effects(
    before: Manifest,
    after: Manifest,
    *,
    problems: Sequence[Problem] = (),
    older: Older | None = None,
    random_pod_delete: bool = False,
) -> EditEffects:
    """What happens when *before* becomes *after*, both as the API server stores them.

    *problems* are the reasons why it would be refused, *older* are the running pods of an earlier spec still.
    """
    effects = EditEffects(problems=list(problems))
    changes = [
        *field_changes(_metadata(before), _metadata(after), ("metadata",)),
        *field_changes(before.get("spec"), after.get("spec"), ("spec",)),
    ]
    if problems:
        sentence = "the edit is refused: nothing is taken over"
        effects.changes = [ChangeEffect(change, Effect.REFUSED, sentence) for change in changes]
        return effects
    try:
        old, new = (RayClusterSpec.parse(manifest.get("spec") or {}) for manifest in (before, after))
    except ValidationError as error:
        first = parse_problems(error)[0]
        effects.restarts = Restarts.UNKNOWN
        effects.notes.append(
            f"What is stored cannot be read ({first}), so what becomes of running pods cannot be told."
        )
        effects.changes = [ChangeEffect(change, Effect.NO_PODS, "cannot be told") for change in changes]
        return effects
    if new.managed_by not in (None, MANAGED_BY):
        effects.notes.append(f"spec.managedBy is {new.managed_by}: this operator leaves the cluster alone.")
        sentence = "left to who manages the cluster"
        effects.changes = [ChangeEffect(change, Effect.NO_PODS, sentence) for change in changes]
        return effects
    strategy = (new.upgrade_strategy.type if new.upgrade_strategy else None) or "None"
    effects.strategy = strategy
    outdated = Outdated(before, after, strategy, older or Older())
    annotations = _metadata(after)["annotations"]
    final = _is_final(before, annotations)
    head_stays = refusal(new, annotations, stays=final) if HEAD_GROUP in outdated.rolled else ""
    if outdated.recreates and final:
        outdated.recreates = False
        head_stays = refusal(new, annotations, stays=True)
    answers = FieldEffects(old, new, outdated, head_stays)
    effects.changes = [effect for effect in map(answers.of, changes) if effect is not None]
    picks_victims = chooses_victims(new, random_pod_delete=random_pod_delete)
    effects.groups = GroupEffects(old, new, outdated, head_stays, picks_victims).all()
    effects.restarts = _extent(effects)
    effects.notes += _notes(old, new, after, outdated)
    return effects


def creation_effects(after: Manifest, problems: Sequence[Problem] = ()) -> EditEffects:
    """What happens when the object is not there yet."""
    effects = EditEffects(exists=False, problems=list(problems))
    if problems:
        return effects
    spec = RayClusterSpec.parse(after.get("spec") or {})
    made = not spec.suspend and spec.managed_by in (None, MANAGED_BY)
    sizes = [(HEAD_GROUP, 1), *((group.group_name, group.desired_pods()) for group in spec.worker_group_specs)]
    effects.groups = [GroupEffect(name, 0, size if made else 0, sentence="new") for name, size in sizes]
    return effects


def _metadata(manifest: Manifest) -> dict[str, Any]:
    metadata = manifest.get("metadata") or {}
    return {key: dict(metadata.get(key) or {}) for key in ("labels", "annotations")}


def _is_final(before: Manifest, annotations: Mapping[str, str]) -> bool:
    """Whether a lost head would not come back; without a status, the cluster counts as one that was ready."""
    return head_is_final(annotations, before["status"] or {}) if "status" in before else no_head_restart(annotations)


def _extent(effects: EditEffects) -> Restarts:
    running = [group for group in effects.groups if group.before]
    if not any(group.restarts for group in running):
        return Restarts.NOTHING
    return Restarts.CLUSTER if all(group.restarts for group in running) else Restarts.GROUPS


def _notes(old: RayClusterSpec, new: RayClusterSpec, after: Manifest, outdated: Outdated) -> list[str]:
    notes = []
    older = outdated.older.groups if outdated.strategy == "Rolling" else outdated.older.cluster
    if older and not new.suspend:
        does = {"Recreate": "that alone restarts them", "Rolling": "that alone has them replaced"}
        rest = does.get(outdated.strategy, "they stay as they are")
        notes.append(f"Running pods were made from an earlier spec; {rest}.")
    metadata = after.get("metadata") or {}
    was, becomes = (
        head_service(metadata.get("name", ""), metadata.get("namespace", ""), spec, {}, cluster_ip=False)
        for spec in (old, new)
    )
    if changes_headless(was, becomes):
        notes.append(
            "The head service cannot change between headless and not headless: delete it to have it made anew."
        )
    elif was["metadata"]["name"] != becomes["metadata"]["name"]:
        notes.append("The head service keeps its name; it gets the new one when it is deleted and made anew.")
    elif was != becomes:
        notes.append("The head service is changed in place.")
    return notes
