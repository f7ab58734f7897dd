"""Puts the runtime together and runs it: informers, event source, leadership, workers; and ends it in order.

The parts come from outside (`Parts`), so that a simulation runs the same code on a simulated API server and clock.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kuberay.api.gates import CRON_JOB
from kuberay.api.kinds import (
    ENDPOINT_SLICE,
    INGRESS,
    JOB,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    RAYCLUSTER,
    RAYCRONJOB,
    RAYJOB,
    RAYSERVICE,
    ROUTE,
    SECRET,
    SERVICE,
    Kind,
)
from kuberay.api.names import (
    COMPONENT,
    HEAD,
    LABEL_CLUSTER,
    LABEL_CREATED_BY,
    LABEL_HEADLESS_SVC,
    LABEL_NODE_TYPE,
    LABEL_ORIGIN_CRD,
    REDIS_CLEANUP,
    WORKER,
)
from kuberay.api.objects import Object
from kuberay.hooks.calls import Hooks
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.events import EventRecorder
from kuberay.kube.informer import Informer, InformerTimes, Scope
from kuberay.kube.lease import Lease
from kuberay.kube.store import Store
from kuberay.operator.controller import Controller, PlanFunction, Setup
from kuberay.operator.metrics import Metrics
from kuberay.operator.refusals import Permission, missing_permission
from kuberay.operator.source import EventSource
from kuberay.operator.tracing import NO_TRACING, Tracing
from kuberay.plan.config import PlanConfig
from kuberay.ray.dashboard import DashboardClient
from kuberay.ray.drain import DrainClient

log = logging.getLogger("kuberay.operator")

RAY_KINDS: tuple[Kind, ...] = (RAYCLUSTER, RAYJOB, RAYSERVICE)
CHILD_KINDS: tuple[Kind, ...] = (
    POD,
    SERVICE,
    ENDPOINT_SLICE,
    JOB,
    SECRET,
    INGRESS,
    PERSISTENT_VOLUME_CLAIM,
    POD_DISRUPTION_BUDGET,
)


def ray_kinds(gates: Mapping[str, bool]) -> tuple[Kind, ...]:
    """The Ray kinds that are served. The CRD of RayCronJobs need not be there while their gate is off."""
    return (*RAY_KINDS, RAYCRONJOB) if gates.get(CRON_JOB, False) else RAY_KINDS


FORGET_EVERY = 60.0
"""Seconds between looks for what is only remembered for a while: what has gone, events that were told, tokens."""

STOP_SECONDS = 5.0
"""How long passes under way may take to finish after a stop was asked for; the whole stop stays below ten seconds."""


class LeadershipLostError(Exception):
    """Another replica may act now; this process must end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What the runtime is made of."""

    client: Client
    clock: Clock
    source: EventSource
    dashboard: DashboardClient
    drain: DrainClient
    hooks: Hooks
    config: PlanConfig
    plans: Mapping[Kind, PlanFunction]
    gates: Mapping[str, bool] = field(default_factory=dict)
    namespaces: Sequence[str] = ()
    workers: int = 16
    lease: Lease | None = None
    """None: act at once, without leader election."""
    instance: str = "kuberay-operator"
    metrics: Metrics = field(default_factory=Metrics)
    times: InformerTimes = field(default_factory=InformerTimes)
    tracing: Tracing = NO_TRACING


class App:
    """One operator. `run` returns after `stop`, or raises what ended it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._kinds = ray_kinds(parts.gates)
        self.store = Store(lambda: asyncio.get_running_loop().time())
        lease = parts.lease
        # Whatever acts asks at each request whether it still may: a process can be frozen anywhere.
        acting = parts.client if lease is None else parts.client.gated(lease.gate)
        self.recorder = EventRecorder(acting, parts.clock, instance=parts.instance)
        self.controller = Controller(
            Setup(
                client=acting,
                store=self.store,
                clock=parts.clock,
                recorder=self.recorder,
                dashboard=parts.dashboard,
                drain=parts.drain,
                hooks=parts.hooks,
                config=parts.config,
                gates=parts.gates,
                metrics=parts.metrics,
                plans=parts.plans,
                may_act=lease.may_act if lease is not None else lambda: True,
                not_seen=self._not_seen,
                tracing=parts.tracing,
            )
        )
        parts.metrics.watch_queue(self.controller.queue, parts.workers)
        parts.metrics.watch_events(lambda: self.recorder.dropped)
        parts.metrics.probes.running = self.controller.prober.running
        self.informers = [
            Informer(parts.client, self.store, scope, parts.times, watch=scope.kind not in self._kinds)
            for scope in _scopes(parts.namespaces, parts.hooks, self._kinds, parts.config)
        ]
        self._informers_of: dict[str | None, list[Informer]] = {}
        """By namespace; None: those of all namespaces. A pass asks only those that concern it, however many there are."""
        for informer in self.informers:
            self._informers_of.setdefault(informer.scope.namespace, []).append(informer)
        self._watching: list[asyncio.Task[None]] = []
        parts.metrics.watch_store(self.store, self.informers)
        self._stopping = asyncio.Event()
        self.leading = False

    @property
    def metrics(self) -> Metrics:
        return self._parts.metrics

    def stop(self) -> None:
        """Ask `run` to end; safe to call from a signal handler and more than once."""
        self._stopping.set()

    @property
    def config(self) -> PlanConfig:
        """What plans are told at present."""
        return self.controller.config

    def use(self, config: PlanConfig) -> None:
        """Plan with *config* from now on; what informers watch stays as it is."""
        self.controller.use(config)

    def why_not_ready(self) -> str:
        """Empty when everything the workers rely on is there."""
        unsynced = [str(informer.scope) for informer in self.informers if not informer.synced.is_set()]
        return f"waiting for the first list of {', '.join(unsynced)}" if unsynced else ""

    def why_not_live(self) -> str:
        """Empty while the store is being kept up to date."""
        now = asyncio.get_running_loop().time()
        limit = 3 * self._parts.times.resync
        for informer in self.informers:
            if informer.last_list is not None and now - informer.last_list > limit:
                return f"no full list of {informer.scope} for {now - informer.last_list:.0f} s"
        return ""

    async def run(self) -> None:
        """Run until `stop`, or until something that must not fail has failed."""
        self._watch_all()
        background = [
            asyncio.create_task(self.controller.refusals.run(), name="refusals"),
            asyncio.create_task(self._forget(), name="forget"),
        ]
        recording = asyncio.create_task(self.recorder.run(), name="events")
        stopping: asyncio.Task[Any] = asyncio.create_task(self._stopping.wait(), name="stop")
        source_failed = asyncio.ensure_future(self._parts.source.failed)
        workers: list[asyncio.Task[None]] = []
        lease_lost: asyncio.Task[None] | None = None
        try:
            await self._parts.source.start(self.controller.accept)
            await _unless(self._all_synced(), stopping, source_failed)
            if self._parts.lease is not None and not stopping.done():
                await _unless(self._parts.lease.acquire(), stopping, source_failed)
            if stopping.done():
                return None
            if self._parts.lease is not None:
                lease_lost = asyncio.create_task(self._parts.lease.hold(), name="lease")
                if self._parts.lease.was_cut_off(2 * self._parts.times.idle):
                    log.info("the API server could not be reached a while ago; everything is listed again first")
                    await _unless(self._look_again(), stopping, source_failed, lease_lost)
                    if stopping.done() or lease_lost.done():
                        return self._raise_if_lost(lease_lost, stopping)
            self.leading = True
            self._parts.metrics.leads(True)
            workers = [
                asyncio.create_task(self.controller.work(), name=f"worker {n}") for n in range(self._parts.workers)
            ]
            log.info("serving %s with %d workers", ", ".join(str(k) for k in self._kinds), len(workers))
            ends = [*([lease_lost] if lease_lost else []), *workers, *background, *self._watching]
            await _first(stopping, source_failed, *ends)
            self._raise_if_lost(lease_lost, stopping)
        finally:
            await self._end(workers, [*background, *self._watching], recording, lease_lost)
            for task in (stopping, source_failed):
                task.cancel()

    async def _forget(self) -> None:
        """Memory follows what there is, not what there has been (`kuberay_testkit.sim.day`)."""
        while True:
            await asyncio.sleep(FORGET_EVERY)
            self.store.forget_old()
            self.recorder.forget_old()
            self.controller.prober.forget_old()
            self._parts.metrics.forget_old()

    @staticmethod
    def _raise_if_lost(lease_lost: asyncio.Task[None] | None, stopping: asyncio.Task[Any]) -> None:
        if lease_lost is not None and lease_lost.done() and not stopping.done():
            raise LeadershipLostError("the leader lease was lost; another replica may act now")

    def _watch_all(self) -> None:
        self._watching = [asyncio.create_task(each.run(), name=str(each.scope)) for each in self.informers]

    async def _look_again(self) -> None:
        """List everything anew and watch from there: a watch may be dead without anybody having noticed, and what is decided
        on half of the news (pods as they are, clusters as they were) may be wrong."""
        await _cancel(self._watching)
        for informer in self.informers:
            informer.start_over()
        self._watch_all()
        await self._all_synced()

    def _not_seen(self, namespace: str) -> list[Permission]:
        """What of *namespace* the operator may not watch at present."""
        refused = (
            missing_permission(informer.refused)
            for scope in (None, namespace)
            for informer in self._informers_of.get(scope, ())
            if informer.refused is not None
        )
        return [permission for permission in dict.fromkeys(refused) if permission is not None]

    async def _all_synced(self) -> None:
        for informer in self.informers:
            await informer.synced.wait()

    async def _end(
        self,
        workers: list[asyncio.Task[None]],
        background: list[asyncio.Task[None]],
        recording: asyncio.Task[None],
        lease_lost: asyncio.Task[None] | None,
    ) -> None:
        """Workers first, so that the lease is only given up when nothing acts any more."""
        self.leading = False
        self._parts.metrics.leads(False)
        self.controller.queue.close()
        self.controller.prober.stop()
        self.controller.beside.close()
        working = [*workers, *self.controller.beside.tasks]
        if working:
            _, late = await asyncio.wait(working, timeout=STOP_SECONDS)
            await _cancel(late)
        self.controller.beside.end()
        self.recorder.close()
        await asyncio.wait([recording], timeout=1.0)
        await _cancel([recording, *background, *([lease_lost] if lease_lost else [])])
        lost = lease_lost is not None and lease_lost.done() and not lease_lost.cancelled()
        if self._parts.lease is not None and not lost:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self._parts.lease.release()
        await self._parts.source.stop()


