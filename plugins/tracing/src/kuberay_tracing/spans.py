"""Spans of the operator as OpenTelemetry's: sampled as a whole from their root, collected, and sent by a thread in batches.

When the collector is away spans are dropped, and the log says so now and then.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from kuberay.hooks.tracing import Attribute
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context

from kuberay_tracing.config import TracingSettings

PATIENCE = 1.5
"""Seconds that the end waits for a collector."""

_ASKS_OTHERS = frozenset({"api request", "probe"})
"""Spans that wait for another program."""


def exporter(settings: TracingSettings) -> SpanExporter:
    """To the collector. ``OTEL_EXPORTER_OTLP_HEADERS``, ``…_CERTIFICATE`` and ``…_TIMEOUT`` count as OpenTelemetry has them."""
    return OTLPSpanExporter(endpoint=f"{settings.endpoint.rstrip('/')}/v1/traces")


class OpenTelemetry:
    """A `kuberay.hooks.Tracer`. The process-wide tracer of OpenTelemetry is left alone."""

    def __init__(self, to: SpanExporter, settings: TracingSettings) -> None:
        resource = Resource.create(
            {
                "service.name": settings.service_name,
                "service.version": version("kuberay-core"),
                "service.instance.id": socket.gethostname(),
            }
        )
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
            resource=resource,
            # The operator says when it ends, and does not wait for ever.
            shutdown_on_exit=False,
        )
        self._exporter = to
        self._provider.add_span_processor(BatchSpanProcessor(to))
        self._tracer = self._provider.get_tracer("kuberay")

    def begin(self, name: str, attributes: Mapping[str, Attribute], parent: Span | None, start: int) -> Span:
        return self._tracer.start_span(
            name,
            context=set_span_in_context(parent, Context()) if parent is not None else Context(),
            kind=SpanKind.CLIENT if name in _ASKS_OTHERS else SpanKind.INTERNAL,
            attributes=attributes,
            start_time=start,
        )

    def end(self, span: Span, attributes: Mapping[str, Attribute], error: str, end: int) -> None:
        if attributes:
            span.set_attributes(dict(attributes))
        if error:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(end_time=end)

    def close(self) -> None:
        # What is left is tried again for longer than the operator may take to end; the exporter's own end ends that.
        late = threading.Timer(PATIENCE, self._exporter.shutdown)
        late.start()
        try:
            self._provider.shutdown()
        finally:
            late.cancel()


def _satisfies(tracer: OpenTelemetry) -> Any:
    from kuberay.hooks import Tracer

    checked: Tracer = tracer
    return checked
