"""What reaches a collector: the spans of a real operator on a simulated cluster, over an exporter in memory and over HTTP."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from kuberay.api.kinds import POD
from kuberay.operator.settings import load_settings
from kuberay.operator.start import assemble
from kuberay.operator.traced import TracedHooks
from kuberay.operator.tracing import Traced
from kuberay.plugins.loader import PluginError, load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.builders import build_raycluster, build_rayjob
from kuberay_testkit.lab import Lab, Setup, play
from kuberay_tracing.config import TracingSettings
from kuberay_tracing.spans import OpenTelemetry, exporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode


def traced(story: Any, **settings: Any) -> list[ReadableSpan]:
    """The spans of a *story* in a lab, in which the autoscaler's hooks are called."""
    kept = InMemorySpanExporter()
    tracer = OpenTelemetry(kept, TracingSettings(**settings))

    async def run(lab: Lab) -> None:
        tracing = Traced(tracer, lambda: int(lab.server.clock.now().timestamp() * 1e9))
        lab.hooks.observe(TracedHooks(lab.hooks._observer, tracing))
        lab.operator.tracing = tracing
        lab.operator.start()
        await story(lab)

    play(run, Setup(plugins=["autoscaler-v2"]), start=False)
    tracer.close()
    return list(kept.get_finished_spans())


def named(spans: list[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


async def one_of_each(lab: Lab) -> None:
    lab.create(build_raycluster("rc", enableInTreeAutoscaling=True))
    lab.create(build_rayjob("job"))
    await lab.until_ready("rc")
    await lab.until_job("job")


def test_passes_have_plans_hooks_and_requests_in_them() -> None:
    spans = traced(one_of_each)
    assert {span.name for span in spans} == {"reconcile", "plan", "hook", "api request", "probe"}
    by_id = {span.context.span_id: span for span in spans if span.context is not None}
    around = {
        name: Counter(by_id[span.parent.span_id].name if span.parent else "" for span in named(spans, name))
        for name in ("reconcile", "plan", "hook", "api request", "probe")
    }
    assert around["reconcile"].keys() == around["probe"].keys() == {""}
    assert around["plan"].keys() == {"reconcile"}
    assert around["hook"].keys() == {"plan"}
    # Lists and events belong to no pass.
    assert around["api request"].keys() == {"reconcile", ""}
    created = [
        span
        for span in named(spans, "api request")
        if attributes(span)["http.request.method"] == "POST" and attributes(span)["url.path"].endswith("/pods")
    ]
    assert len(created) == 4
    for span in created:
        assert span.parent is not None
        root = by_id[span.parent.span_id]
        assert attributes(root)["kuberay.kind"] == "RayCluster"
        assert attributes(span)["http.response.status_code"] == 201
        assert span.kind == SpanKind.CLIENT
        assert root.start_time is not None
        assert span.start_time is not None
        assert root.start_time <= span.start_time
    passes = named(spans, "reconcile")
    assert {(attributes(span)["kuberay.kind"], attributes(span)["kuberay.name"]) for span in passes} >= {
        ("RayCluster", "rc"),
        ("RayJob", "job"),
    }
    assert len({attributes(span)["kuberay.reconcile_id"] for span in passes}) == len(passes)
    assert {attributes(span)["kuberay.result"] for span in passes} <= {"success", "requeue_after", "error"}
    assert {attributes(span)["kuberay.plugin"] for span in named(spans, "hook")} == {"autoscaler-v2"}
    assert "JobInfoProbe" in {attributes(span)["kuberay.probe"] for span in named(spans, "probe")}
    assert {span.resource.attributes["service.name"] for span in spans} == {"kuberay-operator"}


def test_what_fails_is_an_error_of_its_request_and_its_pass() -> None:
    async def story(lab: Lab) -> None:
        lab.server.faults.add("error_before", verb="create", resource="pods", chance=1.0)
        lab.create(build_raycluster("rc"))
        await lab.world.pass_time(5)
        lab.server.faults.stop()
        await lab.until_ready("rc")
        assert len(lab.all(POD)) == 2

    spans = traced(story)
    failed = {
        (span.name, str(span.status.description)[:8]) for span in spans if span.status.status_code == StatusCode.ERROR
    }
    assert ("api request", "HTTP 500") in failed
    assert "reconcile" in {name for name, _ in failed}


@pytest.mark.parametrize(("ratio", "all_of_them"), [(0.0, False), (1.0, True)])
def test_a_part_of_all_passes_is_traced(ratio: float, all_of_them: bool) -> None:
    assert bool(traced(one_of_each, sample_ratio=ratio)) is all_of_them


def test_a_pass_is_traced_with_all_that_is_in_it_or_not_at_all() -> None:
    spans = traced(one_of_each, sample_ratio=0.5)
    roots = {span.context.trace_id for span in spans if span.parent is None and span.context is not None}
    assert roots
    assert {span.context.trace_id for span in spans if span.context is not None} == roots


class Collector:
    """Takes OTLP over HTTP."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, ExportTraceServiceRequest]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                message = ExportTraceServiceRequest()
                message.ParseFromString(body)
                outer.requests.append((self.path, self.headers.get("x-key", ""), message))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_arguments: Any) -> None:
                return None

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_port}"

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


def test_spans_arrive_at_a_collector(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hush")
    manager, _ = assemble(
        load_settings("", {"plugins": {"enabled": ["tracing"], "tracing": {"endpoint": collector.url + "/"}}})
    )
    tracer = manager.tracer()
    assert tracer is not None
    tracing = Traced(tracer)
    with tracing.span("reconcile", {"kuberay.kind": "RayCluster"}) as span, tracing.span("plan", {}):
        span.note("kuberay.result", "success")
    tracing.close()
    ((path, key, message),) = collector.requests
    assert (path, key) == ("/v1/traces", "hush")
    spans = message.resource_spans[0].scope_spans[0].spans
    assert [span.name for span in spans] == ["plan", "reconcile"]
    assert spans[0].parent_span_id == spans[1].span_id
    assert {each.key: each.value.string_value for each in spans[1].attributes} == {
        "kuberay.kind": "RayCluster",
        "kuberay.result": "success",
    }


def test_a_collector_that_is_away_holds_nobody_up(collector: Collector) -> None:
    collector.close()
    tracer = OpenTelemetry(exporter(TracingSettings(endpoint=collector.url)), TracingSettings())
    tracing = Traced(tracer)

    async def work() -> int:
        for _ in range(5000):
            with tracing.span("reconcile", {}):
                await asyncio.sleep(0)
        return 5000

    assert asyncio.run(work()) == 5000
    ending = threading.Thread(target=tracing.close, daemon=True)
    ending.start()
    # Without an end to its patience it tries for ten seconds with each of four batches.
    ending.join(20)
    assert not ending.is_alive()


@pytest.mark.parametrize(
    ("section", "place"),
    [
        ({"endpoint": "collector:4318"}, "plugins.tracing.endpoint: "),
        ({"sample_ratio": 2}, "plugins.tracing.sample_ratio: "),
        ({"headers": {"a": "b"}}, "plugins.tracing.headers: "),
    ],
)
def test_settings_that_make_no_sense_are_refused(section: dict[str, Any], place: str) -> None:
    with pytest.raises(PluginError) as caught:
        PluginManager(load(["tracing"])).configure({"tracing": section})
    assert str(caught.value).startswith(place)
