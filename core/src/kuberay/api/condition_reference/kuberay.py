"""Conditions that KubeRay has too. Source: spec raycluster.md 5.5."""

from __future__ import annotations

from collections.abc import Sequence

from kuberay.api.condition_reference.entry import ANY, SEE_EVENTS, Entry, cluster
from kuberay.api.conditions import ClusterCondition as C
from kuberay.api.conditions import ClusterReason as R

KUBERAY: Sequence[Entry] = (
    cluster(C.PROVISIONED, "True", R.ALL_PODS_READY_FIRST_TIME, "normal", "All pods were ready at once."),
    cluster(
        C.PROVISIONED,
        "False",
        R.PODS_PROVISIONING,
        "transient",
        "The pods have not all been ready since the cluster was made or resumed, or it is suspended.",
        "If it lasts, PodsNotReady and PodsWaiting say why.",
    ),
    cluster(C.HEAD_POD_READY, "True", R.HEAD_POD_RUNNING_AND_READY, "normal", "The head runs and is ready."),
    cluster(C.HEAD_POD_READY, "False", "HeadPodCreating", "transient", "The first head is being made."),
    cluster(
        C.HEAD_POD_READY,
        "False",
        R.HEAD_POD_NOT_FOUND,
        "transient",
        "There was a head and it is gone; it is being replaced, unless the cluster is suspended or the annotation "
        "ray.io/disable-provisioned-head-restart forbids it.",
    ),
    cluster(
        C.HEAD_POD_READY,
        "False",
        R.UNKNOWN,
        "transient",
        "Kubernetes has not said yet whether the head is ready.",
    ),
    cluster(
        C.HEAD_POD_READY,
        "False",
        R.CONTAINERS_NOT_READY,
        "transient",
        "A container of the head is not ready yet.",
        SEE_EVENTS,
    ),
    cluster(
        C.HEAD_POD_READY,
        "False",
        ANY,
        "transient",
        "What Kubernetes says about the head pod, or about its first container that is not running.",
        SEE_EVENTS,
    ),
    cluster(
        C.HEAD_POD_READY,
        "Unknown",
        ANY,
        "transient",
        "The node of the head does not report how its pods are (NodeStatusUnknown).",
        "Look at the node: kubectl get node. Bring it back, or delete the Node object when it is gone for good.",
    ),
    *(
        cluster(
            C.REPLICA_FAILURE,
            "True",
            reason,
            "transient",
            f"The API server did not {what}; the message holds its words. It is tried again with growing pauses.",
            "If the message speaks of quota or admission, raise the quota or change the pod template.",
        )
        for reason, what in (
            (R.FAILED_CREATE_HEAD_POD, "take the head pod"),
            (R.FAILED_CREATE_WORKER_POD, "take a worker pod"),
            (R.FAILED_DELETE_HEAD_POD, "delete the head pod"),
            (R.FAILED_DELETE_WORKER_POD, "delete a worker pod"),
            (R.FAILED_DELETE_ALL_PODS, "delete the pods"),
            (R.FAILED_RESIZE_POD, "resize a pod in place"),
        )
    ),
    cluster(C.SUSPENDING, "True", R.SUSPENDING, "transient", "All pods are being deleted."),
    cluster(C.SUSPENDING, "False", R.SUSPENDING, "normal", "No suspension is under way."),
    cluster(
        C.SUSPENDED,
        "True",
        R.SUSPENDED,
        "terminal",
        "spec.suspend is true and no pod is left.",
        "Set spec.suspend to false to get the pods back; a queue such as Kueue does so when it admits the cluster.",
    ),
    cluster(C.SUSPENDED, "False", R.SUSPENDED, "normal", "The cluster is not suspended."),
)
