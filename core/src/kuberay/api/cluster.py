"""What a RayCluster spec says, with types: complete in fields, pod templates and other Kubernetes types left raw.

Source: spec raycluster.md 1.1-1.6. Parsing costs tens of microseconds, so callers may do it on each pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, ValidationError

from kuberay.api.lifecycle import Lifecycle
from kuberay.api.names import ANNOTATION_FT_ENABLED
from kuberay.api.podtemplate import check_env, check_resources, check_service, check_template
from kuberay.api.podtemplate import env_value as env_value
from kuberay.api.podtemplate import find_env as find_env
from kuberay.api.podtemplate import ray_container as ray_container
from kuberay.api.problems import Problem
from kuberay.api.schema import (
    INT32,
    MANAGED_BY_RULES,
    Crd,
    EmptyList,
    EmptyMap,
    Kubernetes,
    Manifest,
    Model,
    Rule,
    StringMap,
    Strings,
)

MAX_REPLICAS = 2**31 - 1
ENV_AUTOSCALER_V2 = "RAY_enable_autoscaler_v2"

_CORE = "io.k8s.api.core.v1."
PodTemplate = Annotated[Manifest, AfterValidator(check_template), Kubernetes(_CORE + "PodTemplateSpec")]
EnvVars = Annotated[list[Manifest], EmptyList, AfterValidator(check_env), Kubernetes(_CORE + "EnvVar")]
EnvFrom = Annotated[list[Manifest], EmptyList, Kubernetes(_CORE + "EnvFromSource")]
VolumeMounts = Annotated[list[Manifest], EmptyList, Kubernetes(_CORE + "VolumeMount")]
Resources = Annotated[Manifest | None, AfterValidator(check_resources), Kubernetes(_CORE + "ResourceRequirements")]
IngressRules = Annotated[list[Manifest], EmptyList, Kubernetes("io.k8s.api.networking.v1.NetworkPolicyIngressRule")]
IntOrPercent = Annotated[int | str | None, Kubernetes("io.k8s.apimachinery.pkg.util.intstr.IntOrString")]
EgressRules = Annotated[list[Manifest], EmptyList, Kubernetes("io.k8s.api.networking.v1.NetworkPolicyEgressRule")]


class UpgradeStrategy(Model):
    """``spec.upgradeStrategy``. ``Rolling`` and all that belongs to it are not KubeRay's."""

    type: Annotated[str | None, Crd(enum=("Recreate", "None", "Rolling"))] = None
    max_unavailable: IntOrPercent = None
    """Replicas of a group that may be missing while it is rolled; 1 when absent, a percentage rounds down."""
    max_surge: IntOrPercent = None
    """Replicas that a group may have beyond those wanted; 0 when absent, a percentage rounds up."""
    allow_head_restart: bool | None = None
    """Consent to replace the head although the GCS keeps its state nowhere else."""

    @property
    def rolling(self) -> bool:
        return self.type == "Rolling"


class AuthOptions(Model):
    """``spec.authOptions``. Only the mode ``token`` does anything."""

    mode: Annotated[str | None, Crd(enum=("disabled", "token"))] = None
    secret_name: str = ""
    enable_k8s_token_auth: Annotated[bool | None, Field(alias="enableK8sTokenAuth")] = None

    @property
    def token(self) -> bool:
        return self.mode == "token"


class AutoscalerOptions(Model):
    """``spec.autoscalerOptions`` (1.5)."""

    version: Annotated[str | None, Crd(enum=("v1", "v2"))] = None
    image: str | None = None
    image_pull_policy: str | None = None
    resources: Resources = None
    env: EnvVars = Field(default_factory=list)
    env_from: EnvFrom = Field(default_factory=list)
    volume_mounts: VolumeMounts = Field(default_factory=list)
    security_context: Annotated[Manifest | None, Kubernetes(_CORE + "SecurityContext")] = None
    command: Strings = Field(default_factory=list)
    args: Strings = Field(default_factory=list)
    idle_timeout_seconds: Annotated[int | None, INT32] = None
    upscaling_mode: Annotated[str | None, Crd(enum=("Default", "Aggressive", "Conservative"))] = None


class RedisCredential(Model):
    """``redisUsername`` and ``redisPassword``: a literal or a source, like an environment variable without a name."""

    value: str = ""
    value_from: Annotated[Manifest | None, Kubernetes(_CORE + "EnvVarSource")] = None


class GcsStorage(Model):
    """``gcsFaultToleranceOptions.storage``: the claim of the embedded backend."""

    claim_name: str = ""
    size: Annotated[str | int | float | None, Kubernetes("io.k8s.apimachinery.pkg.api.resource.Quantity")] = None
    storage_class_name: str | None = None
    access_modes: Strings = Field(default_factory=list)
    sub_path: str = ""
    deletion_policy: Annotated[str | None, Crd(enum=("DeleteWithCluster", "Retain"))] = None


