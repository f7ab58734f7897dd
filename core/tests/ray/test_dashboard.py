"""The HTTP dashboard client against a played dashboard on loopback (spec rayjob.md 3.9, 3.10, 8.6 rows 130-133)."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from kuberay.ray.dashboard import (
    Activity,
    DashboardError,
    DashboardRefusedError,
    DashboardTarget,
    DashboardUnreachableError,
    SubmissionExistsError,
)
from kuberay.ray.http import DIRECT_TIMEOUT, PROXY_TIMEOUT, HttpDashboardClient
from kuberay.ray.jobinfo import parse_job_info

from core.tests.ray.played import Played


@pytest.fixture
async def played() -> Played:
    return Played()


@pytest.fixture
def target(server: TestServer) -> DashboardTarget:
    return DashboardTarget(f"{server.host}:{server.port}", "ns", "c-head-svc")


async def test_job_info(client: HttpDashboardClient, played: Played, target: DashboardTarget) -> None:
    played.answers["GET", "/api/jobs/j-1"] = (
        200,
        '{"type": "SUBMISSION", "job_id": null, "submission_id": "j-1", "status": "FAILED", "message": "boom",'
        ' "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR", "start_time": 1704067200123, "end_time": 1704067260000,'
        ' "driver_info": {"id": "1"}, "runtime_env": {"pip": ["a"]}, "metadata": null}',
    )
    info = await client.job_info(target, "j-1")
    assert info is not None
    assert info.terminal
    assert info.as_dict() == {
        "status": "FAILED",
        "message": "boom",
        "submission_id": "j-1",
        "error_type": "JOB_ENTRYPOINT_COMMAND_ERROR",
        "start_time": 1704067200123,
        "end_time": 1704067260000,
        "runtime_env": {"pip": ["a"]},
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"status": "FAILED", "message": "\\ud83d\\ude00"}', "\U0001f600"),
        (b'{"status": "FAILED", "message": "a \\udc80"}', "a ?"),
        (b'{"status": "FAILED", "message": "a \xff"}', "a \ufffd"),
    ],
    ids=["emoji", "half a letter", "no letter"],
)
def test_what_a_failed_job_wrote_need_not_be_text(text: bytes, message: str) -> None:
    """Else its failure would count as failing checks."""
    info = parse_job_info(text)
    assert (info.status, info.message) == ("FAILED", message)


async def test_an_unknown_job(client: HttpDashboardClient, target: DashboardTarget) -> None:
    assert await client.job_info(target, "other") is None


async def test_ids_are_escaped(client: HttpDashboardClient, played: Played, target: DashboardTarget) -> None:
    assert await client.job_info(target, "a/b c?d") is None
    assert played.requests[0][1] == "/api/jobs/a%2Fb%20c%3Fd"


@pytest.mark.parametrize(
    ("status", "text", "fragment"),
    [
        (200, "Ray is starting", "GetJobInfo fail: the answer is not JSON"),
        (200, "[]", "not a JSON object"),
        (200, '{"status": 7}', "not a Ray job"),
        (200, '{"message": "x"}', "names no job status"),
        (500, '{"result": false, "msg": "x"}', "GetJobInfo fail: HTTP 500"),
        (401, "Unauthorized", "HTTP 401 Unauthorized"),
        (302, "", "HTTP 302"),
        (200, "x" * 2000, "…"),
    ],
)
async def test_answers_that_are_no_job(
    client: HttpDashboardClient, played: Played, target: DashboardTarget, status: int, text: str, fragment: str
) -> None:
    played.answers["GET", "/api/jobs/j"] = (status, text)
    with pytest.raises(DashboardRefusedError) as raised:
        await client.job_info(target, "j")
    assert fragment in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("stop", "info", "outcome"),
    [
        ((200, '{"stopped": true}'), None, True),
        ((200, '{"stopped": false}'), (200, '{"status": "SUCCEEDED"}'), True),
        ((200, '{"stopped": false}'), (200, '{"status": "RUNNING"}'), "was not stopped and is RUNNING"),
        ((200, '{"stopped": false}'), None, False),
        ((404, "no"), None, False),
        ((500, "oops"), None, "StopJob fail: HTTP 500 oops"),
        ((200, "oops"), None, "StopJob fail: the answer is not JSON"),
    ],
)
async def test_stop(
    client: HttpDashboardClient,
    played: Played,
    target: DashboardTarget,
    stop: tuple[int, str],
    info: tuple[int, str] | None,
    outcome: bool | str,
) -> None:
    played.answers["POST", "/api/jobs/j/stop"] = stop
    if info is not None:
        played.answers["GET", "/api/jobs/j"] = info
    if isinstance(outcome, str):
        with pytest.raises(DashboardRefusedError, match=outcome):
            await client.stop_job(target, "j")
    else:
        assert await client.stop_job(target, "j") is outcome
    method, path, headers, body = played.requests[0]
    assert (method, path, body) == ("POST", "/api/jobs/j/stop", b"")
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ((200, '{"job_id": "raysubmit_test001"}'), "raysubmit_test001"),
        ((200, '{"job_id": "old", "submission_id": "j"}'), "j"),
        ((500, "Traceback: Please use a different submission_id."), SubmissionExistsError),
        ((500, "boom"), DashboardRefusedError),
        ((400, "bad"), DashboardRefusedError),
        ((200, "{}"), DashboardRefusedError),
        ((200, "[]"), DashboardRefusedError),
    ],
)
async def test_submit(
    client: HttpDashboardClient,
    played: Played,
    target: DashboardTarget,
    answer: tuple[int, str],
    outcome: str | type[DashboardError],
) -> None:
    played.answers["POST", "/api/jobs/"] = answer
    request: dict[str, Any] = {"entrypoint": "x", "submission_id": "j"}
    if isinstance(outcome, str):
        assert await client.submit_job(target, request) == outcome
    else:
        with pytest.raises(outcome):
            await client.submit_job(target, request)
    method, path, headers, body = played.requests[0]
    assert (method, path, headers["Content-Type"]) == ("POST", "/api/jobs/", "application/json")
    assert body == b'{"entrypoint":"x","submission_id":"j"}'


async def test_the_token_is_sent_and_never_shown(
    client: HttpDashboardClient, played: Played, target: DashboardTarget
) -> None:
    with_token = DashboardTarget(target.address, token="sesame")
    await client.job_info(with_token, "j")
    await client.job_info(target, "j")
    sent = [headers.get("x-ray-authorization") for _, _, headers, _ in played.requests]
    assert sent == ["Bearer sesame", None]
    assert "sesame" not in repr(with_token)


async def test_through_the_proxy(
    session: aiohttp.ClientSession, played: Played, server: TestServer, target: DashboardTarget
) -> None:
    base = f"http://{server.host}:{server.port}/"

    async def authorization() -> str:
        return "Bearer api"

    client = HttpDashboardClient(session, proxy_base=base, proxy_authorization=authorization)
    path = "/api/v1/namespaces/ns/services/c-head-svc:dashboard/proxy/api/jobs/j"
    played.answers["GET", path] = (200, '{"status": "RUNNING"}')
    info = await client.job_info(DashboardTarget("nowhere:1", "ns", "c-head-svc", "sesame"), "j")
    assert info is not None
    assert info.status == "RUNNING"
    _, asked, headers, _ = played.requests[0]
    assert asked == path
    assert headers["Authorization"] == "Bearer api"
    assert headers["x-ray-authorization"] == "Bearer sesame"


async def test_a_proxy_that_finds_no_service_says_nothing_about_the_job(
    session: aiohttp.ClientSession, played: Played, server: TestServer
) -> None:
    client = HttpDashboardClient(session, proxy_base=f"http://{server.host}:{server.port}")
    base = "/api/v1/namespaces/ns/services/c-head-svc:dashboard/proxy/api/jobs/j"
    refusal = (404, '{"kind": "Status", "message": "services \\"c-head-svc\\" not found", "code": 404}')
    played.answers["GET", base] = refusal
    played.answers["POST", f"{base}/stop"] = refusal
    target = DashboardTarget("", "ns", "c-head-svc")
    with pytest.raises(DashboardRefusedError, match="not found"):
        await client.job_info(target, "j")
    with pytest.raises(DashboardRefusedError, match="not found"):
        await client.stop_job(target, "j")
    played.answers["GET", base] = (404, "Job j does not exist")
    assert await client.job_info(target, "j") is None


async def test_a_slow_dashboard(session: aiohttp.ClientSession, played: Played, target: DashboardTarget) -> None:
    played.delay = 0.3
    client = HttpDashboardClient(session, timeout=0.05)
    with pytest.raises(DashboardUnreachableError, match=r"was not answered within 0\.05 s"):
        await client.job_info(target, "j")


async def test_nobody_listens(client: HttpDashboardClient, server: TestServer, target: DashboardTarget) -> None:
    await server.close()
    with pytest.raises(DashboardUnreachableError, match=r"GET http://.*/api/jobs/j failed"):
        await client.job_info(target, "j")


async def test_no_address(client: HttpDashboardClient) -> None:
    with pytest.raises(DashboardError, match="not known yet"):
        await client.job_info(DashboardTarget(""), "j")


def test_timeouts_are_kuberays() -> None:
    assert (DIRECT_TIMEOUT, PROXY_TIMEOUT) == (2.0, 10.0)


async def test_activity(client: HttpDashboardClient, played: Played, target: DashboardTarget) -> None:
    played.answers["GET", "/api/component_activities"] = (200, '{"driver": {"is_active": "ACTIVE", "reason": "1"}}')
    assert await client.activity(target) == Activity(True, "a driver is connected")


@pytest.mark.parametrize(
    ("status", "text", "fragment"),
    [
        (404, "nothing", "GET /api/component_activities fail: HTTP 404 nothing"),
        (500, "no", "HTTP 500 no"),
        (200, "<html>", "is not as expected"),
    ],
)
async def test_activity_that_cannot_be_told(
    client: HttpDashboardClient, played: Played, target: DashboardTarget, status: int, text: str, fragment: str
) -> None:
    played.answers["GET", "/api/component_activities"] = (status, text)
    with pytest.raises(DashboardRefusedError, match=fragment):
        await client.activity(target)


async def test_the_end_of_a_log(client: HttpDashboardClient, played: Played, target: DashboardTarget) -> None:
    played.answers["GET", "/api/jobs/a%2Fb/logs"] = (200, '{"logs": "one\\ntwo\\n"}')
    assert await client.job_logs(target, "a/b") == "one\ntwo"
    assert await client.job_logs(target, "other") is None


async def test_of_a_huge_log_only_the_end_is_kept(
    client: HttpDashboardClient, played: Played, target: DashboardTarget
) -> None:
    log = "".join(f"line {number}\\n" for number in range(200_000))
    played.answers["GET", "/api/jobs/j/logs"] = (200, f'{{"logs": "{log}"}}')
    lines = await client.job_logs(target, "j")
    assert lines is not None
    assert lines.split("\n") == [f"line {number}" for number in range(199_980, 200_000)]


@pytest.mark.parametrize(
    ("status", "text"), [(500, "oops"), (200, "oops"), (200, "[]"), (200, '{"logs": null}')], ids=str
)
async def test_answers_that_are_no_log(
    client: HttpDashboardClient, played: Played, target: DashboardTarget, status: int, text: str
) -> None:
    played.answers["GET", "/api/jobs/j/logs"] = (status, text)
    with pytest.raises(DashboardRefusedError, match="GetJobLog fail"):
        await client.job_logs(target, "j")


async def test_answers_are_read_up_to_a_limit(
    client: HttpDashboardClient, played: Played, target: DashboardTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kuberay.ray.http.MAX_ANSWER", 1000)
    played.answers["GET", "/api/jobs/j"] = (200, '{"status": "RUNNING"}' + " " * 970)
    assert await client.job_info(target, "j") is not None
    played.answers["GET", "/api/jobs/j"] = (200, '{"status": "RUNNING"}' + " " * 1000)
    with pytest.raises(DashboardRefusedError, match="more than 1,000 bytes"):
        await client.job_info(target, "j")
