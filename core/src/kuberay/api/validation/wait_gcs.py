"""Whether the annotations that size or leave out the ``wait-gcs-ready`` init container are refused.

Source: cases.md RC-15. They stand on the object, or on the template of a worker group, which wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kuberay.api import quantity
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.names import ANNOTATION_WAIT_GCS, ANNOTATION_WAIT_GCS_CPU, ANNOTATION_WAIT_GCS_MEMORY

Found = tuple[str, str]

_QUANTITIES = ((ANNOTATION_WAIT_GCS_CPU, "500m"), (ANNOTATION_WAIT_GCS_MEMORY, "512Mi"))


def wait_gcs_problems(spec: RayClusterSpec, annotations: Mapping[str, str]) -> Iterator[Found]:
    """*annotations* are those of the object that holds the spec."""
    yield from _problems("metadata.annotations", annotations)
    for index, group in enumerate(spec.worker_group_specs):
        own = (group.template.get("metadata") or {}).get("annotations") or {}
        yield from _problems(f"workerGroupSpecs[{index}].template.metadata.annotations", own)


def _problems(path: str, annotations: Mapping[str, str]) -> Iterator[Found]:
    switch = annotations.get(ANNOTATION_WAIT_GCS)
    if switch is not None and switch.lower() not in ("true", "false"):
        yield f"{path}[{ANNOTATION_WAIT_GCS}]", f"{ANNOTATION_WAIT_GCS} must be 'true' or 'false', not '{switch}'"
    for key, example in _QUANTITIES:
        value = annotations.get(key)
        if value is not None and not _is_positive(value):
            yield f"{path}[{key}]", f"{key} must be a quantity greater than 0 such as {example}, not '{value}'"


def _is_positive(value: str) -> bool:
    try:
        return quantity.parse(value) > 0
    except ValueError:
        return False
