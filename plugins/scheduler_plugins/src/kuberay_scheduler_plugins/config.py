"""What an administrator may choose about gangs: the section ``plugins.scheduler-plugins`` of the configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

SCHEDULER_NAME = "scheduler-plugins-scheduler"
"""What the second scheduler is called that the Helm chart of scheduler-plugins installs."""


class SchedulerPluginsSettings(BaseModel):
    """Settings of the scheduler-plugins plugin."""

    scheduler_name: str = Field(
        default=SCHEDULER_NAME,
        pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
        description="schedulerName of the pods: the scheduler, or the profile of it, in which Coscheduling is enabled. "
        "`default-scheduler` where it replaces the cluster's own.",
    )
    autoscaling_reserve: Literal["minimum", "desired"] = Field(
        default="minimum",
        description="How many pods of an autoscaled cluster start together: the head and its minReplicas, or as many as "
        "the autoscaler wants now; then pods that it adds start together or not at all, and so do those that replace lost "
        "ones.",
    )
