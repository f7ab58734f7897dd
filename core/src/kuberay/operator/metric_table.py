"""Every metric of the operator: its name, type, labels, unit, what it means and what it is good for.

The registry is filled from this table and ``docs/metrics.md`` is made from it. Names and labels that KubeRay, controller-runtime
or client-go have are theirs (spec operator.md 12), so that dashboards and alerts written for them go on working.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Type = Literal["counter", "gauge", "histogram"]

RUNTIME, QUEUE, API, STORE, PROBES, PLUGINS, WEBHOOKS, OBJECTS, PROCESS = (
    "Passes, process and leadership",
    "The queue",
    "Requests to the API server",
    "What the operator knows of the cluster",
    "Questions to Ray",
    "Plugins",
    "Webhooks",
    "Ray objects",
    "Of the client library",
)
"""Headings of the page, in its order."""

_LATENCY = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZES = tuple(float(size) for size in (64, 256, 512, 1024, *(4**power for power in range(6, 13))))
_READY = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0)
_SHORT = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. ``name`` is what is queried; a histogram's has ``_bucket``, ``_sum`` and ``_count`` after it."""

    group: str
    type: Type
    name: str
    labels: tuple[str, ...]
    meaning: str
    use: str = ""
    buckets: tuple[float, ...] = ()

    @property
    def unit(self) -> str:
        """As the name has it; empty for what is counted."""
        stem = self.name.removesuffix("_total")
        return next((unit for unit in ("seconds", "bytes") if stem.endswith(f"_{unit}")), "")


DEFINITIONS: list[Definition] = []
"""All of them, in the order of the page."""


def _define(
    group: str, type_: Type, name: str, labels: str, meaning: str, use: str = "", buckets: tuple[float, ...] = ()
) -> Definition:
    definition = Definition(group, type_, name, tuple(labels.split()), meaning, use, buckets)
    DEFINITIONS.append(definition)
    return definition


# Names of controller-runtime and client-go.

RECONCILES = _define(
    RUNTIME, "counter", "controller_runtime_reconcile_total", "controller result", "Passes over an object by how they ended: success, requeue_after (will look again at a set time) or error",
    "the rate says how busy the operator is; a share of error above a few percent means that writes keep failing",
)  # fmt: skip
RECONCILE_ERRORS = _define(
    RUNTIME, "counter", "controller_runtime_reconcile_errors_total", "controller", "Passes that failed and are repeated after a back-off",
    "alert KubeRayReconcileErrors; the operator's log has the error of each",
)  # fmt: skip
RECONCILE_PANICS = _define(
    RUNTIME, "counter", "controller_runtime_reconcile_panics_total", "controller", "Passes that ended with an error nobody thought of; counted among the errors too",
    "anything but zero is a fault of the operator: report the stack trace in its log",
)  # fmt: skip
RECONCILE_SECONDS = _define(
    RUNTIME, "histogram", "controller_runtime_reconcile_time_seconds", "controller", "Duration of a pass, its requests to the API server included",
    "quantiles by controller; slow passes are mostly a slow API server or a slow plugin", (0.001, *_LATENCY),
)  # fmt: skip
ACTIVE_WORKERS = _define(
    RUNTIME, "gauge", "controller_runtime_active_workers", "controller", "Passes under way",
    "all of controller_runtime_max_concurrent_reconciles for minutes: raise reconcileConcurrency or qps",
)  # fmt: skip
MAX_WORKERS = _define(
    RUNTIME, "gauge", "controller_runtime_max_concurrent_reconciles", "controller", "Passes that may be under way at once, over all controllers together",
)  # fmt: skip
LEADER = _define(
    RUNTIME, "gauge", "leader_election_master_status", "name", "1 while this replica acts, 0 while it waits for the Lease",
    "the sum over all replicas is 1; alert KubeRayNoLeader",
)  # fmt: skip
LOOP_LAG = _define(
    RUNTIME, "histogram", "kuberay_event_loop_lag_seconds", "", "How late the event loop was, measured once a second",
    "above a tenth of a second something keeps the process from working: too little CPU, or a plugin's hook", _SHORT,
)  # fmt: skip
BUILD_INFO = _define(
    RUNTIME, "gauge", "kuberay_build_info", "version python", "Always 1; the operator's version and Python's", "shows a rollout; join it to other series by instance",
)  # fmt: skip
FEATURES = _define(
    RUNTIME, "gauge", "kuberay_feature_enabled", "name", "1 for a feature gate that is on, 0 for one that is off",
)  # fmt: skip
EVENTS_DROPPED = _define(
    RUNTIME, "counter", "kuberay_events_dropped_total", "", "Kubernetes events that could not be sent", "users miss explanations; the API server refuses events or is too slow for them",
)  # fmt: skip

