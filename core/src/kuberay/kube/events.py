"""Tells users what happened: events.k8s.io/v1 events, equal ones folded by count, sent beside the reconcile.

Events are hints: they are queued after the writes they tell of succeeded, dropped under pressure, and never waited for.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, TypeAlias

from kuberay.api.kinds import EVENT
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import ApiError, NotFoundError
from kuberay.kube.remembered import without_old
from kuberay.kube.transport import TransportError

log = logging.getLogger("kuberay.kube.events")

NOTE_LIMIT = 1024
_FOLD_SECONDS = 360.0
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class Reference:
    """The object an event is about."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    field_path: str = ""


@dataclass(slots=True)
class _Series:
    name: str
    count: int
    last: float
    sent: float


_Queue: TypeAlias = "asyncio.Queue[tuple[Reference, str, dict[str, Any]] | None]"
"""What is to be sent: the object, the name of the event to patch (empty: create it), the body. None ends the sender."""


class EventRecorder:
    """Run `run()` as a task; `emit` never blocks and never fails."""

    def __init__(
        self, client: Client, clock: Clock, *, instance: str, capacity: int = 10_000, senders: int = 4
    ) -> None:
        self._client = client
        self._clock = clock
        self._instance = instance[:128]
        # One queue per sender, chosen by object, so that what is told of an object stays in order: the patch that raises an
        # event's count must not overtake the event.
        self._queues: list[_Queue] = [asyncio.Queue(max(1, capacity // senders)) for _ in range(senders)]
        self._recent: OrderedDict[tuple[str, str, str], _Series] = OrderedDict()
        self._counter = 0
        self.dropped = 0

    def emit(
        self,
        about: Reference,
        *,
        type_: str,
        reason: str,
        action: str,
        note: str,
        controller: str,
        count: int = 1,
    ) -> None:
        """Queue one event. Equal events (object, reason, note) within six minutes raise a counter instead."""
        now = asyncio.get_running_loop().time()
        key = (about.uid, reason, note)
        series = self._recent.get(key)
        if series is not None and now - series.last < _FOLD_SECONDS:
            series.count += count
            series.last = now
            self._recent.move_to_end(key)
            # Told at once the first time, then at most once a minute: a hot retry loop must not become API load.
            if series.count - count == 1 or now - series.sent >= 60.0:
                series.sent = now
                body = {"series": {"count": series.count, "lastObservedTime": _micro(self._clock)}}
                self._put(about, series.name, body)
            return
        self._counter += 1
        stamp = int(self._clock.now().timestamp() * 1_000_000)
        name = f"{about.name[:200]}.{stamp:x}{self._counter % 4096:03x}"
        self._recent[key] = _Series(name, count, now, now)
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        regarding = {
            "apiVersion": about.api_version,
            "kind": about.kind,
            "namespace": about.namespace,
            "name": about.name,
            "uid": about.uid,
        }
        if about.field_path:
            regarding["fieldPath"] = about.field_path
        event: dict[str, Any] = {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": about.namespace},
            "eventTime": _micro(self._clock),
            "reportingController": controller,
            "reportingInstance": self._instance,
            "type": type_,
            "reason": reason[:128],
            "action": action[:128],
            "note": note
            if len(note.encode()) <= NOTE_LIMIT
            else note.encode()[: NOTE_LIMIT - 4].decode(errors="ignore") + " ...",
            "regarding": regarding,
        }
        if count > 1:
            event["series"] = {"count": count, "lastObservedTime": _micro(self._clock)}
        self._put(about, "", event)

    def forget_old(self) -> None:
        """Forget events whose like would be a new one."""
        before = asyncio.get_running_loop().time() - _FOLD_SECONDS
        self._recent = without_old(self._recent, lambda series: series.last < before)

    def _put(self, about: Reference, name: str, body: dict[str, Any]) -> None:
        queue = self._queues[zlib.crc32(about.uid.encode()) % len(self._queues)]
        try:
            queue.put_nowait((about, name, body))
        except asyncio.QueueFull:
            self.dropped += 1

    async def run(self) -> None:
        """Send until cancelled or closed."""
        async with asyncio.TaskGroup() as group:
            for queue in self._queues:
                group.create_task(self._send_all(queue))

    async def _send_all(self, queue: _Queue) -> None:
        while True:
            item = await queue.get()
            if item is None:
                return
            about, name, body = item
            try:
                if name:
                    await self._client.merge_patch(EVENT, about.namespace, name, body)
                else:
                    await self._client.create(EVENT, about.namespace, body)
            except NotFoundError:
                continue  # the namespace is going, or the event has expired
            except (ApiError, TransportError) as error:
                self.dropped += 1
                log.debug("event %s about %s/%s lost: %s", body.get("reason", name), about.namespace, about.name, error)

    def close(self) -> None:
        """Let `run` end once what is queued has been sent; the caller bounds how long it waits for that."""
        for queue in self._queues:
            if queue.full():
                queue.get_nowait()
                self.dropped += 1
            queue.put_nowait(None)


def _micro(clock: Clock) -> str:
    return clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
