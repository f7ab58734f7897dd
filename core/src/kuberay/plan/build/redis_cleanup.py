"""What the Job looks like that deletes a cluster's keys from Redis: the head pod with another command and little else.

Source: spec raycluster.md 6.1. The address, user and password reach it as they reach the head: as environment variables.
"""

from __future__ import annotations

from typing import Any

from kuberay.api import names
from kuberay.api.podtemplate import find_env
from kuberay.plan.build import env
from kuberay.plan.build.pods import PodFactory, PodPlace
from kuberay.plan.build.shell import shell

DEADLINE_SECONDS = 300
_RESOURCES = {"cpu": "200m", "memory": "256Mi"}
_DROPPED_INIT_CONTAINER = "wait-for-tls-ip-san"
"""It waits for the certificate of a head that will never come."""

_SCRIPT = (
    "echo \"To get more information about manually deleting the storage namespace in Redis and removing the RayCluster's"
    " finalizer, please check https://docs.ray.io/en/master/cluster/kubernetes/user-guides/kuberay-gcs-ft.html for more"
    ' details." && '
    'python -c "from ray._private.gcs_utils import cleanup_redis_storage; from urllib.parse import urlparse; import os; '
    "import sys; redis_address = os.getenv('RAY_REDIS_ADDRESS', '').split(',')[0]; "
    "redis_address = redis_address if '://' in redis_address else 'redis://' + redis_address; "
    "parsed = urlparse(redis_address); "
    "sys.exit(1) if not cleanup_redis_storage(host=parsed.hostname, port=parsed.port, {username}"
    "password=os.getenv('REDIS_PASSWORD', parsed.password or ''), use_ssl=parsed.scheme=='rediss', "
    "storage_namespace=os.getenv('RAY_external_storage_namespace')) else None\""
)
_USERNAME = "username=os.getenv('REDIS_USERNAME', parsed.username), "


def cleanup_job(factory: PodFactory) -> dict[str, Any]:
    """The Job. *factory* should be one without plugins and without head annotations: this pod is no part of the
    cluster, of its gang for example. Raises what a head template raises that no pod can be made of."""
    owner = factory.owner
    pod = factory.build(_head(factory)).pod
    metadata, spec = pod["metadata"], pod["spec"]
    if not metadata.get("name"):
        metadata.pop("name", None)
    metadata["labels"] = {**metadata["labels"], names.LABEL_NODE_TYPE: names.REDIS_CLEANUP}
    container = spec["containers"][0]
    spec["containers"] = [container]
    kept = [init for init in spec.get("initContainers") or () if init.get("name") != _DROPPED_INIT_CONTAINER]
    spec.pop("initContainers", None)
    if kept:
        spec["initContainers"] = kept
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        container.pop(probe, None)
    spec["restartPolicy"] = "Never"
    container["resources"] = {"limits": dict(_RESOURCES), "requests": dict(_RESOURCES)}
    env.append(
        container,
        env.literal("RAY_redis_db_connect_retries", "120"),
        env.literal("RAY_redis_db_connect_wait_milliseconds", "500"),
    )
    container["command"] = shell(login=factory.config.login_shell)
    username = _USERNAME if find_env(container, "REDIS_USERNAME") else ""
    container["args"] = [_SCRIPT.replace("{username}", username)]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": names.redis_cleanup_job_name(owner.name),
            "namespace": owner.namespace,
            # The operator finds its Jobs by this label, whatever the template says.
            "labels": {**metadata["labels"], names.LABEL_CREATED_BY: names.COMPONENT},
            "annotations": dict(metadata.get("annotations") or {}),
            "ownerReferences": [dict(owner.owner_reference)],
        },
        "spec": {
            "backoffLimit": 0,
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "template": {"metadata": metadata, "spec": spec},
        },
    }


def _head(factory: PodFactory) -> PodPlace:
    prefix = names.pod_name_prefix(factory.owner.name, names.HEAD)
    fixed = factory.config.deterministic_head_pod_name
    return PodPlace(
        node_type="head",
        group=factory.spec.head_group_spec,
        group_name=names.HEAD_GROUP,
        name=prefix.removesuffix("-") if fixed else "",
        generate_name="" if fixed else prefix,
    )
