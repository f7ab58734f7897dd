"""Whether the history server's collector settings are refused.

Source: spec raycluster.md 1.8 rule 28 and 3.13, operator.md V23-V26. Problems are pairs of field path and message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kuberay.api.cluster import CollectorOptions, RayClusterSpec
from kuberay.api.gates import HISTORY_SERVER
from kuberay.api.podtemplate import Manifest

Found = tuple[str, str]

COLLECTOR = "ray-history-collector"
MANAGED_ENV = (
    "POD_IP",
    "FQ_RAY_IP",
    "RAY_CLUSTER_NAME",
    "RAY_CLUSTER_NAMESPACE",
    "RAY_ROLE",
    "OWNER_KIND",
    "OWNER_NAME",
    "EVENTS_PORT",
)
_NEEDED = {"GCS": ("GCS_BUCKET",), "S3": ("S3_REGION",), "ALIYUNOSS": ("OSS_BUCKET", "OSS_ENDPOINT", "OSS_REGION")}
_PATH = "historyServerOptions.collectorOptions"
_AZURE_STRING = "AZURE_STORAGE_CONNECTION_STRING"
_AZURE_URL = "AZURE_STORAGE_ACCOUNT_URL"


def history_problems(spec: RayClusterSpec, gates: Mapping[str, bool]) -> Iterator[Found]:
    """Rule 28."""
    options = spec.history_server_options
    if options is None:
        return
    if not gates.get(HISTORY_SERVER, False):
        yield "historyServerOptions", "RayClusterHistoryServer feature gate is not enabled"
    if options.collector_options is None:
        yield _PATH, "historyServerOptions.collectorOptions must be set"
        return
    yield from _collector_problems(options.collector_options)
    groups = [("headGroupSpec", spec.head_group_spec.pod_spec)]
    groups += [(f"workerGroupSpecs[{i}]", group.pod_spec) for i, group in enumerate(spec.worker_group_specs)]
    for path, pod in groups:
        for index, container in enumerate(pod.get("containers") or []):
            if container.get("name") == COLLECTOR:
                yield (
                    f"{path}.template.spec.containers[{index}].name",
                    f"container name {COLLECTOR} is reserved for the history server collector",
                )


def _collector_problems(collector: CollectorOptions) -> Iterator[Found]:
    if not collector.image:
        yield f"{_PATH}.image", "historyServerOptions.collectorOptions.image must be set"
    env: dict[str, Manifest] = {}
    for index, entry in enumerate(collector.env):
        name = str(entry.get("name", ""))
        env.setdefault(name, entry)
        if name in MANAGED_ENV:
            yield f"{_PATH}.env[{index}]", f"{name} environment variable is managed by KubeRay and must not be set"
    backend = str(env.get("STORAGE_BACKEND", {}).get("value") or "")
    if not backend:
        yield f"{_PATH}.env", "STORAGE_BACKEND environment variable must be set to a literal value"
        return
    kind = backend.upper()
    if kind == "AZUREBLOB":
        yield from _azure_problems(env, backend)
    for name in _NEEDED.get(kind, ()):
        if not _given(env, name):
            yield f"{_PATH}.env", f"{name} environment variable must be set when STORAGE_BACKEND is {backend}"


def _azure_problems(env: Mapping[str, Manifest], backend: str) -> Iterator[Found]:
    mode = str(env.get("AZURE_STORAGE_AUTH_MODE", {}).get("value") or "").lower()
    names: tuple[str, ...] = (_AZURE_STRING, _AZURE_URL)
    if mode == "connection_string":
        names = (_AZURE_STRING,)
    elif mode in ("workload_identity", "default"):
        names = (_AZURE_URL,)
    if not any(_given(env, name) for name in names):
        yield (
            f"{_PATH}.env",
            f"{' or '.join(names)} environment variable must be set when STORAGE_BACKEND is {backend}",
        )


def _given(env: Mapping[str, Manifest], name: str) -> bool:
    entry = env.get(name, {})
    return bool(entry.get("value") or entry.get("valueFrom"))
