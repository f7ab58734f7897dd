"""One benchmark run: N RayClusters by the operator, or by the floor, timed until all are ready, with every cost.

Prints one JSON object. Runs inside the development cluster's network (``dev/cluster exec``).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
from kuberay.api.kinds import NAMESPACE as NAMESPACE_KIND
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE, Kind
from kuberay.kube.client import Client
from kuberay.kube.connection import connect
from kuberay.kube.errors import AlreadyExistsError
from kuberay.kube.http import HttpTransport

from bench.floor import make_all
from bench.measure import COMMAND, costs, environment, leads, object_requests, passes, requests, start_operator
from bench.phases import deletion, edits
from bench.processes import Cost, cost
from bench.workload import NAMESPACE, WORKERS, raycluster

DEADLINE = 900.0
NOOP_PLUGINS = "autoscaler-v2,gateway-upgrade,noop"
"""Those that are on by default, and the one of bench/noop.py."""


async def main(arguments: argparse.Namespace) -> dict[str, Any]:
    transport = HttpTransport(await connect(), user_agent="kuberay-bench")
    client = Client(transport)
    try:
        with contextlib.suppress(AlreadyExistsError):
            await client.create(NAMESPACE_KIND, "", {"metadata": {"name": NAMESPACE}})
        if await _count(client, RAYCLUSTER):
            raise SystemExit("namespace bench is not empty; start from a fresh cluster: dev/cluster --name bench down")
        return await (_floor if arguments.floor else _operator)(client, arguments)
    finally:
        await transport.close()


async def _floor(client: Client, arguments: argparse.Namespace) -> dict[str, Any]:
    before = costs()
    started = time.monotonic()
    await make_all(client, arguments.clusters, arguments.concurrency, {"Pod": POD, "Service": SERVICE})
    await _until(lambda: _running_pods(client), arguments.clusters * (WORKERS + 1))
    return {
        "who": "floor",
        "clusters": arguments.clusters,
        "seconds": time.monotonic() - started,
        **_spent(before, costs(), arguments.clusters),
        **(await deletion(client) if arguments.phases else {}),
    }


async def _operator(client: Client, arguments: argparse.Namespace) -> dict[str, Any]:
    log = open(arguments.log, "wb")  # noqa: ASYNC230, SIM115 - handed to the operator's process
    command = f"{arguments.command} --plugins={NOOP_PLUGINS}" if arguments.noop_plugin else arguments.command
    process = start_operator(command, log)
    try:
        await leads(process)
        start_cost = cost(process.pid)
        before = costs()
        # In a thread of its own: a watch that is read late is ended by the API server and costs a list of everything.
        watcher = asyncio.create_task(asyncio.to_thread(_watch_in_thread, arguments.clusters))
        await asyncio.sleep(0.5)
        started = time.monotonic()
        created = await _load(client, arguments.clusters, arguments.concurrency)
        if arguments.kill_after:
            process = await _kill(process, arguments, log)
        ready = await asyncio.wait_for(watcher, DEADLINE)
        seconds = max(ready.values()) - started
        waits = sorted(ready[name] - created[name] for name in created)
        spent = _spent(before, costs(), arguments.clusters)
        end_cost = cost(process.pid)
        await asyncio.sleep(3)  # events are sent beside the passes and may still be under way
        sent = await requests(arguments.clusters)
        pods = await _count(client, POD)
        quiet_from = await object_requests()
        await asyncio.sleep(arguments.quiet)
        quiet = await object_requests() - quiet_from
        phases: dict[str, Any] = {}
        if arguments.phases:
            phases = await edits(client, arguments.clusters)
            before_deletion = await requests(arguments.clusters)
            phases |= await deletion(client)
            after = await requests(arguments.clusters)
            phases["deletion_requests_per_cluster"] = {
                name: round(count - before_deletion.get(name, 0.0), 3)
                for name, count in after.items()
                if count > before_deletion.get(name, 0.0) and not name.endswith("leases")
            }
        return {
            "who": "operator",
            "clusters": arguments.clusters,
            "seconds": seconds,
            "p50": statistics.median(waits),
            "p99": waits[int(len(waits) * 0.99) - 1],
            "operator_cpu": end_cost.cpu,
            "operator_start_cpu": start_cost.cpu,
            "operator_cpu_per_cluster_ms": 1000 * (end_cost.cpu - start_cost.cpu) / arguments.clusters,
            "operator_peak_rss": end_cost.peak_rss,
            "requests_per_cluster": sent,
            "passes_per_cluster": await passes("raycluster") / arguments.clusters,
            "requests_while_settled": quiet,
            "settled_seconds": arguments.quiet,
            "pods": pods,
            "pods_wanted": arguments.clusters * (WORKERS + 1),
            "apiserver_counts": await _server_counts(client),
            **spent,
            **phases,
        }
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(15)
        log.close()


async def _kill(process: subprocess.Popen[bytes], arguments: argparse.Namespace, log: Any) -> subprocess.Popen[bytes]:
    """SIGKILL in the middle, then a new operator, as Kubernetes would start one."""
    await asyncio.sleep(arguments.kill_after)
    process.kill()
    process.wait()
    new = subprocess.Popen(process.args, stdout=log, stderr=log, env=environment())  # noqa: ASYNC220
    await leads(new)
    return new


async def _load(client: Client, count: int, concurrency: int) -> dict[str, float]:
    created: dict[str, float] = {}
    numbers = iter(range(count))

    async def worker() -> None:
        for number in numbers:
            manifest = raycluster(number)
            await client.create(RAYCLUSTER, NAMESPACE, manifest)
            created[manifest["metadata"]["name"]] = time.monotonic()

    async with asyncio.TaskGroup() as group:
        for _ in range(concurrency):
            group.create_task(worker())
    return created


def _watch_in_thread(count: int) -> dict[str, float]:
    async def watch() -> dict[str, float]:
        transport = HttpTransport(await connect(), user_agent="kuberay-bench-watch")
        try:
            return await _watch_ready(Client(transport), count)
        finally:
            await transport.close()

    return asyncio.run(watch())


async def _server_counts(client: Client) -> dict[str, float]:
    """How often the API server listed RayClusters and pods, and how many watches it ended because they were read late."""
    text = (await client.transport.request("GET", "/metrics")).body.decode()
    found: Counter[str] = Counter()
    for line in text.splitlines():
        name, _, labels = line.partition("{")
        if name == "apiserver_request_total" and 'verb="LIST"' in labels:
            for resource in ("rayclusters", "pods"):
                if f'resource="{resource}"' in labels:
                    found[f"lists of {resource}"] += float(line.rpartition(" ")[2])
        elif name == "apiserver_terminated_watchers_total":
            found["watches ended"] += float(line.rpartition(" ")[2])
    return dict(found)


async def _watch_ready(client: Client, count: int) -> dict[str, float]:
    """When each RayCluster's state became ready. A watch that the server ends goes on after a list."""
    ready: dict[str, float] = {}
    path = RAYCLUSTER.path(NAMESPACE)
    while len(ready) < count:
        listed = orjson.loads((await client.transport.request("GET", path)).body)
        for item in listed["items"]:
            _note_ready(ready, item)
        params = {"watch": "1", "resourceVersion": listed["metadata"]["resourceVersion"]}
        async with client.transport.stream(path, params=params, idle_timeout=DEADLINE) as (_, lines):
            async for line in lines:
                if b'"state":"ready"' in line:
                    _note_ready(ready, orjson.loads(line)["object"])
                if len(ready) == count:
                    break
    return ready