CONFIG_SUCCESSFUL = _define(
    RUNTIME, "gauge", "kuberay_config_last_reload_successful", "", "1 when what the configuration file says now could be used, else 0; only with --config",
    "zero: the operator goes on with the former settings; its log and /configz say what is wrong",
)  # fmt: skip
CONFIG_TAKEN = _define(
    RUNTIME, "gauge", "kuberay_config_last_reload_success_timestamp_seconds", "", "When the configuration file was last taken, in seconds since 1970; only with --config",
)  # fmt: skip
CONFIG_RESTART = _define(
    RUNTIME, "gauge", "kuberay_config_restart_needed", "", "Keys of the configuration file that count after a restart only; only with --config",
    "above zero: restart the operator when it suits; /configz names the keys",
)  # fmt: skip

QUEUE_DEPTH = _define(
    QUEUE, "gauge", "workqueue_depth", "name controller", "Objects that are due and wait for a worker",
    "above zero for minutes: see which of workqueue_work_duration_seconds and rest_client_request_duration_seconds grew",
)  # fmt: skip
QUEUE_ADDS = _define(
    QUEUE, "counter", "workqueue_adds_total", "name controller", "Objects that became due; what is due already is not counted again",
)  # fmt: skip
QUEUE_WAIT = _define(
    QUEUE, "histogram", "workqueue_queue_duration_seconds", "name controller", "How long an object that was due waited for a worker",
    "alert KubeRayQueueLatency", _SHORT,
)  # fmt: skip
QUEUE_WORK = _define(
    QUEUE, "histogram", "workqueue_work_duration_seconds", "name controller", "How long a worker had an object", "", _SHORT,
)  # fmt: skip
QUEUE_UNFINISHED = _define(
    QUEUE, "gauge", "workqueue_unfinished_work_seconds", "name controller", "Seconds that the passes under way have taken so far, together",
)  # fmt: skip
QUEUE_LONGEST = _define(
    QUEUE, "gauge", "workqueue_longest_running_processor_seconds", "name controller", "Seconds that the longest pass under way has taken so far",
    "minutes: a request to the API server hangs, or a hook of a plugin does",
)  # fmt: skip
QUEUE_RETRIES = _define(
    QUEUE, "counter", "workqueue_retries_total", "name controller", "Objects that were put back because their pass failed",
)  # fmt: skip

REQUESTS = _define(
    API, "counter", "rest_client_requests_total", "code method host", "Requests to the API server by answer; code <error> when there was none. Watches are not among them",
    "codes 409 and 429 in numbers: another actor writes the same objects, or the API server throttles",
)  # fmt: skip
REQUEST_SECONDS = _define(
    API, "histogram", "rest_client_request_duration_seconds", "verb host", "From sending a request to having read its answer", "the API server's speed as the operator sees it", _LATENCY,
)  # fmt: skip
REQUEST_BYTES = _define(
    API, "histogram", "rest_client_request_size_bytes", "verb host", "Size of a request's body", "", _SIZES,
)  # fmt: skip
RESPONSE_BYTES = _define(
    API, "histogram", "rest_client_response_size_bytes", "verb host", "Size of an answer's body", "", _SIZES,
)  # fmt: skip
LIMIT_SECONDS = _define(
    API, "histogram", "rest_client_rate_limiter_duration_seconds", "verb host", "How long a request waited for the operator's own limit, qps and burst",
    "above milliseconds: qps holds the operator back", _LATENCY,
)  # fmt: skip
DNS_SECONDS = _define(
    API, "histogram", "rest_client_dns_resolution_duration_seconds", "host", "How long it took to look the API server's name up; an address is not looked up", "", _LATENCY[:-1],
)  # fmt: skip
REQUEST_RETRIES = _define(
    API, "counter", "rest_client_request_retries_total", "code verb host", "Requests that were repeated because the API server said so",
)  # fmt: skip
API_REQUESTS = _define(
    API, "counter", "kuberay_api_requests_total", "verb resource", "The same requests by what they were about", "what the operator does to the API server; an idle operator asks for next to nothing",
)  # fmt: skip

