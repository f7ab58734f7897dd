"""Whether the fault tolerance settings of the GCS are refused: options, annotations and environment that contradict.

Source: spec raycluster.md 1.8 rules 12-20. Problems are pairs of field path below the spec and message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kuberay.api.cluster import GcsFaultToleranceOptions, RayClusterSpec
from kuberay.api.gates import EMBEDDED_STORAGE
from kuberay.api.names import ANNOTATION_EXTERNAL_STORAGE_NAMESPACE, ANNOTATION_FT_ENABLED
from kuberay.api.podtemplate import find_env

Found = tuple[str, str]

_OPTIONS = "gcsFaultToleranceOptions"
_PARAMS = "headGroupSpec.rayStartParams"
_HEAD_POD = "headGroupSpec.template.spec"
_HEAD_ENV = f"{_HEAD_POD}.containers[0].env"


def fault_tolerance_problems(
    spec: RayClusterSpec, annotations: Mapping[str, str], gates: Mapping[str, bool]
) -> Iterator[Found]:
    """Rules 12-20."""
    head = spec.head_group_spec
    options = spec.gcs_fault_tolerance_options
    if annotations.get(ANNOTATION_FT_ENABLED) and options is not None:
        yield (
            f"metadata.annotations[{ANNOTATION_FT_ENABLED}]",
            "ray.io/ft-enabled annotation and GcsFaultToleranceOptions are both set. Please use only"
            " GcsFaultToleranceOptions to configure GCS fault tolerance",
        )
    if not spec.gcs_ft_enabled(annotations) and find_env(head.ray_container, "RAY_REDIS_ADDRESS"):
        yield (
            _HEAD_ENV,
            "RAY_REDIS_ADDRESS is set which implicitly enables GCS fault tolerance, but GcsFaultToleranceOptions is"
            " not set. Please set GcsFaultToleranceOptions to enable GCS fault tolerance",
        )
    if options is not None:
        yield from _doubled(spec, annotations)
        if options.embedded:
            yield from _embedded(spec, options, gates)
        elif options.storage is not None:
            yield (
                f"{_OPTIONS}.storage",
                "cannot set GcsFaultToleranceOptions.Storage when backend is 'redis' - it only applies to the"
                " 'rocksdb' backend",
            )
    in_params = "redis-username" in head.ray_start_params
    if in_params or find_env(head.ray_container, "REDIS_USERNAME"):
        yield (
            f"{_PARAMS}.redis-username" if in_params else _HEAD_ENV,
            "cannot set redis username in rayStartParams or environment variables - use"
            " GcsFaultToleranceOptions.RedisUsername instead",
        )


def _doubled(spec: RayClusterSpec, annotations: Mapping[str, str]) -> Iterator[Found]:
    head = spec.head_group_spec
    both = "cannot set {} when GcsFaultToleranceOptions is enabled - use GcsFaultToleranceOptions.{} instead"
    if "redis-password" in head.ray_start_params:
        yield f"{_PARAMS}.redis-password", both.format("`redis-password` in rayStartParams", "RedisPassword")
    if find_env(head.ray_container, "REDIS_PASSWORD"):
        yield _HEAD_ENV, both.format("`REDIS_PASSWORD` env var in head Pod", "RedisPassword")
    if find_env(head.ray_container, "RAY_REDIS_ADDRESS"):
        yield _HEAD_ENV, both.format("`RAY_REDIS_ADDRESS` env var in head Pod", "RedisAddress")
    if annotations.get(ANNOTATION_EXTERNAL_STORAGE_NAMESPACE):
        yield (
            f"metadata.annotations[{ANNOTATION_EXTERNAL_STORAGE_NAMESPACE}]",
            both.format("`ray.io/external-storage-namespace` annotation", "ExternalStorageNamespace"),
        )


def _embedded(spec: RayClusterSpec, options: GcsFaultToleranceOptions, gates: Mapping[str, bool]) -> Iterator[Found]:
    head = spec.head_group_spec
    if not gates.get(EMBEDDED_STORAGE, False):
        yield (
            f"{_OPTIONS}.backend",
            "the embedded RocksDB GCS fault tolerance backend (GcsFaultToleranceOptions.Backend: 'rocksdb') requires"
            " the GCSFaultToleranceEmbeddedStorage feature gate to be enabled",
        )
    for field, wire, value in (
        ("RedisAddress", "redisAddress", options.redis_address),
        ("RedisUsername", "redisUsername", options.redis_username),
        ("RedisPassword", "redisPassword", options.redis_password),
        ("ExternalStorageNamespace", "externalStorageNamespace", options.external_storage_namespace),
    ):
        if value:
            yield f"{_OPTIONS}.{wire}", f"cannot set GcsFaultToleranceOptions.{field} when backend is 'rocksdb'"
    storage = options.storage
    if storage is not None and storage.claim_name:
        own = (storage.size, storage.storage_class_name, storage.access_modes or None)
        if any(value is not None for value in own):
            yield (
                f"{_OPTIONS}.storage.claimName",
                "GcsFaultToleranceOptions.Storage.ClaimName is mutually exclusive with size, storageClassName, and"
                " accessModes",
            )
    container = head.ray_container
    if find_env(container, "RAY_gcs_storage") or find_env(container, "RAY_gcs_storage_path"):
        yield (
            _HEAD_ENV,
            "cannot set `RAY_gcs_storage` or `RAY_gcs_storage_path` env var in head Pod when the embedded GCS FT"
            " backend is used - these are managed by KubeRay",
        )
    for index, mount in enumerate(container.get("volumeMounts") or []):
        if mount.get("name") == "gcs-storage" or mount.get("mountPath") == "/data/gcs":
            yield (
                f"{_HEAD_POD}.containers[0].volumeMounts[{index}]",
                'cannot set a volume mount named "gcs-storage" or mounted at /data/gcs in the head container when the'
                " embedded GCS FT backend is used - it is managed by KubeRay",
            )
    for index, volume in enumerate(head.pod_spec.get("volumes") or []):
        if volume.get("name") == "gcs-storage":
            yield (
                f"{_HEAD_POD}.volumes[{index}]",
                'cannot set a volume named "gcs-storage" in the head Pod when the embedded GCS FT backend is used - it'
                " is managed by KubeRay",
            )
