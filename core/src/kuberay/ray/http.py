"""The dashboard client that speaks HTTP: straight to the head service, or through the API server's proxy.

Source: spec rayjob.md 3.9 and 3.10, rayservice.md 2.8 and 2.10. A status code other than 200 is never taken for a job (docs/differences).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

import aiohttp
import orjson

from kuberay.ray import joblogs
from kuberay.ray.activity import Activity, ask_activity
from kuberay.ray.dashboard import (
    DashboardError,
    DashboardRefusedError,
    DashboardTarget,
    DashboardUnreachableError,
    SubmissionExistsError,
)
from kuberay.ray.in_flight import METRICS_PATH, ServeRequests, parse_requests
from kuberay.ray.jobinfo import JobInfo, parse_job_info
from kuberay.ray.serve import APPLICATIONS_PATH, ServeDetails, parse_serve_details

DIRECT_TIMEOUT = 2.0
PROXY_TIMEOUT = 10.0
"""Seconds for a whole request."""
CONFIG_TIMEOUT = 10.0
"""Seconds at least to take a Serve configuration: the first one starts Serve itself."""

MAX_ANSWER = 10 * 1024 * 1024
"""Bytes of an answer that are read at most."""

TOKEN_HEADER = "x-ray-authorization"  # noqa: S105 (a header's name)
_DUPLICATE = "Please use a different submission_id"
_MAX_QUOTED = 300
_MAX_REFUSAL = 1000
"""Characters of an answer that are shown: in general, and of Serve's word on a configuration that it does not take."""


