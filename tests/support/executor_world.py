"""An executor on the simulated API server, and the writes that its tests give it.

Everything is in the namespace ``ns`` and for the RayCluster ``rc``.
"""

from __future__ import annotations

from typing import Any

import orjson
from kuberay.api.kinds import POD, RAYCLUSTER, SERVICE, Kind
from kuberay.api.objects import Object, RayObject, decode, from_dict
from kuberay.kube.client import Client
from kuberay.kube.store import Store
from kuberay.operator.executor import Executor, Outcome
from kuberay.plan.model import Apply, Create, Event, Patch, Write
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport

DONE, UPDATED = Event("Done", "done"), Event("Updated", "updated")


class World:
    """A server, a store, and an executor that works for one RayCluster."""

    def __init__(self) -> None:
        self.server = SimServer()
        self.store = Store()
        self.written: list[str] = []
        self.executor = Executor(
            Client(SimTransport(self.server)),
            self.store,
            self.server.now,
            lambda kind, _before, obj: self.written.append(f"{kind.kind} {obj.name}"),
        )
        owner = from_dict(RAYCLUSTER, self.server.create(build_raycluster("rc", namespace="ns")))
        assert isinstance(owner, RayObject)
        self.owner = owner
        self.server.calls.clear()

    async def run(self, *stages: list[Write]) -> Outcome:
        return await self.executor.run(self.owner, list(stages))

    def body(self, kind: Kind, name: str, *, owner: str = "", **parts: Any) -> dict[str, Any]:
        """A manifest owned by the world's RayCluster, or by the given uid; ``-`` for none."""
        metadata: dict[str, Any] = {"name": name, "namespace": "ns"}
        if owner != "-":
            reference = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "rc", "controller": True}
            metadata["ownerReferences"] = [{**reference, "uid": owner or self.owner.uid}]
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **parts}

    def pod(self, name: str, **more: Any) -> dict[str, Any]:
        return self.body(POD, name, spec={"containers": [{"name": "c", "image": "i"}]}, **more)

    def service(self, name: str = "s", *, port: int = 80, **more: Any) -> dict[str, Any]:
        return self.body(SERVICE, name, spec={"ports": [{"name": "p", "port": port}]}, **more)

    def create(self, name: str, **more: Any) -> Create:
        return Create(kind=POD, namespace="ns", name=name, body=self.pod(name), done=DONE, **more)

    def apply(self, body: dict[str, Any] | None = None, **more: Any) -> Apply:
        body = body or self.service()
        name = body["metadata"]["name"]
        return Apply(kind=SERVICE, namespace="ns", name=name, body=body, done=DONE, updated=UPDATED, **more)

    def watch_catches_up(self) -> None:
        """As if every watch event had arrived."""
        for kind in (POD, SERVICE, RAYCLUSTER):
            for body in self.server.objects(kind):
                self.store.upsert(kind, decode(kind, orjson.dumps(body)))

    def asked(self) -> list[str]:
        return [f"{call.verb} {call.resource}" for call in self.server.calls]

    def stored(self, kind: Kind, name: str) -> Object | None:
        return self.store.get(kind, "ns", name)


def mark(uid: str) -> Patch:
    body = {"metadata": {"uid": uid, "annotations": {"marked": "yes"}}}
    return Patch(kind=POD, namespace="ns", name="p", body=body, done=DONE)
