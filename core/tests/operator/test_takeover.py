"""An object that another operator managed before: what it wrote into the status and we do not want goes, once."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.api.objects import Object, RayObject, from_dict
from kuberay.kube.client import Client
from kuberay.kube.store import Store
from kuberay.operator.executor import Executor
from kuberay.operator.leftovers import leftovers_of
from kuberay_testkit.builders import build_raycluster
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

CONDITION = {"status": "True", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}


def condition(kind: str) -> dict[str, Any]:
    return {"type": kind, **CONDITION}


@in_virtual_time
async def test_fields_and_conditions_of_the_former_operator_do_not_stay() -> None:
    server = SimServer()
    transport = SimTransport(server)
    server.create(build_raycluster("rc", namespace="ns"))
    former = {
        "state": "ready",
        "readyWorkerReplicas": 3,
        "head": {"podIP": "10.0.0.1", "serviceName": "rc-head-svc"},
        "conditions": [condition("ReplicaFailure"), condition("Ours")],
    }
    body = await Client(transport, field_manager="manager").merge_patch(
        RAYCLUSTER, "ns", "rc", {"status": former}, subresource="status"
    )
    store = Store()

    def ignore(_kind: Any, _before: Object | None, _after: Object) -> None:
        return None

    executor = Executor(Client(transport), store, server.now, ignore)
    owner = from_dict(RAYCLUSTER, orjson.loads(body))
    assert isinstance(owner, RayObject)
    store.upsert(RAYCLUSTER, owner)
    wanted = {"state": "ready", "head": {"serviceName": "rc-head-svc"}, "conditions": [condition("Ours")]}
    await executor.apply_status(RAYCLUSTER, owner, wanted)
    live = server.peek(RAYCLUSTER, "ns", "rc")
    assert live is not None
    assert live["status"] == wanted

    server.calls.clear()
    current = store.get(RAYCLUSTER, "ns", "rc")
    assert isinstance(current, RayObject)
    await executor.apply_status(RAYCLUSTER, current, {**wanted, "state": "suspended"})
    assert len(server.calls) == 1, "the second write finds nothing to clean up"


LEFTOVERS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "nothing": ({"a": 1}, {"a": 2}, {}),
    "a field": ({}, {"a": 1}, {"a": None}),
    "a default": ({}, {"numServeEndpoints": 0, "b": {}, "c": []}, {}),
    "below": ({"a": {"b": 1}}, {"a": {"b": 1, "c": 2}}, {"a": {"c": None}}),
    "an application": (
        {"activeServiceStatus": {"applicationStatuses": {}}},
        {"activeServiceStatus": {"applicationStatuses": {"old": {"status": "RUNNING"}}}},
        {"activeServiceStatus": {"applicationStatuses": {"old": None}}},
    ),
    "shares, of which 0 is not nothing": (
        {"pendingServiceStatus": {"rayClusterStatus": {"head": {}}}},
        {"pendingServiceStatus": {"targetCapacity": 0, "trafficRoutedPercent": 0, "rayClusterStatus": {"head": {}}}},
        {"pendingServiceStatus": {"targetCapacity": None, "trafficRoutedPercent": None}},
    ),
    "a share that is wanted": ({"targetCapacity": 0}, {"targetCapacity": 0}, {}),
    "conditions": ({"conditions": []}, {"conditions": [{"type": "Old"}]}, {"conditions": None}),
}


@pytest.mark.parametrize(("wanted", "live", "patch"), LEFTOVERS.values(), ids=LEFTOVERS)
def test_what_is_left_of_the_former_operator(wanted: Any, live: Any, patch: Any) -> None:
    assert leftovers_of(wanted, live) == patch
