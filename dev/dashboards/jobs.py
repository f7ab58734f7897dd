"""The dashboard of RayJobs: what runs, what ended and why, how long it takes to start, and what Ray's tasks and actors do."""

from __future__ import annotations

from dev.dashboards.model import Dashboard, Panel, Query, Row, Variable

OBJECTS = 'namespace=~"$namespace", name=~"$job"'
RAY = 'namespace=~"$namespace"'

_JOBS = Row(
    "RayJobs",
    [
        Panel(
            "By status", "RayJobs by status.jobDeploymentStatus.", "none",
            [Query(f"count by (deployment_status) (max by (namespace, name, uid, deployment_status) (kuberay_job_deployment_status{{{OBJECTS}}}))", "{{deployment_status}}")], stacked=True,
        ),
        Panel(
            "Ended", "Attempts that ended within an hour, in all namespaces.", "none",
            [Query("sum by (job_deployment_status) (increase(kuberay_job_attempts_ended_total[1h]))", "{{job_deployment_status}}")],
        ),
        Panel(
            "Why they failed", "Attempts that failed within an hour, by status.reason, in all namespaces.", "none",
            [Query('sum by (reason) (increase(kuberay_job_attempts_ended_total{job_deployment_status!="Complete"}[1h])) > 0', "{{reason}}")],
            empty="while none fails",
        ),
        Panel(
            "Failure ratio", "Share of the RayJobs that ended within an hour and had failed. Alert KubeRayJobsFailing above one half.", "percentunit",
            [Query("kuberay:job_failure_ratio:increase1h", "failed")], empty="until a RayJob has ended",
        ),
        Panel(
            "Time until Ray has the job", "Nine of ten attempts within six hours took less: until it began, until its RayCluster was ready, until Ray knew the job.", "s",
            [Query('kuberay:time_to_ready_seconds:p90_rate6h{kind="RayJob"}', "{{phase}}")], empty="until a RayJob has started",
        ),
        Panel(
            "Execution duration", "The longest attempts of RayJobs that are there.", "s",
            [Query(f"topk(20, max by (namespace, name, job_deployment_status, retry_count) (kuberay_job_execution_duration_seconds{{{OBJECTS}}}))")], "table",
            columns={"namespace": "Namespace", "name": "RayJob", "job_deployment_status": "Ended", "retry_count": "Retry", "Value": "Duration"},
        ),
        Panel(
            "Not running", "RayJobs that failed, wait, are suspended or are refused.", "none",
            [Query(f'max by (namespace, name, deployment_status) (kuberay_job_deployment_status{{{OBJECTS}, deployment_status!~"Running|Complete|Initializing|"}})')], "table", 12,
            columns={"namespace": "Namespace", "name": "RayJob", "deployment_status": "Status"}, empty="while there are none",
        ),
        Panel(
            "RayCronJobs", "By namespace.", "none",
            [Query(f"count by (namespace) (max by (namespace, name, uid) (kuberay_cronjob_info{{{RAY}}}))")], "table", 12,
            columns={"namespace": "Namespace", "Value": "RayCronJobs"}, empty="without RayCronJobs",
        ),
    ],
)  # fmt: skip

_TASKS = Row(
    "Tasks and actors of all RayClusters (Ray's own metrics)",
    [
        Panel(
            "Tasks by state", "Ray's tasks that are waiting or running.", "none",
            [Query(f'clamp_min(sum by (ray_io_cluster, State) (ray_tasks{{{RAY}, State!~"FINISHED|FAILED"}}), 0)', "{{ray_io_cluster}} {{State}}")], stacked=True,
            empty="until a task was submitted",
        ),
        Panel(
            "Failed tasks", "Within an hour, by name, without those of Ray's own actors: Serve's proxies cancel calls all the time.", "none",
            [Query(f'sum by (ray_io_cluster, Name) (max_over_time(ray_tasks{{{RAY}, State="FAILED", Name!~"(ProxyActor|ServeController|JobSupervisor).*"}}[1h])) > 0', "{{ray_io_cluster}} {{Name}}")],
            empty="while no task fails",
        ),
        Panel(
            "Actors by state", "As the GCS counts them.", "none",
            [Query(f'sum by (ray_io_cluster, State) (ray_actors{{{RAY}, Source="gcs"}})', "{{ray_io_cluster}} {{State}}")], stacked=True,
            empty="until an actor was made",
        ),
        Panel(
            "Placement groups", "By state.", "none",
            [Query(f"sum by (ray_io_cluster, State) (ray_placement_groups{{{RAY}}})", "{{ray_io_cluster}} {{State}}")], width=12,
            empty="without placement groups",
        ),
        Panel(
            "Workers that ended unexpectedly", "Ray's worker processes, within an hour, by kind.", "none",
            [Query(f"sum by (ray_io_cluster, Type) (increase(ray_node_manager_unexpected_worker_failure_total{{{RAY}}}[1h]))", "{{ray_io_cluster}} {{Type}}")], width=12,
            empty="while none does",
        ),
    ],
)  # fmt: skip

DASHBOARD = Dashboard(
    "kuberay_jobs",
    "KubeRay Jobs",
    "RayJobs: what runs, what ended and why, and how long starts take. Ray's metrics need the PodMonitors of config/prometheus.",
    [
        Variable("namespace", "Namespace", "namespace", '{__name__=~"kuberay_(cluster|job)_info"}'),
        Variable("job", "RayJob", "name", 'kuberay_job_info{namespace=~"$namespace"}'),
    ],
    [_JOBS, _TASKS],
)
