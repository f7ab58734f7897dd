"""What ``kubectl apply`` would leave of a live object: fields that a file does not name stay unless an apply set them.

Lists are taken over as a whole, which is how the API server treats those of Ray's kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from kuberay.api.names import ANNOTATION_LAST_APPLIED


def applied(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """*wanted* on top of *live*: its spec, labels and annotations."""
    sources = _set_before(live)
    metadata = live.get("metadata") or {}
    asked = wanted.get("metadata") or {}
    merged = {key: metadata[key] for key in ("name", "namespace", "uid", "generation") if key in metadata}
    for key in ("labels", "annotations"):
        below = [(source.get("metadata") or {}).get(key) or {} for source in sources]
        merged[key] = _merge(metadata.get(key) or {}, asked.get(key) or {}, below)
    merged["annotations"] = without_bookkeeping(merged["annotations"])
    spec = _merge(live.get("spec") or {}, wanted.get("spec") or {}, [source.get("spec") or {} for source in sources])
    return {"apiVersion": wanted.get("apiVersion"), "kind": wanted.get("kind"), "metadata": merged, "spec": spec}


def without_bookkeeping(annotations: Mapping[str, str]) -> dict[str, str]:
    """Annotations without what kubectl notes there for itself."""
    return {key: value for key, value in annotations.items() if key != ANNOTATION_LAST_APPLIED}


def _merge(live: Any, wanted: Any, set_before: list[Any]) -> Any:
    if not isinstance(live, Mapping) or not isinstance(wanted, Mapping):
        return wanted
    merged: dict[str, Any] = {}
    for key in [*live, *(key for key in wanted if key not in live)]:
        below = [source[key] for source in set_before if isinstance(source, Mapping) and key in source]
        if key in wanted:
            merged[key] = _merge(live.get(key), wanted[key], below)
        elif not below:
            merged[key] = live[key]
    return merged


def _set_before(live: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """What earlier applies set: kubectl's note of the last file, and the fields owned by server-side appliers."""
    metadata = live.get("metadata") or {}
    found: list[Mapping[str, Any]] = []
    note = (metadata.get("annotations") or {}).get(ANNOTATION_LAST_APPLIED)
    if note:
        try:
            found.append(orjson.loads(note))
        except orjson.JSONDecodeError:
            found.append({})
    for entry in metadata.get("managedFields") or ():
        if entry.get("operation") == "Apply" and not entry.get("subresource"):
            found.append(_fields(entry.get("fieldsV1") or {}))
    return found


def _fields(owned: Mapping[str, Any]) -> dict[str, Any]:
    return {key[2:]: _fields(below) for key, below in owned.items() if key.startswith("f:")}