class GcsFaultToleranceOptions(Model):
    """``spec.gcsFaultToleranceOptions`` (1.6). Its presence alone enables fault tolerance."""

    backend: Annotated[
        str | None,
        Crd(
            enum=("redis", "rocksdb"),
            rules=(Rule("self == oldSelf", "gcsFaultToleranceOptions.backend is immutable"),),
        ),
    ] = None
    redis_address: str = ""
    redis_username: RedisCredential | None = None
    redis_password: RedisCredential | None = None
    external_storage_namespace: str = ""
    storage: GcsStorage | None = None

    @property
    def embedded(self) -> bool:
        """Whether the GCS keeps its data in RocksDB on a volume, without Redis."""
        return self.backend == "rocksdb"


class CollectorOptions(Model):
    """``spec.historyServerOptions.collectorOptions`` (3.13)."""

    image: str = ""
    image_pull_policy: str | None = None
    resources: Resources = None
    env: EnvVars = Field(default_factory=list)


class HistoryServerOptions(Model):
    """``spec.historyServerOptions``."""

    collector_options: CollectorOptions | None = None


class NetworkPolicyRules(Model):
    """Rules added to the base rules of one side."""

    ingress_rules: IngressRules = Field(default_factory=list)
    egress_rules: EgressRules = Field(default_factory=list)


class WorkerGroupNetworkPolicyRules(NetworkPolicyRules):
    """Rules of one worker group, instead of ``networkPolicy.worker``."""

    group_name: Annotated[str, Crd(required=True)] = ""


class NetworkPolicySpec(Model):
    """``spec.networkPolicy`` (2.11)."""

    mode: Annotated[str | None, Crd(enum=("DenyAll", "DenyAllIngress", "DenyAllEgress"), default="DenyAll")] = None
    head: NetworkPolicyRules | None = None
    worker: NetworkPolicyRules | None = None
    worker_groups: Annotated[list[WorkerGroupNetworkPolicyRules], EmptyList, Crd(list_map_keys=("groupName",))] = Field(
        default_factory=list
    )


class TLSOptions(Model):
    """``spec.tlsOptions`` (2.12)."""

    enabled: bool | None = None


class IngressOptions(Model):
    """``headGroupSpec.ingressOptions``. The operator's own defaults are path ``/`` and type ``Prefix``."""

    host: str | None = None
    path: str | None = None
    path_type: Annotated[str | None, Crd(enum=("Exact", "Prefix", "ImplementationSpecific"))] = None
    tls: Annotated[list[Manifest], EmptyList, Kubernetes("io.k8s.api.networking.v1.IngressTLS")] = Field(
        default_factory=list
    )


class DisruptionBudget(Model):
    """``disruptionBudget`` of a group: how many of its pods evictions must leave. Not KubeRay's."""

    min_available: IntOrPercent = None
    max_unavailable: IntOrPercent = None


class GroupSpec(Model):
    """What head and worker groups have in common."""

    template: Annotated[PodTemplate, EmptyMap, Crd(required=True)] = Field(default_factory=dict)
    resources: StringMap = Field(default_factory=dict)
    """Ray's logical resources by name (``CPU``, ``GPU``, ``memory``, …)."""
    labels: StringMap = Field(default_factory=dict)
    ray_start_params: StringMap = Field(default_factory=dict)
    disruption_budget: DisruptionBudget | None = None

    @property
    def pod_spec(self) -> Manifest:
        """``template.spec``, empty when absent."""
        return self.template.get("spec") or {}

    @property
    def ray_container(self) -> Manifest:
        """The Ray container of the template, empty when there is none."""
        return ray_container(self.template)


class HeadGroupSpec(GroupSpec):
    """``spec.headGroupSpec`` (1.2)."""

    head_service: Annotated[Manifest | None, AfterValidator(check_service), Kubernetes(_CORE + "Service")] = None
    enable_ingress: bool | None = None
    ingress_options: IngressOptions | None = None
    service_type: str = ""


class ScaleStrategy(Model):
    """``scaleStrategy`` of a worker group."""

    workers_to_delete: Strings = Field(default_factory=list)
    """Pod names; written and cleared by the autoscaler."""


class Fallback(Model):
    """``fallback`` of a worker group: where its replicas run while its own pods find no node. Not KubeRay's."""

    group_name: Annotated[str, Crd(required=True)] = ""
    after_seconds: Annotated[int, Crd(format="int32", default=300)] = 300
    """How long a pod must have been unschedulable."""


