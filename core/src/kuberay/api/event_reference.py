"""What each event of the operator means: its reason, on which kinds of object, and what to do about a warning.

The page docs/events.md is made from this table; tests hold it against the code and against what simulated operators tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

_RC, _RJ, _RS, _RN = "RayCluster", "RayJob", "RayService", "RayCronJob"
_ALL = (_RC, _RJ, _RS, _RN)


class EventEntry(NamedTuple):
    """One reason. ``type`` is empty where the same reason comes as both."""

    reason: str
    kinds: Sequence[str]
    type: Literal["Normal", "Warning", ""]
    meaning: str


def _made(what: str, words: str, *kinds: str) -> list[EventEntry]:
    return [
        EventEntry(f"Created{what}", kinds, "Normal", f"{words} was made."),
        EventEntry(
            f"FailedToCreate{what}",
            kinds,
            "Warning",
            f"{words} could not be made; the note has the API server's words.",
        ),
    ]


def _changed(what: str, words: str, *kinds: str) -> list[EventEntry]:
    return [
        EventEntry(f"Updated{what}", kinds, "Normal", f"{words} was brought up to date."),
        EventEntry(f"FailedToUpdate{what}", kinds, "Warning", f"{words} could not be changed; the note says why."),
    ]


def _deleted(what: str, words: str, *kinds: str) -> list[EventEntry]:
    return [
        EventEntry(
            f"Deleted{what}", kinds, "Normal", f"{words} was deleted; the note says why, where it is not plain."
        ),
        EventEntry(f"FailedToDelete{what}", kinds, "Warning", f"{words} could not be deleted; the note says why."),
    ]


def _one(reason: str, kinds: Sequence[str], type_: Literal["Normal", "Warning", ""], meaning: str) -> list[EventEntry]:
    return [EventEntry(reason, kinds, type_, meaning)]


_REFUSED = [
    EventEntry(
        f"Invalid{kind}{what}",
        (kind,),
        "Warning",
        f"The {words} of the object {is_} refused; `regarding.fieldPath` and the note name the field. Nothing that runs is touched.",
    )
    for kind, parts in {
        _RC: ("Metadata", "Spec", "Status"),
        _RJ: ("Metadata", "Spec", "Status"),
        _RS: ("Metadata", "Spec"),
        _RN: ("Spec",),
    }.items()
    for what, words, is_ in (("Metadata", "metadata", "are"), ("Spec", "spec", "is"), ("Status", "stored status", "is"))
    if what in parts
]

_PODS = [
    *_made("HeadPod", "The head pod", _RC),
    *_made("WorkerPod", "A worker pod, or as many as the count says,", _RC),
    *_deleted("HeadPod", "The head pod", _RC),
    *_deleted("WorkerPod", "A worker pod, or as many as the count says,", _RC),
    *_one("FailedToDeleteWorkerPodCollection", (_RC,), "Warning", "Pods of a suspended group could not be deleted."),
    *_one(
        "DeletedPod", (_RC,), "Normal", "All pods were deleted: the cluster is suspended, or is made anew (Recreate)."
    ),
    *_one("FailedToDeletePodCollection", (_RC,), "Warning", "All pods were to be deleted and some could not be."),
    *_one("ResizedPod", (_RC,), "Normal", "CPU and memory of a running pod were changed in place."),
    *_one(
        "FailedToResizePod", (_RC,), "Warning", "They could not be; the pod is replaced where the strategy allows it."
    ),
]

_UPGRADES = [
    *_one("RollingUpgradeStarted", (_RC,), "Normal", "The strategy Rolling begins to replace pods."),
    *_one("RollingUpgradeStuck", (_RC,), "Warning", "A new pod does not become ready, so no other is replaced."),
    *_one("RollingUpgradeCompleted", (_RC,), "Normal", "All pods are of the present spec."),
    *_one("HeadPodOutdated", (_RC,), "Warning", "The head is of another spec and must not be restarted."),
    *_one("WorkerGroupFallback", (_RC,), "Warning", "A group finds no node, and its replicas run in another one."),
    *_one("WorkerGroupFallbackEnded", (_RC,), "Normal", "They went back."),
    *_one("LifecycleEnding", (_RC,), "Warning", "The cluster is idle or old and will be ended; the note says when."),
    *_one("LifecycleEnded", (_RC,), "Normal", "It was ended: suspended, or deleted."),
    *_one("LifecycleReleased", (_RC,), "Normal", "It is no longer held suspended by its lifecycle."),
    *_one("InvalidExtension", (_RC,), "Warning", "The annotation `ray.io/extend-until` is no time, and is ignored."),
]

_BESIDE = [
    *_made("Service", "A service", *_ALL[:3]),
    *_changed("Service", "A service", *_ALL[:3]),
    *_deleted("Service", "A service of a suspended RayService", _RS),
    *_one("ServiceNotUpdated", (_RC, _RS), "Warning", "What the user wants of a service cannot be changed in place."),
    *_made("Ingress", "The Ingress of the head", _RC),
    *_changed("Ingress", "The Ingress of the head", _RC),
    *_deleted("Ingress", "The Ingress of the head", _RC),
    *_made("Route", "The Route of the head (OpenShift)", _RC),
    *_changed("Route", "The Route of the head", _RC),
    *_deleted("Route", "The Route of the head", _RC),
    *_made("PodDisruptionBudget", "A PodDisruptionBudget", _RC),
    *_deleted("PodDisruptionBudget", "A PodDisruptionBudget", _RC),
    *_made("PVC", "The volume claim of embedded GCS fault tolerance", _RC),
    *_one("FailedToCreateSecret", (_RC, _RJ), "Warning", "A Secret that a plugin wants could not be made."),
    *_made("ServiceAccount", "The autoscaler's service account", _RC),
    *_made("Role", "The autoscaler's role", _RC),
    *_made("RoleBinding", "The autoscaler's role binding", _RC),
    *_made("NetworkPolicy", "A NetworkPolicy", _RC),
    *_changed("NetworkPolicy", "A NetworkPolicy", _RC),
    *_deleted("NetworkPolicy", "A NetworkPolicy that is no longer wanted", _RC),
    *_one("NetworkPolicyNameCollision", (_RC,), "Warning", "Another object has its name; no pod is made without it."),
    *_made("Gateway", "The Gateway of an incremental upgrade", _RS),
    *_changed("Gateway", "The Gateway", _RS),
    *_deleted("Gateway", "The Gateway of a suspended RayService", _RS),
    *_made("HTTPRoute", "The HTTPRoute of an incremental upgrade", _RS),
    *_changed("HTTPRoute", "The HTTPRoute", _RS),
    *_deleted("HTTPRoute", "The HTTPRoute of a suspended RayService", _RS),
]

_ENDS = [
    *_one("TooManyHeadPods", (_RC,), "Warning", "There is more than one head pod: delete all but the one that works."),
    *_one("CreatedRedisCleanupJob", (_RC,), "Normal", "The Job was made that deletes the cluster's keys from Redis."),
    *_one("FailedToCreateRedisCleanupJob", (_RC,), "Warning", "It could not be made; the note says why."),
    *_one(
        "RedisCleanupFailed",
        (_RC,),
        "Warning",
        "It did not end well in time: keys may be left, the cluster goes all the same.",
    ),
    *_one("RedisCleanupSkipped", (_RC,), "Warning", "Nothing was ever stored in Redis, so nothing is cleaned up."),
    *_one(
        "ForceDeletedStuckCluster", (_RC,), "Warning", "Pods that did not go were given up so that the cluster can go."
    ),
    *_one("BatchSchedulerCleanedUp", (_RC, _RJ), "Normal", "What the batch scheduler had for the object was put away."),
    *_one("FailedToCleanupBatchScheduler", (_RC, _RJ), "Warning", "It could not be; the note says why."),
]

_JOBS = [
    *_made("RayCluster", "A RayCluster", _RJ, _RS),
    *_changed("RayCluster", "A RayCluster", _RJ, _RS),
    *_deleted("RayCluster", "A RayCluster", *_ALL[:3]),
    *_one("RayClusterNotFound", (_RJ,), "Warning", "The RayCluster of `clusterSelector` does not exist."),
    *_made("RayJobSubmitter", "The submitter Job", _RJ),
    *_deleted("RayJobSubmitter", "The submitter Job", _RJ),
    *_one("SuspendedRayJobSubmitter", (_RJ,), "Warning", "It was suspended so that it does not submit again."),
    *_one("SubmitterDenied", (_RJ,), "Warning", "A NetworkPolicy of the RayCluster keeps the submitter out."),
    *_one(
        "SubmitterWithoutPod", (_RJ,), "Warning", "The submitter Job has no pod; the note says what keeps it from one."
    ),
    *_one("FailedToStopRayJob", (_RJ,), "Warning", "Ray could not be told to stop the job before the RayJob went."),
    *_one("RayClusterSpecEditIgnored", (_RJ,), "Warning", "An edit does not reach the attempt under way."),
    *_made("RayJob", "A RayJob", _RN),
    *_deleted("RayJob", "A RayJob beyond the limits, or replaced,", _RN),
    *_one("MissedSchedule", (_RN,), "Warning", "A start was skipped; the note says which and why."),
    *_one("JobAlreadyActive", (_RN,), "Normal", "A start waits until the RayJob before it has ended (Forbid)."),
    *_one("NameTaken", (_RN,), "Warning", "The RayJob that is due has the name of another object."),
    *_one("SuspendedRayCronJob", (_RN,), "Normal", "`spec.suspend` was set: nothing is started."),
]

_SERVICES = [
    *_one("UpdatedHeadPodServeLabel", (_RS,), "Normal", "The head takes requests from now on, or no longer."),
    *_one("FailedToUpdateHeadPodServeLabel", (_RS,), "Warning", "Its label could not be changed."),
    *_changed("ServeApplications", "The configuration of Serve", _RS),
    *_one(
        "UpdatedServeTargetCapacity",
        (_RS,),
        "Normal",
        "A RayCluster's share of the capacity was changed (incremental upgrade).",
    ),
    *_one("FailedToUpdateTargetCapacity", (_RS,), "Warning", "It could not be; the note has Serve's words."),
    *_one("RayClusterConfigEditIgnored", (_RS,), "Warning", "The upgrade strategy does not roll this edit out."),
    *_one(
        "RayServiceInitializingTimeout",
        (_RS,),
        "Warning",
        "It did not serve in the time that `ray.io/initializing-timeout` gives.",
    ),
]

_OPERATOR = [
    *_one(
        "PluginFailed",
        _ALL[:3],
        "Warning",
        "A plugin raised, or gave back what cannot be used; the note names hook and error.",
    ),
    *_one("PluginSlow", _ALL[:3], "Warning", "A hook of a plugin takes long for this object."),
    *_one(
        "PluginMissing", _ALL[:3], "Warning", "The spec asks for a plugin that is not on; the note names the package."
    ),
    *_one("PluginWarning", _ALL[:3], "Warning", "A plugin found something that has not the effect it seems to have."),
    *_one(
        "AutoscalerServiceAccountNotFound",
        (_RC,),
        "Warning",
        "The service account that the head's template names does not exist, so the autoscaler has no rights.",
    ),
    *_one(
        "NotPermitted", _ALL, "Warning", "The operator has no permission for something it must do; the note names it."
    ),
]

EVENTS: Sequence[EventEntry] = (
    *_REFUSED,
    *_PODS,
    *_UPGRADES,
    *_BESIDE,
    *_ENDS,
    *_JOBS,
    *_SERVICES,
    *_OPERATOR,
)


def find_event(kind: str, reason: str) -> EventEntry | None:
    """What events of that *reason* say about objects of a *kind*."""
    return next((entry for entry in EVENTS if entry.reason == reason and kind in entry.kinds), None)
