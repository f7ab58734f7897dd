"""What an administrator may choose about mutual TLS: the section ``plugins.mtls`` of the configuration."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from kuberay.api.goduration import parse_duration
from kuberay.hooks import OwnerContext
from pydantic import BaseModel, Field, model_validator

_SHORTEST = timedelta(hours=1)
"""A cluster in which nothing happens is looked at every ten minutes: a renewal must not be missed by that."""
_DURATION = r"^([0-9]+(\.[0-9]+)?(h|m|s))+$"


class MtlsSettings(BaseModel):
    """Settings of the mtls plugin."""

    issuer: Literal["cert-manager", "own"] = Field(
        default="cert-manager",
        description="Who signs the certificates of RayClusters that have none yet: `cert-manager`, which has to be installed, "
        "or `own`, an authority that the operator makes for each RayCluster.",
    )
    certificate_lifetime: str = Field(
        default="8760h",
        pattern=_DURATION,
        description="With `own`: how long the certificate of a pod is valid, at least 1h. It is renewed after two thirds. Ray "
        "reads certificates when a process starts, so pods should not live longer than this.",
    )
    authority_lifetime: str = Field(
        default="87600h",
        pattern=_DURATION,
        description="With `own`: how long an authority is valid, at least three times `certificate_lifetime`. After two thirds "
        "a new one signs, and both are trusted until the old one ends.",
    )

    @model_validator(mode="after")
    def _in_proportion(self) -> MtlsSettings:
        if self.certificate_duration < _SHORTEST:
            raise ValueError(
                f"certificate_lifetime is {self.certificate_lifetime}, at least 1h is needed to renew in time"
            )
        if self.authority_duration < 3 * self.certificate_duration:
            raise ValueError(
                f"authority_lifetime is {self.authority_lifetime}, at least three times certificate_lifetime "
                f"({self.certificate_lifetime}) is needed, so that no certificate outlives who signed it"
            )
        return self

    @property
    def certificate_duration(self) -> timedelta:
        return parse_duration(self.certificate_lifetime)

    @property
    def authority_duration(self) -> timedelta:
        return parse_duration(self.authority_lifetime)


def settings_of(owner: OwnerContext) -> MtlsSettings:
    """What *owner* brings along, or the defaults where a caller configured nothing."""
    return owner.settings if isinstance(owner.settings, MtlsSettings) else MtlsSettings()
