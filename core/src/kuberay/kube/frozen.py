"""The store as it is at one moment, for a plan that is made in a thread while the event loop goes on.

Nothing is copied up front: before the store changes something, it hands what was there to every view that is open.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kuberay.api.kinds import Kind
from kuberay.api.objects import Object

Objects = Mapping[Kind, Mapping[tuple[str, str], Object]]
Owned = Mapping[tuple[Kind, str], Mapping[str, Object]]

_NOT_KEPT: Any = object()


class FrozenView:
    """A `kuberay.plan.observed.View` that stays as it is. Read from one thread, told of changes by the store's.

    Reads look at the live store first and then at what was kept: whatever changed in between was kept before it changed.
    """

    def __init__(
        self,
        objects: Objects,
        owned: Owned,
        was_pod: Callable[[str, str], bool],
        serves: Callable[[Kind], bool],
    ) -> None:
        self._objects = objects
        self._owned = owned
        self._kept_objects: dict[tuple[Kind, str, str], Object | None] = {}
        self._kept_owned: dict[tuple[Kind, str], Sequence[Object]] = {}
        self.was_pod = was_pod
        self.serves = serves

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """As the store had it."""
        live = self._objects.get(kind, {}).get((namespace, name))
        kept: Object | None = self._kept_objects.get((kind, namespace, name), _NOT_KEPT)
        return live if kept is _NOT_KEPT else kept

    def owned(self, uid: str, kind: Kind) -> Sequence[Object]:
        """As the store had them."""
        children = self._owned.get((kind, uid))
        # One call in C: nothing else runs meanwhile.
        live = list(children.values()) if children else []
        kept = self._kept_owned.get((kind, uid), _NOT_KEPT)
        return sorted(live if kept is _NOT_KEPT else kept, key=lambda obj: obj.name)

    def keep(self, kind: Kind, namespace: str, name: str, *uids: str) -> None:
        """An object of that name, and the children of these owners, are about to change."""
        self._kept_objects.setdefault((kind, namespace, name), self._objects.get(kind, {}).get((namespace, name)))
        for uid in uids:
            children = self._owned.get((kind, uid))
            self._kept_owned.setdefault((kind, uid), list(children.values()) if children else ())
