"""What an administrator may choose about gangs: the section ``plugins.volcano`` of the configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class VolcanoSettings(BaseModel):
    """Settings of the volcano plugin."""

    autoscaling_reserve: Literal["minimum", "desired"] = Field(
        default="minimum",
        description="What the gang of an autoscaled cluster reserves: its minReplicas (as KubeRay does), or the "
        "replicas the autoscaler wants now, so that the queue sees them.",
    )
