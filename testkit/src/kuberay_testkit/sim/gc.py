"""What goes when its owners are gone: the garbage collector and the namespace controller.

Background and orphan deletion as in Kubernetes; foreground deletion waits for dependents that block it.
"""

from __future__ import annotations

from typing import Any

from kuberay.api import kinds

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.deletes import FOREGROUND, ORPHAN
from kuberay_testkit.sim.store import Change, Key, Stored


class GarbageCollector(Controller):
    """Deletes objects all of whose owners do not exist (by uid: a new object of the same name is another owner)."""

    def observe(self, change: Change) -> None:
        stored = change.stored
        store = self.server.store
        if change.type == "DELETED":
            for dependent in store.dependents(stored.uid):
                self.enqueue(dependent.key)
            for owner in stored.owners():
                held = store.by_uid(str(owner.get("uid")))
                if held is not None and held.deleting:
                    self.enqueue(held.key)
            self._observe_namespace(stored)
        elif stored.deleting:
            if stored.key.kind == kinds.NAMESPACE or {FOREGROUND, ORPHAN} & set(
                stored.metadata.get("finalizers") or ()
            ):
                self.enqueue(stored.key)
        elif stored.owners():
            self.enqueue(stored.key)

    def _observe_namespace(self, stored: Stored) -> None:
        if stored.key.namespace:
            namespace = self.server.store.get(Key(kinds.NAMESPACE, "", stored.key.namespace))
            if namespace is not None and namespace.deleting:
                self.enqueue(namespace.key)

    def sync(self, key: Key) -> None:
        stored = self.server.store.get(key)
        if stored is None:
            return
        if stored.deleting:
            finalizers = stored.metadata.get("finalizers") or ()
            if key.kind == kinds.NAMESPACE:
                self._empty_namespace(stored)
            elif ORPHAN in finalizers:
                self._orphan(stored)
            elif FOREGROUND in finalizers:
                self._foreground(stored)
            return
        owners = stored.owners()
        if not owners:
            return
        present = [owner for owner in owners if self._exists(stored, str(owner.get("uid")))]
        leaving = [owner for owner in present if self._takes_dependents(str(owner.get("uid")))]
        if len(leaving) == len(present):
            policy = "Foreground" if leaving else "Background"
            self.server.delete(key.kind, key.namespace, key.name, propagation=policy, uid=stored.uid)
        elif len(present) < len(owners):
            self._set_owners(stored, present)

    def _exists(self, dependent: Stored, uid: str) -> bool:
        owner = self.server.store.by_uid(uid)
        return owner is not None and owner.key.namespace in ("", dependent.key.namespace)

    def _takes_dependents(self, uid: str) -> bool:
        owner = self.server.store.by_uid(uid)
        return owner is not None and owner.deleting and FOREGROUND in (owner.metadata.get("finalizers") or ())

    def _set_owners(self, stored: Stored, owners: list[Any]) -> None:
        change = {"metadata": {"ownerReferences": owners or None}}
        self.server.patch(*stored.key, change, manager="garbage-collector")

    def _drop_finalizer(self, stored: Stored, finalizer: str) -> None:
        left = [item for item in stored.metadata.get("finalizers") or () if item != finalizer]
        self.server.patch(*stored.key, {"metadata": {"finalizers": left or None}}, manager="garbage-collector")

    def _orphan(self, owner: Stored) -> None:
        for dependent in self.server.store.dependents(owner.uid):
            self._set_owners(dependent, [ref for ref in dependent.owners() if ref.get("uid") != owner.uid])
        self._drop_finalizer(owner, ORPHAN)

    def _foreground(self, owner: Stored) -> None:
        blocking = False
        for dependent in self.server.store.dependents(owner.uid):
            if any(ref.get("uid") == owner.uid and ref.get("blockOwnerDeletion") for ref in dependent.owners()):
                blocking = True
            if not dependent.deleting:
                self.enqueue(dependent.key, 0.0)
        if not blocking:
            self._drop_finalizer(owner, FOREGROUND)

    def _empty_namespace(self, namespace: Stored) -> None:
        name = namespace.key.name
        inside = [stored for stored in self.server.store if stored.key.namespace == name]
        for stored in inside:
            if not stored.deleting:
                self.server.delete(*stored.key, propagation="Background", uid=stored.uid)
        if not any(stored.key.namespace == name for stored in self.server.store):
            self.server.store.remove(namespace)