async def _first(*awaitables: asyncio.Future[Any]) -> None:
    """Wait for the first to complete, and raise its exception if it has one."""
    done, _ = await asyncio.wait(awaitables, return_when=asyncio.FIRST_COMPLETED)
    for future in done:
        future.result()


async def _unless(wanted: Coroutine[Any, Any, None], *stops: asyncio.Future[Any]) -> None:
    """Run *wanted* to its end, or until one of *stops* completes; then it is cancelled."""
    task = asyncio.create_task(wanted)
    try:
        await _first(task, *stops)
    finally:
        await _cancel([task])


async def _cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)


Matcher = Callable[[Object], bool]


def _scopes(namespaces: Sequence[str], hooks: Hooks, kinds: Sequence[Kind], config: PlanConfig) -> list[Scope]:
    """Everything that is listed: children by the labels they carry, Ray kinds for the periodic comparison."""
    node_types = (HEAD, WORKER, REDIS_CLEANUP)
    created_by_us = (f"{LABEL_CREATED_BY}={COMPONENT}", _labelled(LABEL_CREATED_BY, COMPONENT))
    of_a_cluster = (LABEL_CLUSTER, _labelled(LABEL_CLUSTER))
    wanted: list[tuple[Kind, tuple[str, Matcher]]] = [
        (POD, (f"{LABEL_NODE_TYPE} in ({','.join(node_types)})", _labelled(LABEL_NODE_TYPE, *node_types))),
        # Submitters of RayJobs.
        (POD, (f"{LABEL_ORIGIN_CRD}={RAYJOB.kind}", _labelled(LABEL_ORIGIN_CRD, RAYJOB.kind))),
        # Services carry one of three label families (spec raycluster.md 2.5 to 2.7, rayjob.md 4.3).
        (SERVICE, created_by_us),
        (SERVICE, (LABEL_HEADLESS_SVC, _labelled(LABEL_HEADLESS_SVC))),
        (SERVICE, (LABEL_ORIGIN_CRD, _labelled(LABEL_ORIGIN_CRD))),
        # An EndpointSlice carries the labels of its service.
        (ENDPOINT_SLICE, (f"{LABEL_ORIGIN_CRD}={RAYSERVICE.kind}", _labelled(LABEL_ORIGIN_CRD, RAYSERVICE.kind))),
        (JOB, created_by_us),
        (SECRET, of_a_cluster),
        (INGRESS, created_by_us),
        *([(ROUTE, created_by_us)] if config.openshift else []),
        (PERSISTENT_VOLUME_CLAIM, of_a_cluster),
        (POD_DISRUPTION_BUDGET, of_a_cluster),
        *((kind, ("", _always)) for kind in kinds),
        *((watch.kind, (watch.label_selector, _equal_to(watch.label_selector))) for watch in hooks.watches()),
    ]
    everywhere: list[str | None] = [None]
    scopes = [
        Scope(kind, namespace if kind.namespaced else None, selector, matches)
        for namespace in (list(namespaces) or everywhere)
        for kind, (selector, matches) in wanted
    ]
    if config.secret_namespaces is None:
        return scopes
    return [scope for scope in scopes if scope.kind != SECRET] + [
        Scope(kind, namespace, selector, matches)
        for namespace in sorted(config.secret_namespaces)
        for kind, (selector, matches) in wanted
        if kind == SECRET
    ]


def _always(_obj: Object) -> bool:
    return True


def _labelled(label: str, *values: str) -> Matcher:
    def matches(obj: Object) -> bool:
        value = obj.metadata.labels.get(label)
        return value is not None and (not values or value in values)

    return matches


def _equal_to(selector: str) -> Matcher:
    """A plugin's selector as a function; ``key=value`` and ``key`` terms."""
    terms = [term.strip().partition("=") for term in selector.split(",") if term.strip()]

    def matches(obj: Object) -> bool:
        labels = obj.metadata.labels
        return all(key in labels and (not sep or labels[key] == value.lstrip("=")) for key, sep, value in terms)

    return matches
