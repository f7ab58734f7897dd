"""scheduler-plugins keeps what every gang scheduler promises."""

from __future__ import annotations

from kuberay_scheduler_plugins.podgroup import LABEL_POD_GROUP, POD_GROUP
from kuberay_testkit.conformance import GangSchedulerConformance, SchedulerUnderTest


class TestSchedulerPlugins(GangSchedulerConformance):
    def scheduler(self) -> SchedulerUnderTest:
        return SchedulerUnderTest(
            plugin="scheduler-plugins",
            scheduler_name="scheduler-plugins-scheduler",
            group=POD_GROUP,
            kinds=[POD_GROUP],
            gang_of=lambda pod: (pod["metadata"].get("labels") or {}).get(LABEL_POD_GROUP, ""),
            gang_size=lambda group: group["spec"]["minMember"],
            gang_resources=lambda group: group["spec"].get("minResources", {}),
            opt_in_labels={"ray.io/gang-scheduling-enabled": "true"},
            job_gangs="cluster",
            idle_size=1,
        )
