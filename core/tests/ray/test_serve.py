"""Serve over HTTP, against a played dashboard on loopback (spec rayservice.md 2.8, 2.10 and 7 rows 145 to 147)."""

from __future__ import annotations

from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp.test_utils import TestServer
from kuberay.ray.dashboard import DashboardRefusedError, DashboardTarget, DashboardUnreachableError
from kuberay.ray.http import CONFIG_TIMEOUT, HttpDashboardClient
from kuberay.ray.serve import parse_serve_details

from core.tests.ray.played import Played

PATH = "/api/serve/applications/"
GET = f"{PATH}?api_type=declarative"


@pytest.fixture
async def played() -> Played:
    return Played((200, b"{}"))


@pytest.fixture
def address(server: TestServer) -> str:
    return f"{server.host}:{server.port}"


@pytest.fixture
def target(address: str) -> DashboardTarget:
    return DashboardTarget(address, "ns", "c-head-svc", "sesame")


async def test_applications(client: HttpDashboardClient, played: Played, target: DashboardTarget) -> None:
    """Row 145."""
    told = {
        "deploy_mode": "MULTI_APP",
        "controller_info": {"node_id": "x"},
        "target_capacity": None,
        "applications": {
            "text": {
                "name": "another name",
                "status": "DEPLOYING",
                "message": "wait",
                "docs_path": None,
                "deployments": {"d": {"name": "d", "status": "UPDATING", "message": "1 of 2", "replicas": []}},
            }
        },
    }
    played.answer = (200, orjson.dumps(told))
    details = await client.serve_applications(target)
    assert details.deploy_mode == "MULTI_APP"
    assert details.as_dict() == {
        "applications": {
            "text": {
                "status": "DEPLOYING",
                "message": "wait",
                "deployments": {"d": {"status": "UPDATING", "message": "1 of 2"}},
            }
        }
    }
    method, path, headers, body = played.requests[0]
    assert (method, path, body) == ("GET", GET, b"")
    assert headers["x-ray-authorization"] == "Bearer sesame"


NOTHING = {"status": "", "message": "", "deployments": {}}
DETAILS: dict[str, tuple[bytes, Any]] = {
    "nothing": (b"{}", {}),
    "null": (b'{"applications": null}', {}),
    "none": (b'{"applications": {}}', {}),
    "the default one": (
        b'{"applications": {"": {"status": "RUNNING"}}}',
        {"default": {**NOTHING, "status": "RUNNING"}},
    ),
    "nulls": (b'{"applications": {"a": {"status": null, "message": null, "deployments": null}}}', {"a": NOTHING}),
    "a later status": (b'{"applications": {"a": {"status": "PAUSED"}}}', {"a": {**NOTHING, "status": "PAUSED"}}),
    "no text": (b'{"applications": {"a": {"message": "x \xff"}}}', {"a": {**NOTHING, "message": "x \ufffd"}}),
    "half a letter": (b'{"applications": {"a": {"message": "x \\udc80"}}}', {"a": {**NOTHING, "message": "x ?"}}),
    "a deployment without a message": (
        b'{"applications": {"a": {"deployments": {"d": {"status": "HEALTHY", "message": null}}}}}',
        {"a": {**NOTHING, "deployments": {"d": {"status": "HEALTHY", "message": ""}}}},
    ),
}


@pytest.mark.parametrize(("body", "expected"), DETAILS.values(), ids=DETAILS)
def test_what_answers_mean(body: bytes, expected: Any) -> None:
    """Row 147: none is no error."""
    assert parse_serve_details(body).as_dict() == {"applications": expected}


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"7",
        b'{"applications": []}',
        b'{"applications": {"a": 1}}',
        b'{"applications": {"a": {"status": 1}}}',
    ],
)
def test_what_is_no_answer(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"^the answer "):
        parse_serve_details(body)


@pytest.mark.parametrize(
    ("status", "body", "fragments"),
    [
        (400, b"no such thing", ["failed to get serve details", "GetServeDetails fail: 400 Bad Request no such thing"]),
        (500, b"", ["GetServeDetails fail: 500 Internal Server Error"]),
        (302, b"", ["GetServeDetails fail: 302"]),
        (599, b"", ["GetServeDetails fail: 599"]),
        (200, b"Ray is starting", ["GetServeDetails failed. Failed to unmarshal bytes: Ray is starting"]),
    ],
)
async def test_answers_that_tell_nothing(
    client: HttpDashboardClient, played: Played, target: DashboardTarget, status: int, body: bytes, fragments: list[str]
) -> None:
    """Row 146, in KubeRay's words."""
    played.answer = (status, body)
    with pytest.raises(DashboardRefusedError) as raised:
        await client.serve_applications(target)
    assert all(fragment in str(raised.value) for fragment in fragments)


async def test_an_address_that_is_none(client: HttpDashboardClient) -> None:
    """Row 146."""
    with pytest.raises(DashboardUnreachableError, match=r"failed to parse dashboard URL http://://invalid-url/api"):
        await client.serve_applications(DashboardTarget("://invalid-url"))


