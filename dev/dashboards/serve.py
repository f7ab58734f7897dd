"""The dashboard of RayServices: do they serve, is an upgrade under way, and how Serve's applications do."""

from __future__ import annotations

from dev.dashboards.model import Dashboard, Panel, Query, Row, Variable

OBJECTS = 'namespace=~"$namespace", name=~"$service"'
CLUSTERS = 'namespace=~"$namespace", ray_io_cluster=~"($service)-.*"'
APPS = f'{CLUSTERS}, application=~"$application", application!=""'
REQUESTS = f'{CLUSTERS}, application=~"$application", route!~"/-/.*"'
"""Without Serve's own routes; a request that no application took has none."""
DEPLOYMENT = "{{application}} {{deployment}}"


def _latency(q: str, title: str) -> Query:
    return Query(
        f"histogram_quantile({q}, sum by (application, le) (rate(ray_serve_http_request_latency_ms_bucket{{{APPS}}}[$__rate_interval]))) >= 0",
        f"{{{{application}}}} p{title}",
    )


_SERVICES = Row(
    "RayServices",
    [
        Panel(
            "Ready", "RayServices by whether pods take requests.", "none",
            [Query(f"count by (condition) (max by (namespace, name, uid, condition) (kuberay_service_condition_ready{{{OBJECTS}}}))", "ready: {{condition}}")], stacked=True,
        ),
        Panel(
            "Pods that serve", "status.numServeEndpoints.", "none",
            [Query(f"max by (namespace, name) (kuberay_service_serve_endpoints{{{OBJECTS}}})", "{{namespace}}/{{name}}")],
        ),
        Panel(
            "What they wait for", "Conditions that say why a RayService is not ready or an upgrade does not move.", "none",
            [Query('max by (namespace, condition, reason) (kuberay_object_conditions{namespace=~"$namespace", kind="RayService", condition=~"RayServiceWaiting|UpgradeInProgress|RollbackInProgress|Suspended", status="True"})')], "table",
            columns={"namespace": "Namespace", "condition": "Condition", "reason": "Reason", "Value": "RayServices"}, empty="while all serve and no upgrade is under way",
        ),
        Panel(
            "Upgrades under way", "RayServices with an active and a pending RayCluster.", "none",
            [Query(f'count(max by (namespace, name, uid) (kuberay_service_condition_upgrade_in_progress{{{OBJECTS}, condition="true"}})) or vector(0)', "upgrading")], width=12,
        ),
        Panel(
            "Time to ready", "Nine of ten starts and upgrades within six hours took less.", "s",
            [Query('kuberay:time_to_ready_seconds:p90_rate6h{kind="RayService"}', "{{phase}}")], width=12, empty="until a RayService has started",
        ),
    ],
)  # fmt: skip

_TRAFFIC = Row(
    "Applications (Ray Serve's own metrics)",
    [
        Panel(
            "Requests", "Requests per second.", "reqps",
            [Query(f"sum by (application) (rate(ray_serve_num_http_requests_total{{{REQUESTS}}}[$__rate_interval]))", "{{application}}")],
            empty="until a request came",
        ),
        Panel(
            "Errors", "Share of requests that were answered with an error, by application and code. Without an application: nobody takes that path.", "percentunit",
            [Query(f"sum by (application, error_code) (rate(ray_serve_num_http_error_requests_total{{{REQUESTS}}}[$__rate_interval])) / on (application) group_left sum by (application) (rate(ray_serve_num_http_requests_total{{{REQUESTS}}}[$__rate_interval]))", "{{application}} {{error_code}}")],
            empty="while there are no errors",
        ),
        Panel(
            "Latency", "Of requests, at the proxy.", "ms", [_latency("0.5", "50"), _latency("0.95", "95"), _latency("0.99", "99")],
            empty="until a request came",
        ),
        Panel(
            "Healthy replicas", "By deployment.", "none",
            [Query(f"sum by (application, deployment) (ray_serve_deployment_replica_healthy{{{APPS}}})", DEPLOYMENT)],
        ),
        Panel(
            "Waiting requests", "Requests that wait for a replica, by deployment.", "none",
            [Query(f"sum by (application, deployment) (ray_serve_deployment_queued_queries{{{APPS}}})", DEPLOYMENT)],
        ),
        Panel(
            "Requests under way", "In replicas, by deployment.", "none",
            [Query(f"sum by (application, deployment) (ray_serve_replica_processing_queries{{{APPS}}})", DEPLOYMENT)],
        ),
        Panel(
            "Replica latency", "How long replicas work on a request, without waiting.", "ms",
            [Query(f"histogram_quantile(0.95, sum by (application, deployment, le) (rate(ray_serve_deployment_processing_latency_ms_bucket{{{APPS}}}[$__rate_interval]))) >= 0", f"{DEPLOYMENT} p95")],
            empty="until a request came",
        ),
        Panel(
            "Restarts of replicas", "Replicas that started within an hour. More than an upgrade explains: they crash.", "none",
            [Query(f"sum by (application, deployment) (increase(ray_serve_deployment_replica_starts_total{{{APPS}}}[1h]))", DEPLOYMENT)],
        ),
        Panel(
            "Serve's controller", "How long a round of the controller's loop takes.", "s",
            [Query(f"max by (ray_io_cluster) (ray_serve_controller_control_loop_duration_s{{{CLUSTERS}}})", "{{ray_io_cluster}}")],
        ),
    ],
)  # fmt: skip

DASHBOARD = Dashboard(
    "kuberay_serve",
    "KubeRay Serve",
    "RayServices: whether they serve, how upgrades go, and how their applications do. Ray's metrics need the PodMonitors of config/prometheus.",
    [
        Variable("namespace", "Namespace", "namespace", "kuberay_service_info"),
        Variable("service", "RayService", "name", 'kuberay_service_info{namespace=~"$namespace"}'),
        Variable(
            "application", "Application", "application", 'ray_serve_deployment_replica_healthy{namespace=~"$namespace"}'
        ),
    ],
    [_SERVICES, _TRAFFIC],
)