STORE_OBJECTS = _define(STORE, "gauge", "kuberay_store_objects", "kind", "Objects that the operator holds in memory")
STORE_AGE = _define(
    STORE, "gauge", "kuberay_store_list_age_seconds", "kind", "Since the last full list that was compared with what is held",
    "grows to ten minutes and falls to zero; at half an hour /livez fails and the process is started again",
)  # fmt: skip
STORE_SYNCED = _define(
    STORE, "gauge", "kuberay_store_synced", "kind", "1 once the first full list is there, or the kind is known not to be served; nothing is decided before",
)  # fmt: skip
STORE_REPAIRS = _define(
    STORE, "counter", "kuberay_store_repairs_total", "kind", "Differences that full lists found, each an event that the watch did not bring", "a few after trouble of the API server; many point to a proxy that drops watch events",
)  # fmt: skip
WATCH_FAILURES = _define(
    STORE, "counter", "kuberay_watch_failures_total", "kind", "Lists and watches that failed and were begun again",
)  # fmt: skip

PROBE_REQUESTS = _define(
    PROBES, "counter", "kuberay_probe_requests_total", "probe outcome", "Questions to dashboards, Serve proxies and the GCS, and look-ups of objects that are not watched: found, absent or error",
    "a share of error by probe; many heads that fail at once point to a network policy",
)  # fmt: skip
PROBE_SECONDS = _define(
    PROBES, "histogram", "kuberay_probe_duration_seconds", "probe", "How long an answer took, failures included", "dashboards that hang show near 2 s", _SHORT,
)  # fmt: skip
PROBES_RUNNING = _define(PROBES, "gauge", "kuberay_probes", "probe", "Questions that are asked again and again now")
PROBES_FAILING = _define(
    PROBES, "gauge", "kuberay_probes_failing", "probe", "Those of them whose last answer was an error", "kuberay why names the object and the error",
)  # fmt: skip

PLUGIN_INFO = _define(
    PLUGINS, "gauge", "kuberay_plugin_info", "plugin distribution version", "Always 1; an enabled plugin", "which versions run where",
)  # fmt: skip
HOOK_SECONDS = _define(
    PLUGINS, "histogram", "kuberay_plugin_hook_duration_seconds", "plugin hook", "Duration of a call of a plugin's hook", "0.2 s twice in ten minutes makes a plugin slow", (0.0001, 0.001, 0.01, 0.1, 1.0),
)  # fmt: skip
HOOK_FAILURES = _define(
    PLUGINS, "counter", "kuberay_plugin_failures_total", "plugin hook", "Calls that raised, or gave back what cannot be used", "alert KubeRayPluginFailing; condition PluginFailed names the objects",
)  # fmt: skip
PLUGIN_SLOW = _define(
    PLUGINS, "gauge", "kuberay_plugin_slow", "plugin", "1 while a plugin counts as slow and is called beside the event loop", "alert KubeRayPluginSlow",
)  # fmt: skip

WEBHOOK_REQUESTS = _define(
    WEBHOOKS, "counter", "controller_runtime_webhook_requests_total", "webhook code", "Reviews that API servers asked for, by path and HTTP status; a refusal is a 200, too", "anything but 200 is a fault of the caller or of the operator",
)  # fmt: skip
WEBHOOK_SECONDS = _define(
    WEBHOOKS, "histogram", "controller_runtime_webhook_latency_seconds", "webhook", "How long the answers took", "every create and update of a Ray object waits for it", (0.001, *_LATENCY),
)  # fmt: skip
WEBHOOK_UNDER_WAY = _define(
    WEBHOOKS, "gauge", "controller_runtime_webhook_requests_in_flight", "webhook", "Reviews under way",
)  # fmt: skip

