"""What can be scraped: KubeRay's own series, the controller-runtime names its dashboards query, and plugin calls.

Series of objects are computed at scrape time from the store, so they go when the object goes and are the same after a
restart of the operator (spec operator.md 12; cases.md ME-01, ME-04).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

from kuberay.api.conditions import ServiceCondition, is_true
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE
from kuberay.api.names import LABEL_ORIGIN_CRD
from kuberay.api.objects import RayObject
from kuberay.api.times import parse_time
from kuberay.kube.queue import WorkQueue
from kuberay.kube.store import Store
from kuberay.operator.hook_metrics import HookMetrics

_TIME_BUCKETS = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
_RESULTS = ("success", "error", "requeue_after")
RETRYING = "Retrying"


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
        self._hooks = HookMetrics()
        registry.register(self._hooks)
        self._plugin_info = Gauge(
            "kuberay_plugin_info", "Enabled plugins", ["plugin", "distribution", "version"], registry=registry
        )
        self.leader = Gauge("leader_election_master_status", "1 while this replica acts", ["name"], registry=registry)
        self.events_dropped = Gauge("kuberay_events_dropped", "Events that could not be sent", registry=registry)
        self._exports_objects = False
        self._retried: dict[str, dict[str, float]] = {}
        """Seconds of attempts that are over and followed by another, by UID and retry count: no status keeps them."""
        for kind in ("RayCluster", "RayJob", "RayService"):
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
        self._exports_objects = True
        self.registry.register(_ObjectCollector(store, self))

    def plugin_enabled(self, plugin: str, distribution: str, version: str) -> None:
        self._plugin_info.labels(plugin, distribution, version).set(1)

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        self._hooks.called(plugin, hook, seconds, failed)

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
        """An attempt that is retried is measured when it ends: its times leave the status with the next one."""
        if not self._exports_objects or kind != RAYJOB.kind or before.status.get("jobDeploymentStatus") == RETRYING:
            return
        begun = _time(status.get("startTime"))
        if status.get("jobDeploymentStatus") == RETRYING and begun is not None:
            count = str(before.status.get("failed") or 0)
            self._retried.setdefault(before.uid, {})[count] = (now - begun).total_seconds()

    def retried(self, existing: Collection[str]) -> Mapping[str, Mapping[str, float]]:
        """Seconds of former attempts by UID and retry count; those of jobs that are not *existing* are dropped."""
        for uid in self._retried.keys() - existing:
            del self._retried[uid]
        return self._retried

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


def _provisioned(status: dict[str, Any]) -> dict[str, Any] | None:
    """The condition that says so, if it does."""
    conditions = status.get("conditions") or ()
    return next((c for c in conditions if c.get("type") == "RayClusterProvisioned" and c.get("status") == "True"), None)


def _time(text: object) -> datetime | None:
    """A time of a status; None when it says nothing that makes sense."""
    try:
        return parse_time(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _provisioning_seconds(cluster: RayObject) -> float | None:
    """From the creation until all pods were ready."""
    condition, created = _provisioned(cluster.status), cluster.metadata.creation_timestamp
    ready = _time(condition.get("lastTransitionTime")) if condition is not None else None
    return None if ready is None or created is None else (ready - created).total_seconds()


def _execution(status: dict[str, Any]) -> tuple[str, str, float] | None:
    """Deployment status, retry count and seconds of the attempt that ended a job."""
    state, failed = status.get("jobDeploymentStatus", ""), int(status.get("failed") or 0)
    begun, ended = _time(status.get("startTime")), _time(status.get("endTime"))
    if state not in ("Complete", "Failed") or begun is None or ended is None:
        return None
    # An attempt that failed counts itself.
    return state, str(max(failed - (state == "Failed"), 0)), (ended - begun).total_seconds()


class _ObjectCollector(Collector):
    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return [*self._clusters(), *self._jobs(), *self._services(), *self._cronjobs()]

    def _clusters(self) -> list[Metric]:
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
                provisioned.add_metric([*ids, "true" if _provisioned(cluster.status) else "false"], 1)
                seconds = _provisioning_seconds(cluster)
                if seconds is not None:
                    duration.add_metric(ids, seconds)
        return [info, provisioned, duration]

    def _jobs(self) -> list[Metric]:
        base = ["name", "namespace", "uid"]
        info = GaugeMetricFamily("kuberay_job_info", "RayJobs", labels=base)
        status = GaugeMetricFamily(
            "kuberay_job_deployment_status", "Present deployment status", labels=[*base, "deployment_status"]
        )
        executed = GaugeMetricFamily(
            "kuberay_job_execution_duration_seconds",
            "Start until the end of an attempt",
            labels=[*base, "job_deployment_status", "retry_count"],
        )
        jobs = {job.uid: job for job in self._store.all(RAYJOB) if isinstance(job, RayObject)}
        retried = self._metrics.retried(jobs.keys())
        for job in jobs.values():
            ids = [job.name, job.namespace, job.uid]
            info.add_metric(ids, 1)
            status.add_metric([*ids, str(job.status.get("jobDeploymentStatus", ""))], 1)
            for count, seconds in retried.get(job.uid, {}).items():
                executed.add_metric([*ids, RETRYING, count], seconds)
            ended = _execution(job.status)
            if ended is not None:
                executed.add_metric([*ids, *ended[:2]], ended[2])
        return [info, status, executed]

    def _services(self) -> list[Metric]:
        base = ["name", "namespace", "uid"]
        info = GaugeMetricFamily("kuberay_service_info", "RayServices", labels=base)
        ready = GaugeMetricFamily(
            "kuberay_service_condition_ready", "Whether a pod serves", labels=[*base, "condition"]
        )
        upgrading = GaugeMetricFamily(
            "kuberay_service_condition_upgrade_in_progress",
            "Whether there are an active and a pending RayCluster",
            labels=[*base, "condition"],
        )
        for service in self._store.all(RAYSERVICE):
            if isinstance(service, RayObject):
                ids = [service.name, service.namespace, service.uid]
                info.add_metric(ids, 1)
                conditions = service.status.get("conditions") or ()
                for family, type_ in (
                    (ready, ServiceCondition.READY),
                    (upgrading, ServiceCondition.UPGRADE_IN_PROGRESS),
                ):
                    family.add_metric([*ids, "true" if is_true(conditions, type_) else "false"], 1)
        return [info, ready, upgrading]

    def _cronjobs(self) -> list[Metric]:
        info = GaugeMetricFamily("kuberay_cronjob_info", "RayCronJobs", labels=["name", "namespace", "uid"])
        for cron in self._store.all(RAYCRONJOB):
            info.add_metric([cron.name, cron.namespace, cron.uid], 1)
        return [info]
