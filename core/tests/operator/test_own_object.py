"""Whom events about the operator itself are about."""

from __future__ import annotations

import orjson
import pytest
from kuberay.kube.client import Client
from kuberay.kube.transport import Response, TransportError
from kuberay.operator.own_object import own_object

POD, LEASE = (
    "/api/v1/namespaces/sys/pods/me",
    "/apis/coordination.k8s.io/v1/namespaces/elect/leases/ray-operator-leader",
)


class Transport:
    def __init__(self, there: dict[str, int]) -> None:
        self.there = there

    async def request(self, method: str, path: str, **_: object) -> Response:
        status = self.there.get(path, 404)
        if status == 0:
            raise TransportError("reset")
        return Response(status, orjson.dumps({"metadata": {"uid": path[-3:]}} if status == 200 else {"code": status}))


@pytest.mark.parametrize(
    ("there", "namespace", "lease", "expected"),
    [
        ({POD: 200, LEASE: 200}, "sys", "elect", ("Pod", "sys", "me")),
        ({POD: 403, LEASE: 200}, "sys", "elect", ("Lease", "elect", "ray-operator-leader")),
        ({POD: 0, LEASE: 200}, "sys", "elect", ("Lease", "elect", "ray-operator-leader")),
        ({LEASE: 200}, "", "elect", ("Lease", "elect", "ray-operator-leader")),
        ({POD: 404, LEASE: 404}, "sys", "elect", None),
        ({}, "", "", None),
    ],
)
async def test_the_pod_or_the_lease_or_nobody(
    there: dict[str, int], namespace: str, lease: str, expected: tuple[str, str, str] | None
) -> None:
    found = await own_object(Client(Transport(there)), namespace, "me", lease)  # type: ignore[arg-type]
    assert (None if found is None else (found.kind, found.namespace, found.name)) == expected
    assert found is None or found.uid
