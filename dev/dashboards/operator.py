"""The dashboard of the operator: does it keep up, does it reach what it needs, and which objects need somebody.

Title, uid and variables are those of KubeRay's (spec operator.md 18), and each of its questions has a panel here.
"""

from __future__ import annotations

from collections.abc import Sequence

from dev.dashboards.model import Dashboard, Panel, Query, Row, Variable

OPERATOR = 'namespace=~"$ControllerNamespace", pod=~"$ControllerPod"'
PASSES = f'{OPERATOR}, controller=~"$Controller"'
OBJECTS = 'namespace=~"$namespace"'
UNHAPPY = "Failed|Suspending|Suspended|Retrying|Waiting"


_ALL = (("0.5", "50"), ("0.95", "95"), ("0.99", "99"))


def _quantiles(name: str, by: str, selector: str, quantiles: Sequence[tuple[str, str]] = _ALL) -> list[Query]:
    return [
        Query(
            # What nobody did has no quantiles; without the comparison it would be drawn as NaN.
            f"histogram_quantile({q}, sum by ({by}, le) (rate({name}_bucket{{{selector}}}[$__rate_interval]))) >= 0",
            f"{{{{{by}}}}} p{title}",
        )
        for q, title in quantiles
    ]


_STATE = Row(
    "State",
    [
        Panel(
            "Replicas", "Operators that are scraped.", "none",
            [Query(f"count(kuberay_build_info{{{OPERATOR}}})", "replicas")], "stat", 3, 4,
        ),
        Panel(
            "Leaders", "Replicas that act. Anything but 1 is wrong.", "none",
            [Query(f'sum(leader_election_master_status{{{OPERATOR}, name="ray-operator-leader"}})', "leaders")], "stat", 3, 4,
        ),
        Panel(
            "Failed passes", "Share of passes over all kinds that failed.", "percentunit",
            [Query(f'sum(rate(controller_runtime_reconcile_total{{{PASSES}, result="error"}}[$__rate_interval])) / sum(rate(controller_runtime_reconcile_total{{{PASSES}}}[$__rate_interval]))', "failed")], "stat", 3, 4,
        ),
        Panel(
            "Waiting objects", "Objects that are due and wait for a worker.", "none",
            [Query(f"sum(workqueue_depth{{{PASSES}}})", "waiting")], "stat", 3, 4,
        ),
        Panel(
            "Failing plugins", "Failed calls of plugins' hooks in the last hour.", "none",
            [Query(f"sum(increase(kuberay_plugin_failures_total{{{OPERATOR}}}[1h])) or vector(0)", "failed calls")], "stat", 3, 4,
        ),
        Panel(
            "Version", "Of each replica, and of its Python.", "none",
            [Query(f"kuberay_build_info{{{OPERATOR}}}")], "table", 9, 4,
            columns={"pod": "Pod", "version": "Operator", "python": "Python"},
        ),
    ],
)  # fmt: skip

_PASSES = Row(
    "Passes and queue",
    [
        Panel(
            "Reconcile rate", "Passes per second by how they ended.", "ops",
            [Query(f"sum by (controller, result) (rate(controller_runtime_reconcile_total{{{PASSES}}}[$__rate_interval])) > 0", "{{controller}} {{result}}")],
            empty="while nothing changes",
        ),
        Panel(
            "Reconcile latency", "How long a pass takes, its requests to the API server included.", "s",
            _quantiles("controller_runtime_reconcile_time_seconds", "controller", PASSES),
        ),
        Panel(
            "Workqueue depth", "Objects that are due and wait for a worker. Above zero for minutes: the operator does not keep up.", "none",
            [Query(f"sum by (controller) (workqueue_depth{{{PASSES}}})", "{{controller}}")],
        ),
        Panel(
            "Wait for a worker", "How long 99 of 100 objects that were due waited at most.", "s",
            _quantiles("workqueue_queue_duration_seconds", "controller", PASSES, _ALL[-1:]),
        ),
        Panel(
            "Workers", "Passes under way, and the longest of them.", "none",
            [
                Query(f"sum by (controller) (controller_runtime_active_workers{{{PASSES}}})", "{{controller}} under way"),
                Query(f"max(controller_runtime_max_concurrent_reconciles{{{PASSES}}})", "at most, together"),
            ],
        ),
        Panel(
            "Retries", "Objects that were put back because their pass failed, per second.", "ops",
            [Query(f"sum by (controller) (rate(workqueue_retries_total{{{PASSES}}}[$__rate_interval]))", "{{controller}}")],
        ),
    ],
)  # fmt: skip

