"""Which conditions Ray objects carry, under which reasons, and how a list of them changes.

Source: spec raycluster.md 5.5; `SPEC_VALID` and the plugin conditions are this operator's own (docs/differences).
Conditions are raw dictionaries as they stand in ``status.conditions``; lists are kept sorted by type and never changed
in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

from kuberay.api.times import format_time

Condition = dict[str, Any]

TRUE = "True"
FALSE = "False"
UNKNOWN = "Unknown"


class ClusterCondition(StrEnum):
    """Condition types of a RayCluster."""

    HEAD_POD_READY = "HeadPodReady"
    PROVISIONED = "RayClusterProvisioned"
    REPLICA_FAILURE = "ReplicaFailure"
    SUSPENDING = "RayClusterSuspending"
    SUSPENDED = "RayClusterSuspended"
    SPEC_VALID = "RayClusterSpecValid"
    """False while the object is refused (case RC-35); absent otherwise."""
    PODS_WAITING = "PodsWaiting"
    """True while something holds pods back; the message says what."""
    PODS_NOT_READY = "PodsNotReady"
    """True while something keeps pods from being made or ready for longer than a start takes; the message says what."""
    PLUGIN_FAILED = "PluginFailed"
    """True while a plugin raises for this object; the message names plugin and hook."""
    PLUGIN_SLOW = "PluginSlow"
    """True while a hook of a plugin takes long for this object, which is then looked at beside all others."""
    PLUGIN_WARNING = "PluginWarning"
    """True while a plugin finds something about the object that has not the effect its user may expect; nothing waits for it."""
    PLUGIN_MISSING = "PluginMissing"
    """True while the spec asks for a plugin that is not enabled; the message names the package."""
    ROLLING_UPGRADE = "RollingUpgrade"
    """True while the upgrade strategy Rolling replaces pods; the message says how far it is, or why it is stuck."""
    HEAD_OUTDATED = "HeadOutdated"
    """True while the head was made from another spec and must not be replaced; the message says what to do."""
    INGRESS_CONFLICT = "IngressConflict"
    """True while something keeps the Ingress or Route of the head from being made or kept."""
    GCS_STORAGE_PROBLEM = "GcsStorageProblem"
    """True while the volume claim of embedded GCS fault tolerance is missing or is not what the spec asks for."""
    HEAD_STARTED = "HeadStarted"
    """True from the first start of a head that submits a RayJob itself (SidecarMode): no other one is ever made."""
    IDLE = "RayClusterIdle"
    """With ``lifecycle.idleTimeoutSeconds``: True since nothing uses the cluster, Unknown when that cannot be seen."""
    LIFECYCLE_ENDING = "LifecycleEnding"
    """With ``lifecycle``: True once the end is announced; the message says when it comes."""
    LIFECYCLE_ENDED = "LifecycleEnded"
    """True while ``lifecycle`` holds the cluster suspended or has it deleted; False since that was called off."""
    REDIS_UNUSED = "RedisStorageUnused"
    """True until the first head of a cluster with Redis fault tolerance starts: nothing is there to be cleaned up."""
    REDIS_CLEANUP_REFUSED = "RedisCleanupRefused"
    """True when the API server will never take the cleanup Job of a cluster that is being deleted."""


class JobCondition(StrEnum):
    """Condition types of a RayJob; all are this operator's own. The first five are there from the start and made for
    ``kubectl wait --for=condition=…``."""

    ACCEPTED = "Accepted"
    """False while the spec is refused; the message names fields."""
    CLUSTER_READY = "ClusterReady"
    """Whether the RayCluster of the attempt is ready; if not, the message says what keeps it."""
    SUBMITTED = "Submitted"
    """Whether Ray has the attempt's job, or had it."""
    RUNNING = "Running"
    """Whether Ray runs the job now."""
    FINISHED = "Finished"
    """Whether the RayJob has ended, for good. Reason Succeeded, Stopped, or what it failed by."""
    PODS_WAITING = "PodsWaiting"
    PLUGIN_FAILED = "PluginFailed"
    PLUGIN_SLOW = "PluginSlow"
    PLUGIN_WARNING = "PluginWarning"
    PLUGIN_MISSING = "PluginMissing"
    EDIT_IGNORED = "RayClusterSpecEditIgnored"
    """True while ``rayClusterSpec`` or ``submissionMode`` says something that the attempt under way does not follow; the
    message says what."""


class ServiceCondition(StrEnum):
    """Condition types of a RayService. The first five are KubeRay's (spec rayservice.md 5.1)."""

    READY = "Ready"
    UPGRADE_IN_PROGRESS = "UpgradeInProgress"
    ROLLBACK_IN_PROGRESS = "RollbackInProgress"
    SUSPENDING = "Suspending"
    SUSPENDED = "Suspended"
    WAITING = "RayServiceWaiting"
    """True while something keeps the service from being ready, or an upgrade from moving, for longer than that takes; the
    message says what."""
    EDIT_IGNORED = "RayClusterConfigEditIgnored"
    """True while ``rayClusterConfig`` says something that the upgrade strategy does not roll out; the message says what."""
    PLUGIN_FAILED = "PluginFailed"
    PLUGIN_SLOW = "PluginSlow"
    PLUGIN_WARNING = "PluginWarning"
    PLUGIN_MISSING = "PluginMissing"