def _note_ready(ready: dict[str, float], obj: dict[str, Any]) -> None:
    if (obj.get("status") or {}).get("state") == "ready":
        ready.setdefault(obj["metadata"]["name"], time.monotonic())


async def _until(measure: Callable[[], Awaitable[int]], wanted: int) -> None:
    deadline = time.monotonic() + DEADLINE
    while await measure() < wanted:
        if time.monotonic() > deadline:
            raise SystemExit("not all pods were running in time")
        await asyncio.sleep(0.5)


async def _running_pods(client: Client) -> int:
    return await _count(client, POD, field="status.phase=Running")


async def _count(client: Client, kind: Kind, field: str = "") -> int:
    params = {"limit": "1"} | ({"fieldSelector": field} if field else {})
    response = await client.transport.request("GET", kind.path(NAMESPACE), params=params)
    page = orjson.loads(response.body)
    if field:  # the server does not count filtered lists
        response = await client.transport.request(
            "GET", kind.path(NAMESPACE), params={"fieldSelector": field, "resourceVersion": "0"}
        )
        return response.body.count(b'"phase":"Running"')
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)


def _spent(before: dict[str, Cost], after: dict[str, Cost], clusters: int) -> dict[str, Any]:
    spent = {f"{name}_cpu": after[name].cpu - before[name].cpu for name in before if name in after}
    return {**spent, "apiserver_cpu_per_cluster_ms": 1000 * spent["apiserver_cpu"] / clusters}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--clusters", type=int, default=1000)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--floor", action="store_true")
    parser.add_argument("--kill-after", type=float, default=0.0, help="SIGKILL the operator this long after the load")
    parser.add_argument("--phases", action="store_true", help="also measure edits, and the deletion of everything")
    parser.add_argument("--quiet", type=float, default=10.0, help="seconds to count requests once all is settled")
    parser.add_argument("--noop-plugin", action="store_true", help="with a plugin that does nothing (bench/noop.py)")
    parser.add_argument("--command", default=COMMAND)
    parser.add_argument("--log", type=Path, default=Path("/tmp/kuberay-bench-operator.log"))
    print(orjson.dumps(asyncio.run(main(parser.parse_args())), option=orjson.OPT_INDENT_2).decode())