_API = Row(
    "API server",
    [
        Panel(
            "Requests", "What the operator asks for, per second. An idle operator asks for next to nothing but its Lease.", "reqps",
            [Query(f"sum by (resource) (rate(kuberay_api_requests_total{{{OPERATOR}}}[$__rate_interval])) > 0", "{{resource}}")], stacked=True,
        ),
        Panel(
            "Answers", "Requests per second by code. 409: another actor writes the same objects. 429: the API server throttles.", "reqps",
            [Query(f"sum by (code) (rate(rest_client_requests_total{{{OPERATOR}}}[$__rate_interval]) and on (instance) kuberay_build_info)", "{{code}}")],
        ),
        Panel(
            "Latency", "From sending a request to having read its answer.", "s",
            _quantiles("rest_client_request_duration_seconds", "verb", OPERATOR, _ALL[::2]),
        ),
        Panel(
            "Age of full lists", "Since the operator last compared what it knows with the API server; the five oldest. It grows to ten minutes and falls to zero.", "s",
            [Query(f"topk(5, max by (kind) (kuberay_store_list_age_seconds{{{OPERATOR}}}))", "{{kind}}")],
        ),
        Panel(
            "Objects in memory", "What the operator knows of the cluster.", "none",
            [Query(f"max by (kind) (kuberay_store_objects{{{OPERATOR}}}) > 0", "{{kind}}")],
        ),
        Panel(
            "Trouble with watches", "Lists and watches that failed, and differences that full lists found, within an hour.", "none",
            [
                Query(f"sum by (kind) (increase(kuberay_watch_failures_total{{{OPERATOR}}}[1h])) > 0", "{{kind}} failed"),
                Query(f"sum by (kind) (increase(kuberay_store_repairs_total{{{OPERATOR}}}[1h])) > 0", "{{kind}} repaired"),
            ],
            empty="while all is well",
        ),
    ],
)  # fmt: skip

_INSIDE = Row(
    "Process, probes and plugins",
    [
        Panel(
            "CPU", "Cores in use.", "none",
            [Query(f"rate(process_cpu_seconds_total{{{OPERATOR}}}[$__rate_interval]) and on (instance) kuberay_build_info", "{{pod}}")],
        ),
        Panel(
            "Memory", "Resident memory.", "bytes",
            [Query(f"process_resident_memory_bytes{{{OPERATOR}}} and on (instance) kuberay_build_info", "{{pod}}")],
        ),
        Panel(
            "Event loop lag", "How late the event loop is. Above a tenth of a second something keeps the process from working.", "s",
            [Query(f"histogram_quantile(0.99, sum by (pod, le) (rate(kuberay_event_loop_lag_seconds_bucket{{{OPERATOR}}}[$__rate_interval]))) >= 0", "{{pod}} p99")],
        ),
        Panel(
            "Questions to Ray", "Answers per second by what was asked and how it ended.", "reqps",
            [Query(f"sum by (probe, outcome) (rate(kuberay_probe_requests_total{{{OPERATOR}}}[$__rate_interval])) > 0", "{{probe}} {{outcome}}")],
            empty="while there are only RayClusters without lifecycle rules",
        ),
        Panel(
            "Questions without an answer", "Probes whose last answer was an error. Many at once: a network policy.", "none",
            [Query(f"sum by (probe) (kuberay_probes_failing{{{OPERATOR}}}) and sum by (probe) (kuberay_probes{{{OPERATOR}}}) > 0", "{{probe}}")],
            empty="while nothing is asked",
        ),
        Panel(
            "Plugin hooks", "How long calls of hooks take. 0.2 s twice in ten minutes makes a plugin slow.", "s",
            [Query(f"histogram_quantile(0.99, sum by (plugin, le) (rate(kuberay_plugin_hook_duration_seconds_bucket{{{OPERATOR}}}[$__rate_interval]))) >= 0", "{{plugin}} p99")],
            empty="without plugins, and while nothing changes",
        ),
    ],
)  # fmt: skip

