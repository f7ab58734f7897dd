"""Traces of what the operator does, pass by pass, sent to a collector by OpenTelemetry's protocol (OTLP over HTTP).

Nothing is sent on the operator's event loop: spans are collected in memory, and a thread sends them.
"""

from __future__ import annotations

from typing import Any

from kuberay.hooks import Tracer, hookimpl

from kuberay_tracing.config import TracingSettings

kuberay_hook_api = (1, 0)


@hookimpl
def settings() -> type[TracingSettings]:
    return TracingSettings


@hookimpl
def tracer(settings: Any) -> Tracer:
    # Imported here: other commands than `kuberay run` ask for the settings only.
    from kuberay_tracing.spans import OpenTelemetry, exporter

    chosen = settings if isinstance(settings, TracingSettings) else TracingSettings()
    return OpenTelemetry(exporter(chosen), chosen)
