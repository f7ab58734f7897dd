"""A spec that asks for what a feature gate keeps off is told which gate it is and how to switch it on."""

from __future__ import annotations

from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.hooks.calls import NoHooks

ASKS = {
    "RayClusterNetworkPolicy": {"networkPolicy": {"mode": "DenyAll"}},
    "RayClusterMTLS": {"tlsOptions": {"enabled": True}},
    "GCSFaultToleranceEmbeddedStorage": {"gcsFaultToleranceOptions": {"backend": "rocksdb"}},
}


class Everything(NoHooks):
    """Every plugin is on."""

    def has(self, plugin: str) -> bool:
        return True


@pytest.mark.parametrize("gate", ASKS)
def test_the_condition_names_the_gate_and_how_to_switch_it_on(kubernetes: Any, cluster: Any, gate: str) -> None:
    body = cluster()
    body["spec"] |= ASKS[gate]
    tiny = kubernetes(body, hooks=Everything())
    tiny.gates = {**DEFAULT_GATES, gate: False}
    tiny.settle()
    condition = tiny.condition("RayClusterSpecValid")
    assert condition["status"] == "False"
    assert f"{gate} feature gate" in condition["message"]
    assert f"; switch the gate on with --feature-gates={gate}=true" in condition["message"]
    assert tiny.pods == {}
    assert all("--feature-gates" not in event.note for event in tiny.events), "the event has KubeRay's words alone"
