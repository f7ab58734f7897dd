"""Whether a live object already says all that is wanted, so that an unchanged pass makes no API call.

In sync means: every wanted field is in the live object, and every field we once applied is still wanted. The second half
is read from ``metadata.managedFields``, where the API server keeps exactly that; nothing of it is stored elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from kuberay.api.names import COMPONENT

_IGNORED = frozenset({"apiVersion", "kind"})


def in_sync(wanted: Mapping[str, Any], live: Mapping[str, Any], *, manager: str = COMPONENT) -> bool:
    """True when applying *wanted* would change nothing. *live* is the whole object with its managedFields.

    Values the API server rewrites (``1000m`` becomes ``1``) make this False once; the response of the apply that
    follows settles it, see `Synced`.
    """
    metadata = wanted.get("metadata", {})
    live_metadata = live.get("metadata", {})
    ours = _owned(live_metadata, manager, "Apply")
    if has_former_items(wanted, live, manager=manager):
        return False
    in_metadata = _below(ours, "metadata")
    for key in ("labels", "annotations", "ownerReferences", "finalizers"):
        # What others added (a load balancer's finalizer) is theirs; what we once added and drop is seen below.
        if metadata.get(key) and not _covers(metadata[key], live_metadata.get(key), _below(in_metadata, key)):
            return False
    for key, value in wanted.items():
        if key not in _IGNORED and key != "metadata" and not _covers(value, live.get(key), _below(ours, key)):
            return False
    return all(_wants_all(fields, wanted) for fields in ours)


def without_emptied(
    wanted: Mapping[str, Any], live: Mapping[str, Any], *, manager: str = COMPONENT
) -> Mapping[str, Any]:
    """*wanted* without the empty maps in which *live* has what we applied before.

    Applied as they are, the API server would make null of them and refuse that. Left out, what was ours goes and what
    others have there stays, which is what an empty map means.
    """
    return _leave_out(wanted, _owned(live.get("metadata", {}), manager, "Apply"))


def has_former_items(wanted: Mapping[str, Any], live: Mapping[str, Any], *, manager: str = COMPONENT) -> bool:
    """Whether a list of *live* (ports of a Service) holds items that are not *wanted* and that an operator of our name put
    there by an update, as KubeRay does. An apply leaves them there, so the list has to be replaced."""
    former = _owned(live.get("metadata", {}), manager, "Update")
    return any(
        _unwanted_item(below, wanted[name])
        for entry in former
        for key, below in entry.items()
        if (name := key.removeprefix("f:")) != "metadata" and name in wanted
    )


def _unwanted_item(fields: Mapping[str, Any], wanted: Any) -> bool:
    for key, below in fields.items():
        kind, _, rest = key.partition(":")
        if kind == "f" and isinstance(wanted, Mapping) and rest in wanted:
            if _unwanted_item(below, wanted[rest]):
                return True
        elif kind == "k" and isinstance(wanted, list):
            match = orjson.loads(rest)
            if not any(_same_key(item, match) for item in wanted):
                return True
    return False


def _owned(metadata: Mapping[str, Any], manager: str, operation: str) -> Fields:
    """What *manager* owns by that operation, subresources apart."""
    return [
        entry.get("fieldsV1", {})
        for entry in metadata.get("managedFields", ())
        if entry.get("manager") == manager
        and entry.get("operation", "Apply") == operation
        and not entry.get("subresource")
    ]


def _leave_out(wanted: Mapping[str, Any], fields: Fields) -> Mapping[str, Any]:
    kept: dict[str, Any] = {}
    for key, value in wanted.items():
        below = _below(fields, key)
        if below and isinstance(value, Mapping):
            value = _leave_out(value, below)
            if not value and any(child != "." for entry in below for child in entry):
                continue
        kept[key] = value
    return kept


Fields = Sequence[Mapping[str, Any]]
"""What we applied at one place (FieldsV1), one per entry of managedFields."""


def _below(fields: Fields, key: str) -> Fields:
    return [found for entry in fields if (found := entry.get(f"f:{key}"))]


def _covers(wanted: Any, live: Any, fields: Fields) -> bool:
    """Whether *live* contains *wanted*: dictionaries by key, lists item by item."""
    if isinstance(wanted, Mapping):
        if _says_nothing(wanted):
            return True
        return isinstance(live, Mapping) and all(
            _covers(value, live.get(key), _below(fields, key) if fields else fields) for key, value in wanted.items()
        )
    if isinstance(wanted, list):
        if not wanted:
            return not live
        if not isinstance(live, list) or len(live) < len(wanted):
            return False
        if len(live) == len(wanted) and all(_covers(w, have, ()) for w, have in zip(wanted, live, strict=True)):
            return True
        # Lists merged by key or value may hold others' items and another order (ports, owner references, finalizers).
        # All others are ours as a whole (rules of an Ingress, subjects of a binding): whoever adds to one changed it.
        if not any(key.startswith(("k:", "v:")) for entry in fields for key in entry):
            return False
        return all(any(_covers(w, have, ()) for have in live) for w in wanted)
    return bool(wanted == live)


def _says_nothing(wanted: Any) -> bool:
    """Whether it is an empty map, or one of such."""
    return isinstance(wanted, Mapping) and all(_says_nothing(value) for value in wanted.values())


def _wants_all(fields: Mapping[str, Any], wanted: Any) -> bool:
    """Whether every field path in *fields* (FieldsV1) is still part of *wanted*."""
    for key, below in fields.items():
        kind, _, rest = key.partition(":")
        if kind == ".":
            continue
        if kind == "f":
            if not isinstance(wanted, Mapping) or rest not in wanted:
                return False
            if below and not _wants_all(below, wanted[rest]):
                return False
        elif kind == "k":
            match = orjson.loads(rest)
            item = next((i for i in wanted or () if _same_key(i, match)), None) if isinstance(wanted, list) else None
            if item is None or (below and not _wants_all(below, item)):
                return False
        elif kind == "v" and (not isinstance(wanted, list) or orjson.loads(rest) not in wanted):
            return False
    return True


def _same_key(item: Any, match: Mapping[str, Any]) -> bool:
    """Keys of list-maps may be defaulted by the server (``protocol``), so an absent one matches."""
    return isinstance(item, Mapping) and all(item.get(k, v) == v for k, v in match.items())


class Synced:
    """Remembers which (object, version) was found in sync with which wanted bytes. A cache only: losing it costs one
    comparison, or one no-op apply, per object."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, bytes]] = {}

    def known(self, uid: str, version: str, wanted: bytes) -> bool:
        return self._known.get(uid) == (version, wanted)

    def remember(self, uid: str, version: str, wanted: bytes) -> None:
        self._known[uid] = (version, wanted)

    def forget(self, uid: str) -> None:
        self._known.pop(uid, None)
