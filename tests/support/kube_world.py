"""What kube-level tests stand on: operator processes, a namespace with everything in it, and waiting for the world.

Tests poll for state with a deadline and assert on what the API server holds; none looks at what the operator did.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
from kuberay.api.crd import crds
from kuberay.api.kinds import (
    EVENT,
    INGRESS,
    JOB,
    NAMESPACE,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    RAYCLUSTER,
    RAYCRONJOB,
    RAYJOB,
    RAYSERVICE,
    ROLE,
    ROLE_BINDING,
    SECRET,
    SERVICE,
    SERVICE_ACCOUNT,
    Kind,
)
from kuberay.kube.client import Client
from kuberay.kube.errors import AlreadyExistsError, ApiError, NotFoundError

PODGROUP = Kind("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
COSCHEDULING_PODGROUP = Kind("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
CHILD_KINDS = (
    POD,
    SERVICE,
    JOB,
    SERVICE_ACCOUNT,
    ROLE,
    ROLE_BINDING,
    SECRET,
    INGRESS,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    RAYCLUSTER,
    PODGROUP,
    COSCHEDULING_PODGROUP,
)
LOOK_EVERY = 0.8
"""Seconds between two looks at everything in a namespace. Each is a dozen requests, and dozens of namespaces are looked at."""
RAY_KINDS = (RAYCRONJOB, RAYSERVICE, RAYCLUSTER, RAYJOB)

PODGROUP_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podgroups.scheduling.volcano.sh}
spec:
  group: scheduling.volcano.sh
  scope: Namespaced
  names: {plural: podgroups, singular: podgroup, kind: PodGroup}
  versions:
  - name: v1beta1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""

COSCHEDULING_CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: podgroups.scheduling.x-k8s.io
  annotations: {api-approved.kubernetes.io: https://github.com/kubernetes-sigs/scheduler-plugins/pull/50}
spec:
  group: scheduling.x-k8s.io
  scope: Namespaced
  names: {plural: podgroups, singular: podgroup, kind: PodGroup}
  versions:
  - name: v1alpha1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              minMember: {type: integer, format: int32, minimum: 1}
              minResources:
                type: object
                additionalProperties: {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
              scheduleTimeoutSeconds: {type: integer, format: int32}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
"""What of the real one the API server checks: a size is 1 at least."""


def CRDS() -> list[dict[str, Any]]:
    """The full CRDs."""
    return crds(slim=False)


class Operator:
    """The operator as a process of its own, as users run it."""

    def __init__(self, folder: Path, python: str) -> None:
        self._folder = folder
        self._python = python
        self._process: subprocess.Popen[bytes] | None = None
        self._running: tuple[Any, ...] = ()
        self.log = folder / "operator.log"

    def ensure(self, flags: Sequence[str] = (), env: dict[str, str] | None = None) -> None:
        """Have an operator with these flags and variables running."""
        wanted = (tuple(flags), tuple(sorted((env or {}).items())))
        if self._process is not None and self._process.poll() is None and wanted == self._running:
            return
        self.stop()
        self._running = wanted
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._python,
                    "-m",
                    "kuberay.cli.main",
                    "run",
                    "--leader-election-namespace=default",
                    "--metrics-addr=127.0.0.1:18090",
                    "--health-probe-bind-address=127.0.0.1:18092",
                    *flags,
                ],
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
            )
        self._wait_leading()

    def _wait_leading(self) -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise AssertionError(f"the operator ended: {self.tail()}")
            page = subprocess.run(
                ["curl", "-s", "http://127.0.0.1:18090/metrics"], capture_output=True, text=True, check=False
            ).stdout
            if 'leader_election_master_status{name="ray-operator-leader"} 1.0' in page:
                return
            time.sleep(0.1)
        raise AssertionError(f"the operator did not start leading: {self.tail()}")

    def metrics(self) -> str:
        """The page of metrics."""
        return subprocess.run(
            ["curl", "-s", "http://127.0.0.1:18090/metrics"], capture_output=True, text=True, check=True
        ).stdout

    def requests(self) -> float:
        """Requests to the API server so far, without watches."""
        lines = (line for line in self.metrics().splitlines() if line.startswith("kuberay_api_requests_total{"))
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'resource="leases"' not in line)

    def kill(self) -> None:
        """SIGKILL, as a node failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> float:
        """SIGTERM; returns how many seconds it took to end."""
        if self._process is None or self._process.poll() is not None:
            return 0.0
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(15)
        return time.monotonic() - started

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""