class ServiceReason(StrEnum):
    """Reasons of KubeRay's RayService conditions."""

    INITIALIZING = "Initializing"
    INITIALIZING_TIMEOUT = "InitializingTimeout"
    ZERO_ENDPOINTS = "ZeroServeEndpoints"
    NON_ZERO_ENDPOINTS = "NonZeroServeEndpoints"
    BOTH_CLUSTERS = "BothActivePendingClustersExist"
    NO_PENDING = "NoPendingCluster"
    NO_ACTIVE = "NoActiveCluster"
    VALIDATION_FAILED = "ValidationFailed"
    GOAL_CHANGED = "DesiredClusterSpecChanged"
    SUSPEND_REQUESTED = "SuspendRequested"
    SUSPEND_IN_PROGRESS = "SuspendInProgress"
    SUSPEND_COMPLETE = "SuspendComplete"
    RESUMED = "RayServiceResumed"


class CronCondition(StrEnum):
    """Condition types of a RayCronJob; all are this operator's own."""

    ACCEPTED = "Accepted"
    """False while the object is refused; the message names fields."""
    SUSPENDED = "Suspended"
    """True while ``spec.suspend`` is; absent otherwise."""
    START_DELAYED = "StartDelayed"
    """True while a RayJob that is due cannot be started yet; the message says why."""


class ClusterReason(StrEnum):
    """Reasons of RayCluster conditions."""

    HEAD_POD_NOT_FOUND = "HeadPodNotFound"
    HEAD_POD_RUNNING_AND_READY = "HeadPodRunningAndReady"
    CONTAINERS_NOT_READY = "ContainersNotReady"
    UNKNOWN = "Unknown"
    ALL_PODS_READY_FIRST_TIME = "AllPodRunningAndReadyFirstTime"
    PODS_PROVISIONING = "RayClusterPodsProvisioning"
    SUSPENDING = "RayClusterSuspending"
    SUSPENDED = "RayClusterSuspended"
    FAILED_DELETE_ALL_PODS = "FailedDeleteAllPods"
    FAILED_DELETE_HEAD_POD = "FailedDeleteHeadPod"
    FAILED_CREATE_HEAD_POD = "FailedCreateHeadPod"
    FAILED_DELETE_WORKER_POD = "FailedDeleteWorkerPod"
    FAILED_CREATE_WORKER_POD = "FailedCreateWorkerPod"
    FAILED_RESIZE_POD = "FailedResizePod"


class TroubleReason(StrEnum):
    """Reasons of ``PodsNotReady``: what keeps pods from being ready. What each means: `kuberay.api.condition_reference`."""

    QUOTA_EXCEEDED = "QuotaExceeded"
    ADMISSION_REFUSED = "AdmissionRefused"
    NOT_PERMITTED = "NotPermitted"
    POD_INVALID = "PodInvalid"
    CREATE_FAILED = "CreateFailed"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULING_GATED = "SchedulingGated"
    NOT_SCHEDULED = "NotScheduled"
    IMAGE_PULL = "ImagePullBackOff"
    CRASH_LOOP = "CrashLoopBackOff"
    CONTAINER_CANNOT_START = "ContainerCannotStart"
    CONTAINER_ENDED = "ContainerEnded"
    CONTAINERS_CREATING = "ContainersCreating"
    CONTAINERS_NOT_READY = "ContainersNotReady"
    WAITING_FOR_HEAD = "WaitingForHead"
    NODE_LOST = "NodeLost"
    STUCK_TERMINATING = "StuckTerminating"
    EVICTED = "Evicted"
    PREEMPTED = "Preempted"
    PLUGIN_DIAGNOSIS = "PluginDiagnosis"


MAX_MESSAGE = 32768
"""Longest message the schema admits."""


def set_condition(
    conditions: Sequence[Mapping[str, Any]],
    type: str,  # noqa: A002 - the field's name in Kubernetes
    status: str,
    reason: str,
    message: str,
    now: datetime,
    generation: int | None = None,
) -> list[Condition]:
    """The list with one condition set. ``lastTransitionTime`` moves only when the status value changes.

    *generation* becomes ``observedGeneration``; without it the field is left out, as KubeRay does (1.7).
    """
    old = find_condition(conditions, type)
    since = old.get("lastTransitionTime") if old is not None and old.get("status") == status else None
    new: Condition = {
        "type": type,
        "status": status,
        "reason": reason,
        "message": message[:MAX_MESSAGE],
        "lastTransitionTime": since or format_time(now),
    }
    if generation is not None:
        new["observedGeneration"] = generation
    others = [dict(condition) for condition in conditions if condition.get("type") != type]
    return sorted([*others, new], key=_type)


def remove_condition(conditions: Sequence[Mapping[str, Any]], type: str) -> list[Condition]:  # noqa: A002
    """The list without that condition."""
    return [dict(condition) for condition in conditions if condition.get("type") != type]


def find_condition(conditions: Sequence[Mapping[str, Any]], type: str) -> Mapping[str, Any] | None:  # noqa: A002
    """The condition of that type."""
    return next((condition for condition in conditions if condition.get("type") == type), None)


def is_true(conditions: Sequence[Mapping[str, Any]], type: str) -> bool:  # noqa: A002
    """Whether the condition is there with status True."""
    condition = find_condition(conditions, type)
    return condition is not None and condition.get("status") == TRUE


def _type(condition: Mapping[str, Any]) -> str:
    return str(condition.get("type", ""))
