"""Performs a plan's writes: stage by stage, each write safe on its own, and every answer stored at once.

It decides nothing about what should exist. What it guards: never touch what another controller owns, never delete
another object of the same name, never create twice when an answer was lost.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
import orjson

from kuberay.api.kinds import Kind
from kuberay.api.objects import Child, Object, RayObject
from kuberay.kube.client import Client
from kuberay.kube.errors import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from kuberay.kube.store import Store
from kuberay.kube.sync import Synced, has_former_items, in_sync, without_emptied
from kuberay.kube.transport import TransportError
from kuberay.operator.answers import Answers
from kuberay.operator.leftovers import leftovers_of
from kuberay.operator.ownership import NotOwnedError, is_foreign, is_in_the_way, is_of_namesake
from kuberay.plan.model import (
    NAMESPACE_TERMINATING,
    Apply,
    Create,
    Delete,
    Event,
    Patch,
    Stage,
    Write,
    WriteFailure,
)

log = logging.getLogger("kuberay.operator.executor")

_UNPROCESSABLE = 422
FIRST_BATCH = 4
"""Creates sent side by side at first; each clean batch doubles it (slow start: a refusing quota costs few calls)."""


@dataclass(slots=True)
class Outcome:
    """What came of a plan's writes."""

    changed: bool = False
    failure: WriteFailure | None = None
    error: Exception | None = None
    events: list[Event] = field(default_factory=list)
    missed: bool = False
    """Whether an optional write failed for a reason that passes."""
    forbidden: list[ForbiddenError] = field(default_factory=list)
    """Refusals of all writes, optional ones included."""


