"""What a plan function is given: the object, what exists around it, what probes found, and the time.

A `View` is read only and does not change while a plan runs, so a plan is a function of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from kuberay.api.kinds import Kind
from kuberay.api.objects import Object, RayObject, from_dict
from kuberay.hooks.calls import Hooks, NoHooks
from kuberay.plan.config import PlanConfig
from kuberay.plan.model import Probe, ProbeResult, WriteFailure


class View(Protocol):
    """Read access to what the operator has seen of the cluster."""

    def owned(self, uid: str, kind: Kind) -> Sequence[Object]:
        """Objects of *kind* whose controller owner has *uid*, by name. Terminating ones are included."""
        ...

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        """One watched object, owned or not."""
        ...

    def was_pod(self, namespace: str, name: str) -> bool:
        """Whether a pod of that name is remembered that has gone. Good for choosing names only: memory ends with the
        process."""
        ...

    def serves(self, kind: Kind) -> bool:
        """False for a watched kind that the API server has never served since the process started: its CRD is missing. One
        that was served once counts as served, so that nothing is decided by an API server that is just starting."""
        ...


class FixedView:
    """A `View` over given objects: for tests, `render` and `diff`."""

    def __init__(
        self,
        objects: Iterable[tuple[Kind, Object | dict[str, Any]]] = (),
        *,
        former_pods: Collection[str] = (),
        unserved: Collection[Kind] = (),
    ) -> None:
        self._former_pods = former_pods
        self._unserved = unserved
        self._objects: dict[tuple[Kind, str, str], Object] = {}
        for kind, item in objects:
            obj = from_dict(kind, item) if isinstance(item, dict) else item
            self._objects[kind, obj.namespace, obj.name] = obj

    def owned(self, uid: str, kind: Kind) -> Sequence[Object]:
        found = [
            obj
            for (k, _, _), obj in self._objects.items()
            if k == kind and obj.metadata.controller is not None and obj.metadata.controller.uid == uid
        ]
        return sorted(found, key=lambda obj: obj.name)

    def get(self, kind: Kind, namespace: str, name: str) -> Object | None:
        return self._objects.get((kind, namespace, name))

    def was_pod(self, namespace: str, name: str) -> bool:
        return name in self._former_pods

    def serves(self, kind: Kind) -> bool:
        return kind not in self._unserved


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """Input of every plan function."""

    obj: RayObject
    now: datetime
    """Aware, UTC. Plans never read a clock."""
    view: View = field(default_factory=FixedView)
    probes: Mapping[Probe, ProbeResult] = field(default_factory=dict)
    config: PlanConfig = field(default_factory=PlanConfig)
    gates: Mapping[str, bool] = field(default_factory=dict)
    hooks: Hooks = field(default_factory=NoHooks)
    busy: bool = False
    """Whether many objects wait for their turn, so that what may wait should."""
    failure: WriteFailure | None = None
    """Set when the writes of this very pass failed and only the status is still to be decided."""

    def gate(self, name: str) -> bool:
        """Whether a feature gate is on; unknown gates are off."""
        return self.gates.get(name, False)
