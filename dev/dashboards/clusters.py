"""The dashboard of RayClusters: are they ready and if not why, how long starts take, and what their nodes are doing."""

from __future__ import annotations

from dev.dashboards.model import Dashboard, Panel, Query, Row, Variable

OBJECTS = 'namespace=~"$namespace", name=~"$cluster"'
RAY = 'namespace=~"$namespace", ray_io_cluster=~"$cluster"'
NODE = "{{ray_io_cluster}} {{pod}}"

_OBJECTS = Row(
    "RayClusters",
    [
        Panel(
            "States", "RayClusters by status.state; an empty one is starting.", "none",
            [Query(f"count by (state) (max by (namespace, name, uid, state) (kuberay_cluster_state{{{OBJECTS}}}))", "{{state}}")], stacked=True, width=8,
        ),
        Panel(
            "Workers that are missing", "Desired less ready workers.", "none",
            [Query(f'(max by (namespace, name) (kuberay_cluster_workers{{{OBJECTS}, state="desired"}}) - max by (namespace, name) (kuberay_cluster_workers{{{OBJECTS}, state="ready"}})) > 0', "{{namespace}}/{{name}}")], width=8,
            empty="while no worker is missing",
        ),
        Panel(
            "What keeps pods", "How many RayClusters miss pods, and why. docs/troubleshooting.md has a row for each reason.", "none",
            [Query('max by (namespace, condition, reason) (kuberay_object_conditions{namespace=~"$namespace", kind="RayCluster", condition=~"PodsNotReady|PodsWaiting|ReplicaFailure|RayClusterSpecValid", status=~"True|False"} unless kuberay_object_conditions{condition="RayClusterSpecValid", status="True"})')], "table",
            columns={"namespace": "Namespace", "condition": "Condition", "reason": "Reason", "Value": "RayClusters"}, empty="while no pod is kept back",
        ),
        Panel(
            "Time to ready by phase", "Nine of ten starts within six hours took less: until the operator began, until the head was ready, until the workers were.", "s",
            [Query('kuberay:time_to_ready_seconds:p90_rate6h{kind="RayCluster"}', "{{phase}}")],
            empty="until a RayCluster has started",
        ),
        Panel(
            "Starts", "RayClusters that became ready within an hour.", "none",
            [Query('sum(increase(kuberay_time_to_ready_seconds_count{kind="RayCluster", phase="all"}[1h]))', "became ready")],
        ),
        Panel(
            "Slowest starts", "From the creation until all pods were ready.", "s",
            [Query(f"topk(10, max by (namespace, name) (kuberay_cluster_provisioned_duration_seconds{{{OBJECTS}}}))")], "table",
            columns={"namespace": "Namespace", "name": "RayCluster", "Value": "Duration"},
        ),
    ],
)  # fmt: skip

