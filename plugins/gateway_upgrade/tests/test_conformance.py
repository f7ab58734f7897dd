"""Upgrades by a gateway keep what every strategy promises."""

from __future__ import annotations

from kuberay.api.gates import INCREMENTAL_UPGRADE
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE
from kuberay_testkit.conformance import StrategyUnderTest, UpgradeStrategyConformance

OPTIONS = {"gatewayClassName": "sim", "stepSizePercent": 50, "intervalSeconds": 1, "maxSurgePercent": 100}


class TestGatewayUpgrade(UpgradeStrategyConformance):
    def strategy(self) -> StrategyUnderTest:
        return StrategyUnderTest(
            plugin="gateway-upgrade",
            with_plugins=["autoscaler-v2"],
            type="NewClusterWithIncrementalUpgrade",
            options={"clusterUpgradeOptions": OPTIONS},
            wrong_options=[
                {},
                {"clusterUpgradeOptions": {**OPTIONS, "stepSizePercent": 101}},
                {"clusterUpgradeOptions": {**OPTIONS, "gatewayClassName": ""}},
            ],
            cluster={"enableInTreeAutoscaling": True},
            kinds=[GATEWAY, HTTP_ROUTE],
            weights=lambda world, name: world.gateways.weights("lab", f"{name}-httproute"),
            gate=INCREMENTAL_UPGRADE,
            gates={INCREMENTAL_UPGRADE: True},
        )
