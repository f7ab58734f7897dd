"""What a scrape returned: type, labels and series by metric; and a scrape of metrics that something happened to."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE
from kuberay.api.objects import RayObject, from_dict
from kuberay.kube.client import Client
from kuberay.kube.informer import Informer, Scope
from kuberay.kube.queue import WorkQueue
from kuberay.kube.store import Store
from kuberay.operator.keys import Key
from kuberay.operator.metrics import Metrics
from kuberay.operator.reload import ReloadState
from kuberay.operator.reload_metrics import ReloadMetrics
from kuberay.operator.settings import Settings
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from prometheus_client.parser import text_string_to_metric_families

SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass
class Metric:
    type: str
    labels: set[str] = field(default_factory=set)
    series: int = 0


def parse(text: str) -> dict[str, Metric]:
    """By the name that is queried; of a histogram without ``_bucket`` and the like."""
    found: dict[str, Metric] = {}
    for family in text_string_to_metric_families(text):
        name = f"{family.name}_total" if family.type == "counter" else family.name
        metric = found.setdefault(name, Metric(family.type))
        for sample in family.samples:
            metric.labels |= sample.labels.keys() - ({"le"} if family.type == "histogram" else set())
            metric.series += 1
    return found


def of_everything() -> str:
    """A scrape of an operator's metrics in which every metric has a series."""
    metrics, store = Metrics(), Store()
    metrics.running("1", {"RayCronJob": True}, "https://api")
    metrics.plugin_enabled("volcano", "kuberay-volcano", "1", ["mutate_pod"])
    metrics.watch_queue(WorkQueue[Key](), 1)
    metrics.watch_events(lambda: 0)
    informer = Informer(Client(SimTransport(SimServer())), store, Scope(RAYJOB))
    informer.last_list = 0.0
    metrics.watch_store(store, [informer])
    metrics.registry.register(ReloadMetrics(ReloadState(Settings(), succeeded_at=datetime(2026, 1, 1, tzinfo=UTC))))
    metrics.requests.answered("GET", "/version", 200, 0.1, 0, 10)
    metrics.requests.repeated("GET", 429)
    with metrics.webhooks.under_way("/validate-ray-io-v1-raycluster"):
        metrics.webhooks.answered("/validate-ray-io-v1-raycluster", 200, 0.01)
    metrics.export_objects(store)
    since = {"status": "True", "reason": "Why", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    ended = {"jobDeploymentStatus": "Complete", "startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:01:00Z"}
    statuses: list[tuple[Any, dict[str, Any]]] = [
        (RAYCLUSTER, {"conditions": [{"type": "RayClusterProvisioned", **since}]}),
        (RAYJOB, ended),
        (RAYSERVICE, {}),
        (RAYCRONJOB, {}),
    ]
    for kind, status in statuses:
        metadata = {"name": "x", "namespace": "ns", "uid": kind.kind, "creationTimestamp": "2026-01-01T00:00:00Z"}
        obj = from_dict(kind, {"metadata": metadata | {"resourceVersion": "1"}, "status": status})
        assert isinstance(obj, RayObject)
        store.upsert(kind, obj)
    return metrics.exposition().decode()
