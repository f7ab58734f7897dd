"""Looks at one object at a time: observe, plan, write, status, events, and when to look again.

The same loop serves every kind; what differs is the plan function. Nothing here knows what a pod is.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from kuberay.api.kinds import Kind
from kuberay.api.objects import Object, RayObject, from_dict
from kuberay.hooks.calls import Hooks, Lane, SlowPluginError
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import ApiError
from kuberay.kube.events import EventRecorder, Reference
from kuberay.kube.queue import LOW, NORMAL, QueueClosedError, WorkQueue
from kuberay.kube.store import Store, version
from kuberay.kube.transport import TransportError
from kuberay.operator.beside import NEXT, Beside
from kuberay.operator.executor import Executor, Outcome
from kuberay.operator.keys import Key, References, changed
from kuberay.operator.logs import log_context, object_context
from kuberay.operator.metrics import Metrics
from kuberay.operator.prober import Prober
from kuberay.operator.refusals import NOT_PERMITTED, Permission, Refusals
from kuberay.operator.tracing import NO_TRACING, Tracing
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Event, Plan
from kuberay.plan.observed import Observed
from kuberay.ray.dashboard import DashboardClient
from kuberay.ray.drain import DrainClient

log = logging.getLogger("kuberay.operator.controller")

PlanFunction = Callable[[Observed], Plan]

CHILD_DELAY = 0.1
"""Seconds a change of a child waits for others before its owner is looked at."""

BUSY = 100
"""From how many waiting keys on plans are told that others wait."""

MAX_ROUNDS = 4
"""Plans per pass: each round sees what the one before wrote. More would mean two rules undo each other."""

LONGEST_SLEEP = timedelta(minutes=10)
"""Timers do not notice that the clock was set: so soon an object that waits for a point in time is looked at in any case,
which costs no request."""

ROUNDS_PAUSE = timedelta(seconds=1)
"""When to go on with a pass that still had something to write in its last round."""

MISSED_PAUSE = timedelta(seconds=10)
"""When a pass is repeated whose optional writes failed for a reason that passes."""

_origin: contextvars.ContextVar[Key | None] = contextvars.ContextVar("kuberay_origin", default=None)
"""The key whose pass is writing; tasks started by the pass inherit it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What a controller needs of its surroundings."""

    client: Client
    store: Store
    clock: Clock
    recorder: EventRecorder
    dashboard: DashboardClient
    drain: DrainClient
    hooks: Hooks
    config: PlanConfig
    gates: Mapping[str, bool]
    metrics: Metrics
    plans: Mapping[Kind, PlanFunction]
    may_act: Callable[[], bool] = lambda: True
    """Whether this replica leads at this very moment."""
    not_seen: Callable[[str], Sequence[Permission]] = lambda _namespace: ()
    """What of a namespace the operator may not watch at present."""
    tracing: Tracing = NO_TRACING


class Controller:
    """Owns the queue. `accept` and the store feed it, `work` (run many) empties it."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._store = setup.store
        self.config = setup.config
        """What plans are told; `use` changes it."""
        self.queue: WorkQueue[Key] = WorkQueue()
        self._references = References()
        self._executor = Executor(setup.client, setup.store, setup.clock.now, self._on_written)
        self.prober = Prober(
            setup.client,
            setup.dashboard,
            setup.clock,
            self.queue.add,
            drain=setup.drain,
            may_act=setup.may_act,
            observer=setup.metrics.probes,
            tracing=setup.tracing,
        )
        self.refusals = Refusals(
            setup.client,
            self.queue.add,
            known=lambda key: setup.store.get(key.kind, key.namespace, key.name) is not None,
        )
        self.beside = Beside(setup.hooks, setup.store, self._handle)
        self._priority = NORMAL
        setup.store.subscribe(self._on_change)

    def use(self, config: PlanConfig) -> None:
        """Plan with *config* from now on. No object is looked at because of it."""
        self.config = config

    def accept(self, kind: Kind, event_type: str | None, body: dict[str, Any]) -> None:
        """Take an event of a Ray kind from the event source. Type None marks the source's first list."""
        if event_type != "DELETED" and self._is_known(kind, body):
            return
        obj = from_dict(kind, body)
        if event_type == "DELETED":
            self._store.remove(kind, obj.namespace, obj.name, obj.uid, at=version(obj))
            return
        # A restart's backlog yields to what changes now.
        self._priority = LOW if event_type is None else NORMAL
        try:
            self._store.upsert(kind, obj)
        finally:
            self._priority = NORMAL

    def _is_known(self, kind: Kind, body: dict[str, Any]) -> bool:
        """Whether the store holds this very version already: most events echo the operator's own status writes."""
        metadata = body["metadata"]
        known = self._store.get(kind, metadata.get("namespace", ""), metadata["name"])
        return known is not None and known.metadata.resource_version == metadata.get("resourceVersion")

    def _on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        self._references.update(kind, before, after)
        if before is not None and (after is None or after.uid != before.uid):
            self._executor.forget(before.uid)
        for key in changed(kind, before, after, self._references):
            # Pods of one owner change in bursts; the pass that follows should see the whole burst.
            self.queue.add(key, delay=0.0 if key.kind == kind else CHILD_DELAY, priority=self._priority)

    def _on_written(self, kind: Kind, before: Object | None, after: Object) -> None:
        """Tell everyone but the writer, who knows."""
        self._references.update(kind, before, after)
        origin = _origin.get()
        for key in changed(kind, before, after, self._references):
            if key != origin:
                self.queue.add(key)

    async def work(self) -> None:
        """One worker: handle keys until the queue is closed."""
        while True:
            try:
                key = await self.queue.get()
            except QueueClosedError:
                return
            await self._handle(key, Lane.LOOP)

    async def _handle(self, key: Key, lane: Lane) -> None:
        """One pass over a key that the queue gave, up to its end or into the next lane."""
        metrics, kind = self._setup.metrics, key.kind.kind
        started = time.perf_counter()
        result, unexpected, pass_id = "error", False, uuid.uuid4().hex[:12]
        told = {"kuberay.kind": kind, "k8s.namespace.name": key.namespace, "kuberay.name": key.name}
        with (
            log_context(**object_context(kind, key.namespace, key.name), reconcileID=pass_id),
            metrics.active(kind),
            self._setup.tracing.span("reconcile", {**told, "kuberay.reconcile_id": pass_id}, root=True) as span,
        ):
            try:
                delay = await self.reconcile(key, lane)
                self.queue.forget(key)
                result = "success"
                if delay is not None:
                    result = "requeue_after"
                    self.queue.add(key, delay=min(delay, LONGEST_SLEEP).total_seconds())
            except asyncio.CancelledError:
                raise
            except SlowPluginError:
                # Nothing was written yet; the key is not done, so that nobody else takes it.
                result = ""
                self.beside.take(key, NEXT[lane])
            except (ApiError, TransportError, RetryError) as error:
                self.refusals.note(key, error)
                span.fail(str(error))
                delay_seconds = self.queue.retry(key)
                log.warning("will try again in %.1f s: %s", delay_seconds, error)
            except Exception as error:
                unexpected = True
                span.fail(f"{type(error).__name__}: {error}")
                delay_seconds = self.queue.retry(key)
                log.exception("unexpected error; will try again in %.1f s", delay_seconds)
            finally:
                seconds = time.perf_counter() - started
                span.note("kuberay.result", result or "slow_plugin")
                log.debug("pass over after %.3f s: %s", seconds, result or "slow_plugin")
                if result:
                    self.queue.done(key)
                    metrics.reconciled(kind, result, seconds, unexpected=unexpected)

    async def reconcile(self, key: Key, lane: Lane = Lane.LOOP) -> timedelta | None:
        """One pass, whose plans are made in *lane*. Returns when to look again without a change, or None. Raises when it
        should be retried, and `SlowPluginError` when it belongs into the next lane."""
        obj = self._store.get(key.kind, key.namespace, key.name)
        if not isinstance(obj, RayObject):
            self.prober.want(key, ())
            return None
        token = _origin.set(key)
        try:
            return await self._pass(key, obj, lane)
        finally:
            _origin.reset(token)

    async def _plan(self, observed: Observed, kind: Kind, lane: Lane, *, first: bool) -> Plan:
        """The plan, made in *lane*; once something was written the pass is not given up, but ends in the last one."""
        plan_for = self._setup.plans[kind]
        with self._setup.tracing.span("plan", {"kuberay.lane": lane.value}):
            try:
                if lane is Lane.LOOP:
                    with self._setup.hooks.in_lane(lane):
                        return plan_for(observed)
                return await self.beside.plan(plan_for, observed, lane)
            except SlowPluginError:
                if first:
                    raise
            return await self.beside.plan(plan_for, observed, Lane.LAST)

    async def _pass(self, key: Key, obj: RayObject, lane: Lane) -> timedelta | None:
        await self._executor.settle(obj)
        done: list[Event] = []
        planned: list[Event] = []
        outcome = Outcome()
        plan = Plan()
        for number in range(MAX_ROUNDS):
            plan = await self._plan(self._observe(key, obj), key.kind, lane, first=number == 0)
            self.prober.want(key, plan.probes)
            outcome = await self._executor.run(obj, plan.stages) if plan.stages else Outcome()
            for refusal in outcome.forbidden:
                self.refusals.note(key, refusal)
            done += outcome.events
            planned += plan.events
            current = self._store.get(key.kind, key.namespace, key.name)
            if not isinstance(current, RayObject) or current.uid != obj.uid:
                # Nobody may be told of it again, if it was this pass that found it gone.
                self.prober.want(key, ())
                if current is None:
                    self._references.update(key.kind, obj, None)
                self._tell(key, obj, done)
                return None
            unchanged = current.metadata.resource_version == obj.metadata.resource_version
            obj = current
            if outcome.failure is not None:
                plan = await self._plan(self._observe(key, obj, outcome), key.kind, lane, first=False)
                break
            if not outcome.changed and unchanged:
                break
        delay = plan.requeue_after
        if plan.status is not None:
            if plan.status_delay > timedelta(0):
                delay = min(delay, plan.status_delay) if delay is not None else plan.status_delay
            else:
                before = obj
                try:
                    news = await self._executor.apply_status(key.kind, obj, plan.status)
                    log.debug("status written")
                except (ApiError, TransportError) as error:
                    # What was done was done; what is to be told beside the status is told with it, on the next try.
                    refused = self.refusals.note(key, error)
                    # The object itself cannot say it.
                    self._tell(key, obj, [*done, *([_not_permitted(refused)] if refused is not None else [])])
                    self._keep_deadline(key, plan)
                    raise
                self._setup.metrics.status_written(key.kind.kind, before, plan.status, self._setup.clock.now())
                if news:
                    # Plans read the status too, and our own write's watch event will be no news.
                    delay = timedelta(0)
        if plan.waiting:
            log.debug("waiting: %s", plan.waiting)
        unseen = [_not_permitted(permission) for permission in self._setup.not_seen(key.namespace)]
        self._tell(key, obj, [*done, *planned, *unseen])
        if outcome.error is not None:
            if isinstance(outcome.error, ApiError) and outcome.error.namespace_is_going:
                # The object itself is about to go; nothing can or should be created for it any more.
                return delay
            self._keep_deadline(key, plan)
            raise RetryError(str(outcome.error)) from outcome.error
        if outcome.missed:
            # What may fail without keeping the rest waiting must still be done, though nothing else wakes the key.
            delay = min(delay, MISSED_PAUSE) if delay is not None else MISSED_PAUSE
        return ROUNDS_PAUSE if outcome.changed else delay

    def _keep_deadline(self, key: Key, plan: Plan) -> None:
        """The back-off that follows may be longer."""
        if plan.look_by is not None:
            self.queue.add(key, delay=plan.look_by.total_seconds())

    def _observe(self, key: Key, obj: RayObject, outcome: Outcome | None = None) -> Observed:
        setup = self._setup
        return Observed(
            obj=obj,
            now=setup.clock.now(),
            view=self._store,
            probes=self.prober.results(key),
            config=self.config,
            gates=setup.gates,
            hooks=setup.hooks,
            busy=len(self.queue) > BUSY,
            failure=outcome.failure if outcome is not None else None,
        )

    def _tell(self, key: Key, obj: RayObject, events: list[Event]) -> None:
        """Events go out after the writes and the status they speak of, equal ones of a pass once."""
        told: dict[tuple[str, str], Event] = {}
        for event in events:
            told.setdefault((event.reason, event.note), event)
        for event in told.values():
            self._setup.recorder.emit(
                Reference(key.kind.api_version, key.kind.kind, key.namespace, key.name, obj.uid, event.field_path),
                type_=event.type,
                reason=event.reason,
                action=event.action,
                note=event.note,
                controller=f"{key.kind.kind.lower()}-controller",
                count=event.count,
            )


def _not_permitted(permission: Permission) -> Event:
    return Event(NOT_PERMITTED, permission.sentence, type="Warning", action="Reconcile")


class RetryError(Exception):
    """A write failed; the pass is repeated after a back-off. The text is the write's own error."""
