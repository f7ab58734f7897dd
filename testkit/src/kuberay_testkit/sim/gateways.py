"""A gateway that takes Gateways and HTTPRoutes and sends requests on: it accepts them after a while, or refuses to.

`SimGateways.weights` is what its data plane does at this moment, which is what the last accepted route said.
"""

from __future__ import annotations

from typing import Any

from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, SERVICE

from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.environment import stamp
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change, Key, Stored

CONTROLLER = "example.com/sim-gateway"
GROUP = "gateway.networking.k8s.io"

_AGAIN = 1.0


class SimGateways(Controller):
    """The controller of every GatewayClass, and its data plane."""

    def __init__(self, server: SimServer, *, delay: tuple[float, float] = (0.1, 2.0)) -> None:
        self._held = False
        self._refused = ""
        self._routed: dict[Key, dict[str, int]] = {}
        super().__init__(server, delay=delay)

    # -- what stories say

    def hold(self) -> None:
        """It looks at nothing new: conditions stay as they are, or missing, and traffic goes where it went."""
        self._held = True

    def refuse(self, reason: str = "Pending") -> None:
        """Whatever it looks at from now on is not programmed and not accepted; traffic goes where it went."""
        self._refused = reason
        self._look_again()

    def serve(self) -> None:
        """It works again."""
        self._held, self._refused = False, ""
        self._look_again()

    def weights(self, namespace: str, route: str) -> dict[str, int]:
        """By backend Service, what the data plane gives each of them now; empty while it knows of no such route."""
        return dict(self._routed.get(Key(HTTP_ROUTE, namespace, route), {}))

    # -- the controller

    def _look_again(self) -> None:
        for kind in (GATEWAY, HTTP_ROUTE):
            for stored in self.server.store.all_of(kind):
                self.enqueue(stored.key)

    def observe(self, change: Change) -> None:
        key = change.stored.key
        if key.kind in (GATEWAY, HTTP_ROUTE):
            if change.type == "DELETED":
                self._routed.pop(key, None)
            else:
                self.enqueue(key)
        if key.kind in (GATEWAY, SERVICE) and change.type != "MODIFIED":
            # Routes wait for their gateway and for the Services they name.
            for route in self.server.store.all_of(HTTP_ROUTE, key.namespace):
                self.enqueue(route.key)

    def sync(self, key: Key) -> None:
        stored = self.server.store.get(key)
        if stored is None or stored.deleting:
            return
        if self._held:
            self.enqueue(key, _AGAIN)
        elif key.kind == GATEWAY:
            self._set_gateway(stored)
        else:
            self._set_route(stored)

    def _set_gateway(self, gateway: Stored) -> None:
        status = gateway.copy().get("status") or {}
        listeners = gateway.body["spec"].get("listeners") or ()
        given = self._conditions(gateway, status.get("conditions"), Accepted="", Programmed=self._refused)
        status["conditions"] = given
        status["listeners"] = [
            {"name": each["name"], "attachedRoutes": 0, "supportedKinds": [], "conditions": []} for each in listeners
        ]
        if not self._refused:
            status["addresses"] = [{"type": "IPAddress", "value": "10.97.0.1"}]
        self._write(gateway, status)

    def _set_route(self, route: Stored) -> None:
        spec, status = route.body["spec"], route.copy().get("status") or {}
        backends = [backend for rule in spec.get("rules") or () for backend in rule.get("backendRefs") or ()]
        missing = [
            each["name"]
            for each in backends
            if self.server.store.get(Key(SERVICE, each.get("namespace") or route.key.namespace, each["name"])) is None
        ]
        before = {_name(each["parentRef"]): each for each in status.get("parents") or ()}
        parents: list[dict[str, Any]] = []
        served = False
        for reference in spec.get("parentRefs") or ():
            gateway = self.server.store.get(Key(GATEWAY, *_name({"namespace": route.key.namespace, **reference})))
            accepted = self._refused or ("" if gateway is not None else "NoMatchingParent")
            served = served or not accepted
            conditions = self._conditions(
                route,
                before.get(_name(reference), {}).get("conditions"),
                Accepted=accepted,
                ResolvedRefs="BackendNotFound" if missing else "",
            )
            parent = {"group": GROUP, "kind": "Gateway", **reference}
            parents.append({"parentRef": parent, "controllerName": CONTROLLER, "conditions": conditions})
        if served:
            self._routed[route.key] = {each["name"]: int(each.get("weight", 1)) for each in backends}
        self._write(route, {**status, "parents": parents})

    def _conditions(self, stored: Stored, before: Any, **wrong: str) -> list[dict[str, Any]]:
        """One condition per keyword, True where nothing is wrong; transition times move with the status only."""
        old = {each["type"]: each for each in before or ()}
        given = []
        for type_, reason in wrong.items():
            condition = {
                "type": type_,
                "status": "False" if reason else "True",
                "reason": reason or type_,
                "message": "",
                "observedGeneration": stored.metadata.get("generation", 1),
                "lastTransitionTime": stamp(self.server.now()),
            }
            if old.get(type_, {}).get("status") == condition["status"]:
                condition["lastTransitionTime"] = old[type_]["lastTransitionTime"]
            given.append(condition)
        return given

    def _write(self, stored: Stored, status: dict[str, Any]) -> None:
        if status != (stored.body.get("status") or {}):
            self.server.set_status(*stored.key, status, manager="gateway-controller")


def _name(reference: dict[str, Any]) -> tuple[str, str]:
    return str(reference.get("namespace", "")), str(reference["name"])
