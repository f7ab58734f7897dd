"""Objects that KubeRay made, on a real API server, before this operator starts: it leaves alone what runs.

Many more cases are played in `tests/sim/test_takeover.py`; here the API server itself merges and defaults.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest
from former_operator import TIME, Recorded
from kube_loader import KubeLoader
from kube_world import CHILD_KINDS, RAY_KINDS, Operator, World
from kuberay.api.kinds import POD
from kuberay.kube.client import Client
from kuberay_testkit.golden import Manifest

ENDED = {"jobStatus": "SUCCEEDED", "jobDeploymentStatus": "Complete", "succeeded": 1, "endTime": TIME}
RUNNING = {"jobStatus": "RUNNING", "jobStatusCheckFailureStartTime": None}

CASES: dict[str, dict[str, Any]] = {
    "raycluster/one-group": {},
    "raycluster/multihost-indexed": {},
    "raycluster/autoscale-default": {},
    "raycluster/gcsft-value": {},
    "raycluster/params-ports": {},
    "raycluster/svc-nodeport": {},
    "raycluster/template-change-recreate": {},
    "rayjob/job-minimal": RUNNING,
    "rayjob/job-http": {**ENDED, "jobStatusCheckFailureStartTime": None},
    "rayservice/svc-minimal": {},
}
"""And what the status of the main object says other than recorded."""


CORRECTED = {"raycluster/params-ports"}
"""Services whose ports are changed on purpose (docs/differences.md)."""


async def _there(world: World) -> dict[tuple[str, str], Manifest]:
    found = {}
    for kind in dict.fromkeys((*CHILD_KINDS, *RAY_KINDS)):
        for obj in await world.list(kind):
            found[kind.kind, obj["metadata"]["name"]] = obj
    return found


def _passes(operators: Operator, objects: int) -> bool:
    """Whether the operator has made at least a pass over each of so many objects, and has none waiting."""
    page = operators.metrics()
    found = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
    passes = sum(float(value) for name, value in found if name.startswith("controller_runtime_reconcile_total{"))
    depth = sum(float(value) for name, value in found if name.startswith("workqueue_depth{"))
    return passes >= objects and depth == 0


def _foretold(flags: list[str]) -> dict[str, set[str]]:
    """What ``kuberay migrate check`` says of the objects of each namespace, before the operator starts."""
    command = [sys.executable, "-m", "kuberay.cli.main", "migrate", "check", "-o", "json", *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    verdicts: dict[str, set[str]] = {}
    for each in orjson.loads(done.stdout):
        verdicts.setdefault(each["namespace"], set()).add(each["verdict"])
    return verdicts


async def _taken_over(client: Client, operators: Operator, flags: list[str], cases: dict[str, dict[str, Any]]) -> None:
    operators.stop()
    async with AsyncExitStack() as stack:
        worlds: dict[str, World] = {}
        for name, status in cases.items():
            recorded = Recorded(name, namespace=f"takeover-{name.partition('/')[2]}")
            worlds[name] = await stack.enter_async_context(World.create(client, recorded.namespace))
            await recorded.load(KubeLoader(client, worlds[name]), **status)
        before = {name: await _there(world) for name, world in worlds.items()}
        foretold = await asyncio.to_thread(_foretold, flags)
        for name, world in worlds.items():
            assert foretold[world.namespace] == {"changes" if name in CORRECTED else "untouched"}, name
        await asyncio.to_thread(operators.ensure, flags)
        ray_objects = sum(kind.startswith("Ray") for there in before.values() for kind, _ in there)
        first = next(iter(worlds.values()))
        await first.eventually(lambda: _passes(operators, ray_objects), what="all objects were looked at", seconds=60)
        for name, world in worlds.items():
            await world.settled(quiet=2.0)
            _expect_untouched(name, before[name], await _there(world))


def _expect_untouched(name: str, before: dict[tuple[str, str], Manifest], now: dict[tuple[str, str], Manifest]) -> None:
    assert set(now) == set(before), f"{name}: made or deleted"
    for key, obj in before.items():
        metadata, later = obj["metadata"], now[key]["metadata"]
        assert later["uid"] == metadata["uid"], f"{name}: {key} was made anew"
        assert not later.get("deletionTimestamp"), f"{name}: {key} is being deleted"
        assert later.get("labels") == metadata.get("labels")
        assert later.get("ownerReferences") == metadata.get("ownerReferences")
        if key[0] != "Service":
            assert now[key].get("spec") == obj.get("spec"), f"{name}: {key} was changed"
        if key[0] == POD.kind:
            restarts = [each["restartCount"] for each in now[key]["status"]["containerStatuses"]]
            assert restarts == [each["restartCount"] for each in obj["status"]["containerStatuses"]]
    for kind, field in (("RayCluster", "state"), ("RayJob", "jobDeploymentStatus"), ("RayService", "serviceStatus")):
        for key in (key for key in before if key[0] == kind):
            status = before[key].get("status") or {}
            assert now[key]["status"].get(field) == status.get(field), f"{name}: {key}"
            assert now[key]["status"].get("startTime") == status.get("startTime")
            told = {each["type"]: each for each in now[key]["status"].get("conditions") or ()}
            for condition in status.get("conditions") or ():
                assert told[condition["type"]]["lastTransitionTime"] == condition["lastTransitionTime"]


@pytest.mark.xdist_group("takeover")
async def test_what_kuberay_made_is_left_alone(client: Client, operators: Operator) -> None:
    await _taken_over(client, operators, [], CASES)


@pytest.mark.xdist_group("takeover")
async def test_gangs_that_kuberay_made_are_left_alone(client: Client, operators: Operator) -> None:
    cases = {"volcano/volcano-cluster": {}, "volcano/volcano-job": RUNNING}
    await _taken_over(client, operators, ["--batch-scheduler=volcano"], cases)