class HttpDashboardClient:
    """A `DashboardClient` on an aiohttp session that somebody else opens and closes."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        proxy_base: str = "",
        proxy_authorization: Callable[[], Awaitable[str | None]] | None = None,
        timeout: float | None = None,
    ) -> None:
        """*proxy_base* is the API server's URL when requests go through its proxy; the session then brings the
        certificates and *proxy_authorization* the present ``Authorization`` header (tokens rotate). *timeout* in
        seconds; by default 2, through the proxy 10."""
        self._session = session
        self._proxy_base = proxy_base.rstrip("/")
        self._proxy_authorization = proxy_authorization
        seconds = timeout if timeout is not None else PROXY_TIMEOUT if proxy_base else DIRECT_TIMEOUT
        self._timeout = aiohttp.ClientTimeout(total=seconds)

    async def job_info(self, target: DashboardTarget, job_id: str) -> JobInfo | None:
        status, body = await self._call("GET", target, f"/api/jobs/{quote(job_id, safe='')}")
        if status == 404 and not self._from_api_server(body):
            return None
        if status != 200:
            raise DashboardRefusedError(f"GetJobInfo fail: HTTP {status} {_quoted(body)}")
        try:
            return parse_job_info(body)
        except ValueError as error:
            raise DashboardRefusedError(f"GetJobInfo fail: {error}: {_quoted(body)}") from error

    async def job_logs(self, target: DashboardTarget, job_id: str) -> str | None:
        path = f"/api/jobs/{quote(job_id, safe='')}/logs"
        status, body = await self._call("GET", target, path, keep=joblogs.TAIL_BYTES)
        if status == 404 and not self._from_api_server(body):
            return None
        if status != 200:
            raise DashboardRefusedError(f"GetJobLog fail: HTTP {status} {_quoted(body)}")
        try:
            return joblogs.last_lines(body, cut=len(body) >= joblogs.TAIL_BYTES)
        except ValueError as error:
            raise DashboardRefusedError(f"GetJobLog fail: {error}") from error

    async def stop_job(self, target: DashboardTarget, job_id: str) -> bool:
        status, body = await self._call("POST", target, f"/api/jobs/{quote(job_id, safe='')}/stop", b"")
        if status == 404 and not self._from_api_server(body):
            return False
        if status != 200:
            raise DashboardRefusedError(f"StopJob fail: HTTP {status} {_quoted(body)}")
        if _object(body, "StopJob").get("stopped") is True:
            return True
        info = await self.job_info(target, job_id)
        if info is None:
            return False
        if not info.terminal:
            raise DashboardRefusedError(f"StopJob fail: job {job_id} was not stopped and is {info.status}")
        return True

    async def submit_job(self, target: DashboardTarget, request: dict[str, Any]) -> str:
        status, body = await self._call("POST", target, "/api/jobs/", orjson.dumps(request))
        text = body.decode(errors="replace")
        if status == 500 and _DUPLICATE in text:
            raise SubmissionExistsError(f"job {request.get('submission_id')} was submitted before: {_quoted(body)}")
        if not 200 <= status < 300:
            raise DashboardRefusedError(f"SubmitJob fail: HTTP {status} {_quoted(body)}")
        answer = _object(body, "SubmitJob")
        told = answer.get("submission_id") or answer.get("job_id")
        if not isinstance(told, str):
            raise DashboardRefusedError(f"SubmitJob fail: the answer names no job: {_quoted(body)}")
        return told

    async def activity(self, target: DashboardTarget) -> Activity:
        async def get(path: str) -> bytes:
            status, body = await self._call("GET", target, path)
            if status != 200:
                raise DashboardRefusedError(f"GET {path} fail: HTTP {status} {_quoted(body)}")
            return body

        try:
            return await ask_activity(get)
        except ValueError as error:
            raise DashboardRefusedError(str(error)) from error

    async def serve_applications(self, target: DashboardTarget) -> ServeDetails:
        status, body = await self._call("GET", target, f"{APPLICATIONS_PATH}?api_type=declarative")
        if not 200 <= status < 300:
            told = f"GetServeDetails fail: {_code(status)} {_quoted(body)}"
            raise DashboardRefusedError(f"failed to get serve details: {told}")
        try:
            return parse_serve_details(body)
        except ValueError as error:
            told = f"GetServeDetails failed. Failed to unmarshal bytes: {_quoted(body)} ({error})"
            raise DashboardRefusedError(f"failed to get serve details: {told}") from error

    async def put_serve_config(self, target: DashboardTarget, body: bytes) -> None:
        seconds = max(CONFIG_TIMEOUT, self._timeout.total or 0)
        status, answer = await self._call("PUT", target, APPLICATIONS_PATH, body, seconds=seconds)
        if not 200 <= status < 300:
            raise DashboardRefusedError(f"UpdateDeployments fail: {_code(status)} {_quoted(answer, _MAX_REFUSAL)}")

    async def proxy_healthy(self, address: str, namespace: str, pod: str) -> bool:
        url, headers = await self._pod_address(address, namespace, pod)
        status, _ = await self._send("GET", f"{url}/-/healthz", headers)
        return status == 200

    async def requests_in_flight(self, address: str, namespace: str, pod: str) -> ServeRequests | None:
        url, headers = await self._pod_address(address, namespace, pod)
        status, body = await self._send("GET", url + METRICS_PATH, headers)
        if status != 200:
            raise DashboardRefusedError(f"GET {url}{METRICS_PATH} fail: {_code(status)} {_quoted(body)}")
        try:
            return parse_requests(body)
        except ValueError as error:
            raise DashboardRefusedError(f"the metrics of pod {namespace}/{pod} cannot be used: {error}") from error

    async def _call(
        self,
        method: str,
        target: DashboardTarget,
        path: str,
        body: bytes | None = None,
        *,
        keep: int = 0,
        seconds: float | None = None,
    ) -> tuple[int, bytes]:
        """Status code and answer of a dashboard."""
        url, headers = await self._address(target)
        if body is not None:
            headers["Content-Type"] = "application/json"
        if target.token is not None:
            headers[TOKEN_HEADER] = f"Bearer {target.token}"
        return await self._send(method, url + path, headers, body, keep=keep, seconds=seconds)

    async def _send(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        body: bytes | None = None,
        *,
        keep: int = 0,
        seconds: float | None = None,
    ) -> tuple[int, bytes]:
        """Status code and answer; with *keep* only so many bytes of its end, else all of it, if it is not too long."""
        timeout = aiohttp.ClientTimeout(total=seconds) if seconds is not None else self._timeout
        try:
            async with self._session.request(
                method, url, data=body, headers=headers, timeout=timeout, allow_redirects=False
            ) as response:
                return response.status, await _read(response, keep)
        except TimeoutError as error:
            raise DashboardUnreachableError(f"{method} {url} was not answered within {timeout.total:g} s") from error
        except aiohttp.InvalidURL as error:
            raise DashboardUnreachableError(f"failed to parse dashboard URL {url}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise DashboardUnreachableError(f"{method} {url} failed: {error}") from error

    def _from_api_server(self, body: bytes) -> bool:
        """Whether it is the proxy that found nothing (no such Service), which says nothing about the job."""
        if not self._proxy_base:
            return False
        try:
            answer = orjson.loads(body)
        except orjson.JSONDecodeError:
            return False
        return isinstance(answer, dict) and answer.get("kind") == "Status"

    async def _address(self, target: DashboardTarget) -> tuple[str, dict[str, str]]:
        if not self._proxy_base:
            if not target.address:
                raise DashboardError("the dashboard's address is not known yet")
            return f"http://{target.address}", {}
        place = f"/api/v1/namespaces/{target.namespace}/services/{target.service}:dashboard/proxy"
        return self._proxy_base + place, await self._api_headers()

    async def _pod_address(self, address: str, namespace: str, pod: str) -> tuple[str, dict[str, str]]:
        """Where a pod's own port is reached, *address* being its ``host:port``."""
        host, _, port = address.rpartition(":")
        if self._proxy_base:
            place = f"/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy"
            return self._proxy_base + place, await self._api_headers()
        return f"http://{_bracketed(host)}:{port}", {}

    async def _api_headers(self) -> dict[str, str]:
        """With which the API server lets requests through its proxy."""
        value = await self._proxy_authorization() if self._proxy_authorization is not None else None
        return {"Authorization": value} if value else {}


async def _read(response: aiohttp.ClientResponse, keep: int) -> bytes:
    """An answer may be of any length: a job writes its own log, and a head may be anything."""
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if keep:
            del body[:-keep]
        elif len(body) > MAX_ANSWER:
            raise DashboardRefusedError(f"{response.url} answers with more than {MAX_ANSWER:,} bytes")
    return bytes(body)


def _object(body: bytes, call: str) -> dict[str, Any]:
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise DashboardRefusedError(f"{call} fail: the answer is not JSON: {_quoted(body)}") from error
    if not isinstance(parsed, dict):
        raise DashboardRefusedError(f"{call} fail: the answer is not a JSON object: {_quoted(body)}")
    return parsed


def _bracketed(host: str) -> str:
    """An IPv6 address as URLs have it."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _code(status: int) -> str:
    """Code and reason, as an HTTP status line has them."""
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _quoted(body: bytes, most: int = _MAX_QUOTED) -> str:
    text = " ".join(body.decode(errors="replace").split())
    return text if len(text) <= most else f"{text[:most]}…"
