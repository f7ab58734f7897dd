"""Volcano keeps what every gang scheduler promises."""

from __future__ import annotations

from kuberay.api.names import LABEL_GANG
from kuberay_testkit.conformance import GangSchedulerConformance, SchedulerUnderTest
from kuberay_volcano.marks import ANNOTATION_GROUP
from kuberay_volcano.podgroup import POD_GROUP


class TestVolcano(GangSchedulerConformance):
    def scheduler(self) -> SchedulerUnderTest:
        return SchedulerUnderTest(
            plugin="volcano",
            scheduler_name="volcano",
            group=POD_GROUP,
            kinds=[POD_GROUP],
            gang_of=lambda pod: (pod["metadata"].get("annotations") or {}).get(ANNOTATION_GROUP, ""),
            gang_size=lambda group: group["spec"]["minMember"],
            gang_resources=lambda group: group["spec"]["minResources"],
            insist_labels={LABEL_GANG: "true"},
        )