@dataclass
class World:
    """One namespace of a real API server."""

    client: Client
    namespace: str

    @classmethod
    @asynccontextmanager
    async def create(cls, client: Client, name: str) -> AsyncIterator[World]:
        namespace = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:55]
        deadline = time.monotonic() + 60
        while True:  # the namespace of an earlier run may still be going
            try:
                await client.create(NAMESPACE, "", {"metadata": {"name": namespace}})
                break
            except AlreadyExistsError:
                if time.monotonic() > deadline:
                    raise
                await asyncio.sleep(0.5)
        world = cls(client, namespace)
        try:
            yield world
        finally:
            # The Ray objects first, while an operator runs that can end them: other tests count its requests.
            for kind in RAY_KINDS:
                for obj in await world.list(kind):
                    with suppress(ApiError):
                        await world.delete(kind, obj["metadata"]["name"])
                        if kind == RAYCLUSTER:
                            # Nobody waits here for a cleanup Job that never ends.
                            await world.patch(kind, obj["metadata"]["name"], {"metadata": {"finalizers": None}})
            with suppress(ApiError):
                await client.transport.request("DELETE", NAMESPACE.path(None, namespace))

    async def put(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """Create or replace, as ``kubectl replace`` would."""
        kind = kind_of(manifest)
        body = {**manifest, "metadata": {**manifest["metadata"], "namespace": self.namespace}}
        try:
            live = await self.get(kind, body["metadata"]["name"])
        except NotFoundError:
            return orjson.loads(await self.client.create(kind, self.namespace, body))
        body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
        body["metadata"].setdefault("finalizers", live["metadata"].get("finalizers", []))
        return orjson.loads(await self.client.replace(kind, self.namespace, body["metadata"]["name"], body))

    async def patch(self, kind: Kind, name: str, body: dict[str, Any], subresource: str = "") -> None:
        await self.client.merge_patch(kind, self.namespace, name, body, subresource=subresource)

    async def get(self, kind: Kind, name: str) -> dict[str, Any]:
        return orjson.loads(await self.client.get(kind, self.namespace, name))

    async def list(self, kind: Kind, selector: str = "") -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        try:
            async for page in self.client.list_pages(kind, self.namespace, label_selector=selector):
                found += [
                    {"apiVersion": kind.api_version, "kind": kind.kind, **orjson.loads(bytes(raw))}
                    for raw in page.items
                ]
        except NotFoundError:
            return []
        return found

    async def delete(self, kind: Kind, name: str) -> None:
        live = await self.get(kind, name)
        await self.client.delete(kind, self.namespace, name, uid=live["metadata"]["uid"])

    async def pods(self, **labels: str) -> list[dict[str, Any]]:
        """Pods by labels given as ``node_type=``, ``group=``, ``cluster=``."""
        keys = {"node_type": "ray.io/node-type", "group": "ray.io/group", "cluster": "ray.io/cluster"}
        return await self.list(POD, ",".join(f"{keys[k]}={v}" for k, v in labels.items()))

    async def events(self) -> list[dict[str, Any]]:
        return await self.list(EVENT)

    async def eventually(self, check: Callable[[], Any], *, seconds: float = 20.0, what: str = "") -> Any:
        """Poll *check* (sync or async) until it returns something true; its last value on success."""
        deadline = time.monotonic() + seconds
        last: Any = None
        while True:
            try:
                last = check()
                if asyncio.iscoroutine(last):
                    last = await last
                if last:
                    return last
            except (NotFoundError, KeyError, IndexError) as error:
                last = error
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {seconds:.0f} s: {what or getattr(check, '__name__', '')}: {last!r}")
            await asyncio.sleep(0.1)

    async def settled(self, *, quiet: float = 3.0, most: float = 25.0) -> None:
        """Wait until nothing has changed for *quiet* seconds, at most *most* seconds."""
        started = changed = time.monotonic()
        before: Any = None
        while time.monotonic() - started < most:
            now = await self.fingerprint()
            if now != before:
                before, changed = now, time.monotonic()
            elif time.monotonic() - changed >= quiet:
                return
            await asyncio.sleep(LOOK_EVERY)

    async def fingerprint(self) -> list[tuple[str, str, str]]:
        """Names and versions of everything that counts."""
        marks = []
        for kind in dict.fromkeys((*CHILD_KINDS, *RAY_KINDS)):
            marks += [
                (kind.kind, o["metadata"]["name"], o["metadata"]["resourceVersion"]) for o in await self.list(kind)
            ]
        return sorted(marks)


def kuberay(world: World, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Our command line, asked about that namespace."""
    command = [sys.executable, "-m", "kuberay.cli.main", *words, "-n", world.namespace]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=stdin)


_KINDS = {(k.api_version, k.kind): k for k in (*CHILD_KINDS, *RAY_KINDS)} | {
    ("ray.io/v1alpha1", "RayCluster"): Kind("ray.io", "v1alpha1", "rayclusters", "RayCluster"),
    ("v1", "ResourceQuota"): Kind("", "v1", "resourcequotas", "ResourceQuota"),
    ("networking.k8s.io/v1", "Ingress"): Kind("networking.k8s.io", "v1", "ingresses", "Ingress"),
    ("v1", "ConfigMap"): Kind("", "v1", "configmaps", "ConfigMap"),
}


def kind_of(manifest: dict[str, Any]) -> Kind:
    return _KINDS[manifest["apiVersion"], manifest["kind"]]
