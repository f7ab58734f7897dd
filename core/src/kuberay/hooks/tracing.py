"""How spans reach whatever collects them: a plugin's hook `tracer` returns a `Tracer`, and the operator tells it what it does.

Spans are: ``reconcile``, one pass over an object, with the ``reconcileID`` of its log lines; in it ``plan``, ``hook`` and ``api
request``; beside it ``probe``, what a Ray head is asked, with requests of its own. Only the name of an object, of a hook or of
an address is told, never a body.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias

Attribute: TypeAlias = str | int | float | bool
"""What may stand in a span. Names follow OpenTelemetry's conventions (``k8s.namespace.name``, ``http.request.method``)."""


class Tracer(Protocol):
    """Called several times in each pass, from the event loop and from threads: no method may wait for anything, so spans are
    collected and sent from a thread of the plugin's own. When a method raises, tracing ends and the operator goes on."""

    def begin(self, name: str, attributes: Mapping[str, Attribute], parent: Any, start: int) -> Any:
        """A span begins. *parent*: what `begin` returned for the span around it, or None. *start*: nanoseconds since 1970."""
        ...

    def end(self, span: Any, attributes: Mapping[str, Attribute], error: str, end: int) -> None:
        """The *span* that `begin` returned ends; *attributes* are more of them. *error*: one line, empty when it went well."""
        ...

    def close(self) -> None:
        """The operator ends: send what is left, within two seconds. Called once, from a thread of its own."""
        ...
