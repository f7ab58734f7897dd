"""A RayService that asks for what a feature gate keeps off is told which gate it is and how to switch it on."""

from __future__ import annotations

from kuberay.api.conditions import find_condition
from kuberay.api.gates import DEFAULT_GATES, INCREMENTAL_UPGRADE

from core.tests.plan.service.worlds import World, new_world, serving

GATE_OFF = {"gates": {**DEFAULT_GATES, INCREMENTAL_UPGRADE: False}}
STRATEGY = {"type": "NewClusterWithIncrementalUpgrade", "clusterUpgradeOptions": {"gatewayClassName": "gate"}}


def missing(world: World) -> tuple[str, str]:
    found = find_condition(world.service["status"].get("conditions") or [], "PluginMissing") or {}
    return found.get("reason", ""), found.get("message", "")


def test_an_incremental_upgrade_with_its_gate_off_says_so() -> None:
    """The type counts as None then, as in KubeRay, which does not say it."""
    world = serving(world=GATE_OFF, upgradeStrategy=STRATEGY)
    reason, message = missing(world)
    assert reason == "GateOff"
    assert message == (
        "spec.upgradeStrategy.type NewClusterWithIncrementalUpgrade counts as None while the feature gate "
        "RayServiceIncrementalUpgrade is off; switch the gate on with --feature-gates=RayServiceIncrementalUpgrade=true"
    )
    assert world.active, "it serves all the same"
    assert missing(serving(world=GATE_OFF)) == ("", ""), "nobody else is told"


def test_a_refused_service_says_how_to_switch_the_gate_on() -> None:
    world = new_world()
    world.service["spec"]["rayClusterConfig"]["tlsOptions"] = {"enabled": True}
    world.settle()
    found = find_condition(world.service["status"]["conditions"], "Ready") or {}
    assert found["reason"] == "ValidationFailed"
    assert found["message"].endswith("; switch the gate on with --feature-gates=RayClusterMTLS=true")
