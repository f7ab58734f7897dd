"""What an administrator may choose about traces: the section ``plugins.tracing`` of the configuration.

Headers with a password and certificates are no matter for a ConfigMap: OpenTelemetry's own variables have them.
"""

from __future__ import annotations

from pydantic import BaseModel, Field


class TracingSettings(BaseModel):
    """Settings of the tracing plugin."""

    endpoint: str = Field(
        default="http://localhost:4318",
        pattern=r"^https?://[^/\s]+(/\S*)?$",
        description="Where the collector takes OTLP over HTTP; `/v1/traces` is added.",
    )
    sample_ratio: float = Field(
        default=1.0,
        ge=0,
        le=1,
        description="Which part of all passes, probes and requests outside of them is traced, each with all that is in it.",
    )
    service_name: str = Field(default="kuberay-operator", min_length=1, description="`service.name` of all spans.")