class Executor:
    """Shared by all workers. *written* is told of every object a write brought back, and what was known of it, so that
    others can react."""

    def __init__(
        self,
        client: Client,
        store: Store,
        now: Callable[[], datetime],
        written: Callable[[Kind, Object | None, Object], None],
    ) -> None:
        self._client = client
        self._store = store
        self._now = now
        self._synced = Synced()
        self._answers = Answers(client, store, self._synced, written)
        # Each write needs the first, each pass the second: no call is put between.
        self._take = self._answers.take
        self.settle = self._answers.settle
        """Finds out what became of former writes of an owner; nothing may be planned for it before. Raises while it cannot."""

    def forget(self, uid: str) -> None:
        """The object is gone; drop what is remembered about it."""
        self._synced.forget(uid)
        self._answers.forget(uid)

    async def run(self, owner: RayObject, stages: list[Stage]) -> Outcome:
        """Perform *stages* for *owner*; stops at the first stage with a failed write that is not optional."""
        outcome = Outcome()
        for stage in stages:
            for batch in _batches(stage):
                if len(batch) == 1:
                    await self._one(owner, batch[0], outcome)
                else:
                    async with asyncio.TaskGroup() as group:
                        for write in batch:
                            group.create_task(self._one(owner, write, outcome))
                if outcome.failure is not None:
                    return outcome
        return outcome

    async def apply_status(self, kind: Kind, owner: RayObject, status: dict[str, Any]) -> bool:
        """Write the whole status that follows from *owner* as it was seen. True when the answer was news. An object that
        changed meanwhile is a `ConflictError` (state machines live in the status); one that is gone nobody's problem."""
        # Only the version guards a status: the API server ignores a wrong UID on this subresource.
        metadata = {
            "name": owner.name,
            "namespace": owner.namespace,
            "resourceVersion": owner.metadata.resource_version,
        }
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": status}
        try:
            raw = await self._client.apply(kind, owner.namespace, owner.name, body, subresource="status")
        except NotFoundError:
            return False
        known = self._store.get(kind, owner.namespace, owner.name)
        obj = self._take(kind, raw)
        leftovers = leftovers_of(status, obj.status) if isinstance(obj, RayObject) else None
        if leftovers:
            # Another operator managed this object before; what it wrote and we do not want is still its own.
            obj = self._take(
                kind,
                await self._client.merge_patch(
                    kind, owner.namespace, owner.name, {"status": leftovers}, subresource="status"
                ),
            )
        return known is None or known.metadata.resource_version != obj.metadata.resource_version

    async def _one(self, owner: RayObject, write: Write, outcome: Outcome) -> None:
        try:
            event = await self._perform(owner, write)
        except (ApiError, TransportError, NotOwnedError) as error:
            text = _explain(write, error)
            # A patch that came too late is made again from what there is now; nobody needs to hear of it.
            late = isinstance(error, ConflictError) and isinstance(write, Patch)
            if write.taken is not None and isinstance(error, NotOwnedError) and not error.passing:
                outcome.events.append(write.taken)
            elif write.failed is not None and not late:
                outcome.events.append(write.failed(text))
            going = isinstance(error, ApiError) and error.namespace_is_going
            log.log(
                logging.DEBUG if going or late else logging.WARNING,
                "%s %s %s/%s failed: %s",
                type(write).__name__,
                write.kind,
                write.namespace,
                write.name,
                text,
            )
            if isinstance(error, ForbiddenError):
                outcome.forbidden.append(error)
            if write.optional:
                outcome.missed |= _passes(error)
            elif outcome.failure is None:
                reason = error.reason if isinstance(error, ApiError) else type(error).__name__
                reason = NAMESPACE_TERMINATING if going else reason
                outcome.failure = WriteFailure(write.kind.kind, write.name, write.marker, text, reason)
                outcome.error = error
            return
        if event is not _UNCHANGED:
            log.debug("%s %s %s/%s", type(write).__name__, write.kind, write.namespace, write.name)
            outcome.changed = True
            if event is not None:
                outcome.events.append(event)

    async def _perform(self, owner: RayObject, write: Write) -> Event | None:
        """One write; the event to tell, or `_UNCHANGED` when nothing had to be done."""
        match write:
            case Create():
                return await self._create(owner, write)
            case Apply():
                return await self._apply(owner, write)
            case Delete():
                return await self._delete(owner, write)
            case Patch():
                return await self._patch(owner, write)
        raise AssertionError(f"unknown write {type(write).__name__}")

    async def _create(self, owner: RayObject, write: Create) -> Event | None:
        body = write.body() if callable(write.body) else write.body
        if write.random_data:
            body = {**body, "data": {key: _random_text(size) for key, size in write.random_data.items()}}
        try:
            raw = await self._client.create(write.kind, write.namespace, body)
        except AlreadyExistsError as error:
            # Another actor with the same view chose the same name, or our own earlier answer was lost.
            return None if await self._answers.adopt(owner, write, body, error) else _UNCHANGED
        except (TransportError, ApiError) as error:
            if isinstance(error, ApiError) and error.status < 500:
                raise
            await self._answers.adopt(owner, write, body, error)
            return write.done
        self._take(write.kind, raw)
        return write.done

    async def _apply(self, owner: RayObject, write: Apply) -> Event | None:
        known = live = self._store.get(write.kind, write.namespace, write.name)
        if live is None and write.guarded:
            try:
                raw = await self._client.apply(write.kind, write.namespace, write.name, write.body, force=False)
            except (ConflictError, InvalidError) as refusal:
                # An object of that name says something else, or what is wanted is wrong in itself.
                try:
                    live = self._take(write.kind, await self._client.get(write.kind, write.namespace, write.name))
                except NotFoundError:
                    raise refusal from None
            else:
                return self._applied(write, raw)
        # What others own need not be watched, so an object that is in the way is looked at again.
        if live is None or (is_in_the_way(live, owner, write) and not write.create_only):
            try:
                live = self._take(write.kind, await self._client.get(write.kind, write.namespace, write.name))
            except NotFoundError:
                return self._applied(
                    write, await self._client.apply(write.kind, write.namespace, write.name, write.body)
                )
        if write.create_only and not is_foreign(live, owner, write.body):
            return _UNCHANGED
        if is_in_the_way(live, owner, write):
            if write.create_only and not is_of_namesake(live, owner):
                return _UNCHANGED
            if write.yields:
                return _UNCHANGED if known is not None and known.uid == live.uid else None
            raise NotOwnedError(write, owner, live)
        if live.deleting:
            return _UNCHANGED
        wanted = orjson.dumps(write.body)
        if self._synced.known(live.uid, live.metadata.resource_version, wanted):
            return _UNCHANGED
        if isinstance(live, Child) and in_sync(write.body, live.body()):
            self._synced.remember(live.uid, live.metadata.resource_version, wanted)
            return _UNCHANGED
        before = live.metadata.resource_version
        body = without_emptied(write.body, live.body()) if isinstance(live, Child) else write.body
        body = {**body, "metadata": {**body["metadata"], "uid": live.uid}}
        obj = self._take(write.kind, await self._apply_over(write, body))
        if isinstance(obj, Child) and has_former_items(write.body, obj.body()):
            obj = self._take(write.kind, await self._client.merge_patch(write.kind, write.namespace, write.name, body))
        self._note_synced(write.kind, obj, wanted)
        return _UNCHANGED if obj.metadata.resource_version == before else write.updated

    async def _apply_over(self, write: Apply, body: Mapping[str, Any]) -> bytes:
        """Apply to an object that is there. What another operator once put into its lists is that one's and stays, so both
        together may make no sense (two ports of one name); then they are replaced as a whole."""
        where = (write.kind, write.namespace, write.name)
        try:
            return await self._client.apply(*where, body, subresource=write.subresource)
        except InvalidError as refusal:
            if refusal.status != _UNPROCESSABLE or write.subresource:
                raise
            try:
                return await self._client.merge_patch(*where, body)
            except InvalidError:
                raise refusal from None

    def _applied(self, write: Apply, raw: bytes) -> Event | None:
        """The object is new."""
        obj = self._take(write.kind, raw)
        self._note_synced(write.kind, obj, orjson.dumps(write.body))
        return write.done

    def _note_synced(self, kind: Kind, obj: Object, wanted: bytes) -> None:
        """Unless it has gone while it was written: nobody would ever forget it."""
        known = self._store.get(kind, obj.namespace, obj.name)
        if known is not None and known.uid == obj.uid:
            self._synced.remember(obj.uid, obj.metadata.resource_version, wanted)

    async def _patch(self, owner: RayObject, write: Patch) -> Event | None:
        body = write.body
        if write.resource_version:
            body = {**body, "metadata": {**body.get("metadata", {}), "resourceVersion": write.resource_version}}
        try:
            if write.operations:
                raw = await self._client.json_patch(
                    write.kind, write.namespace, write.name, write.operations, subresource=write.subresource
                )
            else:
                raw = await self._client.merge_patch(
                    write.kind, write.namespace, write.name, body, subresource=write.subresource
                )
        except (NotFoundError, ConflictError) as error:
            if write.must_exist:
                await self._answers.look_again(write)
                raise
            if isinstance(error, ConflictError):
                raise
            return _UNCHANGED  # Nothing is left to be changed; the store learns of it by its watch.
        except (TransportError, ApiError) as error:
            self._answers.note_unsure(owner, write, error)
            raise
        patched = self._take(write.kind, raw)
        # The version alone does not tell: that of an object whose last finalizer went is the old one.
        same = write.must_exist and patched.metadata.resource_version == write.resource_version
        return _UNCHANGED if same else write.done

    async def _delete(self, owner: RayObject, write: Delete) -> Event | None:
        try:
            await self._client.delete(
                write.kind,
                write.namespace,
                write.name,
                uid=write.uid,
                propagation=write.propagation,
                grace_seconds=0 if write.at_once else None,
            )
        except NotFoundError:
            self._answers.gone(write, write.uid)
            return write.done
        except ConflictError:
            # Either replaced by another object of the same name, or only changed at the same moment.
            if await self._answers.exists(write):
                raise
            self._answers.gone(write, write.uid)
            return write.done
        except (TransportError, ApiError) as error:
            self._answers.note_unsure(owner, write, error)
            raise
        live = self._store.get(write.kind, write.namespace, write.name)
        if live is not None and live.uid == write.uid and not live.deleting:
            metadata = msgspec.structs.replace(live.metadata, deletion_timestamp=self._now())
            # Same version as before: the watch event that follows is newer and takes its place.
            self._store.mark(write.kind, msgspec.structs.replace(live, metadata=metadata))
        return write.done


