"""Which permission the API server missed, in its own words, and how it is asked for; all of it together is played in
`tests/sim/test_permissions.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from kuberay.api.kinds import RAYCLUSTER
from kuberay.kube.client import Client
from kuberay.kube.errors import ApiError, ForbiddenError
from kuberay.kube.transport import Response
from kuberay.operator.keys import Key
from kuberay.operator.refusals import (
    ASK_EVERY,
    ASKED_AT_ONCE,
    REVIEW,
    Permission,
    Refusals,
    missing_permission,
)
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.virtual import in_virtual_time

USER = 'User "system:serviceaccount:kuberay-system:kuberay-operator"'


@pytest.mark.parametrize(
    ("message", "permission", "text"),
    [
        (
            f'pods is forbidden: {USER} cannot create resource "pods" in API group "" in the namespace "team"',
            Permission("create", "", "pods", "team"),
            "create pods in namespace team",
        ),
        (
            f'pods is forbidden: {USER} cannot list resource "pods" in API group "" at the cluster scope',
            Permission("list", "", "pods"),
            "list pods in all namespaces",
        ),
        (
            f'rayclusters.ray.io "a" is forbidden: {USER} cannot patch resource "rayclusters/status" in API group "ray.io" '
            'in the namespace "team"',
            Permission("patch", "ray.io", "rayclusters/status", "team"),
            "patch rayclusters/status in namespace team",
        ),
        (
            f'ingresses.networking.k8s.io "a" is forbidden: {USER} cannot delete resource "ingresses" in API group '
            '"networking.k8s.io" in the namespace "team": RBAC: clusterrole.rbac.authorization.k8s.io "x" not found',
            Permission("delete", "networking.k8s.io", "ingresses", "team"),
            "delete ingresses.networking.k8s.io in namespace team",
        ),
    ],
)
def test_the_permission_is_found_in_the_message(message: str, permission: Permission, text: str) -> None:
    found = missing_permission(ForbiddenError(403, "Forbidden", message))
    assert found == permission
    assert str(found) == text
    assert text in permission.sentence


@pytest.mark.parametrize(
    "error",
    [
        ForbiddenError(
            403, "Forbidden", 'pods "a" is forbidden: exceeded quota: tight, requested: pods=1, used: pods=2'
        ),
        ForbiddenError(403, "Forbidden", 'pods "a" is forbidden: violates PodSecurity "restricted:latest"'),
        ForbiddenError(401, "Unauthorized", "Unauthorized"),
        ApiError(500, "InternalError", 'cannot create resource "pods" in API group ""'),
        ValueError("no"),
        None,
    ],
)
def test_other_refusals_are_no_matter_of_permissions(error: Exception | None) -> None:
    assert missing_permission(error) is None


def test_the_question_names_subresources_apart() -> None:
    spec = orjson.loads(Permission("patch", "ray.io", "rayclusters/status", "team").review())["spec"]
    assert spec == {
        "resourceAttributes": {
            "verb": "patch",
            "group": "ray.io",
            "resource": "rayclusters",
            "subresource": "status",
            "namespace": "team",
        }
    }
    spec = orjson.loads(Permission("list", "", "pods").review())["spec"]
    assert spec == {"resourceAttributes": {"verb": "list", "resource": "pods"}}


class Server(SimTransport):
    """Counts questions, and gives permissions in the namespaces that a test says."""

    def __init__(self) -> None:
        super().__init__(SimServer())
        self.given: set[str] = set()
        self.asked: list[str] = []

    async def request(self, method: str, path: str, *, body: bytes | None = None, **_: Any) -> Response:
        assert (method, path) == ("POST", REVIEW)
        namespace = orjson.loads(body or b"")["spec"]["resourceAttributes"]["namespace"]
        self.asked.append(namespace)
        return Response(201, orjson.dumps({"status": {"allowed": namespace in self.given}}))


def refusal(namespace: str, verb: str = "create") -> ForbiddenError:
    words = f'cannot {verb} resource "pods" in API group "" in the namespace "{namespace}"'
    return ForbiddenError(403, "Forbidden", f"pods is forbidden: {USER} {words}")


def key(namespace: str) -> Key:
    return Key(RAYCLUSTER, namespace, "rc")


SPACES = [f"team-{number:03d}" for number in range(100)]


@in_virtual_time
async def test_many_namespaces_are_asked_for_in_turn_and_go_on_together() -> None:
    server, woken = Server(), list[Key]()
    refusals = Refusals(Client(server), woken.append, known=lambda _key: True)
    for namespace in SPACES:
        refusals.note(key(namespace), refusal(namespace))
    running = asyncio.create_task(refusals.run())
    await asyncio.sleep(5 * ASK_EVERY + 1)
    assert len(server.asked) == 5 * ASKED_AT_ONCE
    assert set(server.asked) == set(SPACES), "each has its turn"
    # A role of one namespace only.
    server.given = {"team-042"}
    await asyncio.sleep(10 * ASK_EVERY)
    assert woken == [key("team-042")]
    # The role of all.
    server.given = set(SPACES)
    await asyncio.sleep(ASK_EVERY + 1)
    assert sorted(woken, key=str) == [key(namespace) for namespace in SPACES]
    before = len(server.asked)
    await asyncio.sleep(600)
    assert len(server.asked) == before, "nothing is refused, nothing is asked"
    running.cancel()


@in_virtual_time
async def test_nobody_is_asked_for_who_has_gone() -> None:
    server, woken, there = Server(), list[Key](), {key("a"), key("b")}
    refusals = Refusals(Client(server), woken.append, known=lambda each: each in there)
    for namespace in ("a", "b"):
        refusals.note(key(namespace), refusal(namespace))
    running = asyncio.create_task(refusals.run())
    await asyncio.sleep(ASK_EVERY + 1)
    there.discard(key("a"))
    del server.asked[:]
    await asyncio.sleep(2 * ASK_EVERY)
    assert set(server.asked) == {"b"}
    server.given = {"a", "b"}
    await asyncio.sleep(ASK_EVERY)
    assert woken == [key("b")]
    running.cancel()
