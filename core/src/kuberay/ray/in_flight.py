"""How many requests Serve has under way on a Ray node, read from the node's metrics (Prometheus' text format).

Proxies, their routers and replicas each count their own, so one that bypasses a proxy is seen as well. What a proxy says
vanishes while its number stays the same (Ray 2.60: after 20 s); what routers and replicas say is always there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

METRICS_PATH = "/metrics"

_OF_SERVE = b"ray_serve_"
_PLACES = {
    "ray_serve_num_ongoing_http_requests": "proxies",
    "ray_serve_num_ongoing_grpc_requests": "proxies",
    "ray_serve_deployment_queued_queries": "routers",
    "ray_serve_num_ongoing_requests_at_replicas": "routers",
    "ray_serve_replica_processing_queries": "replicas",
}
"""Gauges, and who counts there. A request is counted in several places."""
_COUNTERS = ("ray_serve_num_router_requests", "ray_serve_deployment_request_counter")
"""Requests that routers were given, and that replicas have answered. Ray's versions write them with and without ``_total``."""
_READ = tuple(name.encode() for name in (*_PLACES, *_COUNTERS))


class ServeRequests(msgspec.Struct, kw_only=True):
    """Of one Ray node."""

    in_flight: int
    seen: int
    """Grows with each request: while it stays the same, none came and went unseen."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, as a probe result carries it to a plan."""
        return {"inFlight": self.in_flight, "seen": self.seen}


def parse_requests(body: bytes) -> ServeRequests | None:
    """Read an answer of ``GET /metrics``; None when it says nothing of Serve.

    Raises ``ValueError`` when it cannot be read, and when there were requests and nothing that is always there says how many
    are under way: a number that Ray leaves out must not be taken for none."""
    # Other metrics are many times as much, and reading a line takes long.
    lines = [line for line in body.splitlines() if line.startswith(_OF_SERVE)]
    if not lines:
        return None
    text = b"\n".join(line for line in lines if line.startswith(_READ)).decode(errors="replace")
    gauges = dict.fromkeys(_PLACES.values(), 0.0)
    told: set[str] = set()
    seen = 0.0
    for name, value in _samples(text):
        if name in _PLACES:
            gauges[_PLACES[name]] += value
            told.add(_PLACES[name])
        elif name.removesuffix("_total") in _COUNTERS:
            seen += value
    if seen and not told & {"routers", "replicas"}:
        raise ValueError("they do not say how many requests are under way")
    return ServeRequests(in_flight=math.ceil(max(gauges.values())), seen=math.ceil(seen))


def _samples(text: str) -> Iterator[tuple[str, float]]:
    try:
        for family in text_string_to_metric_families(text + "\n"):
            for sample in family.samples:
                if not math.isfinite(sample.value):
                    raise ValueError(f"{sample.name} is {sample.value}")
                yield sample.name, sample.value
    except IndexError as error:
        raise ValueError("a line is cut off") from error
