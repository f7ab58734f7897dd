"""Size and absence of ``wait-gcs-ready`` (spec raycluster.md 3.9)."""

from __future__ import annotations

import pytest
from kuberay.plan.build.wait_gcs import wait_container, wait_size
from kuberay.plan.config import PlanConfig

ON, OFF = PlanConfig(), PlanConfig(init_container_injection=False)
FLEET = PlanConfig(wait_gcs_ready_cpu="1", wait_gcs_ready_memory="1Gi")
CPU, MEMORY, SWITCH = "ray.io/wait-gcs-ready-cpu", "ray.io/wait-gcs-ready-memory", "ray.io/wait-gcs-ready"


@pytest.mark.parametrize(
    ("config", "cluster", "template", "expected"),
    [
        (ON, {}, {}, ("200m", "256Mi")),
        (FLEET, {}, {}, ("1", "1Gi")),
        (FLEET, {MEMORY: "2Gi"}, {}, ("1", "2Gi")),
        (ON, {CPU: "500m", MEMORY: "2Gi"}, {MEMORY: "4Gi"}, ("500m", "4Gi")),
        (ON, {SWITCH: "False"}, {}, None),
        (ON, {SWITCH: "false"}, {SWITCH: "true"}, ("200m", "256Mi")),
        (ON, {}, {SWITCH: "false"}, None),
        (OFF, {SWITCH: "true"}, {}, None),
    ],
)
def test_size(
    config: PlanConfig, cluster: dict[str, str], template: dict[str, str], expected: tuple[str, str] | None
) -> None:
    """RC-15: cpu and memory fleet-wide, per cluster, per group; or none at all."""
    found = wait_size(config, cluster, template)
    assert found == (None if expected is None else dict(zip(("cpu", "memory"), expected, strict=True)))


def test_requests_and_limits_are_both_set() -> None:
    """RC-15: a namespace that demands requests on every container is satisfied."""
    user = {"image": "i", "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": "8"}}}
    found = wait_container(user, "head:6379", {"cpu": "1", "memory": "1Gi"}, login=False)
    assert found["resources"] == {
        "requests": {"cpu": "1", "memory": "1Gi"},
        "limits": {"cpu": "1", "memory": "1Gi"},
    }
