"""What an administrator may choose about gateways: the section ``plugins.gateway-upgrade`` of the configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from kuberay.hooks import RELOADS, OwnerContext
from pydantic import BaseModel, Field


class GatewayUpgradeSettings(BaseModel):
    """Settings of the gateway-upgrade plugin."""

    settle_seconds: Annotated[int, RELOADS] = Field(
        default=5,
        ge=0,
        le=600,
        description="How long after a change of weights no capacity is taken away: what the gateway needs until the last "
        "request has gone by the old weights. Load balancers of a cloud may need a minute.",
    )


def settle(owner: OwnerContext) -> timedelta:
    """``settle_seconds`` as *owner* brings it along."""
    given = owner.settings if isinstance(owner.settings, GatewayUpgradeSettings) else GatewayUpgradeSettings()
    return timedelta(seconds=given.settle_seconds)
