"""What is stored: objects as parsed JSON and bytes, their history for watches, and who owns whom.

Every commit gets the next resourceVersion. Stored objects are never changed in place, only replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import orjson
from kuberay.api.kinds import Kind

from kuberay_testkit.sim.ownership import Claim, Claims, Manager, render

EventType = Literal["ADDED", "MODIFIED", "DELETED"]


class Key(NamedTuple):
    """Where an object is stored; ``namespace`` is empty for cluster-scoped kinds."""

    kind: Kind
    namespace: str
    name: str


class Stored:
    """One version of one object. Superseded versions keep only their bytes and labels."""

    __slots__ = ("_body", "_item", "claims", "key", "labels", "raw", "rv", "uid")

    def __init__(self, key: Key, body: dict[str, Any], claims: Claims, rv: int) -> None:
        self.key = key
        self._body: dict[str, Any] | None = body
        self.claims = claims
        self.rv = rv
        self.raw = orjson.dumps(body)
        self.uid = str(body["metadata"]["uid"])
        self.labels: Mapping[str, str] = body["metadata"].get("labels") or {}
        self._item: bytes | None = None

    @property
    def body(self) -> Mapping[str, Any]:
        """The parsed object, to look at only. ``metadata.managedFields`` is opaque here: `copy` has it."""
        if self._body is None:
            self._body = self.copy()
        return self._body

    def fold(self) -> None:
        """Drop the parsed form: history is long, and millions of small objects slow the interpreter down."""
        self._body = None
        self.claims = {}

    @property
    def metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.body["metadata"]
        return metadata

    @property
    def deleting(self) -> bool:
        return "deletionTimestamp" in self.metadata

    def copy(self) -> dict[str, Any]:
        """A body of the caller's own."""
        body: dict[str, Any] = orjson.loads(self.raw)
        return body

    def list_item(self, *, with_type: bool) -> bytes:
        """As an item of a list: the real server leaves kind and apiVersion out for built-in kinds."""
        if with_type:
            return self.raw
        if self._item is None:
            self._item = orjson.dumps({k: v for k, v in self.body.items() if k not in ("kind", "apiVersion")})
        return self._item

    def owners(self) -> list[Mapping[str, Any]]:
        return list(self.body["metadata"].get("ownerReferences") or ())


class Change:
    """One entry of a kind's history."""

    __slots__ = ("_before", "_line", "previous", "rv", "stored", "type")

    def __init__(self, type_: EventType, rv: int, stored: Stored, previous: Stored | None) -> None:
        self.type = type_
        self.rv = rv
        self.stored = stored
        self.previous = previous
        self._line: bytes | None = None
        self._before: bytes | None = None

    def line(self, as_type: EventType | None = None) -> bytes:
        """The watch event. *as_type* ``ADDED`` is for objects that begin to match a selector."""
        if as_type is not None and as_type != self.type:
            return b'{"type":"%s","object":%s}' % (as_type.encode(), self.stored.raw)
        if self._line is None:
            self._line = b'{"type":"%s","object":%s}' % (self.type.encode(), self.stored.raw)
        return self._line

    def left_line(self) -> bytes:
        """``DELETED`` for an object that stopped matching a selector: what it was, with the new resourceVersion."""
        if self._before is None:
            assert self.previous is not None
            body = self.previous.copy()
            body["metadata"]["resourceVersion"] = str(self.rv)
            self._before = b'{"type":"DELETED","object":%s}' % orjson.dumps(body)
        return self._before


@dataclass(slots=True)
class History:
    """Changes of one kind, oldest first; ``forgotten`` is the last resourceVersion that can no longer be replayed."""

    changes: list[Change] = field(default_factory=list)
    base: int = 0
    """How many changes were forgotten: position of ``changes[0]``."""
    forgotten: int = 0
    waiters: dict[asyncio.Future[None], None] = field(default_factory=dict)
    """In the order in which they came: a set of futures has another order in each run."""

    def append(self, change: Change, limit: int) -> None:
        self.changes.append(change)
        if len(self.changes) > 2 * limit:
            self.forget(limit)
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()

    def forget(self, keep: int) -> None:
        dropped = len(self.changes) - keep
        if dropped > 0:
            self.forgotten = self.changes[dropped - 1].rv
            del self.changes[:dropped]
            self.base += dropped

    def position(self, rv: int) -> int:
        """Of the first change after *rv*."""
        low, high = 0, len(self.changes)
        while low < high:
            middle = (low + high) // 2
            if self.changes[middle].rv <= rv:
                low = middle + 1
            else:
                high = middle
        return self.base + low

    @property
    def end(self) -> int:
        return self.base + len(self.changes)


