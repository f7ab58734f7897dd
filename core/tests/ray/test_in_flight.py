"""How many requests Serve has under way, as a Ray node's metrics tell it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kuberay.ray import http
from kuberay.ray.dashboard import DashboardRefusedError, DashboardUnreachableError
from kuberay.ray.http import HttpDashboardClient
from kuberay.ray.in_flight import ServeRequests, parse_requests
from kuberay_testkit.serve import serve_metrics

HTTP = 'ray_serve_num_ongoing_http_requests{node_id="a b",node_ip_address="10.0.0.1"}'
GRPC = 'ray_serve_num_ongoing_grpc_requests{node_id="a"}'
ROUTER = 'ray_serve_num_ongoing_requests_at_replicas{application="a",deployment="D",handle="h"}'
QUEUE = 'ray_serve_deployment_queued_queries{application="a",deployment="D",handle="h"}'
REPLICA = 'ray_serve_replica_processing_queries{application="a",deployment="D\\"}",replica="x"}'
OTHER = REPLICA.replace('"x"', '"y"')
ROUTED = 'ray_serve_num_router_requests_total{deployment="D"}'
SERVED = 'ray_serve_deployment_request_counter_total{deployment="D"}'
NODE = "ray_node_cpu_count 8.0"

TOLD: dict[str, tuple[list[str], tuple[int, int] | None]] = {
    "no metrics": ([], None),
    "nothing of Serve": ([NODE], None),
    "Serve, but no requests yet": (["ray_serve_controller_num_control_loops 5.0", NODE], (0, 0)),
    "a proxy's": ([f"{HTTP} 2.0", NODE], (2, 0)),
    "both proxies'": ([f"{HTTP} 2.0", f"{GRPC} 1.0"], (3, 0)),
    "long ones, which the proxy no longer tells of": ([f"{ROUTER} 2.0", f"{QUEUE} 0.0", f"{ROUTED} 9.0"], (2, 9)),
    "one that waits for a replica": ([f"{ROUTER} 0.0", f"{QUEUE} 1.0", f"{REPLICA} 0.0", f"{ROUTED} 9.0"], (1, 9)),
    "one that came to the replica straight": ([f"{HTTP} 0.0", f"{ROUTER} 0.0", f"{REPLICA} 1.0"], (1, 0)),
    "two replicas'": ([f"{REPLICA} 1.0", f"{OTHER} 2.0"], (3, 0)),
    "one that all have is one": ([f"{HTTP} 1.0", f"{ROUTER} 1.0", f"{REPLICA} 1.0"], (1, 0)),
    "none any more": ([f"{HTTP} 0.0", f"{REPLICA} 0.0", f"{SERVED} 9.0", f"{ROUTED} 8.0"], (0, 17)),
    "an older Ray's counter": ([f"{REPLICA} 0.0", f"{SERVED.replace('_total', '')} 9.0"], (0, 9)),
    "no whole number": ([f"{REPLICA} 0.5"], (1, 0)),
    "large numbers": ([f"{REPLICA} 0", f"{SERVED} 1.234e+09"], (0, 1_234_000_000)),
    "with a time": ([f"{HTTP} 2.0 1700000000000"], (2, 0)),
    "what only begins alike": ([f"{HTTP} 0.0", "ray_serve_num_ongoing_http_requests_other 5.0"], (0, 0)),
    "no text": ([f"{HTTP} 1.0", "ray_other\udcff 1.0"], (1, 0)),
}


def text(lines: list[str]) -> bytes:
    named = [line for name in lines for line in (f"# TYPE {name.partition('{')[0]} gauge", name)]
    return "\n".join([*named, ""]).encode(errors="surrogateescape")


@pytest.mark.parametrize(("lines", "expected"), TOLD.values(), ids=TOLD)
def test_what_metrics_mean(lines: list[str], expected: tuple[int, int] | None) -> None:
    found = parse_requests(text(lines))
    assert (found and (found.in_flight, found.seen)) == expected


@pytest.mark.parametrize(
    "lines",
    [
        [f"{SERVED} 3.0"],
        [f"{ROUTED} 3.0", f"{HTTP} 0.0"],
        [f"{HTTP} NaN"],
        [f"{REPLICA} +Inf"],
        [f"{HTTP} many"],
        ['ray_serve_num_ongoing_http_requests{a="1" 1.0'],
        ["ray_serve_num_ongoing_http_requests"],
    ],
    ids=["numbers are left out", "but a proxy's", "no number", "infinite", "a word", "a broken label", "half a line"],
)
def test_what_cannot_be_read_is_not_none(lines: list[str]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own words differ
        parse_requests(text(lines))


def test_many_other_metrics_do_not_take_long() -> None:
    """The operator does nothing else meanwhile."""
    others = b"".join(b'ray_other_metric{a="%d"} 1.0\n' % number for number in range(100_000))
    found = parse_requests(others + text([f"{HTTP} 1.0"]))
    assert found == ServeRequests(in_flight=1, seen=0)


class Node:
    """Serves metrics, or whatever a test wants."""

    def __init__(self) -> None:
        self.answer = (200, serve_metrics(in_flight=2, seen=5).encode())
        self.requests: list[tuple[str, str, str]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.requests.append((request.method, request.raw_path, request.headers.get("Authorization", "")))
        status, body = self.answer
        return web.Response(status=status, body=body)


@pytest.fixture
async def node() -> Node:
    return Node()


@pytest.fixture
async def address(node: Node) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", node.handle)
    server = TestServer(app)
    await server.start_server()
    yield f"{server.host}:{server.port}"
    await server.close()


async def test_a_node_is_asked(session: aiohttp.ClientSession, node: Node, address: str) -> None:
    found = await HttpDashboardClient(session).requests_in_flight(address, "ns", "pod")
    assert found is not None
    assert found.as_dict() == {"inFlight": 2, "seen": 5}
    assert node.requests == [("GET", "/metrics", "")]


async def test_through_the_api_server(session: aiohttp.ClientSession, node: Node, address: str) -> None:
    async def authorization() -> str:
        return "Bearer api"

    client = HttpDashboardClient(session, proxy_base=f"http://{address}", proxy_authorization=authorization)
    assert await client.requests_in_flight("10.0.0.1:8080", "ns", "pod") is not None
    assert node.requests == [("GET", "/api/v1/namespaces/ns/pods/pod:8080/proxy/metrics", "Bearer api")]


@pytest.mark.parametrize("answer", [(404, b""), (503, b"x"), (200, f"{HTTP} many\n".encode()), (204, b"")])
async def test_any_other_answer_is_none(
    session: aiohttp.ClientSession, node: Node, address: str, answer: tuple[int, bytes]
) -> None:
    node.answer = answer
    with pytest.raises(DashboardRefusedError):
        await HttpDashboardClient(session).requests_in_flight(address, "ns", "pod")


async def test_an_answer_without_end_is_not_read(
    session: aiohttp.ClientSession, node: Node, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER", 1000)
    node.answer = (200, serve_metrics().encode() * 10)
    with pytest.raises(DashboardRefusedError, match="more than"):
        await HttpDashboardClient(session).requests_in_flight(address, "ns", "pod")


async def test_nobody_answers(session: aiohttp.ClientSession) -> None:
    with pytest.raises(DashboardUnreachableError):
        await HttpDashboardClient(session).requests_in_flight("127.0.0.1:9", "ns", "pod")


async def test_addresses_of_pods() -> None:
    class Session:
        def request(self, _method: str, asked: str, **_options: Any) -> Any:
            raise aiohttp.ClientConnectionError(asked)

    with pytest.raises(DashboardUnreachableError, match=r"GET http://\[fd00::1\]:8080/metrics failed"):
        await HttpDashboardClient(Session()).requests_in_flight("[fd00::1]:8080", "ns", "p")  # type: ignore[arg-type]
