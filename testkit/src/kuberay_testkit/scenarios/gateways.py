"""Plays the controller of Gateways and HTTPRoutes: accepts them by their status, as they are or not yet; nothing is routed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kuberay.api.kinds import GATEWAY, Kind
from kuberay.api.times import format_time
from kuberay.kube.client import Client
from kuberay.kube.clock import Clock
from kuberay.kube.errors import NotFoundError

from kuberay_testkit.scenarios.script import UnsupportedStepError

Body = dict[str, Any]
CONTROLLER = "kuberay.dev/played-gateway"
_GATEWAY, _ROUTE = ("Accepted", "Programmed"), ("Accepted", "ResolvedRefs")


class PlayedGateways:
    """Those of one namespace."""

    def __init__(self, client: Client, clock: Clock, namespace: str) -> None:
        self._client = client
        self._clock = clock
        self._namespace = namespace
        self._accepts = False

    def become(self, how: str) -> None:
        """From now on objects that are seen are ``accepted``, or ``wait``. What was accepted stays so."""
        if how not in ("accepted", "wait"):
            raise UnsupportedStepError(f"a gateway cannot be {how!r}")
        self._accepts = how == "accepted"

    async def see(self, kind: Kind, obj: Mapping[str, Any]) -> None:
        """An object is there, or another one than before."""
        if not self._accepts or is_accepted(kind, obj):
            return
        status = accepted(kind, obj, format_time(self._clock.now()))
        name = obj["metadata"]["name"]
        try:
            await self._client.merge_patch(kind, self._namespace, name, {"status": status}, subresource="status")
        except NotFoundError:
            return


def accepted(kind: Kind, obj: Mapping[str, Any], now: str) -> Body:
    """The status of *obj*, a Gateway or an HTTPRoute, once it is accepted as it is now."""
    if kind == GATEWAY:
        return {"conditions": _conditions(_GATEWAY, obj, now)}
    parents = obj["spec"].get("parentRefs") or ()
    told = {"controllerName": CONTROLLER, "conditions": _conditions(_ROUTE, obj, now)}
    return {"parents": [{"parentRef": dict(parent), **told} for parent in parents]}


def is_accepted(kind: Kind, obj: Mapping[str, Any]) -> bool:
    """Whether its status says already what `accepted` would."""
    status = obj.get("status") or {}
    if kind == GATEWAY:
        return _all_true(_GATEWAY, obj, status.get("conditions") or ())
    told = [each for each in status.get("parents") or () if each["controllerName"] == CONTROLLER]
    parents = obj["spec"].get("parentRefs") or ()
    return len(told) == len(parents) and all(_all_true(_ROUTE, obj, each["conditions"]) for each in told)


def _all_true(types: Sequence[str], obj: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> bool:
    generation = obj["metadata"].get("generation")
    true = {c["type"] for c in conditions if c["status"] == "True" and c.get("observedGeneration") == generation}
    return true >= set(types)


def _conditions(types: Sequence[str], obj: Mapping[str, Any], now: str) -> list[Body]:
    told = {"status": "True", "message": "", "lastTransitionTime": now}
    generation = obj["metadata"].get("generation")
    return [{"type": each, "reason": each, "observedGeneration": generation, **told} for each in types]
