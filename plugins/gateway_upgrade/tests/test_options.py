"""Options that are refused, and how: KubeRay's sentences in KubeRay's order, and two of our own."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.hooks import Share, UpgradeContext
from kuberay.plugins.manager import PluginManager
from kuberay_gateway_upgrade.options import problems
from kuberay_gateway_upgrade.strategy import IncrementalUpgrade

from .conftest import World, owner, spec

TYPE = "NewClusterWithIncrementalUpgrade"
AT = "spec.upgradeStrategy.clusterUpgradeOptions"

SURGE = (f"{AT}.maxSurgePercent", "maxSurgePercent must be between 0 and 100")
SURGE_ZERO = (f"{AT}.maxSurgePercent", "maxSurgePercent must be greater than 0: with 0 no capacity would ever move")
STEP = (f"{AT}.stepSizePercent", "stepSizePercent must be between 0 and 100")
STEP_ZERO = (f"{AT}.stepSizePercent", "stepSizePercent must be greater than 0: with 0 no request would ever move")
STEP_LARGE = (f"{AT}.stepSizePercent", "stepSizePercent must be less than or equal to maxSurgePercent")
INTERVAL = (f"{AT}.intervalSeconds", "intervalSeconds must be greater than 0")
CLASS = (f"{AT}.gatewayClassName", f"gatewayClassName is required for {TYPE}")
NO_OPTIONS = (AT, f"ClusterUpgradeOptions are required for {TYPE}")
NO_AUTOSCALER = (
    "spec.rayClusterConfig.enableInTreeAutoscaling",
    f"Ray Autoscaler is required for {TYPE}",
)


def told(body: dict[str, Any]) -> list[tuple[str, str]]:
    found = problems(owner(body))
    assert {each.reason for each in found} <= {"InvalidRayServiceSpec"}
    return [(each.path, each.message) for each in found]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"maxSurgePercent": 50, "stepSizePercent": 50, "intervalSeconds": 10, "gatewayClassName": "istio"}, []),
        ({"maxSurgePercent": None, "stepSizePercent": 100}, []),
        ({"maxSurgePercent": 200}, [SURGE]),
        ({"maxSurgePercent": -1}, [SURGE, STEP_LARGE]),
        ({"stepSizePercent": None}, [STEP]),
        ({"stepSizePercent": 101, "maxSurgePercent": None}, [STEP]),
        ({"stepSizePercent": 75, "maxSurgePercent": 50}, [STEP_LARGE]),
        ({"intervalSeconds": 0}, [INTERVAL]),
        ({"intervalSeconds": None}, [INTERVAL]),
        ({"intervalSeconds": -5}, [INTERVAL]),
        ({"gatewayClassName": None}, [CLASS]),
        ({"gatewayClassName": ""}, [CLASS]),
        ({"maxSurgePercent": 0, "stepSizePercent": 0}, [SURGE_ZERO, STEP_ZERO]),
        ({"maxSurgePercent": 0}, [SURGE_ZERO, STEP_LARGE]),
        ({"stepSizePercent": 0}, [STEP_ZERO]),
        (
            {"maxSurgePercent": 200, "stepSizePercent": -1, "intervalSeconds": 0, "gatewayClassName": None},
            [SURGE, STEP, INTERVAL, CLASS],
        ),
    ],
)
def test_gw_04_options_are_refused_with_their_cause(options: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    """GW-04, spec rows 142 and 143."""
    assert told(spec(**options)) == expected


def test_gw_04_of_the_case_itself() -> None:
    options = {"stepSizePercent": 50, "maxSurgePercent": 20, "intervalSeconds": 5, "gatewayClassName": "x"}
    assert told(spec(**options)) == [STEP_LARGE]


@pytest.mark.parametrize("options", [None, {}])
def test_options_have_to_be_there(options: Any) -> None:
    """Spec rows 79, 85 and 143: without options there is nothing to make a Gateway or a route of."""
    body = spec()
    body["upgradeStrategy"]["clusterUpgradeOptions"] = options
    assert told(body) == [NO_OPTIONS]


@pytest.mark.parametrize("value", [None, False])
def test_the_autoscaler_has_to_be_on(value: Any) -> None:
    body = spec(intervalSeconds=0)
    body["rayClusterConfig"]["enableInTreeAutoscaling"] = value
    assert told(body) == [NO_AUTOSCALER, INTERVAL]


def test_the_strategy_tells_them() -> None:
    strategy = IncrementalUpgrade()
    assert [each.message for each in strategy.problems(owner(spec(intervalSeconds=0)))] == [INTERVAL[1]]


@pytest.mark.parametrize(
    ("type_", "gate", "offered"),
    [
        (TYPE, True, True),
        (TYPE, False, False),
        ("NewCluster", True, False),
        ("", True, False),
    ],
)
def test_it_is_offered_for_its_type_while_the_gate_is_on(
    hooks: PluginManager, type_: str, gate: bool, offered: bool
) -> None:
    """Spec row 118 and 3.1."""
    about = owner(gates={"RayServiceIncrementalUpgrade": gate})
    found = hooks.service_strategy(UpgradeContext(owner=about, type=type_))
    assert type(found) is (IncrementalUpgrade if offered else type(None))


def test_what_it_needs_of_the_api_server(hooks: PluginManager) -> None:
    """Spec 6.5; all that it applies or reads is watched."""
    (rule,) = hooks.rbac_rules()["gateway-upgrade"]
    assert (list(rule.api_groups), list(rule.resources)) == (
        ["gateway.networking.k8s.io"],
        ["gateways", "httproutes"],
    )
    assert {"get", "list", "watch", "create", "patch", "delete"} <= set(rule.verbs)
    assert [watch.kind.kind for watch in hooks.watches()] == ["Gateway", "HTTPRoute"]
    assert not any(watch.prune for watch in hooks.watches())


def test_it_is_no_strategy_of_a_ray_cluster(hooks: PluginManager) -> None:
    about = owner(kind=RAYCLUSTER)
    assert hooks.upgrade_strategy(UpgradeContext(owner=about, type=TYPE)) is None
    assert hooks.service_strategy(UpgradeContext(owner=about, type=TYPE)) is None


def test_settling_is_a_setting(hooks: PluginManager) -> None:
    """The step that the core asks for knows the section of the configuration."""
    hooks.configure({"gateway-upgrade": {"settle_seconds": 60}})
    world = World().until("100/50 50/50")
    strategy = hooks.service_strategy(UpgradeContext(owner=world.context().owner, type=TYPE))
    assert strategy is not None
    step, failures = hooks.service_step(strategy, world.context())
    assert not failures
    assert step is not None
    # The last move was a second ago.
    assert step.look_after == timedelta(seconds=59)
    assert step.active == Share(100, 50, world.now - timedelta(seconds=1))
