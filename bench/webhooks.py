"""What an admission webhook costs whoever creates an object: dry-run creates with and without it, in turns, and the operator's CPU time.

``dev/cluster --name bench up --nodes 0``, then ``dev/cluster --name bench exec .venv/bin/python -m bench.webhooks``. Times are in
milliseconds, and those with and without are of the same minute, since the machine is shared.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml
from kuberay.api.crd import crds
from kuberay.api.kinds import RAYCLUSTER, RAYJOB, RAYSERVICE, Kind
from kuberay.kube.connection import connect
from kuberay.kube.http import HttpTransport
from kuberay_testkit.builders import build_group, build_raycluster, build_rayjob, build_rayservice

from tests.support.webhook_replicas import Replica, configure, kubectl, unconfigure

NAMESPACE = NAME = "bench-webhooks"
TICKS = os.sysconf("SC_CLK_TCK")

OBJECTS: dict[str, tuple[Kind, dict[str, Any]]] = {
    "RayCluster": (RAYCLUSTER, build_raycluster("a")),
    "RayCluster, 20 groups": (RAYCLUSTER, build_raycluster("b", groups=[build_group(f"g{n}") for n in range(20)])),
    "RayJob": (RAYJOB, build_rayjob("c")),
    "RayService": (RAYSERVICE, build_rayservice("d")),
}


async def time_creates(transport: HttpTransport, kind: Kind, body: bytes, count: int) -> list[float]:
    """Milliseconds of each of *count* dry-run creates, one after another."""
    found = []
    for _ in range(count):
        started = time.perf_counter()
        answer = await transport.request("POST", kind.path(NAMESPACE), params={"dryRun": "All"}, body=body)
        found.append((time.perf_counter() - started) * 1000)
        assert answer.status == 201, answer.body
    return found


def cpu_seconds(pid: int) -> float:
    user, system = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]
    return (int(user) + int(system)) / TICKS


async def measure(replica: Replica, pid: int, count: int) -> dict[str, Any]:
    transport = HttpTransport(await connect(), user_agent="kuberay-bench")
    times: dict[str, dict[str, list[float]]] = {name: {"without": [], "with": []} for name in OBJECTS}
    spent = 0.0
    rounds = 5
    for _ in range(rounds):
        for on in ("without", "with"):
            if on == "with":
                configure([replica])
                until_trusted(replica.name)
            else:
                unconfigure(replica.name)
            # API servers hear of it within a second or so.
            await asyncio.sleep(3)
            before = cpu_seconds(pid)
            for name, (kind, body) in OBJECTS.items():
                await time_creates(transport, kind, json.dumps(body).encode(), 3)
                times[name][on] += await time_creates(transport, kind, json.dumps(body).encode(), count // rounds)
            spent += (cpu_seconds(pid) - before) * (1 if on == "with" else -1)
    await transport.close()
    reviews = rounds * len(OBJECTS) * (count // rounds + 3)
    return {"times": times, "cpu_ms_per_review": spent * 1000 / reviews}


def until_trusted(name: str) -> None:
    deadline = time.monotonic() + 60
    while '"caBundle"' not in kubectl("get", "validatingwebhookconfiguration", name, "-o", "json").stdout:
        assert time.monotonic() < deadline, "the operator does not add its authority"
        time.sleep(0.5)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="creates of each object, with and without")
    count = parser.parse_args(arguments).count
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=yaml.safe_dump_all(crds(slim=False)))
    kubectl("create", "namespace", NAMESPACE, check=False)
    for _, body in OBJECTS.values():
        body["metadata"]["namespace"] = NAMESPACE
    with tempfile.TemporaryDirectory() as folder:
        replica = Replica(Path(folder), 0, NAMESPACE, NAME)
        try:
            replica.start(Path(os.environ["KUBECONFIG"]))
            found = asyncio.run(measure(replica, replica.pid, count))
        finally:
            replica.stop()
            unconfigure(NAME)
            kubectl("delete", "namespace", NAMESPACE, "--wait=false")
    print(f"{'':24}{'without':>18}{'with':>18}{'difference':>14}")
    for name, times in found["times"].items():
        middle = {on: statistics.median(each) for on, each in times.items()}
        high = {on: statistics.quantiles(each, n=20)[-1] for on, each in times.items()}
        columns = "".join(f"{middle[on]:9.1f} /{high[on]:7.1f}" for on in ("without", "with"))
        print(f"{name:24}{columns}{middle['with'] - middle['without']:14.1f}")
    print("median / 95th percentile, ms")
    print(f"CPU of the operator: {found['cpu_ms_per_review']:.2f} ms a review")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
