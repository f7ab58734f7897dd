"""The dashboard client that speaks HTTP: straight to the head service, or through the API server's proxy.

Source: spec rayjob.md 3.9 and 3.10. A status code other than 200 is never taken for a job (docs/differences).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
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
from kuberay.ray.jobinfo import JobInfo, parse_job_info

DIRECT_TIMEOUT = 2.0
PROXY_TIMEOUT = 10.0
"""Seconds for a whole request."""

MAX_ANSWER = 10 * 1024 * 1024
"""Bytes of an answer that are read at most."""

TOKEN_HEADER = "x-ray-authorization"  # noqa: S105 (a header's name)
_DUPLICATE = "Please use a different submission_id"
_MAX_QUOTED = 300


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

    async def _call(
        self, method: str, target: DashboardTarget, path: str, body: bytes | None = None, *, keep: int = 0
    ) -> tuple[int, bytes]:
        """Status code and answer; with *keep* only so many bytes of its end, else all of it, if it is not too long."""
        url, headers = await self._address(target)
        if body is not None:
            headers["Content-Type"] = "application/json"
        if target.token is not None:
            headers[TOKEN_HEADER] = f"Bearer {target.token}"
        try:
            async with self._session.request(
                method, url + path, data=body, headers=headers, timeout=self._timeout, allow_redirects=False
            ) as response:
                return response.status, await _read(response, keep)
        except TimeoutError as error:
            raise DashboardUnreachableError(
                f"{method} {url}{path} was not answered within {self._timeout.total:g} s"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise DashboardUnreachableError(f"{method} {url}{path} failed: {error}") from error

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
        value = await self._proxy_authorization() if self._proxy_authorization is not None else None
        return self._proxy_base + place, {"Authorization": value} if value else {}


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


def _quoted(body: bytes) -> str:
    text = " ".join(body.decode(errors="replace").split())
    return text if len(text) <= _MAX_QUOTED else f"{text[:_MAX_QUOTED]}…"
