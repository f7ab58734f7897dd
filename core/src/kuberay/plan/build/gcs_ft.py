"""What GCS fault tolerance adds to pods: where the head keeps its state, and how long workers wait for a new head.

Source: spec raycluster.md 1.6, 3.4, 3.5 (2-7), 3.6 (8), 3.10 and 3.15.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kuberay.api.cluster import RayClusterSpec, RedisCredential
from kuberay.api.names import ANNOTATION_EXTERNAL_STORAGE_NAMESPACE, ANNOTATION_FT_ENABLED
from kuberay.plan.build import env
from kuberay.plan.build.volumes import add_volume

STORAGE_VOLUME = "gcs-storage"
STORAGE_PATH = "/data/gcs"


def forced_params(spec: RayClusterSpec) -> dict[str, str]:
    """Start parameters of the head that keep Redis credentials off the command line."""
    options = spec.gcs_fault_tolerance_options
    params = {}
    if options is not None and not options.embedded:
        if options.redis_username is not None:
            params["redis-username"] = "$REDIS_USERNAME"
        if options.redis_password is not None:
            params["redis-password"] = "$REDIS_PASSWORD"
    return params


def add_to_worker(spec: RayClusterSpec, annotations: Mapping[str, str], container: dict[str, Any]) -> None:
    """Workers wait up to ten minutes for a head that comes back."""
    if spec.gcs_ft_enabled(annotations):
        env.append_absent(container, [env.literal("RAY_gcs_rpc_server_reconnect_timeout_s", "600")])


def add_to_head(
    spec: RayClusterSpec,
    cluster: str,
    uid: str,
    annotations: Mapping[str, str],
    pod: dict[str, Any],
    container: dict[str, Any],
) -> None:
    """Annotations, environment and volume of the head. *annotations* are the RayCluster's."""
    enabled = spec.gcs_ft_enabled(annotations)
    pod_annotations = pod["metadata"]["annotations"]
    pod_annotations[ANNOTATION_FT_ENABLED] = "true" if enabled else "false"
    if not enabled:
        return
    options = spec.gcs_fault_tolerance_options
    if options is not None and options.embedded:
        storage = options.storage
        claim = (storage.claim_name if storage else "") or f"{cluster}-gcs-pvc"
        mount = {"subPath": storage.sub_path} if storage and storage.sub_path else {}
        source = {"persistentVolumeClaim": {"claimName": claim}}
        add_volume(pod["spec"], container, STORAGE_VOLUME, source, STORAGE_PATH, **mount)
        env.append_absent(
            container, [env.literal("RAY_gcs_storage", "rocksdb"), env.literal("RAY_gcs_storage_path", STORAGE_PATH)]
        )
        return
    namespace = storage_namespace(spec, uid, annotations)
    pod_annotations[ANNOTATION_EXTERNAL_STORAGE_NAMESPACE] = namespace
    env.append_absent(container, [env.literal("RAY_external_storage_namespace", namespace)])
    if options is not None:
        env.append(container, env.literal("RAY_REDIS_ADDRESS", options.redis_address))
        for name, credential in (
            ("REDIS_USERNAME", options.redis_username),
            ("REDIS_PASSWORD", options.redis_password),
        ):
            if credential is not None:
                env.append(container, _credential(name, credential))
    else:
        password = spec.head_group_spec.ray_start_params.get("redis-password")
        if password is not None:
            env.append_absent(container, [env.literal("REDIS_PASSWORD", password)])


def storage_namespace(spec: RayClusterSpec, uid: str, annotations: Mapping[str, str]) -> str:
    """Under which name the keys of a cluster stand in Redis."""
    options = spec.gcs_fault_tolerance_options
    return (
        (options.external_storage_namespace if options else "")
        or annotations.get(ANNOTATION_EXTERNAL_STORAGE_NAMESPACE)
        or uid
    )


def _credential(name: str, credential: RedisCredential) -> dict[str, Any]:
    if credential.value_from:
        return {"name": name, "valueFrom": credential.value_from}
    return env.literal(name, credential.value)
