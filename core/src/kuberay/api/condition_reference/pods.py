"""Reasons of ``PodsNotReady``: what keeps pods from being made or ready."""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.condition_reference.entry import SEE_EVENTS, Entry, Lasting, cluster
from kuberay.api.conditions import ClusterCondition as C
from kuberay.api.conditions import TroubleReason as T


def trouble(reason: str, lasting: Lasting, meaning: str, advice: str) -> Entry:
    """An entry of ``PodsNotReady``."""
    return cluster(C.PODS_NOT_READY, "True", reason, lasting, meaning, advice)


PODS: Sequence[Entry] = (
    trouble(
        T.QUOTA_EXCEEDED,
        "terminal",
        "A ResourceQuota of the namespace does not admit the pods.",
        "Raise the quota, free some of it, or ask for less: kubectl describe resourcequota.",
    ),
    trouble(
        T.ADMISSION_REFUSED,
        "terminal",
        "An admission webhook, a LimitRange or the pod security of the namespace refuses the pods.",
        "Change the pod template as the message says, or the policy.",
    ),
    trouble(
        T.NOT_PERMITTED,
        "terminal",
        "The operator may not create pods in this namespace.",
        "Grant it: kuberay rbac | kubectl apply -f -",
    ),
    trouble(
        T.POD_INVALID,
        "terminal",
        "The API server says that the pod template makes no valid pod.",
        "Correct the pod template of the group.",
    ),
    trouble(
        T.CREATE_FAILED, "transient", "Creating a pod failed for another reason.", "Wait; it is tried again by itself."
    ),
    trouble(
        T.UNSCHEDULABLE,
        "transient",
        "The scheduler finds no node; the message is the scheduler's.",
        "Add nodes or free some, ask for less CPU, memory or devices, or correct node selectors, affinities and "
        "tolerations.",
    ),
    trouble(
        T.SCHEDULING_GATED,
        "transient",
        "The pods carry scheduling gates, so no scheduler looks at them.",
        "Wait for whoever set the gates (a queue, a quota system), or remove spec.schedulingGates.",
    ),
    trouble(
        T.NOT_SCHEDULED,
        "terminal",
        "No scheduler has taken the pods up for two minutes.",
        "Check that the scheduler that spec.schedulerName of the pods names is running.",
    ),
    trouble(
        T.IMAGE_PULL,
        "terminal",
        "The image of a container cannot be pulled.",
        "Check name and tag of the image, that nodes reach the registry, and imagePullSecrets.",
    ),
    trouble(
        T.CRASH_LOOP,
        "terminal",
        "A container ends again and again; the message has its last exit code and last words.",
        "kubectl logs NAME -c CONTAINER --previous. Exit code 137 with OOMKilled: give it more memory.",
    ),
    trouble(
        T.CONTAINER_CANNOT_START,
        "terminal",
        "The kubelet cannot start a container, for example because a Secret or ConfigMap is missing.",
        "Make what the message names, or correct the pod template.",
    ),
    trouble(
        T.CONTAINER_ENDED,
        "terminal",
        "A container beside Ray has ended, and the restart policy does not start it again.",
        "Delete the pod to have it replaced; correct the container.",
    ),
    trouble(
        T.CONTAINERS_CREATING,
        "transient",
        "For five minutes the kubelet has prepared the pods: it mounts volumes, pulls images, runs init containers.",
        "If it lasts: kubectl describe pod NAME shows what it is doing; often a volume cannot be mounted.",
    ),
    trouble(
        T.CONTAINERS_NOT_READY,
        "transient",
        "Containers run, but for two minutes their readiness probes have failed.",
        SEE_EVENTS,
    ),
    trouble(
        T.WAITING_FOR_HEAD,
        "transient",
        "Workers have waited for the head for two minutes.",
        "See why the head is not ready. If it is, check network policies, and that head and workers have the same "
        "version of Ray and the same token.",
    ),
    trouble(
        T.NODE_LOST,
        "terminal",
        "The node of the pods does not answer. They count until they are gone, because they may still run.",
        "Bring the node back, or delete it: kubectl delete node NAME; then its pods are replaced.",
    ),
    trouble(
        T.STUCK_TERMINATING,
        "terminal",
        "Pods were deleted and are not gone. They count until they are.",
        "Remove the finalizer that the message names, or see to the pod's node: kubectl describe pod NAME.",
    ),
    trouble(T.EVICTED, "transient", "Pods are being evicted; they are replaced when they are gone.", SEE_EVENTS),
    trouble(
        T.PREEMPTED,
        "transient",
        "Pods make room for others of higher priority; they are replaced when they are gone.",
        "Give the pods a higher priorityClassName, or the cluster more nodes.",
    ),
    trouble(T.PLUGIN_DIAGNOSIS, "transient", "A plugin says what it waits for.", "Do what the message says."),
)
