"""What an administrator may choose about gangs: the section ``plugins.yunikorn`` of the configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class YunikornSettings(BaseModel):
    """Settings of the yunikorn plugin."""

    gang_size: Literal["minimum", "desired"] = Field(
        default="minimum",
        description="How many pods of a worker group the gang holds: its minReplicas (as KubeRay does, with and without "
        "autoscaling), or the replicas that are wanted when the first pod is made.",
    )