class WorkerGroupSpec(GroupSpec):
    """One of ``spec.workerGroupSpecs`` (1.3)."""

    group_name: Annotated[str, Crd(required=True)] = ""
    replicas: Annotated[int | None, Crd(format="int32", default=0)] = None
    min_replicas: Annotated[int | None, Crd(format="int32", default=0, required=True)] = None
    max_replicas: Annotated[int | None, Crd(format="int32", default=MAX_REPLICAS, required=True)] = None
    num_of_hosts: Annotated[int, Crd(format="int32", default=1)] = 1
    suspend: bool | None = None
    idle_timeout_seconds: Annotated[int | None, INT32] = None
    priority: Annotated[int | None, Crd(format="int32", default=0)] = None
    scale_strategy: ScaleStrategy | None = None
    fallback: Fallback | None = None

    @property
    def lower(self) -> int:
        """``minReplicas``; 0 when absent."""
        return self.min_replicas or 0

    @property
    def upper(self) -> int:
        """``maxReplicas``; the largest int32 when absent."""
        return MAX_REPLICAS if self.max_replicas is None else self.max_replicas

    def desired_replicas(self) -> int:
        """Replicas wanted now: clamped to min and max, min winning; 0 when suspended (1.4)."""
        if self.suspend:
            return 0
        if self.replicas is None or self.replicas < self.lower:
            return self.lower
        return min(self.replicas, self.upper)

    def desired_pods(self) -> int:
        """Pods wanted now: desired replicas times hosts per replica."""
        return self.desired_replicas() * self.num_of_hosts

    @property
    def minimum_pods(self) -> int:
        """``minReplicas × numOfHosts``; 0 when suspended."""
        return 0 if self.suspend else self.lower * self.num_of_hosts

    @property
    def maximum_pods(self) -> int:
        """``maxReplicas × numOfHosts``, at most the largest int32; 0 when suspended."""
        return 0 if self.suspend else min(self.upper * self.num_of_hosts, MAX_REPLICAS)

    @property
    def workers_to_delete(self) -> list[str]:
        """Names of pods that must go now."""
        return self.scale_strategy.workers_to_delete if self.scale_strategy else []


class RayClusterSpec(Model):
    """``spec`` of a RayCluster (1.1), also found inside RayJobs and RayServices."""

    head_group_spec: Annotated[HeadGroupSpec, Crd(required=True)]
    worker_group_specs: Annotated[list[WorkerGroupSpec], EmptyList] = Field(default_factory=list)
    ray_version: str = ""
    enable_in_tree_autoscaling: bool | None = None
    autoscaler_options: AutoscalerOptions | None = None
    head_service_annotations: StringMap = Field(default_factory=dict)
    gcs_fault_tolerance_options: GcsFaultToleranceOptions | None = None
    upgrade_strategy: UpgradeStrategy | None = None
    auth_options: AuthOptions | None = None
    suspend: bool | None = None
    managed_by: Annotated[str | None, Crd(rules=MANAGED_BY_RULES)] = None
    history_server_options: HistoryServerOptions | None = None
    network_policy: NetworkPolicySpec | None = None
    tls_options: TLSOptions | None = None
    lifecycle: Lifecycle | None = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """The typed form of a raw spec. Raises pydantic's ValidationError (a ValueError); see `parse_problems`."""
        return cls.model_validate(raw)

    @property
    def autoscaling(self) -> bool:
        """Whether the autoscaler sidecar is asked for."""
        return bool(self.enable_in_tree_autoscaling)

    @property
    def autoscaler_v2(self) -> bool:
        """Whether autoscaler v2 is chosen, by its version or by the head's environment (1.8, rule 10)."""
        if self.autoscaler_options is not None and self.autoscaler_options.version == "v2":
            return True
        return env_value(self.head_group_spec.ray_container, ENV_AUTOSCALER_V2) in ("1", "true")

    @property
    def token_auth(self) -> bool:
        """Whether Ray's token authentication is on."""
        return self.auth_options is not None and self.auth_options.token

    @property
    def tls(self) -> bool:
        """Whether mutual TLS is on."""
        return self.tls_options is not None and bool(self.tls_options.enabled)

    def gcs_ft_enabled(self, annotations: Mapping[str, str]) -> bool:
        """Whether GCS fault tolerance is on, by the options or by the annotation (1.6)."""
        if self.gcs_fault_tolerance_options is not None:
            return True
        return annotations.get(ANNOTATION_FT_ENABLED, "").lower() == "true"

    @property
    def gcs_ft_embedded(self) -> bool:
        """Whether the fault tolerance backend is RocksDB."""
        return self.gcs_fault_tolerance_options is not None and self.gcs_fault_tolerance_options.embedded

    def gcs_ft_redis(self, annotations: Mapping[str, str]) -> bool:
        """Whether the GCS keeps its data in Redis."""
        return self.gcs_ft_enabled(annotations) and not self.gcs_ft_embedded

    def group(self, name: str) -> WorkerGroupSpec | None:
        """The worker group of that name."""
        return next((group for group in self.worker_group_specs if group.group_name == name), None)


def parse_problems(error: ValidationError, prefix: str = "spec", reason: str = "") -> list[Problem]:
    """What `RayClusterSpec.parse` or `RayJobSpec.parse` found wrong, as problems with field paths below *prefix*."""
    problems = []
    for detail in error.errors(include_url=False, include_context=False, include_input=False):
        path = prefix
        for part in detail["loc"]:
            path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
        # Events and ``status.message`` show the message alone, and without the place it says nothing.
        problems.append(Problem(path, f"{path}: {detail['msg'].removeprefix('Value error, ')}", reason))
    return problems
