"""What can be scraped: KubeRay's own series, the controller-runtime names its dashboards query, and plugin calls.

Series of objects are computed at scrape time from the store, so they go when the object goes (spec operator.md 12).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kuberay.api.kinds import RAYCLUSTER, RAYJOB
from kuberay.api.names import LABEL_ORIGIN_CRD
from kuberay.api.objects import RayObject
from kuberay.kube.queue import WorkQueue
from kuberay.kube.store import Store

_TIME_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_RESULTS = ("success", "error", "requeue_after")


class Metrics:
    """One registry. Also the plugin manager's observer."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self._total = Counter(
            "controller_runtime_reconcile", "Passes by result", ["controller", "result"], registry=registry
        )
        self._errors = Counter(
            "controller_runtime_reconcile_errors", "Passes that failed", ["controller"], registry=registry
        )
        self._seconds = Histogram(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a pass",
            ["controller"],
            buckets=_TIME_BUCKETS,
            registry=registry,
        )
        self._active = Gauge("controller_runtime_active_workers", "Passes under way", ["controller"], registry=registry)
        self._requests = Counter(
            "rest_client_requests", "Requests to the API server", ["code", "method"], registry=registry
        )
        self._api_requests = Counter(
            "kuberay_api_requests", "Requests to the API server", ["verb", "resource"], registry=registry
        )
        self._request_series: dict[tuple[int, str, str, str], tuple[Counter, Counter]] = {}
        self._hook_series: dict[tuple[str, str], Histogram] = {}
        self._hook_seconds = Histogram(
            "kuberay_plugin_hook_duration_seconds",
            "Duration of plugin hook calls",
            ["plugin", "hook"],
            buckets=(0.0001, 0.001, 0.01, 0.1, 1),
            registry=registry,
        )
        self._hook_failures = Counter(
            "kuberay_plugin_failures", "Plugin hook calls that raised", ["plugin", "hook"], registry=registry
        )
        self._plugin_info = Gauge(
            "kuberay_plugin_info", "Enabled plugins", ["plugin", "distribution", "version"], registry=registry
        )
        self.leader = Gauge("leader_election_master_status", "1 while this replica acts", ["name"], registry=registry)
        self.events_dropped = Gauge("kuberay_events_dropped", "Events that could not be sent", registry=registry)
        self.provisioned: dict[tuple[str, str, str], float] = {}
        self.executed: dict[tuple[str, str, str, str, str], float] = {}
        for kind in ("RayCluster", "RayJob"):
            controller = kind.lower()
            for result in _RESULTS:
                self._total.labels(controller, result)
            self._errors.labels(controller)
            self._seconds.labels(controller)
            self._active.labels(controller)

    def watch_queue(self, queue: WorkQueue[Any]) -> None:
        """Export the queue's depth and counts."""
        depth = Gauge("workqueue_depth", "Keys ready to be handled", ["name"], registry=self.registry)
        depth.labels("kuberay").set_function(lambda: len(queue))
        adds = Gauge("workqueue_adds_total", "Keys added", ["name"], registry=self.registry)
        adds.labels("kuberay").set_function(lambda: queue.adds)
        retries = Gauge("workqueue_retries_total", "Keys retried after a failure", ["name"], registry=self.registry)
        retries.labels("kuberay").set_function(lambda: queue.retries)

    def export_objects(self, store: Store) -> None:
        """Export ``kuberay_*`` (only with ``--enable-metrics``)."""
        self.registry.register(_ObjectCollector(store, self))

    def plugin_enabled(self, plugin: str, distribution: str, version: str) -> None:
        self._plugin_info.labels(plugin, distribution, version).set(1)

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        series = self._hook_series.get((plugin, hook))
        if series is None:
            series = self._hook_series[plugin, hook] = self._hook_seconds.labels(plugin, hook)
        series.observe(seconds)
        if failed:
            self._hook_failures.labels(plugin, hook).inc()

    def request(self, method: str, path: str, code: int) -> None:
        """One request to the API server was answered."""
        verb, resource = _verb_and_resource(method, path)
        series = self._request_series.get((code, method, verb, resource))
        if series is None:
            # Looking a label set up costs more than counting; there are few of them.
            series = (self._requests.labels(str(code), method), self._api_requests.labels(verb, resource))
            self._request_series[code, method, verb, resource] = series
        series[0].inc()
        series[1].inc()

    @contextmanager
    def active(self, kind: str) -> Iterator[None]:
        gauge = self._active.labels(kind.lower())
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()

    def reconciled(self, kind: str, result: str, seconds: float) -> None:
        controller = kind.lower()
        self._total.labels(controller, result).inc()
        self._seconds.labels(controller).observe(seconds)
        if result == "error":
            self._errors.labels(controller).inc()

    def status_written(self, kind: str, before: RayObject, status: dict[str, Any], now: datetime) -> None:
        """Durations are observed when a successful status write tells of the transition."""
        if kind == RAYCLUSTER.kind and _provisioned(status) and not _provisioned(before.status):
            created = before.metadata.creation_timestamp
            if created is not None:
                self.provisioned[before.name, before.namespace, before.uid] = (now - created).total_seconds()
        elif kind == RAYJOB.kind:
            old, new = before.status.get("jobDeploymentStatus", ""), status.get("jobDeploymentStatus", "")
            start = status.get("startTime")
            if new != old and new in ("Complete", "Failed", "Retrying") and isinstance(start, str):
                seconds = (now - datetime.fromisoformat(start)).total_seconds()
                failed = str(before.status.get("failed") or 0)
                self.executed[before.name, before.namespace, before.uid, new, failed] = seconds

    def gone(self, kind: str, namespace: str, name: str) -> None:
        """Drop the series of an object that no longer exists."""
        if kind == RAYCLUSTER.kind:
            for series in [s for s in self.provisioned if s[:2] == (name, namespace)]:
                del self.provisioned[series]
        elif kind == RAYJOB.kind:
            for job_series in [s for s in self.executed if s[:2] == (name, namespace)]:
                del self.executed[job_series]

    def exposition(self) -> bytes:
        return generate_latest(self.registry)


