"""Every sample, applied to a real API server with strict field validation: it becomes ready, or says what it waits for.

All samples that want the same operator are played at once, each in its own namespace.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import orjson
import pytest
import yaml
from kube_world import Operator, World
from kuberay.api.cluster import RayClusterSpec
from kuberay.api.crd import load_kubernetes_schemas, object_schema
from kuberay.api.kinds import (
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RAYCLUSTER,
    RAYCRONJOB,
    RAYJOB,
    RAYSERVICE,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from kuberay.api.shipped import PACKAGES
from kuberay.api.structural import defaulted
from kuberay.cli.applied import applied, without_bookkeeping
from kuberay.kube.client import Client
from kuberay.kube.connection import connect
from kuberay.kube.errors import AlreadyExistsError, raise_for_status
from kuberay.kube.http import HttpTransport
from kuberay.kube.transport import JSON
from kuberay.plan.edit import edit_effects

from dev.samples import Sample, samples

Manifest = dict[str, Any]

OBJECTS = {sample.name: sample for sample in samples() if not sample.name.startswith("operator-")}
PLUGINS_HERE = (
    "autoscaler-v2",
    "kai-scheduler",
    "mtls",
    "networkpolicy",
    "scheduler-plugins",
    "volcano",
    "yunikorn",
)
"""Those that are installed. A gate that is on turns its plugin on, so mtls and networkpolicy always are."""
GATES = ",".join(sorted({f"{gate}=true" for sample in OBJECTS.values() for gate in sample.gates}))

KINDS = {
    kind.kind: kind
    for kind in (
        RAYCLUSTER,
        RAYCRONJOB,
        RAYJOB,
        RAYSERVICE,
        SERVICE,
        SECRET,
        SERVICE_ACCOUNT,
        PERSISTENT_VOLUME_CLAIM,
        Kind("", "v1", "configmaps", "ConfigMap"),
        Kind("apps", "v1", "deployments", "Deployment"),
        Kind("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False),
    )
}


@dataclass
class Seen:
    """What became of one sample."""

    ray: list[Manifest] = field(default_factory=list)
    clusters: list[Manifest] = field(default_factory=list)
    pods: list[Manifest] = field(default_factory=list)


class Plays:
    """Results by sample; those that want the same operator are played when the first of them is asked for."""

    def __init__(self, operators: Operator) -> None:
        self._operators = operators
        self._seen: dict[str, Seen | Exception] = {}

    def seen(self, name: str) -> Seen:
        if name not in self._seen:
            plugins = _plugins(OBJECTS[name])
            group = [other for other, sample in OBJECTS.items() if _plugins(sample) == plugins]
            self._operators.ensure((f"--plugins={','.join(plugins)}", f"--feature-gates={GATES}"))
            self._seen |= asyncio.run(_play_all(group))
        found = self._seen[name]
        if isinstance(found, Exception):
            raise found
        return found


def _plugins(sample: Sample) -> tuple[str, ...]:
    return tuple(sorted({"autoscaler-v2", *sample.plugins} & set(PLUGINS_HERE)))


@pytest.fixture(scope="module")
def plays(operators: Operator) -> Plays:
    return Plays(operators)


@pytest.mark.parametrize("name", sorted(OBJECTS, key=lambda name: (_plugins(OBJECTS[name]), name)))
def test_a_sample_becomes_what_it_says(plays: Plays, name: str) -> None:
    sample, seen = OBJECTS[name], plays.seen(name)
    assert seen.ray
    for manifest in seen.ray:
        _is_unchanged_by_applying_it_again(sample, manifest)
    if name.startswith("raycronjob"):
        (cron,) = (obj for obj in seen.ray if obj["kind"] == "RayCronJob")
        assert {c["type"]: c["status"] for c in cron["status"]["conditions"]} == {"Accepted": "True"}
        return
    missing = set(sample.plugins) - set(PLUGINS_HERE)
    if name.startswith("rayservice") and missing:
        (service,) = (obj for obj in seen.ray if obj["kind"] == "RayService")
        _names_the_missing(service, missing)
        assert (seen.clusters, seen.pods) == ([], [])
        return
    assert seen.clusters, "a RayJob or a RayService has made its cluster"
    for cluster in seen.clusters:
        status = cluster.get("status") or {}
        if name == "raycluster-multikueue":
            assert (status, seen.pods) == ({}, [])
            continue
        conditions = {condition["type"]: condition for condition in status["conditions"]}
        if missing:
            _names_the_missing(cluster, missing)
            assert seen.pods == []
            continue
        if _needs_cert_manager(sample):
            assert _waits_for_cert_manager(cluster)
            assert seen.pods == []
            continue
        wanted = 1 + sum(group.desired_pods() for group in RayClusterSpec.parse(cluster["spec"]).worker_group_specs)
        if cluster["spec"].get("suspend"):
            assert (status["state"], seen.pods) == ("suspended", [])
            continue
        assert status["state"] == "ready", conditions
        assert conditions["HeadPodReady"]["status"] == "True"
        assert len(seen.pods) == wanted


def _names_the_missing(obj: Manifest, plugins: set[str]) -> None:
    (condition,) = (c for c in obj["status"]["conditions"] if c["type"] == "PluginMissing")
    assert condition["status"] == "True"
    said = [PACKAGES.get(plugin, "no package of this release has it") for plugin in plugins]
    assert all(words in condition["message"] for words in said)


def _is_unchanged_by_applying_it_again(sample: Sample, live: Manifest) -> None:
    """What the schema's defaults make of the file is what the API server made of it (``kuberay diff``)."""
    name = live["metadata"]["name"]
    written = [d for d in sample.documents() if (d["kind"], d["metadata"]["name"]) == (live["kind"], name)]
    if live["kind"] != "RayCluster" or not written:
        return  # A RayJob or RayService, or the cluster that it made.
    (wanted,) = written
    metadata = live["metadata"]
    before = {
        **live,
        "metadata": {**metadata, "annotations": without_bookkeeping(metadata.get("annotations") or {})},
        "spec": defaulted(live["spec"], _schema()),
    }
    assert before["spec"] == live["spec"], "all defaults are there"
    after = applied(live, {**wanted, "spec": defaulted(wanted["spec"], _schema())})
    assert [effect.change.path for effect in edit_effects(before, after).changes] == []


