"""Ray heads that run Serve: what their dashboards take and tell, and which proxies of a cluster answer.

Serve's state lives and dies with its head; with GCS fault tolerance it belongs to the RayCluster, and workers go on without a head.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

import orjson
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import ANNOTATION_FT_ENABLED, HEAD, LABEL_CLUSTER, LABEL_NODE_TYPE, WORKER
from kuberay.ray.dashboard import (
    DashboardRefusedError,
    DashboardTarget,
    DashboardUnreachableError,
    ServeDetails,
    ServeRequests,
)
from kuberay.ray.serve import parse_serve_details

from kuberay_testkit.sim.ray_heads import Head, RayHeads, runs_ray
from kuberay_testkit.sim.serve import NOTHING, Serve
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Put:
    """A configuration that a head took."""

    namespace: str
    cluster: str
    uid: str
    """Of the RayCluster."""
    head: str
    at: float
    sent: float
    config: dict[str, Any]

    def __str__(self) -> str:
        return (
            f"PUT to {self.head} at {self.at:.1f} s (sent at {self.sent:.1f} s): {orjson.dumps(self.config).decode()}"
        )


class ServeHeads(RayHeads):
    """As `RayHeads`, with Serve."""

    def __init__(self, server: SimServer, *, seed: int = 0, **options: Any) -> None:
        self.puts: list[Put] = []
        """Every configuration that was taken, in order."""
        self.put: list[Callable[[Put], object]] = []
        """Who wants to know of each."""
        self.lost: list[Callable[[str, str], object]] = []
        """Who wants to know, by namespace and RayCluster, when a Serve loses its state."""
        self.ended: list[Callable[[str, str], object]] = []
        """Who wants to know, by namespace and RayCluster, when a head ends, whether Serve's state ends with it or not."""
        self.disturbed: list[Callable[[str, str], object]] = []
        """Who wants to know, by namespace and RayCluster, that a proxy or an application fails that nobody touched."""
        self.in_flight: dict[str, int] = {}
        """By ``namespace/RayCluster``, how many requests each of its pods says it has under way; none where it is not said."""
        self._serves: dict[str, Serve] = {}
        self._serve_random = Random(f"serve {seed}")
        self._proxy_delay: dict[str, float] = {}
        self._broken: dict[str, float] = {}
        self._hanging: dict[str, float] = {}
        super().__init__(server, seed=seed, **options)

    # -- Serve lives with heads or with clusters

    def _observe(self, change: Change) -> None:
        stored = change.stored
        if stored.key.kind == RAYCLUSTER and change.type == "DELETED":
            self._drop(stored.uid)
        super()._observe(change)

    def _end(self, head: Head) -> None:
        super()._end(head)
        for heard in self.ended:
            heard(head.namespace, head.cluster)
        if head.key in self._serves:
            self._drop(head.key)
            for heard in self.lost:
                heard(head.namespace, head.cluster)

    def _drop(self, key: str) -> None:
        serve = self._serves.pop(key, None)
        if serve is not None:
            serve.end()

    def _place(self, head: Head) -> str:
        """By what the head's Serve is kept."""
        cluster = self.server.store.get(Key(RAYCLUSTER, head.namespace, head.cluster))
        return cluster.uid if cluster is not None and keeps_state(cluster) else head.key

    def serve_of(self, namespace: str, cluster: str) -> Serve | None:
        """What runs on a RayCluster now; None while nothing was ever configured, or it was lost."""
        stored = self.server.store.get(Key(RAYCLUSTER, namespace, cluster))
        if stored is not None and keeps_state(stored):
            return self._serves.get(stored.uid)
        found = (self._serves.get(head.key) for head in self.heads(namespace, cluster))
        return next((serve for serve in found if serve is not None), None)

    # -- proxies

    def proxy_answers(self, pod: Stored) -> bool:
        """Whether the Serve proxy on the pod says at this moment that it is healthy."""
        now, namespace = self.server.clock.elapsed(), pod.key.namespace
        serve = self.serve_of(namespace, pod.labels.get(LABEL_CLUSTER, ""))
        if serve is None or serve.begun is None or self._broken.get(pod.uid, 0.0) > now or not runs_ray(pod):
            return False
        if pod.labels.get(LABEL_NODE_TYPE) == HEAD:
            head = next(
                (head for head in self.heads(namespace, pod.labels[LABEL_CLUSTER]) if head.pod == pod.uid), None
            )
            if head is None:
                return False
            # Its dashboard may be away meanwhile.
            delay = self._proxy_delay.setdefault(head.key, self._serve_random.uniform(0.5, 5.0))
            return now >= max(serve.begun, head.begun) + delay
        return pod.uid in {each.uid for each in self.hosts(namespace, pod.labels.get(LABEL_CLUSTER, ""))}

    def hosts(self, namespace: str, cluster: str) -> list[Stored]:
        """The workers that replicas run on, and so a proxy. What has no worker runs on the head."""
        serve = self.serve_of(namespace, cluster)
        if serve is None:
            return []
        workers = {
            pod.uid: pod
            for pod in self.server.store.all_of(POD, namespace)
            if pod.labels.get(LABEL_CLUSTER) == cluster
            and pod.labels.get(LABEL_NODE_TYPE) == WORKER
            and not pod.deleting
            and runs_ray(pod)
        }
        return [workers[uid] for uid in serve.place(list(workers)) if uid in workers]

    def works(self, pod: Stored) -> bool:
        """Whether a request that is sent to the pod would be answered well."""
        serve = self.serve_of(pod.key.namespace, pod.labels.get(LABEL_CLUSTER, ""))
        return serve is not None and serve.works and self.proxy_answers(pod)

    # -- what goes wrong

    def break_proxy(self, pod: Stored, seconds: float) -> None:
        """Its proxy does not answer for so long."""
        self._disturb(pod.key.namespace, pod.labels.get(LABEL_CLUSTER, ""))
        self._broken[pod.uid] = self.server.clock.elapsed() + seconds

    def fail_applications(self, namespace: str, cluster: str) -> None:
        """Its running applications become UNHEALTHY."""
        serve = self.serve_of(namespace, cluster)
        if serve is not None:
            self._disturb(namespace, cluster)
            serve.fail()

    def heal_applications(self, namespace: str, cluster: str) -> None:
        """They run again."""
        serve = self.serve_of(namespace, cluster)
        if serve is not None:
            serve.heal()

    def hang(self, namespace: str, cluster: str, seconds: float) -> None:
        """Its dashboard takes calls and does not answer, for so long."""
        for head in self.heads(namespace, cluster):
            self._hanging[head.key] = self.server.clock.elapsed() + seconds

    def catch_up(self) -> None:
        super().catch_up()
        self._hanging.clear()
        self._broken.clear()
        for serve in self._serves.values():
            serve.heal()

    def _disturb(self, namespace: str, cluster: str) -> None:
        for heard in self.disturbed:
            heard(namespace, cluster)

    # -- the contract

    async def serve_applications(self, target: DashboardTarget) -> ServeDetails:
        def look(head: Head) -> ServeDetails:
            serve = self._serves.get(self._place(head))
            return parse_serve_details(orjson.dumps(serve.answer(head.lag) if serve is not None else NOTHING))

        return await self._answer(target, look)

    async def put_serve_config(self, target: DashboardTarget, body: bytes) -> None:
        sent = self.server.clock.elapsed()
        await self._answer(target, lambda head: self._configure(head, orjson.loads(body), sent))

    def _configure(self, head: Head, config: dict[str, Any], sent: float) -> None:
        place, clock = self._place(head), self.server.clock
        serve = self._serves.get(place)
        if serve is None:
            serve = Serve(Random(self._serve_random.random()), clock.elapsed)
        try:
            serve.configure(config)
        except ValueError as error:
            raise DashboardRefusedError(f"UpdateDeployments fail: 400 Bad Request {error}") from error
        self._serves[place] = serve
        cluster = self.server.store.get(Key(RAYCLUSTER, head.namespace, head.cluster))
        uid = cluster.uid if cluster is not None else ""
        put = Put(head.namespace, head.cluster, uid, head.key, clock.elapsed(), sent, config)
        self.puts.append(put)
        for heard in self.put:
            heard(put)

    async def proxy_healthy(self, address: str, namespace: str, pod: str) -> bool:
        await asyncio.sleep(self.latency)
        stored = self.server.store.get(Key(POD, namespace, pod))
        status = (stored.body.get("status") or {}) if stored is not None else {}
        if stored is None or status.get("podIP") != address.rpartition(":")[0] or not runs_ray(stored):
            raise DashboardUnreachableError(f"cannot connect to {address}: connection refused")
        return self.proxy_answers(stored)

    async def requests_in_flight(self, address: str, namespace: str, pod: str) -> ServeRequests | None:
        await asyncio.sleep(self.latency)
        stored = self.server.store.get(Key(POD, namespace, pod))
        status = (stored.body.get("status") or {}) if stored is not None else {}
        if stored is None or status.get("podIP") != address.rpartition(":")[0] or not runs_ray(stored):
            raise DashboardUnreachableError(f"cannot connect to {address}: connection refused")
        cluster = stored.labels.get(LABEL_CLUSTER, "")
        if self.serve_of(namespace, cluster) is None:
            return None
        return ServeRequests(in_flight=self.in_flight.get(f"{namespace}/{cluster}", 0), seen=1)

    async def _answer(self, target: DashboardTarget, act: Callable[[Head], _T]) -> _T:
        head = self.serving(target.address)
        if head is not None and self._hanging.get(head.key, 0.0) > self.server.clock.elapsed():
            self.calls += 1
            await asyncio.sleep(self.timeout)
            raise DashboardUnreachableError(f"{target.address} did not answer within {self.timeout:g} s")
        return await super()._answer(target, act)


def keeps_state(cluster: Stored) -> bool:
    """Whether the RayCluster's Serve outlives its head."""
    notes = cluster.metadata.get("annotations") or {}
    return "gcsFaultToleranceOptions" in cluster.body["spec"] or notes.get(ANNOTATION_FT_ENABLED) == "true"