async def test_a_deadline_is_told_apart(
    session: aiohttp.ClientSession, played: Played, target: DashboardTarget
) -> None:
    """Row 147."""
    played.delay = 0.3
    with pytest.raises(DashboardUnreachableError, match=r"was not answered within 0\.05 s") as raised:
        await HttpDashboardClient(session, timeout=0.05).serve_applications(target)
    assert isinstance(raised.value.__cause__, TimeoutError)


@pytest.mark.parametrize("status", [200, 204])
async def test_a_configuration_is_put(
    client: HttpDashboardClient, played: Played, target: DashboardTarget, status: int
) -> None:
    played.answer = (status, b"" if status == 204 else b"not JSON")
    await client.put_serve_config(target, b'{"applications":[]}')
    method, path, headers, body = played.requests[0]
    assert (method, path, body) == ("PUT", PATH, b'{"applications":[]}')
    assert headers["Content-Type"] == "application/json"
    assert headers["x-ray-authorization"] == "Bearer sesame"


async def test_a_configuration_that_is_refused(
    client: HttpDashboardClient, played: Played, target: DashboardTarget
) -> None:
    played.answer = (400, b"1 validation error\n  route_prefix\n" + b"x" * 2000)
    with pytest.raises(DashboardRefusedError) as raised:
        await client.put_serve_config(target, b"{}")
    assert str(raised.value).startswith("UpdateDeployments fail: 400 Bad Request 1 validation error route_prefix xxx")
    assert 900 < len(str(raised.value)) < 1100


async def test_a_first_configuration_may_take_longer_than_a_question(
    session: aiohttp.ClientSession, played: Played, target: DashboardTarget
) -> None:
    played.delay = 0.2
    client = HttpDashboardClient(session, timeout=0.05)
    await client.put_serve_config(target, b"{}")
    assert len(played.requests) == 1
    assert CONFIG_TIMEOUT == 10.0


@pytest.mark.parametrize(("status", "healthy"), [(200, True), (201, False), (204, False), (503, False), (302, False)])
async def test_only_200_is_healthy(
    client: HttpDashboardClient, played: Played, address: str, status: int, healthy: bool
) -> None:
    played.answer = (status, b"")
    assert await client.proxy_healthy(address, "ns", "pod") is healthy
    assert [request[:2] for request in played.requests] == [("GET", "/-/healthz")]


async def test_a_proxy_that_nobody_can_reach_is_an_error(
    client: HttpDashboardClient, server: TestServer, address: str
) -> None:
    await server.close()
    with pytest.raises(DashboardUnreachableError):
        await client.proxy_healthy(address, "ns", "pod")


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("10.0.0.1:8000", "http://10.0.0.1:8000/-/healthz"),
        ("fd00::1:8000", "http://[fd00::1]:8000/-/healthz"),
        ("[fd00::1]:8000", "http://[fd00::1]:8000/-/healthz"),
    ],
)
async def test_addresses_of_pods(address: str, url: str) -> None:
    class Session:
        def request(self, _method: str, asked: str, **_options: Any) -> Any:
            raise aiohttp.ClientConnectionError(asked)

    with pytest.raises(DashboardUnreachableError) as raised:
        await HttpDashboardClient(Session()).proxy_healthy(address, "ns", "pod")  # type: ignore[arg-type]
    assert f"GET {url} failed" in str(raised.value)


async def test_through_the_api_server(session: aiohttp.ClientSession, played: Played, address: str) -> None:
    async def authorization() -> str:
        return "Bearer api"

    client = HttpDashboardClient(session, proxy_base=f"http://{address}/", proxy_authorization=authorization)
    target = DashboardTarget("nowhere:1", "ns", "c-head-svc")
    await client.serve_applications(target)
    await client.put_serve_config(target, b"{}")
    assert await client.proxy_healthy("10.0.0.1:9000", "ns", "head-1")
    service = "/api/v1/namespaces/ns/services/c-head-svc:dashboard/proxy"
    assert [request[:2] for request in played.requests] == [
        ("GET", service + GET),
        ("PUT", service + PATH),
        ("GET", "/api/v1/namespaces/ns/pods/head-1:9000/proxy/-/healthz"),
    ]
    assert {request[2]["Authorization"] for request in played.requests} == {"Bearer api"}


async def test_a_service_that_the_api_server_does_not_find_has_no_applications_to_tell_of(
    session: aiohttp.ClientSession, played: Played, address: str
) -> None:
    played.answer = (404, b'{"kind": "Status", "message": "services \\"c-head-svc\\" not found"}')
    client = HttpDashboardClient(session, proxy_base=f"http://{address}")
    with pytest.raises(DashboardRefusedError, match="GetServeDetails fail: 404 Not Found"):
        await client.serve_applications(DashboardTarget("", "ns", "c-head-svc"))
    assert await client.proxy_healthy("10.0.0.1:8000", "ns", "gone") is False
