"""What the operator knows of the cluster: one object per name and kind, indexed by controller owner.

Two sources feed it, watches and the responses of the operator's own writes; the higher resourceVersion wins, so a late
watch event never undoes a write, and a removed object does not come back.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from kuberay.api.kinds import POD, Kind
from kuberay.api.objects import Object, RayObject
from kuberay.kube.frozen import FrozenView
from kuberay.kube.remembered import without_old

Listener = Callable[[Kind, Object | None, Object | None], None]
"""Called with (kind, before, after) for every change; either side may be None."""

REMEMBERED = 600.0
"""Seconds for which what has gone is remembered: as long as it takes until every kind was listed in full once more
(`InformerTimes.resync`), which is longer than any watch event or list is late."""

_TOMBSTONES = 20_000
"""How much of what has gone is remembered at most, however much goes in that time."""


K = TypeVar("K")
V = TypeVar("V")


def _bury(graves: OrderedDict[K, V], key: K, value: V) -> None:
    """Add it as the youngest one."""
    graves[key] = value
    graves.move_to_end(key)
    if len(graves) > _TOMBSTONES:
        graves.popitem(last=False)


def version(obj: Object) -> int:
    """The resourceVersion as a number (Kubernetes guarantees its order since 1.35, etcd always had it)."""
    text = obj.metadata.resource_version
    return int(text) if text.isdigit() else 0


class Store:
    """A `kuberay.plan.observed.View`. Not thread safe: used from the operator's event loop only. A thread reads a
    `frozen` view of it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """*clock* returns seconds; it only says how long ago something went."""
        self._clock = clock
        self._objects: dict[Kind, dict[tuple[str, str], Object]] = {}
        self._owned: dict[tuple[Kind, str], dict[str, Object]] = {}
        self._gone: OrderedDict[str, tuple[float, int | None]] = OrderedDict()
        """Removed objects by UID: when they went, and the version up to which they are gone, None for good. Oldest first."""
        self._former_pods: OrderedDict[tuple[str, str], float] = OrderedDict()
        """Names of removed pods, which no new pod should get, and when they went. Oldest first."""
        self._served: dict[Kind, bool] = {}
        self._listeners: list[Listener] = []
        self._frozen: list[FrozenView] = []

    @contextmanager
    def frozen(self) -> Iterator[FrozenView]:
        """All of it as it is now, to be read from another thread while this one goes on."""
        view = FrozenView(self._objects, self._owned, self.was_pod, self.serves)
        self._frozen.append(view)
        try:
            yield view
        finally:
            self._frozen.remove(view)

    def subscribe(self, listener: Listener) -> None:
        """Call *listener* for each later change."""
        self._listeners.append(listener)

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self._objects.get(kind, {}).get((namespace, name))

    def was_pod(self, namespace: str, name: str) -> bool:
        return (namespace, name) in self._former_pods

    def serves(self, kind: Kind) -> bool:
        return self._served.get(kind, True)

    def note_served(self, kind: Kind, served: bool) -> None:
        """What a list of *kind* found. Once served is served: an API server that starts misses kinds for a moment."""
        self._served[kind] = served or self._served.get(kind, False)

    def owned(self, uid: str, kind: Kind) -> Sequence[Object]:
        children = self._owned.get((kind, uid))
        if not children:
            return ()
        if len(children) == 1:
            return tuple(children.values())
        return [children[name] for name in sorted(children)]

    def all(self, kind: Kind) -> Iterable[Object]:
        """Every object of *kind*, in no order."""
        return list(self._objects.get(kind, {}).values())

    def count(self, kind: Kind) -> int:
        return len(self._objects.get(kind, {}))

    def upsert(self, kind: Kind, obj: Object, *, notify: bool = True) -> bool:
        """Take in a newer version. False when it is not news. *notify* is off for the writer's own responses."""
        if obj.uid in self._gone:
            _, gone = self._gone[obj.uid]
            if gone is None or version(obj) < gone:
                return False
        objects = self._objects.setdefault(kind, {})
        key = (obj.namespace, obj.name)
        before = objects.get(key)
        if before is not None and before.uid == obj.uid and version(before) >= version(obj):
            return False
        if before is not None and before.uid != obj.uid and version(before) > version(obj):
            return False
        self._keep(kind, before, obj)
        if before is not None:
            self._unindex(kind, before)
            if before.uid == obj.uid and before.deleting and not obj.deleting:
                # A deletion is never taken back; this version is from before a delete that was marked.
                obj.metadata.deletion_timestamp = before.metadata.deletion_timestamp
            if isinstance(obj, RayObject) and isinstance(before, RayObject) and obj.same_spec_as(before):
                # Most new versions are status writes: keep one copy of the spec, and what was made of it.
                obj.spec, obj.parsed = before.spec, before.parsed
        objects[key] = obj
        controller = obj.metadata.controller
        if controller is not None:
            self._owned.setdefault((kind, controller.uid), {})[obj.name] = obj
        if notify:
            self._tell(kind, before, obj)
        return True

    def mark(self, kind: Kind, obj: Object) -> None:
        """Replace what is held of an object by a variant of the same version (a delete that was accepted)."""
        before = self._objects.get(kind, {}).get((obj.namespace, obj.name))
        if before is None or before.uid != obj.uid:
            return
        self._keep(kind, before, obj)
        self._unindex(kind, before)
        self._objects[kind][obj.namespace, obj.name] = obj
        controller = obj.metadata.controller
        if controller is not None:
            self._owned.setdefault((kind, controller.uid), {})[obj.name] = obj

    def remove(self, kind: Kind, namespace: str, name: str, uid: str, *, at: int = 0, notify: bool = True) -> bool:
        """Forget an object. *at* is the version that told so: the object may only have left a watch's selector and come
        back with a later one. 0: it is gone for good."""
        if uid:
            _bury(self._gone, uid, (self._clock(), at or None))
        objects = self._objects.get(kind, {})
        before = objects.get((namespace, name))
        if before is None or (uid and before.uid != uid):
            return False
        if at and version(before) >= at:
            return False
        self._keep(kind, before)
        del objects[namespace, name]
        self._unindex(kind, before)
        if kind == POD:
            _bury(self._former_pods, (namespace, name), self._clock())
        if notify:
            self._tell(kind, before, None)
        return True

    def forget_old(self) -> None:
        """Forget what has been gone for longer than `REMEMBERED`."""
        before = self._clock() - REMEMBERED
        self._gone = without_old(self._gone, lambda grave: grave[0] < before)
        self._former_pods = without_old(self._former_pods, lambda since: since < before)

    def replace(
        self, kind: Kind, listed: Iterable[Object], list_version: int, in_scope: Callable[[Object], bool]
    ) -> int:
        """Take in a full list: news are stored, and objects in scope that it lacks and that are not younger than it
        are removed. Returns how many differences were found."""
        seen: set[str] = set()
        differences = 0
        for obj in listed:
            seen.add(obj.uid)
            differences += self.upsert(kind, obj)
        for obj in list(self._objects.get(kind, {}).values()):
            if obj.uid not in seen and version(obj) < list_version and in_scope(obj):
                differences += self.remove(kind, obj.namespace, obj.name, obj.uid, at=list_version)
        return differences

    def _keep(self, kind: Kind, *versions: Object | None) -> None:
        """Before any of these versions of one object comes or goes: what is there now stays in the views that are open."""
        if not self._frozen:
            return
        known = [obj for obj in versions if obj is not None]
        uids = [obj.metadata.controller.uid for obj in known if obj.metadata.controller is not None]
        for view in self._frozen:
            view.keep(kind, known[-1].namespace, known[-1].name, *uids)

    def _unindex(self, kind: Kind, obj: Object) -> None:
        controller = obj.metadata.controller
        if controller is None:
            return
        children = self._owned.get((kind, controller.uid))
        if children is not None and children.get(obj.name) is obj:
            del children[obj.name]
            if not children:
                del self._owned[kind, controller.uid]

    def _tell(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        for listener in self._listeners:
            listener(kind, before, after)