CLUSTER_INFO = _define(
    OBJECTS, "gauge", "kuberay_cluster_info", "name namespace uid owner_kind", "Always 1; a RayCluster. owner_kind is RayJob, RayService or None", "count by namespace",
)  # fmt: skip
CLUSTER_PROVISIONED = _define(
    OBJECTS, "gauge", "kuberay_cluster_condition_provisioned", "name namespace uid condition", "Always 1; condition is true once all pods were ready, else false", 'alert on condition="false", not on the value',
)  # fmt: skip
CLUSTER_SECONDS = _define(
    OBJECTS, "gauge", "kuberay_cluster_provisioned_duration_seconds", "name namespace uid", "From the creation until all pods were ready for the first time", "the same after a restart of the operator",
)  # fmt: skip
CLUSTER_STATE = _define(
    OBJECTS, "gauge", "kuberay_cluster_state", "name namespace uid state", "Always 1; status.state of a RayCluster: ready, suspended, failed, or empty while it starts",
)  # fmt: skip
CLUSTER_WORKERS = _define(
    OBJECTS, "gauge", "kuberay_cluster_workers", "name namespace uid state", "Worker pods of a RayCluster: desired, or ready", "desired less ready is what is missing",
)  # fmt: skip
JOB_INFO = _define(OBJECTS, "gauge", "kuberay_job_info", "name namespace uid", "Always 1; a RayJob")
JOB_STATUS = _define(
    OBJECTS, "gauge", "kuberay_job_deployment_status", "name namespace uid deployment_status", "Always 1; status.jobDeploymentStatus of a RayJob, empty at first", "count by deployment_status",
)  # fmt: skip
JOB_SECONDS = _define(
    OBJECTS, "gauge", "kuberay_job_execution_duration_seconds", "name namespace uid job_deployment_status retry_count", "From status.startTime until the attempt was Complete, Failed or Retrying; retry_count is how many failed before it", "of retried attempts only those since the operator started",
)  # fmt: skip
JOB_ENDS = _define(
    OBJECTS, "counter", "kuberay_job_attempts_ended_total", "job_deployment_status reason", "Attempts of RayJobs that ended, and why: status.reason", "alert KubeRayJobsFailing; counted while this replica leads, so add replicas up",
)  # fmt: skip
SERVICE_INFO = _define(OBJECTS, "gauge", "kuberay_service_info", "name namespace uid", "Always 1; a RayService")
SERVICE_READY = _define(
    OBJECTS, "gauge", "kuberay_service_condition_ready", "name namespace uid condition", "Always 1; condition is true while pods serve", "alert KubeRayServiceNotReady",
)  # fmt: skip
SERVICE_UPGRADING = _define(
    OBJECTS, "gauge", "kuberay_service_condition_upgrade_in_progress", "name namespace uid condition", "Always 1; condition is true while there are an active and a pending RayCluster", "alert KubeRayServiceUpgradeStuck",
)  # fmt: skip
SERVICE_SUSPENDED = _define(
    OBJECTS, "gauge", "kuberay_service_condition_suspended", "name namespace uid condition", "Always 1; condition is true while the RayService is suspended", "one that is suspended is not expected to be ready",
)  # fmt: skip
SERVICE_ENDPOINTS = _define(
    OBJECTS, "gauge", "kuberay_service_serve_endpoints", "name namespace uid", "status.numServeEndpoints of a RayService: pods that take requests",
)  # fmt: skip
CRONJOB_INFO = _define(OBJECTS, "gauge", "kuberay_cronjob_info", "name namespace uid", "Always 1; a RayCronJob")
CONDITIONS = _define(
    OBJECTS, "gauge", "kuberay_object_conditions", "kind namespace condition status reason", "How many objects have that condition with that status and reason", "why objects are not ready, without a series for each; docs/conditions.md explains the reasons",
)  # fmt: skip
TIME_TO_READY = _define(
    OBJECTS, "histogram", "kuberay_time_to_ready_seconds", "kind phase", "How long starts took. RayCluster: admission (until the operator began, or a suspension ended), head, workers, all. RayJob: admission, cluster, submission, all (until Ray knew the job). RayService: all, and upgrade", "which phase became slow: admission is a queue, head and workers are scheduling and images", _READY,
)  # fmt: skip

for _type, _name, _labels, _meaning in (
    ("counter", "process_cpu_seconds_total", "", "CPU time of the process"),
    ("gauge", "process_resident_memory_bytes", "", "Memory of the process"),
    ("gauge", "process_virtual_memory_bytes", "", "Address space of the process"),
    ("gauge", "process_start_time_seconds", "", "When the process started, in seconds since 1970"),
    ("gauge", "process_open_fds", "", "Open files and connections"),
    ("gauge", "process_max_fds", "", "How many may be open"),
    ("gauge", "python_info", "implementation major minor patchlevel version", "Always 1; the Python that runs it"),
    ("counter", "python_gc_objects_collected_total", "generation", "Objects that the garbage collector freed"),
    ("counter", "python_gc_objects_uncollectable_total", "generation", "Objects that it could not free"),
    ("counter", "python_gc_collections_total", "generation", "How often it ran"),
):
    _define(PROCESS, _type, _name, _labels, _meaning)  # type: ignore[arg-type]
