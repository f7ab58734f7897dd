"""What ``kuberay why`` has seen of a RayService, and where that stands in one sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kuberay.api.conditions import TRUE, ServiceCondition, ServiceReason, find_condition, is_true
from kuberay.api.kinds import Kind
from kuberay.api.names import serve_service_name
from kuberay.api.objects import Object, RayObject
from kuberay.cli.diff_job_world import Rules
from kuberay.cli.service_world import SIDES, cluster_of
from kuberay.cli.why_cluster import Seen, suspender
from kuberay.cli.why_reading import conditions_of


@dataclass(slots=True)
class SeenService:
    """What could be read. None: it could not, and *notes* says so."""

    obj: RayObject
    body: Mapping[str, Any]
    clusters: list[Seen] = field(default_factory=list)
    """All RayClusters that belong to it, those that are no longer used as well."""
    services: Sequence[Object] | None = ()
    endpoints: Sequence[Object] | None = ()
    others: list[tuple[Kind, Object]] = field(default_factory=list)
    """What plugins look at: gateways and routes."""
    events: Sequence[Mapping[str, Any]] | None = ()
    rules: Rules | None = None
    """By what the operator goes; None when that cannot be told, and *notes* says so."""
    partial: bool = False
    """Whether something may not be read, so that nothing can be foretold."""
    notes: list[str] = field(default_factory=list)

    def cluster(self, name: str) -> Seen | None:
        """The RayCluster of that name."""
        return next((seen for seen in self.clusters if seen.obj.name == name), None)

    @property
    def active(self) -> str:
        return cluster_of(self.obj.status, SIDES[0])

    @property
    def pending(self) -> str:
        return cluster_of(self.obj.status, SIDES[1])

    @property
    def serve_service(self) -> str:
        """The service that clients use."""
        wanted = ((self.obj.spec.get("serveService") or {}).get("metadata") or {}).get("name")
        return str(wanted or serve_service_name(self.obj.name))


def strategy_type(obj: RayObject) -> str:
    """``spec.upgradeStrategy.type``; empty when absent."""
    return str((obj.spec.get("upgradeStrategy") or {}).get("type") or "")


def where_it_stands(seen: SeenService) -> tuple[str, str]:
    """A word or two, and a sentence."""
    obj, conditions = seen.obj, conditions_of(seen.obj)
    ready = find_condition(conditions, ServiceCondition.READY) or {}
    reason = ready.get("reason")
    for type_, word in ((ServiceCondition.SUSPENDING, "suspending"), (ServiceCondition.SUSPENDED, "suspended")):
        if is_true(conditions, type_):
            left = [each.obj.name for each in seen.clusters]
            rest = f"RayClusters still going: {', '.join(left)}" if left else "everything was given back"
            return word, f"{suspender(obj, seen.body, 'RayService')}; {rest}."
    if not obj.status:
        return "not seen yet", "The RayService has not started."
    if reason == ServiceReason.VALIDATION_FAILED:
        goes_on = f"RayCluster {seen.active} goes on with what it has" if seen.active else "nothing was made of it"
        return "refused", f"The spec is refused; {goes_on}."
    if reason == ServiceReason.INITIALIZING_TIMEOUT:
        return "gave up", f"{ready.get('message')}. An edit of the spec starts it again."
    if not seen.active:
        name = f"RayCluster {seen.pending}" if seen.pending else "its first RayCluster"
        return "starting", f"Nothing serves yet; {name} is prepared."
    serves = f"RayCluster {seen.active} serves: {behind(seen)}"
    if ready.get("status") != TRUE:
        serves = f"RayCluster {seen.active} is the active one, and {behind(seen)}"
    if not seen.pending:
        return ("ready" if ready.get("status") == TRUE else "not ready"), f"{serves}. {_strategy(obj)}"
    state = "rolling back" if is_true(conditions, ServiceCondition.ROLLBACK_IN_PROGRESS) else "upgrading"
    told = f"RayCluster {seen.pending} is {'given up step by step' if state == 'rolling back' else 'to take over'}"
    return state, f"{serves}; {told}. {_strategy(obj)}"


def behind(seen: SeenService) -> str:
    """How many pods take requests."""
    count = seen.obj.status.get("numServeEndpoints") or 0
    pods = "no pod is" if not count else "1 pod is" if count == 1 else f"{count} pods are"
    return f"{pods} behind service {seen.serve_service}"


def _strategy(obj: RayObject) -> str:
    type_ = strategy_type(obj)
    return f"upgradeStrategy.type is {type_}." if type_ else "upgradeStrategy.type is not set."
