"""A RayService in numbers: two sides, a gateway that takes what is applied, a Serve that accepts, and a clock.

`World.turn` is one pass: the strategy is asked and its answer carried out as the core does it. A capacity counts once Serve
has accepted it, traffic once the route was applied.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, RAYSERVICE, Kind
from kuberay.hooks import OwnerContext
from kuberay.hooks.service_upgrade import ServiceSide, ServiceUpgradeContext, Share, UpgradeStep
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_gateway_upgrade.strategy import IncrementalUpgrade

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OPTIONS = {"gatewayClassName": "cls", "stepSizePercent": 25, "intervalSeconds": 10, "maxSurgePercent": 50}


@pytest.fixture
def hooks() -> PluginManager:
    """This plugin alone."""
    return PluginManager(load(["gateway-upgrade"]))


def spec(**options: Any) -> dict[str, Any]:
    """A RayService's spec with *options*; None leaves one out."""
    given = {name: value for name, value in (OPTIONS | options).items() if value is not None}
    return {
        "rayClusterConfig": {"enableInTreeAutoscaling": True, "headGroupSpec": {}},
        "upgradeStrategy": {"type": IncrementalUpgrade.name, "clusterUpgradeOptions": given},
    }


def owner(
    body: dict[str, Any] | None = None,
    *,
    now: datetime = NOW,
    status: dict[str, Any] | None = None,
    children: Callable[[Kind], list[dict[str, Any]]] = lambda kind: [],
    **more: Any,
) -> OwnerContext:
    return OwnerContext(
        **{
            "kind": RAYSERVICE,
            "name": "s",
            "namespace": "lab",
            "uid": "u-1",
            "labels": {},
            "annotations": {},
            "spec": spec() if body is None else body,
            "status": status or {},
            "cluster_spec": None,
            "groups": (),
            "now": now,
            "gates": DEFAULT_GATES,
            "children": children,
            **more,
        }
    )


def side(cluster: str, capacity: int | None, traffic: int | None, moved: datetime | None = None, **more: Any) -> Any:
    """A side of which all is well."""
    return ServiceSide(
        **{
            "cluster": cluster,
            "head_ready": True,
            "ready": True,
            "backends": 2,
            "share": Share(capacity, traffic, moved),
            "serve_service": f"{cluster}-serve-svc",
            **more,
        }
    )


def true(*types: str, generation: int = 1) -> list[dict[str, Any]]:
    return [{"type": each, "status": "True", "reason": each, "observedGeneration": generation} for each in types]


def _applied(step: UpgradeStep) -> Any:
    traffic = [None if each is None else each.traffic for each in (step.active, step.pending)]
    return step.manifests, traffic, step.promote, step.give_up, step.replace, step.rolling_back


