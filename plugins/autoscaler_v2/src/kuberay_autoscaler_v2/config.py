"""What an administrator may choose about autoscalers: the section ``plugins.autoscaler-v2`` of the configuration."""

from __future__ import annotations

from pydantic import BaseModel, Field


class AutoscalerSettings(BaseModel):
    """Settings of the autoscaler-v2 plugin."""

    least_privilege: bool = Field(
        default=False,
        description="Show the account's token to the autoscaler container only, and limit its role: to the one "
        "RayCluster, and to reading pods unless the annotation ray.io/ippr asks for resizing them. Off, as in KubeRay: all "
        "containers of the head pod see the token. Code on the head that talks to the Kubernetes API needs it off.",
    )


def settings_of(settings: object) -> AutoscalerSettings:
    """The settings handed to a hook; the defaults where the operator handed none."""
    return settings if isinstance(settings, AutoscalerSettings) else AutoscalerSettings()
