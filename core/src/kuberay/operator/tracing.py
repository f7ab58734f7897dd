"""Which span is inside which, and that a tracer's failure stays its own. Without a tracer a span is one shared object that does nothing.

The span around it follows from the context, as with log lines, so tasks and threads that a pass starts are inside it.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Protocol, Self

from kuberay.hooks.tracing import Attribute, Tracer
from kuberay.operator.redaction import without_secrets

log = logging.getLogger("kuberay.operator.tracing")

CLOSE_SECONDS = 2.0
"""How long the end of the process may wait for the last spans to be sent."""

_current: contextvars.ContextVar[Any] = contextvars.ContextVar("kuberay_span", default=None)


class Span(Protocol):
    """A context manager; `note` adds attributes that are known at its end only."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def note(self, name: str, value: Attribute) -> None: ...
    def fail(self, error: str) -> None:
        """What it was about went wrong, and nothing was raised."""
        ...


class _NoSpan:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def note(self, name: str, value: Attribute) -> None:
        return None

    def fail(self, error: str) -> None:
        return None


_NO_SPAN = _NoSpan()


class Tracing:
    """Nobody traces. `Traced` is the other one."""

    on = False

    def span(self, name: str, attributes: Mapping[str, Attribute], *, root: bool = False) -> Span:
        """A span from here to the end of its block; *root*: not inside the present one."""
        return _NO_SPAN

    def past(self, name: str, attributes: Mapping[str, Attribute], seconds: float, error: str) -> None:
        """A span that ended just now, after *seconds*."""

    def close(self) -> None:
        """Blocks for as long as the tracer needs to send what is left."""


NO_TRACING = Tracing()


class Traced(Tracing):
    """Spans go to *tracer* until it fails. *clock*: nanoseconds since 1970."""

    on = True

    def __init__(self, tracer: Tracer, clock: Callable[[], int] = time.time_ns) -> None:
        self._tracer: Tracer | None = tracer
        self.clock = clock

    def span(self, name: str, attributes: Mapping[str, Attribute], *, root: bool = False) -> Span:
        return _TracedSpan(self, name, attributes, None if root else _current.get())

    def past(self, name: str, attributes: Mapping[str, Attribute], seconds: float, error: str) -> None:
        end = self.clock()
        self.end(self.begin(name, attributes, _current.get(), end - int(seconds * 1e9)), {}, error, end)

    def begin(self, name: str, attributes: Mapping[str, Attribute], parent: Any, start: int) -> Any:
        if self._tracer is None:
            return None
        try:
            return self._tracer.begin(name, attributes, parent, start)
        except Exception as error:  # noqa: BLE001  whatever a tracer raises, what it traces goes on
            self._give_up(error)
            return None

    def end(self, span: Any, attributes: Mapping[str, Attribute], error: str, end: int) -> None:
        if self._tracer is None or span is None:
            return
        try:
            self._tracer.end(span, attributes, without_secrets(error), end)
        except Exception as failure:  # noqa: BLE001
            self._give_up(failure)

    def close(self) -> None:
        tracer, self._tracer = self._tracer, None
        if tracer is not None:
            try:
                tracer.close()
            except Exception as error:  # noqa: BLE001
                log.warning("the last spans were not sent: %s", error)

    def _give_up(self, error: Exception) -> None:
        if self._tracer is not None:
            self._tracer = None
            log.error("the tracer failed; nothing is traced until the operator starts again", exc_info=error)


class _TracedSpan:
    __slots__ = ("_attributes", "_error", "_more", "_name", "_parent", "_span", "_token", "_tracing")

    def __init__(self, tracing: Traced, name: str, attributes: Mapping[str, Attribute], parent: Any) -> None:
        self._tracing = tracing
        self._name = name
        self._attributes = attributes
        self._parent = parent
        self._more: dict[str, Attribute] = {}
        self._error = ""

    def __enter__(self) -> Self:
        self._span = self._tracing.begin(self._name, self._attributes, self._parent, self._tracing.clock())
        self._token = _current.set(self._span)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.reset(self._token)
        if error is not None:
            self.fail(f"{type(error).__name__}: {error}".removesuffix(": "))
        self._tracing.end(self._span, self._more, self._error, self._tracing.clock())

    def note(self, name: str, value: Attribute) -> None:
        self._more[name] = value

    def fail(self, error: str) -> None:
        self._error = next(iter(error.splitlines()), "")


async def close_in_time(tracing: Tracing) -> None:
    """In a thread that the process does not wait for: whom spans are sent to may hang."""
    if not tracing.on:
        return
    loop, closed = asyncio.get_running_loop(), asyncio.Event()

    def close() -> None:
        tracing.close()
        with suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(closed.set)

    threading.Thread(target=close, name="last spans", daemon=True).start()
    with suppress(TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await closed.wait()
