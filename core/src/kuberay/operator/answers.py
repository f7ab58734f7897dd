"""Takes in at once what the API server answers, and finds out what became of a write whose answer says nothing or was lost.

Nothing is planned before that is known (`Answers.settle`): the name of a second try need not be that of the first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kuberay.api.kinds import POD, Kind
from kuberay.api.objects import Object, RayObject, decode
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, NotFoundError
from kuberay.kube.store import Store
from kuberay.kube.sync import Synced
from kuberay.kube.transport import TransportError
from kuberay.operator.ownership import NotOwnedError, is_foreign
from kuberay.plan.model import Create, Delete, Write


class Answers:
    """Those to all writes of one executor. *written* is told of every object that is brought back, and what was known of it."""

    def __init__(
        self, client: Client, store: Store, synced: Synced, written: Callable[[Kind, Object | None, Object], None]
    ) -> None:
        self._client = client
        self._store = store
        self._synced = synced
        self._written = written
        self._unsure: dict[str, list[Write]] = {}
        """By owner UID: writes of which nobody knows whether they took effect."""

    def forget(self, uid: str) -> None:
        """The owner is gone; nobody plans for it any more."""
        self._unsure.pop(uid, None)

    def take(self, kind: Kind, raw: bytes) -> Object:
        """The object as the API server has just told it, for every later plan to see."""
        obj = decode(kind, raw)
        known = self._store.get(kind, obj.namespace, obj.name)
        # Another object of the same name is nothing that this pass was about: somebody has to look at it.
        self._store.upsert(kind, obj, notify=known is not None and known.uid != obj.uid)
        self._written(kind, known, obj)
        return obj

    async def get(self, write: Write) -> Object:
        """What has the name that *write* is about. Raises what the client raises."""
        return self.take(write.kind, await self._client.get(write.kind, write.namespace, write.name))

    def gone(self, write: Write, uid: str) -> None:
        """The object is known to be gone; its watch event will be no news."""
        self._store.remove(write.kind, write.namespace, write.name, uid, notify=False)
        self._synced.forget(uid)

    async def settle(self, owner: RayObject) -> None:
        """Find out what became of writes whose answer was lost and could not be asked for. Raises while that cannot be found
        out."""
        unsure = self._unsure.get(owner.uid)
        while unsure:
            write = unsure[-1]
            try:
                await self.get(write)
            except NotFoundError:
                if isinstance(write, Delete):
                    self.gone(write, write.uid)
            unsure.pop()
        self._unsure.pop(owner.uid, None)

    async def adopt(self, owner: RayObject, write: Create, body: dict[str, Any], cause: Exception) -> bool:
        """After a create whose outcome is unclear: take the object in if it exists and is ours, else raise. Returns
        whether it was unknown until now."""
        known = self._store.get(write.kind, write.namespace, write.name)
        try:
            obj = await self.get(write)
        except NotFoundError:
            raise cause from None
        except (ApiError, TransportError):
            self._unsure.setdefault(owner.uid, []).append(write)
            raise cause from None
        if not write.any_owner and is_foreign(obj, owner, body):
            raise NotOwnedError(write, owner, obj) from None
        return known is None or known.uid != obj.uid

    def note_unsure(self, owner: RayObject, write: Write, error: Exception) -> None:
        """Remember a write that may have taken effect although it failed: which worker is chosen next to go must not
        depend on an outdated view."""
        lost = isinstance(error, TransportError) or (isinstance(error, ApiError) and error.status >= 500)
        if write.kind == POD and lost:
            self._unsure.setdefault(owner.uid, []).append(write)

    async def look_again(self, write: Write) -> None:
        """The view was behind; do not wait for the watch to say so."""
        known = self._store.get(write.kind, write.namespace, write.name)
        try:
            await self.get(write)
        except NotFoundError:
            if known is not None and write.kind == POD:
                self.gone(write, known.uid)
        except (ApiError, TransportError):
            pass

    async def exists(self, write: Delete) -> bool:
        """Whether the very object to be deleted is still there."""
        try:
            return (await self.get(write)).uid == write.uid
        except NotFoundError:
            return False
