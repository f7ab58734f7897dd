"""Spans: which is inside which, what they say when something fails, and that a tracer's failure is nobody else's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest
from kuberay.hooks.tracing import Attribute
from kuberay.kube.transport import Response, TransportError
from kuberay.operator.metrics import Metrics
from kuberay.operator.traced import TracedHooks, TracedTransport
from kuberay.operator.tracing import NO_TRACING, Traced, close_in_time


class Recorder:
    """A tracer that keeps all spans in memory."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.closed = 0

    def begin(self, name: str, attributes: Mapping[str, Attribute], parent: Any, start: int) -> Any:
        span = {"name": name, "in": parent["name"] if parent else "", "start": start, **attributes}
        self.spans.append(span)
        return span

    def end(self, span: Any, attributes: Mapping[str, Attribute], error: str, end: int) -> None:
        span.update(attributes, error=error, end=end)

    def close(self) -> None:
        self.closed += 1

    def tree(self) -> list[tuple[str, str]]:
        return [(span["name"], span["in"]) for span in self.spans]


def test_spans_know_the_one_around_them() -> None:
    recorder, now = Recorder(), iter(range(100, 200))
    tracing = Traced(recorder, lambda: next(now))
    with tracing.span("a", {"x": 1}) as outer:
        with tracing.span("b", {}):
            pass
        with tracing.span("c", {}, root=True), tracing.span("d", {}):
            pass
        outer.note("result", "success")
    with tracing.span("e", {}):
        pass
    assert recorder.tree() == [("a", ""), ("b", "a"), ("c", ""), ("d", "c"), ("e", "")]
    assert recorder.spans[0] == {
        "name": "a",
        "in": "",
        "start": 100,
        "x": 1,
        "result": "success",
        "error": "",
        "end": 107,
    }


def test_what_is_told_afterwards_lies_in_the_past() -> None:
    recorder = Recorder()
    tracing = Traced(recorder, lambda: 5_000_000_000)
    with tracing.span("plan", {}):
        TracedHooks(Metrics(), tracing).hook_called("volcano", "validate", 0.5, True)
    hook = recorder.spans[1]
    assert (hook["name"], hook["in"], hook["kuberay.plugin"], hook["kuberay.hook"]) == (
        "hook",
        "plan",
        "volcano",
        "validate",
    )
    assert (hook["start"], hook["end"], hook["error"]) == (4_500_000_000, 5_000_000_000, "the plugin failed")


async def test_tasks_that_a_span_starts_are_inside_it() -> None:
    recorder = Recorder()
    tracing = Traced(recorder)

    async def work() -> None:
        with tracing.span("inner", {}):
            await asyncio.sleep(0)

    with tracing.span("outer", {}):
        async with asyncio.TaskGroup() as group:
            for _ in range(2):
                group.create_task(work())
    assert recorder.tree() == [("outer", ""), ("inner", "outer"), ("inner", "outer")]


def test_errors_are_told_in_one_line_and_without_secrets() -> None:
    recorder = Recorder()
    tracing = Traced(recorder)
    with pytest.raises(RuntimeError), tracing.span("a", {}):
        raise RuntimeError("Bearer abcdefghijk was refused\nand more")
    with pytest.raises(asyncio.CancelledError), tracing.span("b", {}):
        raise asyncio.CancelledError
    with tracing.span("c", {}) as span:
        span.fail("no answer")
    assert [span["error"] for span in recorder.spans] == [
        "RuntimeError: Bearer *** was refused",
        "CancelledError",
        "no answer",
    ]


class Transport:
    def __init__(self, answer: Response | TransportError) -> None:
        self.answer = answer
        self.given: dict[str, Any] = {}
        self.closed = False

    async def request(self, method: str, path: str, **options: Any) -> Response:
        self.given = options
        if isinstance(self.answer, TransportError):
            raise self.answer
        return self.answer

    def stream(self, path: str, **options: Any) -> Any:
        return (path, options)

    async def close(self) -> None:
        self.closed = True


async def test_requests_are_spans_without_their_bodies() -> None:
    recorder = Recorder()
    for answer in (Response(200, b"secret"), Response(409, b"secret"), TransportError("reset")):
        inner = Transport(answer)
        traced = TracedTransport(inner, Traced(recorder))
        try:
            assert await traced.request("GET", "/api/v1/pods", body=b"secret") == answer
        except TransportError:
            assert answer is inner.answer
        assert inner.given == {"body": b"secret"}
        stream: Any = traced.stream("/x")
        assert stream == ("/x", {"params": None, "idle_timeout": 70.0})
        await traced.close()
        assert inner.closed
    told = [(span.get("http.response.status_code"), span["error"]) for span in recorder.spans]
    assert told == [(200, ""), (409, "HTTP 409"), (None, "TransportError: reset")]
    assert {(span["http.request.method"], span["url.path"]) for span in recorder.spans} == {("GET", "/api/v1/pods")}
    assert "secret" not in str(recorder.spans)


@pytest.mark.parametrize("method", ["begin", "end"])
def test_a_tracer_that_fails_is_asked_no_more(method: str, caplog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, calls = Recorder(), []

    def broken(*_arguments: Any) -> None:
        calls.append(1)
        raise RuntimeError("no memory")

    monkeypatch.setattr(recorder, method, broken)
    tracing = Traced(recorder)
    for _ in range(3):
        with tracing.span("a", {}), tracing.span("b", {}):
            tracing.past("c", {}, 0.1, "")
    tracing.close()
    assert len(calls) == 1
    assert caplog.text.count("the tracer failed") == 1
    assert recorder.closed == 0


def test_the_last_spans_are_asked_for_once_at_the_end() -> None:
    recorder = Recorder()
    tracing = Traced(recorder)
    tracing.close()
    tracing.close()
    with tracing.span("a", {}):
        pass
    assert (recorder.closed, recorder.spans) == (1, [])


def test_without_a_tracer_a_span_is_nothing_at_all() -> None:
    first, second = NO_TRACING.span("a", {"x": 1}), NO_TRACING.span("b", {}, root=True)
    assert first is second
    with first as inside:
        inside.note("x", 1)
        inside.fail("x")
    NO_TRACING.past("c", {}, 1.0, "")
    NO_TRACING.close()
    assert not NO_TRACING.on


class Hanging:
    """A tracer whose collector never answers."""

    def __init__(self) -> None:
        self.asked, self.answered = threading.Event(), threading.Event()

    def begin(self, *_: Any) -> None: ...

    def end(self, *_: Any) -> None: ...

    def close(self) -> None:
        self.asked.set()
        self.answered.wait()


async def test_the_end_does_not_wait_for_a_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuberay.operator.tracing.CLOSE_SECONDS", 0.05)
    tracer = Hanging()
    await close_in_time(Traced(tracer))
    assert tracer.asked.is_set()
    assert not tracer.answered.is_set()
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "last spans"]
    assert thread.daemon, "nor does the interpreter"
    tracer.answered.set()
    thread.join(10)
    await close_in_time(NO_TRACING)
    assert not [thread for thread in threading.enumerate() if thread.name == "last spans"]