_RAYCLUSTERS = Row(
    "RayClusters",
    [
        Panel(
            "RayClusters per namespace", "By the kind of object that made them.", "none",
            [Query(f"count by (namespace, owner_kind) (max by (namespace, name, uid, owner_kind) (kuberay_cluster_info{{{OBJECTS}}}))")], "table", 6,
            columns={"namespace": "Namespace", "owner_kind": "Made by", "Value": "RayClusters"},
        ),
        Panel(
            "Provisioned duration", "From the creation until all pods were ready for the first time.", "s",
            [Query(f"sort_desc(max by (namespace, name) (kuberay_cluster_provisioned_duration_seconds{{{OBJECTS}}}))")], "table", 6,
            columns={"namespace": "Namespace", "name": "RayCluster", "Value": "Duration"},
        ),
        Panel(
            "Not provisioned", "RayClusters whose pods have never been ready all at once.", "none",
            [Query(f'max by (namespace, name) (kuberay_cluster_condition_provisioned{{{OBJECTS}, condition="false"}})')], "table", 6,
            columns={"namespace": "Namespace", "name": "RayCluster"}, empty="while all have been ready",
        ),
        Panel(
            "Head pod not ready", "How many RayClusters have no ready head, and why.", "none",
            [Query(f'max by (namespace, reason) (kuberay_object_conditions{{{OBJECTS}, kind="RayCluster", condition="HeadPodReady", status!="True"}})')], "table", 6,
            columns={"namespace": "Namespace", "reason": "Reason", "Value": "RayClusters"}, empty="while all heads are ready",
        ),
    ],
)  # fmt: skip

_RAYSERVICES = Row(
    "RayServices",
    [
        Panel(
            "RayServices per namespace", "", "none",
            [Query(f"count by (namespace) (max by (namespace, name, uid) (kuberay_service_info{{{OBJECTS}}}))")], "table", 8,
            columns={"namespace": "Namespace", "Value": "RayServices"},
        ),
        Panel(
            "Not ready", "RayServices of which no pod takes requests.", "none",
            [Query(f'max by (namespace, name) (kuberay_service_condition_ready{{{OBJECTS}, condition="false"}})')], "table", 8,
            columns={"namespace": "Namespace", "name": "RayService"}, empty="while all serve",
        ),
        Panel(
            "Upgrading", "RayServices with an active and a pending RayCluster.", "none",
            [Query(f'max by (namespace, name) (kuberay_service_condition_upgrade_in_progress{{{OBJECTS}, condition="true"}})')], "table", 8,
            columns={"namespace": "Namespace", "name": "RayService"}, empty="while no upgrade is under way",
        ),
    ],
)  # fmt: skip

_RAYJOBS = Row(
    "RayJobs",
    [
        Panel(
            "RayJobs per namespace", "", "none",
            [Query(f"count by (namespace) (max by (namespace, name, uid) (kuberay_job_info{{{OBJECTS}}}))")], "table", 5,
            columns={"namespace": "Namespace", "Value": "RayJobs"},
        ),
        Panel(
            "Execution duration", "From status.startTime until the attempt ended.", "s",
            [Query(f"sort_desc(max by (namespace, name, job_deployment_status, retry_count) (kuberay_job_execution_duration_seconds{{{OBJECTS}}}))")], "table", 8,
            columns={"namespace": "Namespace", "name": "RayJob", "job_deployment_status": "Ended", "retry_count": "Retry", "Value": "Duration"},
        ),
        Panel(
            "Status", "RayJobs by status.jobDeploymentStatus.", "none",
            [Query(f"count by (deployment_status) (max by (namespace, name, uid, deployment_status) (kuberay_job_deployment_status{{{OBJECTS}}}))", "{{deployment_status}}")], "piechart", 5,
        ),
        Panel(
            "Failed, suspended or waiting", "RayJobs that somebody may have to look at.", "none",
            [Query(f'max by (namespace, name, deployment_status) (kuberay_job_deployment_status{{{OBJECTS}, deployment_status=~"{UNHAPPY}"}})')], "table", 6,
            columns={"namespace": "Namespace", "name": "RayJob", "deployment_status": "Status"}, empty="while there are none",
        ),
    ],
)  # fmt: skip

DASHBOARD = Dashboard(
    "kuberay_operator",
    "KubeRay Operator",
    "Whether the operator keeps up and reaches what it needs, and which Ray objects need somebody. Metrics: docs/metrics.md.",
    [
        Variable("ControllerNamespace", "Operator's namespace", "namespace", "kuberay_build_info", anything=False),
        Variable(
            "ControllerPod",
            "Operator's pod",
            "pod",
            'kuberay_build_info{namespace=~"$ControllerNamespace"}',
            anything=False,
        ),
        Variable(
            "Controller",
            "Controller",
            "controller",
            f'workqueue_adds_total{{{OPERATOR}, controller=~"ray.*"}}',
            anything=False,
        ),
        Variable(
            "namespace", "Namespace of Ray objects", "namespace", '{__name__=~"kuberay_(cluster|job|service)_info"}'
        ),
    ],
    [_STATE, _PASSES, _API, _INSIDE, _RAYCLUSTERS, _RAYSERVICES, _RAYJOBS],
)
