"""One run of N RayJobs in HTTP mode against simulated dashboards: the cost of polling, and how soon an end is reported.

Prints one JSON object. Runs inside the development cluster's network, with the dashboards as its DNS (``bench/jobs.sh``).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from kuberay.api.kinds import NAMESPACE as NAMESPACE_KIND
from kuberay.api.kinds import POD, RAYCLUSTER, RAYJOB
from kuberay.api.names import LABEL_CLUSTER
from kuberay.kube.client import Client
from kuberay.kube.connection import connect
from kuberay.kube.errors import AlreadyExistsError
from kuberay.kube.http import HttpTransport

from bench.dashboards import CONTROL
from bench.measure import COMMAND, costs, leads, object_requests, passes, requests, start_operator
from bench.processes import Cost, cost
from bench.workload import NAMESPACE, WORKERS, raycluster, rayjob

DEADLINE = 900.0
NEW_CLUSTERS = 20
"""RayClusters that are created, one after the other, while all jobs run."""
ENDS_PER_SECOND = 20
"""How fast jobs end: slowly enough that the API server is not what is measured."""


@dataclass(slots=True)
class Seen:
    """What a watch of RayJobs has told, by the wall clock."""

    hosts: dict[str, str] = field(default_factory=dict)
    """Name of a RayJob to the host of its dashboard."""
    running: set[str] = field(default_factory=set)
    ended: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def note(self, obj: dict[str, Any]) -> None:
        name, status = obj["metadata"]["name"], obj.get("status") or {}
        if status.get("dashboardURL"):
            self.hosts[name] = status["dashboardURL"].partition(":")[0]
        if status.get("jobStatus") == "RUNNING":
            self.running.add(name)
        match status.get("jobDeploymentStatus"):
            case "Complete":
                self.ended.setdefault(name, time.time())
            case "Failed":
                self.failed[name] = f"{status.get('reason')}: {status.get('message')}"


async def main(arguments: argparse.Namespace) -> dict[str, Any]:
    transport = HttpTransport(await connect(), user_agent="kuberay-bench")
    client = Client(transport)
    dashboards = subprocess.Popen([sys.executable, "-m", "bench.dashboards"])  # noqa: ASYNC220
    log = open(arguments.log, "wb")  # noqa: ASYNC230, SIM115 - handed to the operator's process
    operator = start_operator(arguments.command, log)
    seen = Seen()
    # In a thread of its own: a watch that is read late tells late.
    watcher = asyncio.create_task(asyncio.to_thread(_watch_in_thread, seen, arguments.jobs))
    try:
        with contextlib.suppress(AlreadyExistsError):
            await client.create(NAMESPACE_KIND, "", {"metadata": {"name": NAMESPACE}})
        await leads(operator)
        return await _measure(client, arguments, seen, operator.pid, dashboards.pid)
    finally:
        for process in (operator, dashboards):
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(15)
        watcher.cancel()
        log.close()
        await transport.close()


async def _measure(
    client: Client, arguments: argparse.Namespace, seen: Seen, operator: int, dashboards: int
) -> dict[str, Any]:
    count, hung = arguments.jobs, arguments.hung
    idle = await _over(operator, dashboards, arguments.plateau / 3)
    before, started, start_cost = costs(), time.time(), cost(operator)
    await _load(client, count, arguments.concurrency)
    await _until(lambda: len(seen.running | seen.ended.keys() | seen.failed.keys()) >= count, "run", seen)
    all_run_after = time.time() - started
    run_cost = cost(operator)
    await asyncio.sleep(10)  # events and statuses of the start are out of the way
    hangs = set((await _control("hang", count=hung))["hung"]) if hung else set()
    plateau = await _over(operator, dashboards, arguments.plateau)
    sent = await requests(1)
    new_clusters = [await _new_cluster(client, number) for number in range(NEW_CLUSTERS)]
    await asyncio.sleep(5)
    aside = await requests(1)
    others = {name for name in seen.hosts if seen.hosts[name] not in hangs}
    spread = max(20.0, count / ENDS_PER_SECOND)
    end_cost = cost(operator)
    ends: dict[str, float] = (await _control("end", seconds=spread))["ends"]
    await _until(lambda: others <= seen.ended.keys() | seen.failed.keys(), "end", seen)
    late = _lags(seen, ends, others)
    ended_cost = cost(operator)
    returns: list[float] = []
    if hung:
        recovered = time.time()
        await _control("recover")
        await _until(lambda: seen.hosts.keys() <= seen.ended.keys() | seen.failed.keys(), "end", seen)
        returns = _lags(seen, dict.fromkeys(ends, recovered), seen.hosts.keys() - others)
    await asyncio.sleep(3)  # events are sent beside the passes and may still be under way
    figures = await _control("figures")
    last = cost(operator)
    return {
        "jobs": count,
        "hung": len(hangs),
        "complete": len(seen.ended),
        "failed": dict(list(seen.failed.items())[:5]),
        "submitted_twice": figures["duplicates"],
        "all_run_after": all_run_after,
        "lag_p50": _part(late, 0.5),
        "lag_p99": _part(late, 0.99),
        "lag_max": max(late),
        "hung_lag_after_return_max": max(returns, default=0.0),
        "idle": idle,
        "plateau": plateau,
        "new_cluster_first_pod_p50": _part([first for first, _ in new_clusters], 0.5),
        "new_cluster_first_pod_max": max(first for first, _ in new_clusters),
        "new_cluster_pods_p50": _part([pods for _, pods in new_clusters], 0.5),
        "new_cluster_pods_max": max(pods for _, pods in new_clusters),
        "operator_cpu": last.cpu,
        "operator_cpu_per_start_ms": 1000 * (run_cost.cpu - start_cost.cpu) / count,
        "operator_cpu_per_end_ms": 1000 * (ended_cost.cpu - end_cost.cpu) / max(1, len(others)),
        "operator_peak_rss": last.peak_rss,
        "dashboards_cpu": cost(dashboards).cpu,
        "dashboard_requests_per_job": {name: n / count for name, n in sorted(figures["requests"].items())},
        "lookups_per_job": {name: n / count for name, n in sorted(figures["lookups"].items())},
        "requests_per_job": _per_job(await requests(1), aside, sent, count),
        "passes_per_job": await passes("rayjob") / count,
        **{f"{name}_cpu": spent for name, spent in _spent(before, costs()).items()},
    }


async def _over(operator: int, dashboards: int, seconds: float) -> dict[str, float]:
    """What a while costs in which nothing is done to any object, per second."""
    first, cpu, answering, sent = await _asked(), cost(operator).cpu, cost(dashboards).cpu, await object_requests()
    began = time.monotonic()
    await asyncio.sleep(seconds)
    took = time.monotonic() - began
    last = await _asked()
    return {
        "seconds": took,
        "operator_cpu": (cost(operator).cpu - cpu) / took,
        "dashboards_cpu": (cost(dashboards).cpu - answering) / took,
        "answered": (last.get("GET", 0) - first.get("GET", 0)) / took,
        "unanswered": (last.get("unanswered", 0) - first.get("unanswered", 0)) / took,
        "lookups": (last["lookups"] - first["lookups"]) / took,
        "api_requests": (await object_requests() - sent) / took,
    }


async def _asked() -> dict[str, int]:
    figures = await _control("figures")
    return {**figures["requests"], "lookups": sum(figures["lookups"].values())}


async def _control(what: str, **values: float) -> dict[str, Any]:
    deadline = time.monotonic() + 10
    query = "&".join(f"{name}={value}" for name, value in values.items())
    async with aiohttp.ClientSession() as session:
        while True:
            try:
                async with session.get(f"http://{CONTROL}/{what}?{query}") as answer:
                    told: dict[str, Any] = orjson.loads(await answer.read())
                    return told
            except aiohttp.ClientConnectorError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.1)


async def _load(client: Client, count: int, concurrency: int) -> None:
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            await client.create(RAYJOB, NAMESPACE, rayjob(number))

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())


async def _new_cluster(client: Client, number: int) -> tuple[float, float]:
    """Seconds from the creation of a RayCluster to its first pod, and to its last."""
    manifest = raycluster(number)
    manifest["metadata"]["name"] = name = f"new-{number:05d}"
    params = {"labelSelector": f"{LABEL_CLUSTER}={name}", "watch": "1"}
    times: list[float] = []
    async with (
        asyncio.timeout(60),
        client.transport.stream(POD.path(NAMESPACE), params=params, idle_timeout=60) as (_, lines),
    ):
        began = time.monotonic()
        await client.create(RAYCLUSTER, NAMESPACE, manifest)
        async for line in lines:
            if orjson.loads(line)["type"] == "ADDED":
                times.append(time.monotonic() - began)
                if len(times) == 1 + WORKERS:
                    return times[0], times[-1]
    raise SystemExit("the watch of a new RayCluster's pods ended early")


def _watch_in_thread(seen: Seen, count: int) -> None:
    async def watch() -> None:
        transport = HttpTransport(await connect(), user_agent="kuberay-bench-watch")
        path = RAYJOB.path(NAMESPACE)
        try:
            while len(seen.ended) + len(seen.failed) < count:
                listed = orjson.loads((await transport.request("GET", path)).body)
                for item in listed["items"]:
                    seen.note(item)
                params = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
                async with transport.stream(path, params=params, idle_timeout=DEADLINE) as (_, lines):
                    async for line in lines:
                        event = orjson.loads(line)
                        if event["type"] in ("ADDED", "MODIFIED"):
                            seen.note(event["object"])
                        if len(seen.ended) + len(seen.failed) >= count:
                            return
        finally:
            await transport.close()

    asyncio.run(watch())


async def _until(reached: Callable[[], bool], what: str, seen: Seen) -> None:
    deadline = time.monotonic() + DEADLINE
    while not reached():
        if time.monotonic() > deadline:
            raise SystemExit(f"not all jobs {what} in time: {len(seen.running)} ran, {len(seen.ended)} ended")
        await asyncio.sleep(0.25)


def _lags(seen: Seen, ends: dict[str, float], names: Any) -> list[float]:
    """Seconds from the end of each job to the status that says so."""
    return sorted(seen.ended[name] - ends[seen.hosts[name]] for name in names if name in seen.ended)


def _per_job(
    whole: dict[str, float], after: dict[str, float], before: dict[str, float], count: int
) -> dict[str, float]:
    """Requests per job without those of the new RayClusters, which were sent between *before* and *after*."""
    return {name: round((n - after.get(name, 0.0) + before.get(name, 0.0)) / count, 3) for name, n in whole.items()}


def _part(values: list[float], part: float) -> float:
    return sorted(values)[max(0, int(len(values) * part) - 1)]


def _spent(before: dict[str, Cost], after: dict[str, Cost]) -> dict[str, float]:
    return {name: after[name].cpu - before[name].cpu for name in before if name in after}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--hung", type=int, default=0, help="dashboards that stop answering while all jobs run")
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--plateau", type=float, default=30.0, help="seconds of nothing but polling that are measured")
    parser.add_argument("--command", default=COMMAND)
    parser.add_argument("--log", type=Path, default=Path("/tmp/kuberay-bench-operator.log"))
    print(orjson.dumps(asyncio.run(main(parser.parse_args())), option=orjson.OPT_INDENT_2).decode())
