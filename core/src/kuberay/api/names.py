"""How children are named and labelled, with the length rules every Ray tool relies on.

Source: spec raycluster.md 0.2 and 0.6, rayjob.md 0.
"""

from __future__ import annotations

import hashlib

SAFE_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""The letters and digits Kubernetes uses for generated suffixes: no vowels, no look-alikes."""

LABEL_CLUSTER = "ray.io/cluster"
LABEL_NODE_TYPE = "ray.io/node-type"
LABEL_GROUP = "ray.io/group"
LABEL_IS_RAY_NODE = "ray.io/is-ray-node"
LABEL_IDENTIFIER = "ray.io/identifier"
LABEL_SERVE = "ray.io/serve"
LABEL_HEADLESS_SVC = "ray.io/headless-worker-svc"
LABEL_REPLICA_NAME = "ray.io/worker-group-replica-name"
LABEL_REPLICA_INDEX = "ray.io/worker-group-replica-index"
LABEL_HOST_INDEX = "ray.io/replica-host-index"
LABEL_ORIGIN_NAME = "ray.io/originated-from-cr-name"
LABEL_ORIGIN_CRD = "ray.io/originated-from-crd"
LABEL_SUBMISSION_MODE = "ray.io/job-submission-mode"
LABEL_CRONJOB_NAME = "ray.io/cronjob-name"
LABEL_PRIORITY_CLASS = "ray.io/priority-class-name"
LABEL_GANG = "ray.io/gang-scheduling-enabled"
LABEL_APP_NAME = "app.kubernetes.io/name"
LABEL_CREATED_BY = "app.kubernetes.io/created-by"
LABEL_PLUGIN = "ray.io/plugin"
"""On Secrets: the plugin that wants them and reads them back. Of no other Secrets the content is kept."""

ANNOTATION_FT_ENABLED = "ray.io/ft-enabled"
ANNOTATION_EXTERNAL_STORAGE_NAMESPACE = "ray.io/external-storage-namespace"
ANNOTATION_FT_DELETION_TIMEOUT = "ray.io/gcs-ft-deletion-timeout"
ANNOTATION_OVERWRITE_CMD = "ray.io/overwrite-container-cmd"
ANNOTATION_SERVE_SERVICE = "ray.io/enable-serve-service"
ANNOTATION_NO_HEAD_RESTART = "ray.io/disable-provisioned-head-restart"
ANNOTATION_SUBMISSION_ID = "ray.io/ray-job-submission-id"
"""On a RayJob in InteractiveMode: the submission id of the job its user has submitted, where ``spec.jobId`` is empty."""
ANNOTATION_SCHEDULED_TIMESTAMP = "ray.io/cronjob-scheduled-timestamp"
"""On a RayJob that a RayCronJob made: the tick it was made for, an RFC 3339 time."""
ANNOTATION_SILENCED = "ray.io/suspended-by-rayjob"
"""On a submitter Job: the operator has suspended it, so that it does not submit again."""
ANNOTATION_CLUSTER_HASH = "ray.io/hash-without-replicas-and-workers-to-delete"
ANNOTATION_WORKER_GROUPS = "ray.io/num-worker-groups"
"""Both on a RayCluster that a RayService made: of which ``rayClusterConfig``, and with how many worker groups."""
ANNOTATION_SERVE_CONFIG = "ray.io/serve-config"
"""On a RayCluster that a RayService made: the ``serveConfigV2`` that its Serve has accepted, as it was written."""
ANNOTATION_SERVE_CONFIG_GIVEN = "ray.io/serve-config-given"
"""Beside it: when that was, an RFC 3339 time, and the UID and restart count of the head that accepted it."""
ANNOTATION_DELETE_AFTER = "ray.io/delete-after"
"""On a RayCluster that its RayService no longer uses, an RFC 3339 time: it is deleted then, not earlier."""
ANNOTATION_DELETE_DRAINED = "ray.io/delete-when-drained"
"""``true`` on a RayService: a RayCluster that it no longer uses is deleted before its time once no request is in flight."""
ANNOTATION_INITIALIZING_TIMEOUT = "ray.io/initializing-timeout"
"""On a RayService: how long it may take to serve for the first time, a Go duration or seconds."""
ANNOTATION_UPGRADE_PAUSED = "ray.io/upgrade-paused"
"""``true`` on a RayService: an upgrade under way moves neither capacity nor traffic and does not end."""
ANNOTATION_UPGRADE_ABORTED = "ray.io/upgrade-aborted"
"""``true`` on a RayService: an upgrade under way goes back to the active RayCluster, and no other is prepared."""
ANNOTATION_UPGRADE_HASH = "ray.io/upgrade-strategy-recreate-hash"
ANNOTATION_OPERATOR_VERSION = "ray.io/kuberay-version"
ANNOTATION_GROUP_HASH = "ray.io/group-spec-hash"
ANNOTATION_DRAINING_SINCE = "ray.io/draining-since"
"""On a worker pod, an RFC 3339 time: since when it is being drained; it no longer fills its place and will go."""
ANNOTATION_DRAIN_TIMEOUT = "ray.io/drain-timeout-seconds"
"""On a RayCluster: how long a worker may be drained before its pod goes; 0: not at all."""
ANNOTATION_EXTEND_UNTIL = "ray.io/extend-until"
"""On a RayCluster, an RFC 3339 time: its ``lifecycle`` does not end it before."""
ANNOTATION_INGRESS_CLASS = "kubernetes.io/ingress.class"
ANNOTATION_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
ANNOTATION_WAIT_GCS = "ray.io/wait-gcs-ready"
"""``false`` on a RayCluster or on a worker group's template: workers get no ``wait-gcs-ready`` init container."""
ANNOTATION_WAIT_GCS_CPU = "ray.io/wait-gcs-ready-cpu"
ANNOTATION_WAIT_GCS_MEMORY = "ray.io/wait-gcs-ready-memory"
"""Requests and limits of ``wait-gcs-ready``, on a RayCluster or on a worker group's template (which wins)."""

