"""What a RayService spec says, with types, and the words its status uses.

Source: spec rayservice.md 1.1-1.3, 2.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field

from kuberay.api.cluster import HeadGroupSpec, IntOrPercent, RayClusterSpec
from kuberay.api.goduration import parse_duration
from kuberay.api.podtemplate import check_service
from kuberay.api.schema import INT32, MANAGED_BY_RULES, Crd, Kubernetes, Manifest, Model

DEFAULT_DELETION_DELAY = timedelta(seconds=60)
"""How long a RayCluster that is no longer used stays, where the spec does not say."""

_SECONDS = re.compile(r"[+-]?[0-9]{1,18}")
_MOST_SECONDS = 2**63 // 10**9
"""What a Go duration holds."""


class UpgradeType(StrEnum):
    """Values of ``spec.upgradeStrategy.type``. The last two are not KubeRay's; plugins may add others."""

    NEW_CLUSTER = "NewCluster"
    NONE = "None"
    INCREMENTAL = "NewClusterWithIncrementalUpgrade"
    ROLLING = "Rolling"
    RECREATE = "Recreate"


class ServeApplicationStatus(StrEnum):
    """What Serve says about an application. Other words are passed on as they come."""

    NOT_STARTED = "NOT_STARTED"
    DEPLOYING = "DEPLOYING"
    RUNNING = "RUNNING"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    DELETING = "DELETING"
    UNHEALTHY = "UNHEALTHY"


class ServeDeploymentStatus(StrEnum):
    """What Serve says about a deployment. Other words are passed on as they come."""

    UPDATING = "UPDATING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"


class ClusterUpgradeOptions(Model):
    """``upgradeStrategy.clusterUpgradeOptions``: how `UpgradeType.INCREMENTAL` moves."""

    max_surge_percent: Annotated[int | None, Crd(format="int32", default=100)] = None
    step_size_percent: Annotated[int | None, Crd(format="int32", required=True)] = None
    interval_seconds: Annotated[int | None, Crd(format="int32", required=True)] = None
    gateway_class_name: Annotated[str, Crd(required=True)] = ""


class RayServiceUpgradeStrategy(Model):
    """``spec.upgradeStrategy``. What comes after ``clusterUpgradeOptions`` is for Rolling and means what it means in a
    RayCluster."""

    type: str | None = None
    cluster_upgrade_options: ClusterUpgradeOptions | None = None
    max_unavailable: IntOrPercent = None
    max_surge: IntOrPercent = None
    allow_head_restart: bool | None = None


def _no_cluster() -> RayClusterSpec:
    return RayClusterSpec(head_group_spec=HeadGroupSpec())


class RayServiceSpec(Model):
    """``spec`` of a RayService (1.2)."""

    ray_cluster_config: Annotated[RayClusterSpec, Crd(required=True)] = Field(default_factory=_no_cluster)
    serve_config_v2: str = ""
    upgrade_strategy: RayServiceUpgradeStrategy | None = None
    ray_cluster_deletion_delay_seconds: Annotated[int | None, Crd(format="int32", minimum=0)] = None
    serve_service: Annotated[
        Manifest | None, AfterValidator(check_service), Kubernetes("io.k8s.api.core.v1.Service")
    ] = None
    exclude_head_pod_from_serve_svc: bool = False
    suspend: bool = False
    managed_by: Annotated[str | None, Crd(rules=MANAGED_BY_RULES)] = None
    service_unhealthy_second_threshold: Annotated[int | None, INT32] = None
    deployment_unhealthy_second_threshold: Annotated[int | None, INT32] = None
    """Both are accepted and mean nothing, as in KubeRay."""

    @classmethod
    def parse(cls, raw: Mapping[str, Any]) -> Self:
        """The typed form of a raw spec. Raises pydantic's ValidationError; see `kuberay.api.cluster.parse_problems`."""
        return cls.model_validate(raw)

    @property
    def upgrade_type(self) -> str | None:
        """``upgradeStrategy.type`` as it stands there; None when absent."""
        return self.upgrade_strategy.type if self.upgrade_strategy else None

    @property
    def deletion_delay(self) -> timedelta:
        """How long a RayCluster stays that is no longer used; a minute when the spec does not say."""
        seconds = self.ray_cluster_deletion_delay_seconds
        return DEFAULT_DELETION_DELAY if seconds is None else timedelta(seconds=seconds)

    @property
    def serve_service_name(self) -> str:
        """The user's name for the serve service; empty when it has the usual one."""
        metadata = (self.serve_service or {}).get("metadata") or {}
        return str(metadata.get("name") or "")


def read_initializing_timeout(text: str) -> timedelta:
    """The length of time that annotation ``ray.io/initializing-timeout`` gives: a Go duration, or else whole seconds (2.5).

    Raises ValueError with the end of the sentence that tells what is wrong.
    """
    try:
        duration = parse_duration(text)
    except ValueError:
        if not _SECONDS.fullmatch(text) or int(text) > _MOST_SECONDS:
            raise ValueError(
                f"has invalid format: {text}, expected a duration such as 30m or a number of seconds"
            ) from None
        if int(text) <= 0:
            raise ValueError(f"must be a positive integer (seconds), got: {text}") from None
        return timedelta(seconds=int(text))
    if duration <= timedelta(0):
        raise ValueError(f"must be a positive duration, got: {text}")
    return duration
