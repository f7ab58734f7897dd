"""What a RayJob spec says, with types, and the words its status uses.

Source: spec rayjob.md 1.1-1.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field

from kuberay.api.cluster import PodTemplate, RayClusterSpec
from kuberay.api.names import LABEL_CLUSTER
from kuberay.api.schema import INT32, MANAGED_BY_RULES, Crd, EmptyList, Model, Rule, StringMap

DEFAULT_SUBMITTER_BACKOFF_LIMIT = 2


class JobSubmissionMode(StrEnum):
    """``spec.submissionMode``. The schema admits other strings too; they are refused by validation."""

    K8S_JOB = "K8sJobMode"
    HTTP = "HTTPMode"
    INTERACTIVE = "InteractiveMode"
    SIDECAR = "SidecarMode"


class JobDeploymentStatus(StrEnum):
    """``status.jobDeploymentStatus``: where the RayJob stands."""

    NEW = ""
    INITIALIZING = "Initializing"
    RUNNING = "Running"
    WAITING = "Waiting"
    COMPLETE = "Complete"
    FAILED = "Failed"
    VALIDATION_FAILED = "ValidationFailed"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    RETRYING = "Retrying"

    @property
    def terminal(self) -> bool:
        """Exactly Complete or Failed."""
        return self in (JobDeploymentStatus.COMPLETE, JobDeploymentStatus.FAILED)


class JobStatus(StrEnum):
    """``status.jobStatus``: what Ray says about the submission."""

    NEW = ""
    PENDING = "PENDING"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @property
    def terminal(self) -> bool:
        return self in (JobStatus.STOPPED, JobStatus.SUCCEEDED, JobStatus.FAILED)


class JobFailedReason(StrEnum):
    """``status.reason``."""

    NONE = ""
    SUBMISSION_FAILED = "SubmissionFailed"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    PRE_RUNNING_DEADLINE_EXCEEDED = "PreRunningDeadlineExceeded"
    APP_FAILED = "AppFailed"
    TRANSITION_GRACE_PERIOD_EXCEEDED = "JobDeploymentStatusTransitionGracePeriodExceeded"
    STATUS_CHECK_TIMEOUT_EXCEEDED = "JobStatusCheckTimeoutExceeded"
    VALIDATION_FAILED = "ValidationFailed"


class DeletionPolicy(StrEnum):
    """What is deleted when a job has ended."""

    DELETE_CLUSTER = "DeleteCluster"
    DELETE_WORKERS = "DeleteWorkers"
    DELETE_SELF = "DeleteSelf"
    DELETE_NONE = "DeleteNone"


_POLICY = Crd(enum=tuple(DeletionPolicy))


class LegacyDeletionPolicy(Model):
    """``deletionStrategy.onSuccess`` and ``onFailure`` (deprecated)."""

    policy: Annotated[str | None, _POLICY] = None


class DeletionCondition(Model):
    """When a deletion rule applies: one of the two states, and a delay after ``status.endTime``."""

    crd_rules: ClassVar[Sequence[Rule]] = (
        Rule(
            "!(has(self.jobStatus) && has(self.jobDeploymentStatus))",
            "JobStatus and JobDeploymentStatus cannot be used together within the same deletion condition.",
        ),
        Rule(
            "has(self.jobStatus) || has(self.jobDeploymentStatus)",
            "the deletion condition requires either the JobStatus or the JobDeploymentStatus field.",
        ),
    )

    job_status: Annotated[str | None, Crd(enum=("SUCCEEDED", "FAILED"))] = None
    job_deployment_status: Annotated[str | None, Crd(enum=("Failed",))] = None
    ttl_seconds: Annotated[int, Crd(format="int32", default=0, minimum=0)] = 0


class DeletionRule(Model):
    """One of ``deletionStrategy.deletionRules``."""

    policy: Annotated[str, Crd(enum=tuple(DeletionPolicy), required=True)] = ""
    condition: Annotated[DeletionCondition, Crd(required=True)] = Field(default_factory=DeletionCondition)


class DeletionStrategy(Model):
    """``spec.deletionStrategy`` (1.2): the legacy pair or rules, never both."""

    crd_rules: ClassVar[Sequence[Rule]] = (
        Rule(
            "!((has(self.onSuccess) || has(self.onFailure)) && has(self.deletionRules))",
            "legacy policies (onSuccess/onFailure) and deletionRules cannot be used together within the same"
            " deletionStrategy",
        ),
        Rule(
            "((has(self.onSuccess) && has(self.onFailure)) || has(self.deletionRules))",
            "deletionStrategy requires either BOTH onSuccess and onFailure, OR the deletionRules field (which cannot"
            " be empty)",
        ),
    )

    on_success: LegacyDeletionPolicy | None = None
    on_failure: LegacyDeletionPolicy | None = None
    deletion_rules: Annotated[list[DeletionRule], EmptyList, Crd(min_items=1, atomic=True)] = Field(
        default_factory=list
    )


class SubmitterConfig(Model):
    """``spec.submitterConfig``."""

    backoff_limit: Annotated[int | None, INT32] = None


class RayJobSpec(Model):
    """``spec`` of a RayJob (1.1)."""

    entrypoint: str = ""
    ray_cluster_spec: RayClusterSpec | None = None
    cluster_selector: StringMap = Field(default_factory=dict)
    submission_mode: Annotated[str, Crd(default="K8sJobMode")] = "K8sJobMode"
    job_id: str = ""
    metadata: StringMap = Field(default_factory=dict)
    runtime_env_yaml: Annotated[str, Field(alias="runtimeEnvYAML")] = ""
    entrypoint_num_cpus: Annotated[float, Crd(format="float")] = 0
    entrypoint_num_gpus: Annotated[float, Crd(format="float")] = 0
    entrypoint_resources: str = ""
    submitter_pod_template: PodTemplate | None = None
    submitter_config: SubmitterConfig | None = None
    backoff_limit: Annotated[int | None, Crd(format="int32", default=0)] = None
    active_deadline_seconds: Annotated[int | None, INT32] = None
    pre_running_deadline_seconds: Annotated[int | None, Crd(format="int32", minimum=1)] = None
    shutdown_after_job_finishes: bool = False
    ttl_seconds_after_finished: Annotated[int, Crd(format="int32", default=0)] = 0
    deletion_strategy: DeletionStrategy | None = None
    suspend: bool = False
    managed_by: Annotated[str | None, Crd(rules=MANAGED_BY_RULES)] = None

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """The typed form of a raw spec. Raises pydantic's ValidationError; see `kuberay.api.cluster.parse_problems`."""
        return cls.model_validate(raw)

    @property
    def mode(self) -> JobSubmissionMode | None:
        """The submission mode; None when the string names none."""
        try:
            return JobSubmissionMode(self.submission_mode or JobSubmissionMode.K8S_JOB)
        except ValueError:
            return None

    @property
    def retries(self) -> int:
        """``backoffLimit``; 0 when absent."""
        return self.backoff_limit or 0

    @property
    def submitter_backoff_limit(self) -> int:
        """``submitterConfig.backoffLimit``; 2 when absent."""
        config = self.submitter_config
        if config is None or config.backoff_limit is None:
            return DEFAULT_SUBMITTER_BACKOFF_LIMIT
        return config.backoff_limit

    @property
    def selected_cluster(self) -> str:
        """Name of the existing RayCluster to use; empty when the job makes its own."""
        return self.cluster_selector.get(LABEL_CLUSTER, "")
