"""What can be scraped: KubeRay's series, computed from the store, and gone with their object (operator.md 12, O47 to O50)."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE
from kuberay.api.names import LABEL_ORIGIN_CRD
from kuberay.api.objects import RayObject, from_dict
from kuberay.kube.client import Client
from kuberay.kube.informer import Informer, Scope
from kuberay.kube.queue import WorkQueue
from kuberay.kube.store import Store
from kuberay.operator.keys import Key
from kuberay.operator.metrics import Metrics
from kuberay.plan.model import ObjectProbe, Probe, ProbeResult
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

CREATED = "2026-01-01T00:00:00Z"
NOW = datetime(2026, 1, 1, 0, 1, 30, tzinfo=UTC)
READY_AT = "2026-01-01T00:01:30Z"
PROVISIONED = {"conditions": [{"type": "RayClusterProvisioned", "status": "True", "lastTransitionTime": READY_AT}]}
DURATION = "kuberay_cluster_provisioned_duration_seconds"
EXECUTION = "kuberay_job_execution_duration_seconds"


def obj(kind: Any, name: str, status: dict[str, Any] | None = None, **labels: str) -> RayObject:
    metadata = {
        "name": name,
        "namespace": "ns",
        "uid": f"uid-{name}",
        "resourceVersion": "1",
        "creationTimestamp": CREATED,
        "labels": labels,
    }
    found = from_dict(kind, {"metadata": metadata, "status": status or {}})
    assert isinstance(found, RayObject)
    return found


def scrape(metrics: Metrics, prefix: str) -> set[str]:
    return {line for line in metrics.exposition().decode().splitlines() if line.startswith(prefix)}


def exporting(*objects: tuple[Any, RayObject]) -> tuple[Metrics, Store]:
    metrics, store = Metrics(), Store()
    for kind, each in objects:
        store.upsert(kind, each)
    metrics.export_objects(store)
    return metrics, store


def test_cluster_info_names_the_kind_it_came_from_and_goes_with_the_cluster() -> None:
    """O47"""
    own = obj(RAYCLUSTER, "own")
    of_job = obj(RAYCLUSTER, "made", **{LABEL_ORIGIN_CRD: "RayJob"})
    metrics, store = exporting((RAYCLUSTER, own), (RAYCLUSTER, of_job))
    mine = 'kuberay_cluster_info{name="own",namespace="ns",owner_kind="None",uid="uid-own"} 1.0'
    made = 'kuberay_cluster_info{name="made",namespace="ns",owner_kind="RayJob",uid="uid-made"} 1.0'
    assert scrape(metrics, "kuberay_cluster_info") == {mine, made}
    store.remove(RAYCLUSTER, "ns", "made", "uid-made")
    assert scrape(metrics, "kuberay_cluster_info") == {mine}


@pytest.mark.parametrize(("status", "condition"), [({}, "false"), (PROVISIONED, "true")])
def test_the_provisioned_condition_is_a_label(status: dict[str, Any], condition: str) -> None:
    """O48"""
    metrics, _ = exporting((RAYCLUSTER, obj(RAYCLUSTER, "rc", status)))
    (series,) = scrape(metrics, "kuberay_cluster_condition_provisioned")
    assert f'condition="{condition}"' in series
    assert series.endswith(" 1.0")


def test_only_the_deleted_clusters_duration_goes() -> None:
    """O49"""
    metrics, store = exporting(*((RAYCLUSTER, obj(RAYCLUSTER, name, PROVISIONED)) for name in ("one", "two")))
    store.remove(RAYCLUSTER, "ns", "one", "uid-one")
    assert scrape(metrics, DURATION) == {f'{DURATION}{{name="two",namespace="ns",uid="uid-two"}} 90.0'}


def test_durations_are_those_of_the_stored_status() -> None:
    """ME-04: so they are the same before and after a restart."""
    ended = {"startTime": CREATED, "endTime": "2026-01-01T00:02:00Z"}
    objects = (
        (RAYCLUSTER, obj(RAYCLUSTER, "rc", PROVISIONED)),
        (RAYJOB, obj(RAYJOB, "good", {"jobDeploymentStatus": "Complete", "failed": 1, **ended})),
        (RAYJOB, obj(RAYJOB, "bad", {"jobDeploymentStatus": "Failed", "failed": 3, **ended})),
        (RAYJOB, obj(RAYJOB, "new", {"jobDeploymentStatus": "Running", "startTime": CREATED})),
        (RAYJOB, obj(RAYJOB, "odd", {"jobDeploymentStatus": "Complete", "startTime": "?", "endTime": ""})),
        (RAYJOB, obj(RAYJOB, "refused", {"jobDeploymentStatus": "ValidationFailed", "failed": 1, **ended})),
    )
    for _ in ("before", "after"):
        metrics, _store = exporting(*objects)
        assert scrape(metrics, DURATION) == {f'{DURATION}{{name="rc",namespace="ns",uid="uid-rc"}} 90.0'}
        assert scrape(metrics, EXECUTION) == {
            f'{EXECUTION}{{job_deployment_status="Complete",name="good",namespace="ns",retry_count="1",uid="uid-good"}} 120.0',
            f'{EXECUTION}{{job_deployment_status="Failed",name="bad",namespace="ns",retry_count="2",uid="uid-bad"}} 120.0',
        }


def test_a_cluster_that_was_never_ready_has_no_duration() -> None:
    metrics, _ = exporting((RAYCLUSTER, obj(RAYCLUSTER, "rc", {"conditions": []})))
    assert scrape(metrics, DURATION) == set()


def test_deployment_statuses_of_jobs() -> None:
    """O50"""
    metrics, _ = exporting(
        (RAYJOB, obj(RAYJOB, "a", {"jobDeploymentStatus": "Running"})),
        (RAYJOB, obj(RAYJOB, "b", {"jobDeploymentStatus": "Failed"})),
    )
    assert scrape(metrics, "kuberay_job_deployment_status") == {
        'kuberay_job_deployment_status{deployment_status="Running",name="a",namespace="ns",uid="uid-a"} 1.0',
        'kuberay_job_deployment_status{deployment_status="Failed",name="b",namespace="ns",uid="uid-b"} 1.0',
    }
    assert len(scrape(metrics, "kuberay_job_info")) == 2


@pytest.mark.parametrize(
    ("before", "after", "told"), [("Running", "Retrying", 1), ("Retrying", "Retrying", 0), ("New", "Running", 0)]
)
def test_an_attempt_that_is_retried_is_measured_when_it_ends(before: str, after: str, told: int) -> None:
    old = obj(RAYJOB, "rj", {"jobDeploymentStatus": before, "failed": 1})
    metrics, store = exporting((RAYJOB, old))
    metrics.status_written("RayJob", old, {"jobDeploymentStatus": after, "startTime": CREATED}, NOW)
    wanted = (
        f'{EXECUTION}{{job_deployment_status="Retrying",name="rj",namespace="ns",retry_count="1",uid="uid-rj"}} 90.0'
    )
    assert scrape(metrics, EXECUTION) == ({wanted} if told else set())
    store.remove(RAYJOB, "ns", "rj", "uid-rj")
    assert scrape(metrics, EXECUTION) == set()


def test_a_reused_name_starts_fresh() -> None:
    """ME-01: whatever was measured belongs to a UID."""
    old = obj(RAYJOB, "rj", {"jobDeploymentStatus": "Running"})
    metrics, store = exporting((RAYJOB, old), (RAYCLUSTER, obj(RAYCLUSTER, "rc", PROVISIONED)))
    metrics.status_written("RayJob", old, {"jobDeploymentStatus": "Retrying", "startTime": CREATED}, NOW)
    for kind, name in ((RAYJOB, "rj"), (RAYCLUSTER, "rc")):
        fresh = obj(kind, name)
        fresh.metadata.uid, fresh.metadata.resource_version = "fresh", "2"
        store.remove(kind, "ns", name, f"uid-{name}")
        store.upsert(kind, fresh)
    lines = scrape(metrics, "kuberay_cluster") | scrape(metrics, "kuberay_job")
    lines -= scrape(metrics, "kuberay_job_attempts_ended_total")
    assert lines
    assert all('uid="fresh"' in line for line in lines)
    assert not any("duration" in line for line in lines)


def test_without_export_there_are_runtime_series_only_and_nothing_is_kept() -> None:
    metrics = Metrics()
    job = obj(RAYJOB, "rj", {"jobDeploymentStatus": "Running"})
    metrics.status_written("RayJob", job, {"jobDeploymentStatus": "Retrying", "startTime": CREATED}, NOW)
    assert scrape(metrics, "kuberay_cluster") == set()
    assert scrape(metrics, "controller_runtime_reconcile_total")
    assert scrape(metrics, "process_resident_memory_bytes")


def test_passes_are_counted_by_result() -> None:
    metrics = Metrics()
    metrics.reconciled("RayCluster", "success", 0.01)
    metrics.reconciled("RayCluster", "error", 0.01)
    counted = scrape(metrics, "controller_runtime_reconcile_")
    assert 'controller_runtime_reconcile_total{controller="raycluster",result="success"} 1.0' in counted
    assert 'controller_runtime_reconcile_total{controller="raycluster",result="error"} 1.0' in counted
    assert 'controller_runtime_reconcile_errors_total{controller="raycluster"} 1.0' in counted
    with metrics.active("RayJob"):
        assert 'controller_runtime_active_workers{controller="rayjob"} 1.0' in scrape(
            metrics, "controller_runtime_active"
        )
    assert 'controller_runtime_active_workers{controller="rayjob"} 0.0' in scrape(metrics, "controller_runtime_active")


@in_virtual_time
async def test_the_queue_is_shown_by_controller() -> None:
    metrics, queue = Metrics(), WorkQueue[Key]()
    metrics.watch_queue(queue, 7)
    names = 'controller="rayjob",name="rayjob"'
    assert f"workqueue_depth{{{names}}} 0.0" in scrape(metrics, "workqueue_depth")
    key = Key(RAYJOB, "ns", "a")
    queue.add(key)
    queue.add(key)
    queue.retry(key)
    assert f"workqueue_depth{{{names}}} 1.0" in scrape(metrics, "workqueue_depth")
    assert f"workqueue_adds_total{{{names}}} 1.0" in scrape(metrics, "workqueue_adds_total")
    assert f"workqueue_retries_total{{{names}}} 1.0" in scrape(metrics, "workqueue_retries_total")
    assert await queue.get() == key
    await asyncio.sleep(20)
    assert f"workqueue_longest_running_processor_seconds{{{names}}} 20.0" in scrape(metrics, "workqueue_longest")
    queue.done(key)
    assert f"workqueue_unfinished_work_seconds{{{names}}} 0.0" in scrape(metrics, "workqueue_unfinished")
    assert 'workqueue_work_duration_seconds_bucket{controller="rayjob",le="10.0",name="rayjob"} 0.0' in scrape(
        metrics, "workqueue_work_duration_seconds_bucket"
    )
    assert f"workqueue_work_duration_seconds_sum{{{names}}} 20.0" in scrape(metrics, "workqueue_work_duration_seconds")
    assert f"workqueue_queue_duration_seconds_count{{{names}}} 1.0" in scrape(metrics, "workqueue_queue_duration")
    workers = scrape(metrics, "controller_runtime_max_concurrent_reconciles")
    assert 'controller_runtime_max_concurrent_reconciles{controller="rayjob"} 7.0' in workers


def test_series_of_a_plugin_are_there_from_the_start() -> None:
    metrics = Metrics()
    slow: list[str] = []
    metrics.plugin_enabled("volcano", "kuberay-volcano", "1", ["mutate_pod", "validate"])
    metrics.watch_slow_plugins(lambda: slow)
    failures = "kuberay_plugin_failures_total"
    assert scrape(metrics, failures) == {
        f'{failures}{{hook="mutate_pod",plugin="volcano"}} 0.0',
        f'{failures}{{hook="validate",plugin="volcano"}} 0.0',
    }
    assert scrape(metrics, "kuberay_plugin_slow") == {'kuberay_plugin_slow{plugin="volcano"} 0.0'}
    slow.append("volcano")
    metrics.hook_called("volcano", "mutate_pod", 0.001, failed=True)
    metrics.hook_called("volcano", "mutate_pod", 2.0, failed=False)
    assert f'{failures}{{hook="mutate_pod",plugin="volcano"}} 1.0' in scrape(metrics, failures)
    assert scrape(metrics, "kuberay_plugin_slow") == {'kuberay_plugin_slow{plugin="volcano"} 1.0'}
    assert len(scrape(metrics, "kuberay_plugin_info")) == 1
    seconds = scrape(metrics, "kuberay_plugin_hook_duration_seconds")
    labels = 'hook="mutate_pod",{}plugin="volcano"'
    for le, count in (("0.001", 1.0), ("1.0", 1.0), ("+Inf", 2.0)):
        shown = labels.format(f'le="{le}",')
        assert f"kuberay_plugin_hook_duration_seconds_bucket{{{shown}}} {count}" in seconds
    assert f"kuberay_plugin_hook_duration_seconds_sum{{{labels.format('')}}} 2.001" in seconds


@pytest.mark.parametrize(
    ("method", "path", "verb", "resource"),
    [
        ("GET", "/api/v1/pods", "list", "pods"),
        ("POST", "/api/v1/namespaces/ns/pods", "create", "pods"),
        ("GET", "/api/v1/namespaces/ns/services/s", "get", "services"),
        ("DELETE", "/api/v1/namespaces/ns/pods/p", "delete", "pods"),
        ("PATCH", "/apis/ray.io/v1/namespaces/ns/rayclusters/rc/status", "patch", "rayclusters/status"),
        ("PUT", "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l", "update", "leases"),
        ("GET", "/apis/ray.io/v1/rayjobs", "list", "rayjobs"),
        ("GET", "/api/v1/namespaces/ns", "get", "namespaces"),
        ("GET", "/version", "list", "discovery"),
    ],
)
def test_requests_are_counted_by_verb_and_resource(method: str, path: str, verb: str, resource: str) -> None:
    metrics = Metrics()
    metrics.running("1.2.3", {"RayCronJob": True}, "https://10.0.0.1:443")
    metrics.requests.answered(method, path, 200, 0.2, 100, 3000)
    assert scrape(metrics, "kuberay_api_requests_total") == {
        f'kuberay_api_requests_total{{resource="{resource}",verb="{verb}"}} 1.0'
    }
    assert scrape(metrics, "rest_client_requests_total") == {
        f'rest_client_requests_total{{code="200",host="10.0.0.1:443",method="{method}"}} 1.0'
    }


def test_requests_are_measured_under_the_names_of_the_go_client() -> None:
    """operator.md 12: names, labels and buckets."""
    metrics = Metrics()
    metrics.running("1.2.3", {"RayCronJob": True, "Other": False}, "https://api:6443/")
    metrics.requests.answered("GET", "/api/v1/pods", 200, 0.2, 0, 3000)
    metrics.requests.unanswered("GET")
    metrics.requests.repeated("GET", 429)
    metrics.requests.waited("GET", 0.3)
    metrics.requests.resolved(0.01)
    lines = scrape(metrics, "rest_client_") | scrape(metrics, "kuberay_feature") | scrape(metrics, "kuberay_build_info")
    for line in (
        'rest_client_requests_total{code="<error>",host="api:6443",method="GET"} 1.0',
        'rest_client_request_retries_total{code="429",host="api:6443",verb="GET"} 1.0',
        'rest_client_request_duration_seconds_bucket{host="api:6443",le="0.1",verb="GET"} 0.0',
        'rest_client_request_duration_seconds_bucket{host="api:6443",le="0.25",verb="GET"} 1.0',
        'rest_client_request_duration_seconds_sum{host="api:6443",verb="GET"} 0.2',
        'rest_client_request_duration_seconds_count{host="api:6443",verb="PUT"} 0.0',
        'rest_client_request_size_bytes_bucket{host="api:6443",le="64.0",verb="GET"} 1.0',
        'rest_client_response_size_bytes_bucket{host="api:6443",le="1024.0",verb="GET"} 0.0',
        'rest_client_response_size_bytes_bucket{host="api:6443",le="4096.0",verb="GET"} 1.0',
        'rest_client_response_size_bytes_bucket{host="api:6443",le="1.6777216e+07",verb="GET"} 1.0',
        'rest_client_rate_limiter_duration_seconds_sum{host="api:6443",verb="GET"} 0.3',
        'rest_client_dns_resolution_duration_seconds_bucket{host="api:6443",le="30.0"} 1.0',
        'kuberay_feature_enabled{name="RayCronJob"} 1.0',
        'kuberay_feature_enabled{name="Other"} 0.0',
    ):
        assert line in lines
    buckets = {line.split('le="')[1].split('"')[0] for line in lines if "duration_seconds_bucket" in line}
    assert buckets == {
        "0.005",
        "0.025",
        "0.1",
        "0.25",
        "0.5",
        "1.0",
        "2.0",
        "4.0",
        "8.0",
        "15.0",
        "30.0",
        "60.0",
        "+Inf",
    }
    assert not any("dns" in line and 'le="60.0"' in line for line in lines)
    assert any(line.startswith("kuberay_build_info{") and 'version="1.2.3"' in line for line in lines)


def test_what_else_the_runtime_tells() -> None:
    metrics = Metrics()
    leader = 'leader_election_master_status{name="ray-operator-leader"}'
    assert scrape(metrics, "leader_election") == {f"{leader} 0.0"}
    metrics.leads(True)
    assert scrape(metrics, "leader_election") == {f"{leader} 1.0"}
    metrics.loop_was_late(0.2)
    assert 'kuberay_event_loop_lag_seconds_bucket{le="0.25"} 1.0' in scrape(metrics, "kuberay_event_loop_lag")
    assert 'kuberay_event_loop_lag_seconds_bucket{le="0.1"} 0.0' in scrape(metrics, "kuberay_event_loop_lag")
    lost = [3]
    metrics.watch_events(lambda: lost[0])
    assert scrape(metrics, "kuberay_events_dropped") == {"kuberay_events_dropped_total 3.0"}
    metrics.reconciled("RayCronJob", "error", 0.1, unexpected=True)
    panics = scrape(metrics, "controller_runtime_reconcile_panics_total")
    assert 'controller_runtime_reconcile_panics_total{controller="raycronjob"} 1.0' in panics
    assert 'controller_runtime_reconcile_panics_total{controller="rayservice"} 0.0' in panics


def test_probes_are_counted_by_what_they_ask() -> None:
    metrics = Metrics()
    probe = ObjectProbe(RAYJOB, "ns", "rj", timedelta(seconds=1))
    bad = ProbeResult("error", NOW, error="no answer")
    running: list[tuple[Probe, ProbeResult | None]] = [(probe, None), (probe, bad)]
    metrics.probes.running = lambda: running
    metrics.probes.asked(probe, bad, 2.0)
    metrics.probes.asked(probe, ProbeResult("found", NOW), 0.1)
    lines = scrape(metrics, "kuberay_probe")
    for line in (
        'kuberay_probe_requests_total{outcome="error",probe="object"} 1.0',
        'kuberay_probe_requests_total{outcome="found",probe="object"} 1.0',
        'kuberay_probe_requests_total{outcome="found",probe="job_info"} 0.0',
        'kuberay_probe_duration_seconds_bucket{le="1.0",probe="object"} 1.0',
        'kuberay_probe_duration_seconds_sum{probe="object"} 2.1',
        'kuberay_probes{probe="object"} 2.0',
        'kuberay_probes_failing{probe="object"} 1.0',
        'kuberay_probes_failing{probe="job_info"} 0.0',
    ):
        assert line in lines


@in_virtual_time
async def test_the_store_is_told_by_kind() -> None:
    metrics, store = Metrics(), Store()
    client = Client(SimTransport(SimServer()))
    informers = [Informer(client, store, Scope(RAYJOB, namespace)) for namespace in ("a", "b")]
    metrics.watch_store(store, informers)
    store.upsert(RAYJOB, obj(RAYJOB, "rj"))
    assert 'kuberay_store_objects{kind="RayJob"} 1.0' in scrape(metrics, "kuberay_store")
    assert 'kuberay_store_synced{kind="RayJob"} 0.0' in scrape(metrics, "kuberay_store")
    assert scrape(metrics, "kuberay_store_list_age") == set()
    now = asyncio.get_running_loop().time()
    for informer, age in zip(informers, (5.0, 7.0), strict=True):
        informer.synced.set()
        informer.last_list, informer.repairs, informer.failures = now - age, 1, 2
    lines = scrape(metrics, "kuberay_store") | scrape(metrics, "kuberay_watch")
    assert 'kuberay_store_synced{kind="RayJob"} 1.0' in lines
    assert 'kuberay_store_list_age_seconds{kind="RayJob"} 7.0' in lines
    assert 'kuberay_store_repairs_total{kind="RayJob"} 2.0' in lines
    assert 'kuberay_watch_failures_total{kind="RayJob"} 4.0' in lines


def test_a_raycronjob_is_counted_while_it_is_there() -> None:
    metrics, store = exporting((RAYCRONJOB, obj(RAYCRONJOB, "cron")))
    series = 'kuberay_cronjob_info{name="cron",namespace="ns",uid="uid-cron"} 1.0'
    assert scrape(metrics, "kuberay_cronjob_info{") == {series}
    store.remove(RAYCRONJOB, "ns", "cron", "uid-cron")
    assert scrape(metrics, "kuberay_cronjob_info{") == set()


SERVICE_CONDITIONS: dict[str, tuple[list[dict[str, str]], str, str]] = {
    "none": ([], "false", "false"),
    "ready": ([{"type": "Ready", "status": "True"}], "true", "false"),
    "upgrading": (
        [{"type": "Ready", "status": "False"}, {"type": "UpgradeInProgress", "status": "True"}],
        "false",
        "true",
    ),
    "unknown": ([{"type": "UpgradeInProgress", "status": "Unknown"}], "false", "false"),
}


@pytest.mark.parametrize(("conditions", "ready", "upgrading"), SERVICE_CONDITIONS.values(), ids=SERVICE_CONDITIONS)
def test_a_rayservice_has_its_conditions_as_labels(conditions: Any, ready: str, upgrading: str) -> None:
    """rayservice.md 6.4"""
    metrics, _ = exporting((RAYSERVICE, obj(RAYSERVICE, "rs", {"conditions": conditions})))
    assert scrape(metrics, "kuberay_service") == {
        'kuberay_service_info{name="rs",namespace="ns",uid="uid-rs"} 1.0',
        'kuberay_service_serve_endpoints{name="rs",namespace="ns",uid="uid-rs"} 0.0',
        'kuberay_service_condition_suspended{condition="false",name="rs",namespace="ns",uid="uid-rs"} 1.0',
        f'kuberay_service_condition_ready{{condition="{ready}",name="rs",namespace="ns",uid="uid-rs"}} 1.0',
        f'kuberay_service_condition_upgrade_in_progress{{condition="{upgrading}",name="rs",namespace="ns",uid="uid-rs"}} 1.0',
    }


def test_the_series_of_a_deleted_rayservice_go_and_others_stay() -> None:
    """rayservice.md row 144"""
    metrics, store = exporting((RAYSERVICE, obj(RAYSERVICE, "one")), (RAYSERVICE, obj(RAYSERVICE, "two")))
    assert len(scrape(metrics, "kuberay_service")) == 10
    store.remove(RAYSERVICE, "ns", "one", "uid-one")
    left = scrape(metrics, "kuberay_service")
    assert len(left) == 5
    assert all('name="two"' in line for line in left)