_NODES = Row(
    "Nodes (Ray's own metrics)",
    [
        Panel(
            "CPU", "CPU of each node, of all its cores.", "percent",
            [Query(f"ray_node_cpu_utilization{{{RAY}}}", NODE)],
        ),
        Panel(
            "Memory", "Memory in use, as a share of the pod's limit.", "percentunit",
            [Query(f"sum by (ray_io_cluster, pod) (ray_node_mem_used{{{RAY}}}) / sum by (ray_io_cluster, pod) (ray_node_mem_total{{{RAY}}})", NODE)],
        ),
        Panel(
            "Object store", "Objects by where they are.", "bytes",
            [Query(f"sum by (ray_io_cluster, Location) (ray_object_store_memory{{{RAY}}})", "{{ray_io_cluster}} {{Location}}")], stacked=True,
        ),
        Panel(
            "Logical CPUs", "What tasks and actors have reserved, of what there is.", "none",
            [
                Query(f'sum by (ray_io_cluster) (ray_resources{{{RAY}, Name="CPU", State="USED"}})', "{{ray_io_cluster}} used"),
                Query(f'sum by (ray_io_cluster) (ray_resources{{{RAY}, Name="CPU"}})', "{{ray_io_cluster}} of"),
            ],
        ),
        Panel(
            "Logical GPUs", "What tasks and actors have reserved, of what there is.", "none",
            [
                Query(f'sum by (ray_io_cluster) (ray_resources{{{RAY}, Name="GPU", State="USED"}})', "{{ray_io_cluster}} used"),
                Query(f'sum by (ray_io_cluster) (ray_resources{{{RAY}, Name="GPU"}})', "{{ray_io_cluster}} of"),
            ],
            empty="without GPUs",
        ),
        Panel(
            "Network", "Bytes that nodes receive and send.", "Bps",
            [
                Query(f"sum by (ray_io_cluster) (ray_node_network_receive_speed{{{RAY}}})", "{{ray_io_cluster}} received"),
                Query(f"sum by (ray_io_cluster) (ray_node_network_send_speed{{{RAY}}})", "{{ray_io_cluster}} sent"),
            ],
        ),
        Panel(
            "Disk", "Share of the disk below Ray's folder that is used. Ray stops spilling at 95 %.", "percentunit",
            [Query(f"sum by (ray_io_cluster, pod) (ray_node_disk_usage{{{RAY}}}) / (sum by (ray_io_cluster, pod) (ray_node_disk_usage{{{RAY}}}) + sum by (ray_io_cluster, pod) (ray_node_disk_free{{{RAY}}}))", NODE)],
        ),
        Panel(
            "Killed for memory", "Workers that Ray killed because a node's memory ran out, within an hour.", "none",
            [Query(f"sum by (ray_io_cluster) (increase(ray_memory_manager_worker_eviction_total{{{RAY}}}[1h]))", "{{ray_io_cluster}}")],
            empty="while memory suffices",
        ),
        Panel(
            "Ray nodes", "Nodes that the autoscaler counts, by worker group.", "none",
            [
                Query(f"max by (ray_io_cluster, node_type) (ray_cluster_active_nodes{{{RAY}}})", "{{ray_io_cluster}} {{node_type}}"),
                Query(f"max by (ray_io_cluster, node_type) (ray_cluster_pending_nodes{{{RAY}}})", "{{ray_io_cluster}} {{node_type}} pending"),
            ],
        ),
    ],
)  # fmt: skip

_GCS = Row(
    "Global Control Store",
    [
        Panel(
            "Availability", "Share of requests that the GCS handled without an error, over 30 days.", "percent",
            [Query("ray_gcs_availability_30d", "30 days")], "stat",
        ),
        Panel(
            "Requests", "Requests to the GCS per second that it handled.", "reqps",
            [Query(f'sum by (ray_io_cluster) (rate(ray_grpc_server_req_finished_total{{{RAY}, Component="gcs_server"}}[$__rate_interval]))', "{{ray_io_cluster}}")],
        ),
        Panel(
            "Latency", "How long the GCS takes for a request, without those that wait on purpose: polls, and for an actor to be made.", "ms",
            [Query(f'histogram_quantile(0.99, sum by (ray_io_cluster, le) (rate(ray_grpc_server_req_process_time_ms_bucket{{{RAY}, Component="gcs_server", Method!~".*(Poll|CreateActor)"}}[$__rate_interval]))) >= 0', "{{ray_io_cluster}} p99")],
        ),
    ],
)  # fmt: skip

DASHBOARD = Dashboard(
    "kuberay_clusters",
    "KubeRay Clusters",
    "RayClusters: whether they are ready, how long starts take, and what their nodes do. Ray's metrics need the PodMonitors of config/prometheus.",
    [
        Variable("namespace", "Namespace", "namespace", "kuberay_cluster_info"),
        Variable("cluster", "RayCluster", "name", 'kuberay_cluster_info{namespace=~"$namespace"}'),
    ],
    [_OBJECTS, _NODES, _GCS],
)