def _passes(error: Exception) -> bool:
    """Whether the same write may succeed a little later, though nothing that is known changes."""
    if isinstance(error, ApiError):
        return error.status >= 500 or error.status in (409, 429)
    return isinstance(error, TransportError)


_UNCHANGED = Event(reason="", note="")
"""Marks a write that found nothing to do."""


def _explain(write: Write, error: Exception) -> str:
    """The error's own words; for a kind the cluster does not know, words that say what to do."""
    if isinstance(error, NotFoundError) and isinstance(write, Apply | Create) and "namespaces" not in error.message:
        return f"{write.kind} is not served by this cluster: install its CRD, or turn off the plugin that needs it"
    return str(error)


def _random_text(size: int) -> str:
    """A value for a Secret's ``data``: the base64 text of *size* random bytes, encoded once more as ``data`` wants it."""
    return base64.b64encode(base64.b64encode(secrets.token_bytes(size))).decode()


def _batches(stage: Stage) -> Iterator[list[Write]]:
    """All other writes at once, then creates in growing batches."""
    creates: list[Write] = [write for write in stage if isinstance(write, Create)]
    others: list[Write] = [write for write in stage if not isinstance(write, Create)]
    if others:
        yield others
    size, start = FIRST_BATCH, 0
    while start < len(creates):
        yield creates[start : start + size]
        start += size
        size = min(2 * size, 64)
