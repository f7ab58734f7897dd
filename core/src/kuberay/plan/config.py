"""What of the operator's configuration decisions depend on. Built once at start from settings; plain values only.

Source: spec raycluster.md 0.3 and 0.4, rayjob.md 0, rayservice.md 3.1, operator.md 3 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, timedelta, tzinfo
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanConfig:
    """Defaults are KubeRay's."""

    operator_version: str = "0.0.0"
    cluster_domain: str = "cluster.local"
    operator_namespace: str = ""
    """Where the operator itself runs; empty when that is not known."""
    init_container_injection: bool = True
    probes_injection: bool = True
    head_cluster_ip_service: bool = False
    login_shell: bool = False
    deterministic_head_pod_name: bool = False
    random_pod_delete: bool = False
    drain_timeout: timedelta = timedelta(seconds=30)
    """How long a worker may be drained through Ray before its pod goes; zero means not at all."""
    redis_cleanup: bool = True
    """Whether keys in Redis are removed when a cluster with fault tolerance is deleted."""
    requeue_period: timedelta = timedelta(seconds=300)
    """Unconditional look at a settled RayCluster; zero means never."""
    enable_zero_downtime: bool = True
    """Whether a RayService that names no upgrade strategy gets a new RayCluster when it is edited; else it keeps its own."""
    delete_rayjob_after_finish: bool = False
    propagate_job_metadata: bool = True
    """Whether labels and annotations of a RayJob reach its submitter Job and the submitter's pods. Not KubeRay's."""
    job_transition_grace: timedelta = timedelta(seconds=300)
    job_status_check_timeout: timedelta = timedelta(seconds=300)
    local_zone: tzinfo = UTC
    """The operator's own time zone: of schedules without ``timeZone``."""
    head_sidecars: list[dict[str, Any]] = field(default_factory=list)
    worker_sidecars: list[dict[str, Any]] = field(default_factory=list)
    default_envs: list[dict[str, Any]] = field(default_factory=list)
    default_pod_annotations: dict[str, str] = field(default_factory=dict)
    default_pod_labels: dict[str, str] = field(default_factory=dict)
    secret_namespaces: frozenset[str] | None = None
    """Where the operator may read and make Secrets; None: everywhere."""
    restricted_pods: bool = False
    """Whether pods are filled up to what the Pod Security Standard "restricted" asks for."""
    use_kubernetes_proxy: bool = False
    openshift: bool = False
    """Whether the cluster is OpenShift; found out once, at start."""
    ingress_on_openshift: bool = False
    resize_in_place: bool = False
    """Whether the API server changes the resources of running pods; found out once, at start."""
    wait_gcs_ready_cpu: str = "200m"
    wait_gcs_ready_memory: str = "256Mi"

    @property
    def use_routes(self) -> bool:
        """Whether heads are exposed by OpenShift Routes instead of Ingresses (raycluster.md 6.3)."""
        return self.openshift and not self.ingress_on_openshift