APP_NAME = "kuberay"
COMPONENT = "kuberay-operator"
"""Value of ``app.kubernetes.io/created-by``, and the field manager of every server-side apply."""

MANAGED_BY = "ray.io/kuberay-operator"
"""The only ``spec.managedBy`` value (besides absence) this operator acts on."""

HEAD_GROUP = "headgroup"
HEAD = "head"
WORKER = "worker"
SUBMITTER_GROUP = "submittergroup"
SUBMITTER_CONTAINER = "ray-job-submitter"
"""The container that submits a RayJob: in the pod of its submitter Job, or in the head pod (SidecarMode)."""

REDIS_CLEANUP = "redis-cleanup"
"""Node type of the pod that deletes a cluster's keys from Redis."""

RAYSERVICE_FINALIZER = "ray.io/rayservice-finalizer"
RAYJOB_FINALIZER = "ray.io/rayjob-finalizer"
REDIS_FINALIZER = "ray.io/gcs-ft-redis-cleanup-finalizer"


def check_name(name: str) -> str:
    """Shorten to the last 50 characters; a leading digit or punctuation becomes ``r``."""
    name = name[-50:]
    if name and name[0].isdigit():
        name = "r" + name[1:]
    if name and not name[0].isalnum():
        name = "r" + name[1:]
    return name


def check_label(value: str) -> str:
    """Shorten to the last 63 characters; leading punctuation becomes ``r``."""
    value = value[-63:]
    if value and not value[0].isalnum():
        value = "r" + value[1:]
    return value


def check_route_name(name: str, namespace: str) -> str:
    """Route names share 51 characters with the namespace; the first ones are kept, then `check_name` applies."""
    return check_name(name[: max(0, 51 - len(namespace))])


def pod_name_prefix(prefix: str, node_type: str) -> str:
    """``<first 50 of prefix>-<head|worker>-`` in lower case: the ``generateName`` of a pod."""
    return f"{prefix[:50]}-{node_type}-".lower()


def suffix(*parts: str | int, length: int = 5) -> str:
    """A short name suffix that depends only on *parts*, so that two actors with the same view choose the same."""
    digest = hashlib.blake2b("\0".join(map(str, parts)).encode(), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    chars = []
    for _ in range(length):
        number, index = divmod(number, len(SAFE_ALPHABET))
        chars.append(SAFE_ALPHABET[index])
    return "".join(chars)


def head_service_name(cluster: str, custom: str = "") -> str:
    """The head service: the user's name when given, else ``<cluster>-head-svc``."""
    return custom or f"{cluster}-head-svc"


def service_fqdn(service: str, namespace: str, domain: str) -> str:
    """``<service>.<namespace>.svc.<domain>``."""
    return f"{service}.{namespace}.svc.{domain}"


def serve_service_name(cluster: str) -> str:
    return f"{cluster}-serve-svc"


def headless_service_name(cluster: str) -> str:
    return f"{cluster}-headless"


def ingress_name(cluster: str) -> str:
    return check_name(f"{cluster}-head-ingress")


def route_name(cluster: str, namespace: str) -> str:
    """Empty when the namespace is so long that no room is left."""
    return check_route_name(f"{cluster}-head-route", namespace).rstrip("-.")


def disruption_budget_name(cluster: str, group: str) -> str:
    """Short enough whatever the group is called: its name is a label value."""
    return f"{cluster}-{group}".lower()


def gcs_claim_name(cluster: str) -> str:
    """The volume claim of embedded GCS fault tolerance that the operator makes."""
    return f"{cluster}-gcs-pvc"


def redis_cleanup_job_name(cluster: str) -> str:
    return check_label(f"{cluster}-redis-cleanup")


def identifier(cluster: str, node_type: str) -> str:
    """Value of ``ray.io/identifier``."""
    return check_label(f"{cluster}-{node_type}")