@dataclass
class World:
    """The state between passes."""

    options: dict[str, Any] = field(default_factory=dict)
    active: ServiceSide | None = field(default_factory=lambda: side("a", 100, 100, relation="differs"))
    pending: ServiceSide | None = field(default_factory=lambda: side("p", 0, 0))
    now: datetime = NOW
    paused: bool = False
    aborted: bool = False
    rolling_back: bool = False
    gateway_serves: bool = True
    serve_accepts: bool = True
    status: dict[str, Any] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    promoted: list[str] = field(default_factory=list)
    given_up: list[str] = field(default_factory=list)
    replaced: int = 0

    def context(self) -> ServiceUpgradeContext:
        about = owner(spec(**self.options), now=self.now, status=self.status, children=self._children)
        return ServiceUpgradeContext(
            owner=about,
            active=self.active,
            pending=self.pending,
            rolling_back=self.rolling_back,
            paused=self.paused,
            aborted=self.aborted,
        )

    def step(self) -> UpgradeStep:
        """What the strategy answers now; nothing is carried out."""
        return IncrementalUpgrade().step(self.context())

    def turn(self) -> UpgradeStep:
        """One pass."""
        step = self.step()
        for manifest in step.manifests:
            self._apply(manifest)
        # The core decides again once its writes are done, before the status is written and before the gateway has looked.
        # A capacity may wait for the gateway then; what was applied must not be taken back.
        assert _applied(self.step()) == _applied(step)
        if self.gateway_serves:
            self.accept()
        self.active = self._carried_out(self.active, step.active)
        self.pending = self._carried_out(self.pending, step.pending)
        self.rolling_back = step.rolling_back
        if step.promote:
            assert self.pending is not None
            self.promoted.append(self.pending.cluster)
            self.active, self.pending = self.pending, None
        elif step.give_up:
            assert self.pending is not None
            self.given_up.append(self.pending.cluster)
            self.pending = None
        elif step.replace:
            self.replaced += 1
            self.pending = side(f"p{self.replaced}", 0, None, exists=False, head_ready=False, ready=False, backends=0)
        return step

    def trace(self, *, seconds: int = 600) -> list[str]:
        """Numbers after each pass that changed some, a pass a second, until nothing is pending or time is up."""
        lines: list[str] = []
        last = str(self)
        until = self.now + timedelta(seconds=seconds)
        while self.pending is not None and self.now < until:
            self.turn()
            if str(self) != last:
                last = str(self)
                lines.append(last)
            self.now += timedelta(seconds=1)
        return lines

    def until(self, line: str) -> World:
        """Go on to these numbers."""
        for _ in range(600):
            if str(self) == line:
                return self
            self.turn()
            self.now += timedelta(seconds=1)
        raise AssertionError(f"{line} never came, it ended with {self}")

    def weights(self) -> list[tuple[str, int]]:
        """Of the route as it was applied last."""
        (rule,) = self.objects["HTTPRoute"]["spec"]["rules"]
        return [(each["name"].removesuffix("-serve-svc"), each["weight"]) for each in rule["backendRefs"]]

    def edit(self, *, active: str, pending: str) -> World:
        """The spec was edited: how both sides are to it now."""
        assert self.active is not None
        assert self.pending is not None
        self.active = replace(self.active, relation=active)  # type: ignore[arg-type]
        self.pending = replace(self.pending, relation=pending)  # type: ignore[arg-type]
        return self

    def __str__(self) -> str:
        return " ".join(
            "-" if each is None else f"{each.share.capacity}/{each.share.traffic}"
            for each in (self.active, self.pending)
        )

    def _carried_out(self, known: ServiceSide | None, wanted: Share | None) -> ServiceSide | None:
        if known is None or wanted is None:
            return known
        accepted = self.serve_accepts and known.head_ready and known.exists
        capacity = wanted.capacity if accepted else known.share.capacity
        return replace(known, share=replace(wanted, capacity=capacity))

    def _apply(self, manifest: dict[str, Any]) -> None:
        kind = manifest["kind"]
        found = self.objects.get(kind)
        if found is None or found["spec"] != manifest["spec"]:
            generation = 1 if found is None else found["metadata"]["generation"] + 1
            metadata = manifest["metadata"] | {"generation": generation}
            status = {} if found is None else found["status"]
            self.objects[kind] = json.loads(json.dumps({**manifest, "metadata": metadata, "status": status}))

    def accept(self) -> None:
        """The gateway's controller looks at both objects."""
        for kind, found in self.objects.items():
            generation = found["metadata"]["generation"]
            if kind == "Gateway":
                found["status"] = {"conditions": true("Accepted", "Programmed", generation=generation)}
            else:
                conditions = true("Accepted", "ResolvedRefs", generation=generation)
                found["status"] = {"parents": [{"parentRef": {"name": "s-gateway"}, "conditions": conditions}]}

    def _children(self, kind: Kind) -> list[dict[str, Any]]:
        assert kind in (GATEWAY, HTTP_ROUTE)
        return [self.objects[kind.kind]] if kind.kind in self.objects else []