def _verb_and_resource(method: str, path: str) -> tuple[str, str]:
    """``("patch", "rayclusters/status")`` from a request line; lists count as ``list``."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    resource = "/".join([parts[0], *parts[2:]]) if parts else "discovery"
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}.get(method)
    return verb or ("get" if len(parts) > 1 else "list"), resource


def _provisioned(status: dict[str, Any]) -> bool:
    return any(
        c.get("type") == "RayClusterProvisioned" and c.get("status") == "True" for c in status.get("conditions") or ()
    )


class _ObjectCollector(Collector):
    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        base = ["name", "namespace", "uid"]
        info = GaugeMetricFamily("kuberay_cluster_info", "RayClusters", labels=[*base, "owner_kind"])
        provisioned = GaugeMetricFamily(
            "kuberay_cluster_condition_provisioned", "Whether all pods were once ready", labels=[*base, "condition"]
        )
        duration = GaugeMetricFamily(
            "kuberay_cluster_provisioned_duration_seconds", "Creation until all pods were ready", labels=base
        )
        for cluster in self._store.all(RAYCLUSTER):
            if isinstance(cluster, RayObject):
                ids = [cluster.name, cluster.namespace, cluster.uid]
                info.add_metric([*ids, cluster.metadata.labels.get(LABEL_ORIGIN_CRD, "None")], 1)
                provisioned.add_metric([*ids, str(_provisioned(cluster.status)).lower()], 1)
        for series, seconds in self._metrics.provisioned.items():
            duration.add_metric(list(series), seconds)
        job_info = GaugeMetricFamily("kuberay_job_info", "RayJobs", labels=base)
        job_status = GaugeMetricFamily(
            "kuberay_job_deployment_status", "Present deployment status", labels=[*base, "deployment_status"]
        )
        executed = GaugeMetricFamily(
            "kuberay_job_execution_duration_seconds",
            "Start until the end of an attempt",
            labels=[*base, "job_deployment_status", "retry_count"],
        )
        for job in self._store.all(RAYJOB):
            if isinstance(job, RayObject):
                ids = [job.name, job.namespace, job.uid]
                job_info.add_metric(ids, 1)
                job_status.add_metric([*ids, str(job.status.get("jobDeploymentStatus", ""))], 1)
        for job_series, seconds in self._metrics.executed.items():
            executed.add_metric(list(job_series), seconds)
        return [info, provisioned, duration, job_info, job_status, executed]
