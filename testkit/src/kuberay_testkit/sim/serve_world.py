"""A simulated cluster in which RayServices serve: Serve on the heads, proxies that make workers ready, endpoints, a gateway.

Who really answers a request at a moment, whatever statuses say, `service_facts` tells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import orjson
from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import HEAD, LABEL_CLUSTER, LABEL_GROUP, LABEL_NODE_TYPE

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.endpoints import SimEndpoints, is_ready
from kuberay_testkit.sim.gateways import SimGateways
from kuberay_testkit.sim.heads_world import HeadsWorld
from kuberay_testkit.sim.kubelet import Behave, SimKubelet
from kuberay_testkit.sim.podstatus import Wish, read_wish
from kuberay_testkit.sim.ray_heads import runs_ray
from kuberay_testkit.sim.serve_heads import ServeHeads
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

_PROBE_EVERY = 2.0
"""Seconds between looks of a kubelet at a proxy."""
_SCALE_EVERY = 3.0


class ServeWorld(HeadsWorld):
    """As `HeadsWorld`, with all that stands between a request and the heads."""

    def __init__(self, *, behave: Behave | None = None, **options: Any) -> None:
        super().__init__(behave=_gated(behave), **options)
        self.endpoints = SimEndpoints(self.server, delay=(0.05, 1.5))
        self.gateways = SimGateways(self.server)
        self.proxies = SimProxies(self.server, self.kubelet, self.heads)
        self.autoscaler = SimAutoscaler(self.server, self.heads)

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.add(self.endpoints, self.gateways, self.proxies, self.autoscaler)
        return self

    def calm(self) -> None:
        super().calm()
        self.gateways.serve()


class SimProxies(Controller):
    """Lets the readiness probes of workers see whether the Serve proxy beside them answers."""

    def __init__(self, server: SimServer, kubelet: SimKubelet, heads: ServeHeads) -> None:
        self.kubelet = kubelet
        self.heads = heads
        super().__init__(server, delay=(0.2, _PROBE_EVERY))

    def observe(self, change: Change) -> None:
        pod = change.stored
        if pod.key.kind == POD and change.type != "DELETED" and asks_proxy(pod.body):
            self.enqueue(pod.key)

    def sync(self, key: Key) -> None:
        pod = self.server.store.get(key)
        if pod is None or pod.deleting or (pod.body.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            return
        self.enqueue(key, _PROBE_EVERY)
        answers = self.heads.proxy_answers(pod)
        if runs_ray(pod) and is_ready(pod) != answers:
            self.kubelet.probed(key.namespace, key.name, ready=answers)


class SimAutoscaler(Controller):
    """The autoscalers beside heads: workers for as many replicas as Serve wants, in the first group, within its bounds."""

    def __init__(self, server: SimServer, heads: ServeHeads) -> None:
        self.heads = heads
        super().__init__(server, delay=(0.5, _SCALE_EVERY))

    def observe(self, change: Change) -> None:
        stored = change.stored
        if (
            stored.key.kind == RAYCLUSTER
            and change.type != "DELETED"
            and stored.body["spec"].get("enableInTreeAutoscaling")
        ):
            self.enqueue(stored.key)

    def sync(self, key: Key) -> None:
        cluster = self.server.store.get(key)
        if cluster is None or cluster.deleting or not cluster.body["spec"].get("enableInTreeAutoscaling"):
            return
        self.enqueue(key, _SCALE_EVERY)
        serve = self.heads.serve_of(key.namespace, key.name)
        heads = self.heads.heads(key.namespace, key.name)
        groups: list[dict[str, Any]] = orjson.loads(orjson.dumps(cluster.body["spec"].get("workerGroupSpecs") or []))
        if serve is None or not groups or not any(self.heads.head_of(head.pod) for head in heads):
            return
        group = groups[0]
        _scale(group, serve.wanted, self._workers(cluster, group), {host.key.name for host in self._hosts(key)})
        if groups != cluster.body["spec"]["workerGroupSpecs"]:
            change = {"spec": {"workerGroupSpecs": groups}}
            self.server.patch(RAYCLUSTER, key.namespace, key.name, change, manager="autoscaler")

    def _hosts(self, key: Key) -> list[Stored]:
        return self.heads.hosts(key.namespace, key.name)

    def _workers(self, cluster: Stored, group: dict[str, Any]) -> list[str]:
        return [
            pod.key.name
            for pod in self.server.store.all_of(POD, cluster.key.namespace)
            if pod.labels.get(LABEL_CLUSTER) == cluster.key.name
            and pod.labels.get(LABEL_GROUP) == group["groupName"]
            and not pod.deleting
        ]


def _scale(group: dict[str, Any], wanted: int, workers: list[str], used: set[str]) -> None:
    """Raise replicas to what is wanted, or lower them by workers that nothing runs on, which are named."""
    strategy = group.get("scaleStrategy") or {}
    named = [name for name in strategy.get("workersToDelete") or () if name in workers]
    least, most = int(group.get("minReplicas") or 0), int(group.get("maxReplicas", 10))
    wanted, replicas = max(least, min(wanted, most)), int(group.get("replicas") or 0)
    if replicas < wanted:
        replicas = wanted
    spare = [name for name in workers if name not in used and name not in named]
    idle = spare[: max(0, replicas - wanted)]
    named, replicas = named + idle, replicas - len(idle)
    group["replicas"] = replicas
    if named or strategy.get("workersToDelete"):
        group["scaleStrategy"] = {**strategy, "workersToDelete": named}


def asks_proxy(pod: Any) -> bool:
    """Whether the pod is ready only when the Serve proxy beside it answers."""
    containers = pod["spec"].get("containers") or ()
    probe = containers[0].get("readinessProbe") if containers else None
    command = ((probe or {}).get("exec") or {}).get("command") or ()
    return (pod["metadata"].get("labels") or {}).get(LABEL_NODE_TYPE) != HEAD and any(
        "/-/healthz" in c for c in command
    )


def _gated(behave: Behave | None) -> Behave:
    """As *behave*; who asks a proxy runs at first and is not ready."""

    def wish(pod: dict[str, Any]) -> Wish | None:
        given = behave(pod) if behave is not None else None
        if given is None and asks_proxy(pod):
            return replace(read_wish(pod["metadata"].get("annotations") or {}), ready=False)
        return given

    return wish
