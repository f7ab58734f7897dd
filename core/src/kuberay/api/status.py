"""Which fields the status of each Ray kind has. Plans write plain dictionaries; these models give them their schema.

Source: spec raycluster.md 1.7, rayjob.md 1.3 and 1.6, rayservice.md 1.3. RayJob and RayCronJob conditions are this operator's own.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from kuberay.api.schema import INT32, Crd, EmptyList, EmptyMap, Kubernetes, Manifest, Model, StringMap

_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
Time = Annotated[str | None, Crd(format="date-time")]
NullableTime = Annotated[str | None, Crd(format="date-time", nullable=True)]
Quantity = Annotated[str | None, Kubernetes("io.k8s.apimachinery.pkg.api.resource.Quantity")]
Conditions = Annotated[list[Manifest], EmptyList, Kubernetes(_META + "Condition"), Crd(list_map_keys=("type",))]


class HeadInfo(Model):
    """``status.head``."""

    pod_ip: Annotated[str, Field(alias="podIP")] = ""
    pod_name: str = ""
    service_ip: Annotated[str, Field(alias="serviceIP")] = ""
    service_name: str = ""


class WorkerGroupStatus(Model):
    """One of ``status.workerGroups``: pods of a worker group."""

    name: Annotated[str, Crd(required=True)] = ""
    desired: Annotated[int, INT32] = 0
    ready: Annotated[int, INT32] = 0
    """Running, and their readiness probes succeed."""
    available: Annotated[int, INT32] = 0
    """Running."""


class ClusterResources(Model):
    """``status.resources``: totals over head and workers, by resource name."""

    requested: dict[str, Quantity] = Field(default_factory=dict)
    """Of all pods that are wanted now."""
    allocatable: dict[str, Quantity] = Field(default_factory=dict)
    """Of the pods that are ready now."""


class FallbackStatus(Model):
    """One of ``status.fallbacks``: replicas of a group that run in another one."""

    group_name: Annotated[str, Crd(required=True)] = ""
    fallback_group_name: Annotated[str, Crd(required=True)] = ""
    replicas: Annotated[int, INT32] = 0
    since: Time = None
    """When the last of them was handed over."""
    returning: bool | None = None
    """They go back, one as soon as another of the group is ready."""


class RayClusterStatus(Model):
    """``status`` of a RayCluster."""

    state: str = ""
    reason: str = ""
    desired_cpu: Annotated[Quantity, Field(alias="desiredCPU")] = None
    desired_memory: Quantity = None
    desired_gpu: Annotated[Quantity, Field(alias="desiredGPU")] = None
    desired_tpu: Annotated[Quantity, Field(alias="desiredTPU")] = None
    last_update_time: NullableTime = None
    state_transition_times: dict[str, NullableTime] = Field(default_factory=dict)
    endpoints: StringMap = Field(default_factory=dict)
    head: HeadInfo | None = None
    conditions: Conditions = Field(default_factory=list)
    ready_worker_replicas: Annotated[int | None, INT32] = None
    available_worker_replicas: Annotated[int | None, INT32] = None
    desired_worker_replicas: Annotated[int | None, INT32] = None
    min_worker_replicas: Annotated[int | None, INT32] = None
    max_worker_replicas: Annotated[int | None, INT32] = None
    worker_groups: Annotated[list[WorkerGroupStatus], EmptyList, Crd(list_map_keys=("name",))] = Field(
        default_factory=list
    )
    resources: ClusterResources | None = None
    fallbacks: Annotated[list[FallbackStatus], EmptyList, Crd(list_map_keys=("groupName",))] = Field(
        default_factory=list
    )
    observed_generation: Annotated[int | None, Crd(format="int64")] = None


class RayJobInfo(Model):
    """``status.rayJobInfo``: when Ray says the job began and ended."""

    start_time: Time = None
    end_time: Time = None


class RayJobStatus(Model):
    """``status`` of a RayJob."""

    job_id: str = ""
    ray_cluster_name: str = ""
    dashboard_url: Annotated[str, Field(alias="dashboardURL")] = ""
    job_status: str = ""
    job_deployment_status: str = ""
    reason: str = ""
    message: str = ""
    start_time: Time = None
    end_time: Time = None
    succeeded: Annotated[int | None, Crd(format="int32", default=0)] = None
    failed: Annotated[int | None, Crd(format="int32", default=0)] = None
    ray_cluster_status: RayClusterStatus | None = None
    ray_job_info: RayJobInfo | None = None
    job_status_check_failure_start_time: Time = None
    conditions: Conditions = Field(default_factory=list)
    observed_generation: Annotated[int | None, Crd(format="int64")] = None


class DeploymentStatus(Model):
    """What Serve says about one deployment of an application."""

    status: str = ""
    message: str = ""


class ApplicationStatus(Model):
    """What Serve says about one application, with its deployments by name."""

    status: str = ""
    message: str = ""
    serve_deployment_statuses: Annotated[dict[str, DeploymentStatus], EmptyMap] = Field(default_factory=dict)


class ServiceSideStatus(Model):
    """``activeServiceStatus`` and ``pendingServiceStatus``: one RayCluster of a RayService.

    The last three are written by incremental upgrades only; 0 is something else than absent.
    """

    ray_cluster_name: str = ""
    ray_cluster_status: RayClusterStatus | None = None
    application_statuses: Annotated[dict[str, ApplicationStatus], EmptyMap] = Field(default_factory=dict)
    target_capacity: Annotated[int | None, INT32] = None
    traffic_routed_percent: Annotated[int | None, INT32] = None
    last_traffic_migrated_time: Time = None


class RayServiceStatus(Model):
    """``status`` of a RayService."""

    conditions: Conditions = Field(default_factory=list)
    service_status: str = ""
    """``Running`` while condition ``Ready`` is True, else empty; kept for tools that are older than the condition."""
    active_service_status: ServiceSideStatus | None = None
    pending_service_status: ServiceSideStatus | None = None
    num_serve_endpoints: Annotated[int | None, INT32] = None
    observed_generation: Annotated[int | None, Crd(format="int64")] = None
    last_update_time: NullableTime = None


class RayCronJobStatus(Model):
    """``status`` of a RayCronJob. KubeRay has ``lastScheduleTime`` only."""

    last_schedule_time: Time = None
    """The scheduled instant of the newest start that was made or given up."""
    next_schedule_time: Time = None
    """When the next RayJob is due; absent while suspended or refused."""
    last_successful_time: Time = None
    """When a RayJob of this schedule last ended with SUCCEEDED."""
    active: Annotated[list[str], EmptyList, Crd(atomic=True)] = Field(default_factory=list)
    """Names of the RayJobs that have not ended."""
    conditions: Conditions = Field(default_factory=list)
    observed_generation: Annotated[int | None, Crd(format="int64")] = None
