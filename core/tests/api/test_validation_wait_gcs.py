"""Refused annotations of ``wait-gcs-ready`` (cases.md RC-15)."""

from __future__ import annotations

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.validation.cluster import validate_cluster
from kuberay_testkit.builders import build_cluster_spec, build_group, build_pod_template

CPU, MEMORY, SWITCH = "ray.io/wait-gcs-ready-cpu", "ray.io/wait-gcs-ready-memory", "ray.io/wait-gcs-ready"


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        (CPU, "500m", True),
        (CPU, "0", False),
        (CPU, "lots", False),
        (MEMORY, "512Mi", True),
        (MEMORY, "-1Gi", False),
        (MEMORY, "", False),
        (SWITCH, "False", True),
        (SWITCH, "no", False),
    ],
)
def test_annotations(key: str, value: str, accepted: bool) -> None:
    found = validate_cluster("c", {}, {key: value}, build_cluster_spec(1), DEFAULT_GATES)
    assert [problem.path for problem in found] == ([] if accepted else [f"metadata.annotations[{key}]"])
    group = build_group(template=build_pod_template(annotations={key: value}))
    found = validate_cluster("c", {}, {}, build_cluster_spec([build_group("a"), group]), DEFAULT_GATES)
    path = f"spec.workerGroupSpecs[1].template.metadata.annotations[{key}]"
    assert [problem.path for problem in found] == ([] if accepted else [path])
    assert all(repr(value) in problem.message for problem in found)
