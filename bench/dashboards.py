"""Ray dashboards without Ray, a thousand in one process: real HTTP on loopback, told apart by the Host header, and their DNS.

Jobs run until the benchmark lets them end, at times of their own. Some dashboards can be made to hang, in two ways.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import struct
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, cast

import orjson
import uvloop
from aiohttp import web

HERE = "127.0.0.1"
PORT = 8265
CONTROL = "127.0.0.1:18083"
DOMAIN = "svc.cluster.local"
NOWHERE = "192.0.2.1"
"""An address that nobody has: what is sent there is dropped."""

TTL = 5
"""Seconds, as CoreDNS gives services."""

PENDING_SECONDS = 1.0
_A, _AAAA, _NO_SUCH_NAME = 1, 28, 3


@dataclass(slots=True)
class Job:
    """One submission, by the wall clock."""

    submitted: float
    ends: float = float("inf")
    asked: int = 0

    def status(self, now: float) -> str:
        if now >= self.ends:
            return "SUCCEEDED"
        return "RUNNING" if now >= self.submitted + PENDING_SECONDS else "PENDING"


@dataclass(slots=True)
class Head:
    """The dashboard of one RayCluster."""

    jobs: dict[str, Job] = field(default_factory=dict)
    hangs: bool = False
    dropped: bool = False
    """Whether connections are not even accepted while it hangs."""


class Dashboards:
    """All heads, by host name; one comes to be when it is first asked."""

    def __init__(self) -> None:
        self.heads: dict[str, Head] = {}
        self.requests: Counter[str] = Counter()
        self.lookups: Counter[str] = Counter()
        self.duplicates = 0
        self._awake = asyncio.Event()
        self._random = random.Random(5)

    # -- what the operator sees

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Ray's job API, as much of it as the operator asks."""
        host = request.host.partition(":")[0]
        head = self.heads.setdefault(host, Head())
        parts = request.path.strip("/").split("/")
        if parts[:2] != ["api", "jobs"]:
            return web.Response(status=404)
        if head.hangs:
            self.requests["unanswered"] += 1
            await self._awake.wait()
        if request.method == "POST" and len(parts) == 2:
            return self._submit(head, await request.json())
        job = head.jobs.get(parts[2]) if len(parts) == 3 else None
        self.requests["GET" if job is not None else "GET, not found"] += 1
        if job is None:
            return web.Response(status=404, text="Job not found")
        job.asked += 1
        return _json(_details(parts[2], job))

    def _submit(self, head: Head, body: dict[str, Any]) -> web.Response:
        self.requests["POST"] += 1
        job_id = body["submission_id"]
        if head.jobs:
            self.duplicates += 1
            return web.Response(status=500, text=f"Job {job_id} exists. Please use a different submission_id.")
        head.jobs[job_id] = Job(time.time())
        return _json({"job_id": job_id, "submission_id": job_id})

    def look_up(self, query: bytes) -> bytes | None:
        """The answer of a DNS server that knows every head; only one question each, as all resolvers send."""
        (identity,) = struct.unpack_from("!H", query)
        labels, at = [], 12
        while query[at]:
            labels.append(query[at + 1 : at + 1 + query[at]].decode())
            at += 1 + query[at]
        (kind,) = struct.unpack_from("!H", query, at + 1)
        name = ".".join(labels)
        known = name.endswith(DOMAIN) and len(labels) == 2 + DOMAIN.count(".") + 1
        self.lookups["found" if known else "no such name"] += 1
        head = self.heads.get(name)
        address = NOWHERE if head is not None and head.hangs and head.dropped else HERE
        answered = known and kind == _A
        header = struct.pack("!6H", identity, 0x8180 | (0 if known else _NO_SUCH_NAME), 1, int(answered), 0, 0)
        answer = struct.pack("!HHHIH4B", 0xC00C, _A, 1, TTL, 4, *map(int, address.split("."))) if answered else b""
        return header + query[12 : at + 5] + answer

    # -- what the benchmark says

    async def control(self, request: web.BaseRequest) -> web.StreamResponse:
        """``/end?seconds=40``, ``/hang?count=50``, ``/recover``, ``/figures``."""
        now = time.time()
        match request.path:
            case "/end":
                seconds = float(request.query["seconds"])
                for head in self.heads.values():
                    for job in head.jobs.values():
                        job.ends = now + self._random.uniform(0.0, seconds)
            case "/hang":
                for number, host in enumerate(self._random.sample(sorted(self.heads), int(request.query["count"]))):
                    self.heads[host].hangs, self.heads[host].dropped = True, number % 2 == 1
            case "/recover":
                for head in self.heads.values():
                    head.hangs = False
                self._awake.set()
        return _json(
            {
                "ends": {host: job.ends for host, head in self.heads.items() for job in head.jobs.values()},
                "hung": [host for host, head in self.heads.items() if head.hangs],
                "requests": self.requests,
                "lookups": self.lookups,
                "duplicates": self.duplicates,
            }
        )


def _details(job_id: str, job: Job) -> dict[str, Any]:
    """What Ray 2.54 says of a job."""
    now = time.time()
    status = job.status(now)
    node = "7c9f1e1d0f2b4c6a8e5d3b1a9f8e7d6c5b4a39281706f5e4d3c2b1a0"
    started = job.submitted + PENDING_SECONDS
    return {
        "type": "SUBMISSION",
        "job_id": "02000000",
        "submission_id": job_id,
        "driver_info": {"id": "02000000", "node_ip_address": "10.16.0.9", "pid": "1234"},
        "status": status,
        "entrypoint": "python train.py",
        "message": {
            "PENDING": "Job has not started yet. It may be waiting for the runtime environment to be set up.",
            "RUNNING": "Job is currently running.",
            "SUCCEEDED": "Job finished successfully.",
        }[status],
        "error_type": None,
        "start_time": int(started * 1000) if now >= started else 0,
        "end_time": int(job.ends * 1000) if status == "SUCCEEDED" else None,
        "metadata": {"job_submission_id": job_id},
        "runtime_env": {"working_dir": "./", "pip": ["requests==2.32.3", "pendulum==3.0.0"], "_ray_commit": "0" * 40},
        "driver_agent_http_address": "http://10.16.0.9:52365",
        "driver_node_id": node,
        "driver_exit_code": 0 if status == "SUCCEEDED" else None,
    }


def _json(body: dict[str, Any]) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


class _Dns(asyncio.DatagramProtocol):
    def __init__(self, dashboards: Dashboards) -> None:
        self._dashboards = dashboards
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: tuple[str | Any, int]) -> None:
        answer = self._dashboards.look_up(data)
        if answer is not None:
            self._transport.sendto(answer, addr)


async def main() -> None:
    dashboards = Dashboards()
    loop = asyncio.get_running_loop()
    host, _, port = CONTROL.partition(":")
    # A caller that has given up is no longer kept waiting for.
    await loop.create_server(web.Server(dashboards.answer, handler_cancellation=True), HERE, PORT, backlog=4096)
    await loop.create_server(web.Server(dashboards.control), host, int(port))
    await loop.create_datagram_endpoint(lambda: _Dns(dashboards), local_addr=(HERE, 53))
    await asyncio.Event().wait()


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    uvloop.run(main())