@cache
def _schema() -> Manifest:
    return object_schema(RayClusterSpec, load_kubernetes_schemas())


async def test_diff_of_a_live_cluster(operators: Operator, world: World) -> None:
    operators.ensure()
    (manifest,) = OBJECTS["raycluster-upgrade-recreate"].documents()
    await _apply(world.client, world.namespace, manifest)
    await world.eventually(lambda: _looks_done(world, OBJECTS["raycluster-upgrade-recreate"]))

    def diff() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kuberay.cli.main", "diff", "-f", "-", "-n", world.namespace]
        return subprocess.run(
            command, input=yaml.safe_dump(manifest), capture_output=True, text=True, check=False, env=os.environ
        )

    done = await asyncio.to_thread(diff)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"RayCluster {world.namespace}/upgrade-recreate: no change\n"
    group = manifest["spec"]["workerGroupSpecs"][0]
    group["replicas"] = 3
    done = await asyncio.to_thread(diff)
    assert "restarts nothing" in done.stdout
    assert "workers     1 -> 3   2 more" in done.stdout
    group["template"]["spec"]["containers"][0]["image"] = "rayproject/ray:2.56.0"
    done = await asyncio.to_thread(diff)
    assert "restarts the whole cluster" in done.stdout
    group["replica"] = 3
    done = await asyncio.to_thread(diff)
    assert done.returncode == 1
    assert "spec.workerGroupSpecs[0].replica: is no known field" in done.stdout


async def _play_all(names: Iterable[str]) -> dict[str, Seen | Exception]:
    transport = HttpTransport(await connect(), user_agent="kuberay-tests")
    client = Client(transport, field_manager="tests")
    limit = asyncio.Semaphore(24)

    async def one(name: str) -> tuple[str, Seen | Exception]:
        async with limit:
            try:
                return name, await _play(client, OBJECTS[name])
            except Exception as error:
                return name, error

    try:
        return dict(await asyncio.gather(*map(one, names)))
    finally:
        await transport.close()


async def _play(client: Client, sample: Sample) -> Seen:
    async with World.create(client, f"sample-{sample.name}") as world:
        for document in sample.documents():
            await _apply(client, world.namespace, document)
        if sample.name != "raycluster-multikueue":
            await world.eventually(lambda: _looks_done(world, sample), seconds=60, what=sample.name)
        return Seen(
            ray=[found for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB) for found in await world.list(kind)],
            clusters=await world.list(RAYCLUSTER),
            pods=await world.list(POD, "ray.io/is-ray-node=yes"),
        )


async def _apply(client: Client, namespace: str, document: Manifest) -> None:
    kind = KINDS[document["kind"]]
    assert document["apiVersion"] == kind.api_version
    response = await client.transport.request(
        "POST",
        kind.path(namespace if kind.namespaced else None),
        params={"fieldValidation": "Strict"},
        body=orjson.dumps(document),
        content_type=JSON,
    )
    try:
        raise_for_status(response)
    except AlreadyExistsError:
        assert not kind.namespaced, "only objects of the whole cluster may be left from another run"


async def _looks_done(world: World, sample: Sample) -> bool:
    """Whether the end has come that this sample is to come to; what it is like is for the test to say."""
    done = ["nextScheduleTime" in (cron.get("status") or {}) for cron in await world.list(RAYCRONJOB)]
    done += [_waits_for_a_plugin(service) for service in await world.list(RAYSERVICE) if _misses_one(sample)]
    for cluster in await world.list(RAYCLUSTER):
        status = cluster.get("status") or {}
        waits = _waits_for_a_plugin(cluster)
        waits = waits if _misses_one(sample) else _waits_for_cert_manager(cluster)
        lacks = _misses_one(sample) or _needs_cert_manager(sample)
        done.append(waits if lacks else status.get("state") in ("ready", "suspended"))
    return bool(done) and all(done)


def _misses_one(sample: Sample) -> bool:
    return bool(set(sample.plugins) - set(PLUGINS_HERE))


def _needs_cert_manager(sample: Sample) -> bool:
    """Which is not there."""
    return any(need.startswith("cert-manager") for need in sample.needs)


def _waits_for_cert_manager(obj: Manifest) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "PodsWaiting" and "cert-manager" in c["message"] for c in conditions)


def _waits_for_a_plugin(obj: Manifest) -> bool:
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "PluginMissing" for condition in conditions)
