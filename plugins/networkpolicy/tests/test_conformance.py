"""The plugin keeps what every plugin that makes objects before pods promises."""

from __future__ import annotations

from kuberay.api.kinds import NETWORK_POLICY
from kuberay_testkit.conformance import MutatorUnderTest, PodMutatorConformance


class TestNetworkPolicies(PodMutatorConformance):
    def mutator(self) -> MutatorUnderTest:
        return MutatorUnderTest(
            plugin="networkpolicy",
            gates={"RayClusterNetworkPolicy": True},
            asks={"networkPolicy": {}},
            before_pods=[NETWORK_POLICY],
        )
