"""How ``kuberay diff`` tells what an edit of a RayService does: a page for people, a dictionary for programs."""

from __future__ import annotations

from typing import Any

import yaml

from kuberay.cli.diff_report import change_text, finding_fields, group_fields, group_rows, table
from kuberay.cli.diff_service import SUSPENDED, ServiceEffect, ServiceEffects
from kuberay.plan.edit.changes import FieldChange, field_changes

_MOST_PLACES = 4
"""Of Serve's configuration that are told one by one."""


def service_as_dict(namespace: str, name: str, effects: ServiceEffects) -> dict[str, Any]:
    """One object for ``-o json``."""
    return {
        "kind": "RayService",
        "namespace": namespace,
        "name": name,
        "exists": effects.exists,
        "refused": bool(effects.problems),
        "upgradeStrategy": effects.strategy,
        "servingCluster": effects.serving,
        "newClusters": effects.new_clusters,
        "restartedGroups": effects.restarted_groups,
        "groups": group_fields(effects.groups),
        "atOnce": effects.at_once,
        "then": effects.then,
        **finding_fields(effects.changes, effects.problems, effects.notes),
    }


def service_page(namespace: str, name: str, effects: ServiceEffects) -> str:
    """One object for people. Lines are not folded, so that they can be searched."""
    lines = [f"RayService {namespace}/{name}: {headline(effects)}"]
    lines += [f"  {problem}" for problem in effects.problems]
    lines += [f"  at once: {what}" for what in effects.at_once]
    lines += [f"  then, {what}" for what in effects.then]
    if effects.groups and effects.restarted_groups:
        lines += table(("GROUP", "PODS", "WHAT HAPPENS"), group_rows(effects.groups))
    if effects.changes:
        lines += table(("FIELD", "EFFECT"), [(_text(found.change), found.sentence) for found in effects.changes])
    lines += [f"  {note}" for note in effects.notes]
    return "\n".join(lines)


def headline(effects: ServiceEffects) -> str:
    """The answer in one line."""
    if effects.problems:
        return "the edit would be refused; what runs is not touched" if effects.exists else "would be refused"
    if not effects.exists:
        return "is not there yet; it would be made ('kuberay render' shows of what)"
    if not effects.changes:
        return "no change"
    kinds = {found.effect for found in effects.changes}
    for effect, words in _HEADLINES.items():
        if effect in kinds:
            if effect == ServiceEffect.SUSPENDS and not any(what.startswith(SUSPENDED) for what in effects.at_once):
                return "its RayCluster is suspended: nothing serves meanwhile"
            if effect == ServiceEffect.SAME_CLUSTER:
                how = ", step by step" if effects.strategy == "Rolling" else ": the service is away meanwhile"
                return f"replaces pods of RayCluster {effects.serving} ({', '.join(effects.restarted_groups)}){how}"
            return words
    return "changes something at once" if effects.at_once else "changes nothing"


def _text(change: FieldChange) -> str:
    """Path, value before and value after; of Serve's configuration the places in it."""
    if change.path != "spec.serveConfigV2":
        return change_text(change)
    try:
        before, after = (yaml.safe_load(text or "") or {} for text in (change.before, change.after))
        places = list(field_changes(before, after, ()))
    except yaml.YAMLError:
        return change_text(change)
    if len(places) > _MOST_PLACES:
        return change_text(change)
    return f"{change.path}: {'; '.join(map(change_text, places)) or 'only the way it is written'}"


_HEADLINES = {
    ServiceEffect.SUSPENDS: "is suspended: all that it owns is deleted",
    ServiceEffect.NEW_CLUSTER: "needs another RayCluster",
    ServiceEffect.SAME_CLUSTER: "",
    ServiceEffect.IN_PLACE: "changes in place; no pod is replaced",
    ServiceEffect.LATER: "touches nothing that runs; counts later",
}
"""The first that any field does."""
