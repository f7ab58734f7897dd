"""KAI keeps what every batch scheduler promises; its gangs are its own matter, so no case about gang objects applies."""

from __future__ import annotations

from kuberay_testkit.conformance import GangSchedulerConformance, SchedulerUnderTest


class TestKai(GangSchedulerConformance):
    def scheduler(self) -> SchedulerUnderTest:
        return SchedulerUnderTest(plugin="kai-scheduler", scheduler_name="kai-scheduler", schedules_submitter=False)