Listener = Callable[[Change], None]


class Store:
    """All objects of one simulated cluster."""

    def __init__(self, *, first_rv: int = 1000, history: int = 20_000) -> None:
        self.rv = first_rv
        self._first = first_rv
        self._limit = history
        self._objects: dict[Kind, dict[str, dict[str, Stored]]] = {}
        self._histories: dict[Kind, History] = {}
        self._by_uid: dict[str, Stored] = {}
        self._dependents: dict[str, dict[Key, None]] = {}
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call *listener* after every commit, in the committing call. Returns how to stop that."""
        self._listeners.append(listener)

        def stop() -> None:
            with contextlib.suppress(ValueError):
                self._listeners.remove(listener)

        return stop

    def get(self, key: Key) -> Stored | None:
        return self._objects.get(key.kind, {}).get(key.namespace, {}).get(key.name)

    def by_uid(self, uid: str) -> Stored | None:
        return self._by_uid.get(uid)

    def dependents(self, uid: str) -> list[Stored]:
        """Objects with an owner reference to *uid*."""
        found = (self.get(key) for key in self._dependents.get(uid, ()))
        return [stored for stored in found if stored is not None]

    def all_of(self, kind: Kind, namespace: str | None = None) -> list[Stored]:
        """By namespace and name, as etcd keys sort."""
        namespaces = self._objects.get(kind, {})
        chosen = sorted(namespaces) if namespace is None else [namespace]
        return [namespaces[ns][name] for ns in chosen if ns in namespaces for name in sorted(namespaces[ns])]

    def __iter__(self) -> Iterator[Stored]:
        for namespaces in self._objects.values():
            for objects in namespaces.values():
                yield from objects.values()

    def history(self, kind: Kind) -> History:
        history = self._histories.get(kind)
        if history is None:
            history = self._histories[kind] = History(forgotten=self._first - 1)
        return history

    def compact(self) -> None:
        """Forget all history, as etcd compaction does: watches from older resourceVersions get 410."""
        for history in self._histories.values():
            history.forget(0)
            history.forgotten = max(history.forgotten, self.rv - 1)

    def put(self, key: Key, body: dict[str, Any], claims: Mapping[Manager, Claim]) -> Stored:
        """Commit *body* as the object's next version. The caller gives the body away."""
        previous = self.get(key)
        self.rv += 1
        metadata = body["metadata"]
        metadata["resourceVersion"] = str(self.rv)
        metadata.pop("managedFields", None)
        if claims:
            metadata["managedFields"] = render(claims)
        stored = Stored(key, body, dict(claims), self.rv)
        self._objects.setdefault(key.kind, {}).setdefault(key.namespace, {})[key.name] = stored
        self._index(previous, stored)
        if previous is not None:
            previous.fold()
        self._tell(Change("ADDED" if previous is None else "MODIFIED", self.rv, stored, previous))
        return stored

    def remove(self, stored: Stored) -> Stored:
        """Commit the end of an object. Returns its last version, with the resourceVersion of the removal."""
        self.rv += 1
        body = stored.copy()
        body["metadata"]["resourceVersion"] = str(self.rv)
        last = Stored(stored.key, body, stored.claims, self.rv)
        names = self._objects[stored.key.kind][stored.key.namespace]
        del names[stored.key.name]
        self._index(stored, None)
        stored.fold()
        self._tell(Change("DELETED", self.rv, last, stored))
        last.fold()
        return last

    def _index(self, old: Stored | None, new: Stored | None) -> None:
        before = {str(owner.get("uid")) for owner in old.owners()} if old else set()
        after = {str(owner.get("uid")) for owner in new.owners()} if new else set()
        some = new or old
        assert some is not None
        for uid in before - after:
            self._dependents.get(uid, {}).pop(some.key, None)
        for uid in after - before:
            self._dependents.setdefault(uid, {})[some.key] = None
        if new is not None:
            self._by_uid[new.uid] = new
        elif old is not None:
            del self._by_uid[old.uid]

    def _tell(self, change: Change) -> None:
        self.history(change.stored.key.kind).append(change, self._limit)
        for listener in list(self._listeners):
            listener(change)
