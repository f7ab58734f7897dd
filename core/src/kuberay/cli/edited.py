"""An object after somebody has applied changes to it, as the API server would store it. For ``kuberay diff``."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kuberay.api.times import format_time
from kuberay.plan.edit.changes import FieldChange, field_changes

Manifest = dict[str, Any]


def edited(body: Manifest, changes: Sequence[FieldChange], now: datetime) -> Manifest:
    """The object after somebody has applied *changes*: the API server counts them, and notes who wrote which field."""
    if not changes:
        return body
    after: Mapping[str, Any] = body
    for change in changes:
        after = change.made_in(after)
    result = copy.deepcopy(dict(after))
    fields: dict[str, Any] = {}
    for change in changes:
        if change.steps[0] != "spec":
            continue
        node = fields.setdefault("f:spec", {})
        for step in change.steps[1:3]:
            if not isinstance(step, str):
                break
            node = node.setdefault(f"f:{step}", {})
    metadata = result["metadata"]
    if fields:
        metadata["generation"] = metadata.get("generation", 1) + 1
        entry = {"manager": "kubectl", "operation": "Update", "time": format_time(now), "fieldsV1": fields}
        metadata["managedFields"] = [*(metadata.get("managedFields") or ()), entry]
    return result


def object_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FieldChange]:
    """Every field that an edit may change and that differs, those of the metadata first."""
    return [
        *field_changes(_labels_and_annotations(before), _labels_and_annotations(after), ("metadata",)),
        *field_changes(before.get("spec"), after.get("spec"), ("spec",)),
    ]


def _labels_and_annotations(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """What of the metadata an edit may change."""
    metadata = manifest.get("metadata") or {}
    return {key: dict(metadata.get(key) or {}) for key in ("labels", "annotations")}
