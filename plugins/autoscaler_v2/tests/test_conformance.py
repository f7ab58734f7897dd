"""The autoscaler keeps what every plugin that changes pods promises."""

from __future__ import annotations

from kuberay.api.kinds import ROLE, ROLE_BINDING, SERVICE_ACCOUNT
from kuberay_testkit.conformance import MutatorUnderTest, PodMutatorConformance


class TestAutoscaler(PodMutatorConformance):
    def mutator(self) -> MutatorUnderTest:
        return MutatorUnderTest(
            plugin="autoscaler-v2",
            asks={"enableInTreeAutoscaling": True},
            changed=lambda pod: any(each["name"] == "autoscaler" for each in pod["spec"]["containers"]),
            changes=["head"],
            before_pods=[SERVICE_ACCOUNT, ROLE, ROLE_BINDING],
        )
