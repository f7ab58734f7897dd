"""What can be scraped: one registry, which the runtime's parts tell what they do, and KubeRay's series beside it.

Series of objects are computed at scrape time from the store, so they go when the object goes and are the same after a
restart of the operator (spec operator.md 12; cases.md ME-01, ME-04). What each metric means is in `metric_table`.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, disable_created_metrics, generate_latest
from prometheus_client.core import Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kuberay.api.objects import RayObject
from kuberay.kube.informer import Informer
from kuberay.kube.lease import LEASE_NAME
from kuberay.kube.queue import WorkQueue
from kuberay.kube.store import Store
from kuberay.operator import metric_table as table
from kuberay.operator.hook_metrics import HookMetrics
from kuberay.operator.keys import Key
from kuberay.operator.metric_families import counter, gauge, histogram, of_counts
from kuberay.operator.milestones import Milestones
from kuberay.operator.object_metrics import ObjectMetrics
from kuberay.operator.probe_metrics import ProbeMetrics
from kuberay.operator.queue_metrics import CONTROLLERS, QueueMetrics, controller_of
from kuberay.operator.request_metrics import RequestMetrics
from kuberay.operator.store_metrics import StoreMetrics
from kuberay.operator.webhook_metrics import WebhookMetrics

_RESULTS = ("success", "error", "requeue_after")


class Metrics:
    """One registry. Also the plugin manager's observer."""

    def __init__(self) -> None:
        # When a series began says nothing that its own resets do not, and doubles their number. The library has one switch for
        # the whole process.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._passes = counter(table.RECONCILES, registry)
        self._errors = counter(table.RECONCILE_ERRORS, registry)
        self._panics = counter(table.RECONCILE_PANICS, registry)
        self._seconds = histogram(table.RECONCILE_SECONDS, registry)
        self._active = gauge(table.ACTIVE_WORKERS, registry)
        self._workers = gauge(table.MAX_WORKERS, registry)
        self._leader = gauge(table.LEADER, registry).labels(LEASE_NAME)
        self._lag = histogram(table.LOOP_LAG, registry)
        self._build = gauge(table.BUILD_INFO, registry)
        self._features = gauge(table.FEATURES, registry)
        self._plugin_info = gauge(table.PLUGIN_INFO, registry)
        self.requests, self.queue, self.probes = RequestMetrics(), QueueMetrics(), ProbeMetrics()
        self.webhooks = WebhookMetrics()
        self._hooks = HookMetrics()
        self._milestones = Milestones()
        self._objects: ObjectMetrics | None = None
        for collector in (self.requests, self.queue, self.probes, self.webhooks, self._hooks):
            registry.register(collector)
        for name in CONTROLLERS:
            for result in _RESULTS:
                self._passes.labels(name, result)
            for each in (self._errors, self._panics, self._seconds, self._active, self._workers):
                each.labels(name)

    # What the process is, told once

    def running(self, version: str, gates: Mapping[str, bool], server: str) -> None:
        """The operator's version, its feature gates, and the URL of its API server."""
        self._build.labels(version, platform.python_version()).set(1)
        for name, on in gates.items():
            self._features.labels(name).set(on)
        self.requests.host = server.partition("://")[2].rstrip("/")

    def plugin_enabled(self, plugin: str, distribution: str, version: str, hooks: Sequence[str] = ()) -> None:
        """Its series are there from now on."""
        self._plugin_info.labels(plugin, distribution, version).set(1)
        self._hooks.expect(plugin, hooks)

    def watch_slow_plugins(self, slow: Callable[[], Sequence[str]]) -> None:
        """*slow* names the plugins that count as slow now."""
        self._hooks.slow = slow

    def watch_queue(self, queue: WorkQueue[Key], workers: int) -> None:
        """Export the queue, and how many work on it."""
        self.queue.watch(queue)
        for name in CONTROLLERS:
            self._workers.labels(name).set(workers)

    def watch_store(self, store: Store, informers: Sequence[Informer]) -> None:
        self.registry.register(StoreMetrics(store, informers))

    def watch_events(self, dropped: Callable[[], float]) -> None:
        """*dropped* is how many events were lost so far."""
        self.registry.register(_Dropped(dropped))

    def export_objects(self, store: Store) -> None:
        """Export the metrics of Ray objects (only with ``--enable-metrics``)."""
        self._objects = ObjectMetrics(store, self._milestones)
        self.registry.register(self._milestones)

    # What happens

    def leads(self, leading: bool) -> None:
        self._leader.set(leading)

    def loop_was_late(self, seconds: float) -> None:
        self._lag.observe(seconds)

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        self._hooks.called(plugin, hook, seconds, failed)

    @contextmanager
    def active(self, kind: str) -> Iterator[None]:
        gauge = self._active.labels(controller_of(kind))
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    def reconciled(self, kind: str, result: str, seconds: float, *, unexpected: bool = False) -> None:
        """A pass ended; *unexpected*: with an error nobody thought of."""
        controller = controller_of(kind)
        self._passes.labels(controller, result).inc()
        self._seconds.labels(controller).observe(seconds)
        if result == "error":
            self._errors.labels(controller).inc()
        if unexpected:
            self._panics.labels(controller).inc()

    def status_written(self, kind: str, before: RayObject, status: dict[str, Any], now: datetime) -> None:
        """*before* has a new status since *now*."""
        if self._objects is not None:
            self._milestones.status_written(kind, before, status, now)

    def forget_old(self) -> None:
        """Memory follows the objects that there are."""
        if self._objects is not None:
            self._objects.forget_old()

    def exposition(self) -> bytes:
        """All of it, in Prometheus' text format."""
        text = generate_latest(self.registry)
        return text + self._objects.text().encode() if self._objects is not None else text


class _Dropped(Collector):
    def __init__(self, dropped: Callable[[], float]) -> None:
        self._dropped = dropped

    def collect(self) -> Iterable[Metric]:
        return [of_counts(table.EVENTS_DROPPED, [((), self._dropped())])]
