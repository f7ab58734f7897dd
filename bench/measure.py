"""The operator as a process under measurement: how it is started, what it has sent, and what everything has cost so far.

Requests come from the operator's own metrics, costs from /proc.
"""

from __future__ import annotations

import asyncio
import atexit
import functools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import aiohttp

from bench.processes import Cost, cost, find_component

METRICS = "127.0.0.1:18080"
COMMAND = f"{sys.executable} -m kuberay.cli.main run --enable-metrics --leader-election-namespace=bench"


def start_operator(command: str, log: Any) -> subprocess.Popen[bytes]:
    """The operator, its output in the open file *log*."""
    return subprocess.Popen(
        [*command.split(), "--metrics-addr", METRICS, "--health-probe-bind-address", "127.0.0.1:18082"],
        stdout=log,
        stderr=log,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """Compiled modules may be cached, as they are in any image or installation. The plugin of bench/noop.py is installed."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return kept | {"PYTHONPATH": f"{_install_noop()}:{os.environ.get('PYTHONPATH', '')}"}


@functools.cache
def _install_noop() -> str:
    """A folder for ``PYTHONPATH`` in which a distribution with that plugin is installed; gone when the benchmark ends."""
    folder = tempfile.mkdtemp(prefix="kuberay-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    info = Path(folder) / "kuberay_noop-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kuberay-noop\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[kuberay.plugins]\nnoop = bench.noop\n")
    return folder


async def leads(process: subprocess.Popen[bytes]) -> None:
    """Wait until the operator acts."""
    deadline = time.monotonic() + 60
    async with aiohttp.ClientSession() as session:
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise SystemExit(f"the operator ended with exit code {process.returncode}; see its log")
            try:
                async with session.get(f"http://{METRICS}/metrics") as answer:
                    if 'leader_election_master_status{name="ray-operator-leader"} 1.0' in await answer.text():
                        return
            except aiohttp.ClientError:
                pass
            await asyncio.sleep(0.1)
    raise SystemExit("the operator did not start within 60 s; see its log")


async def requests(objects: int) -> dict[str, float]:
    """The operator's own requests by verb and resource, per object."""
    found: Counter[str] = Counter()
    async with aiohttp.ClientSession() as session, session.get(f"http://{METRICS}/metrics") as answer:
        for line in (await answer.text()).splitlines():
            if line.startswith("kuberay_api_requests_total{"):
                labels, _, value = line.rpartition(" ")
                pairs = dict(part.split("=", 1) for part in labels[labels.index("{") + 1 : -1].split(","))
                found[f"{pairs['verb']} {pairs['resource']}".replace('"', "")] += float(value)
    return {name: round(value / objects, 3) for name, value in sorted(found.items()) if value}


async def object_requests() -> float:
    """All requests but those that renew the leader's lease, and those of the full lists every ten minutes."""
    found = await requests(1)
    return sum(value for name, value in found.items() if not name.endswith("leases") and not name.startswith("list "))


async def passes(controller: str) -> float:
    """Reconciles of a kind so far (``raycluster``, ``rayjob``), from the operator's metrics."""
    async with aiohttp.ClientSession() as session, session.get(f"http://{METRICS}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    mark = f'controller_runtime_reconcile_total{{controller="{controller}"'
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(mark))


def server() -> int:
    """Pid of the API server."""
    pid = find_component("apiserver")
    if pid is None:
        raise SystemExit("no API server in this network; run through: dev/cluster exec")
    return pid


def costs() -> dict[str, Cost]:
    """What the cluster's components have cost so far."""
    found = {"apiserver": cost(server())}
    for name in ("etcd", "fakekubelet", "controller-manager"):
        pid = find_component(name)
        if pid is not None:
            found[name] = cost(pid)
    return found
