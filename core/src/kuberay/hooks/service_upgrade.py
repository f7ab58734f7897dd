"""How a RayService goes from one RayCluster to another: the interface of upgrade strategies, what they see and answer.

The core builds and deletes RayClusters, configures Serve and writes the status; a strategy decides when what moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Literal

from kuberay.api.problems import Problem
from kuberay.hooks.types import Manifest, OwnerContext

Relation = Literal["same", "extended", "differs"]
"""How ``spec.rayClusterConfig`` is to what a RayCluster was made for: equal in all that counts, equal but for worker groups
appended at the end (which is an update in place), or another one."""


@dataclass(frozen=True, slots=True)
class Share:
    """What one of the two RayClusters carries, in percent; None: never decided (spec rayservice.md 3.4)."""

    capacity: int | None = None
    """``targetCapacity``: which part of its Serve replicas the cluster should run."""
    traffic: int | None = None
    """``trafficRoutedPercent``."""
    moved: datetime | None = None
    """``lastTrafficMigratedTime``: when traffic changed last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSide:
    """The active or the pending RayCluster of a RayService, as a strategy sees it."""

    cluster: str
    """Name of the RayCluster."""
    exists: bool = True
    """Whether the RayCluster is there and not being deleted."""
    head_ready: bool = False
    ready: bool = False
    """Whether all its Serve applications are RUNNING and there is one at least, in an answer that Serve gave after it accepted
    what it should run now: its configuration (a RayCluster that an upgrade leaves, or an abort goes back to, keeps its own) at
    its capacity."""
    backends: int = 0
    """How many of its pods would serve: ready and labelled ``ray.io/serve: "true"``; with `own_services` also behind the
    RayCluster's serve service, as its EndpointSlices tell."""
    relation: Relation = "same"
    share: Share = Share()
    serve_service: str = ""
    serve_port: int = 8000


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceUpgradeContext:
    """A RayService and its two RayClusters in one pass."""

    owner: OwnerContext
    """The RayService."""
    active: ServiceSide | None
    pending: ServiceSide | None
    rolling_back: bool = False
    """Whether condition ``RollbackInProgress`` is True."""
    paused: bool = False
    """Annotation ``ray.io/upgrade-paused: "true"``: nothing moves, nothing ends."""
    aborted: bool = False
    """Annotation ``ray.io/upgrade-aborted: "true"``: back to the active RayCluster; no other one is prepared."""
    served_by: str = ""
    """The RayCluster that the service's own serve service selects now; empty when there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeStep:
    """What a strategy decides in one pass. The core performs it and asks again in the next one."""

    active: Share | None = None
    """What the active RayCluster shall carry; None: as it is. A capacity counts once Serve has accepted it, and only then
    is it what the next pass sees; traffic counts when ``manifests`` were applied."""
    pending: Share | None = None
    promote: bool = False
    """The pending RayCluster becomes the active one."""
    give_up: bool = False
    """The pending RayCluster is no longer wanted; the active one stays."""
    replace: bool = False
    """The pending RayCluster is no longer wanted; another one is made for the present ``rayClusterConfig``."""
    rolling_back: bool = False
    message: str = ""
    """Message of ``RollbackInProgress``."""
    manifests: Sequence[Manifest] = ()
    """Objects to apply for the RayService, of kinds that the plugin watches."""
    waiting: str = ""
    """Why the upgrade does not move, in one sentence that stays the same while nothing changes; empty when it does, or when
    there is none."""
    look_after: timedelta | None = None
    """When to ask again without a change."""


class ServiceUpgradeStrategy:
    """One value of ``spec.upgradeStrategy.type``. An instance keeps no state: everything is in what `step` is given.

    As it stands here it is NewCluster: a second RayCluster is prepared, and traffic is switched to it at once when all of
    its applications run. Override what is different.
    """

    name: ClassVar[str] = "NewCluster"
    on_change: ClassVar[Literal["new-cluster", "same-cluster", "ignore"]] = "new-cluster"
    """What happens when ``rayClusterConfig`` differs from what the active RayCluster was made for: a second one is prepared,
    the one that is there is edited, or nothing."""
    own_services: ClassVar[bool] = False
    """Whether each RayCluster has a serve service of its own in place of one that is switched over. How requests reach them
    is the strategy's task then."""

    def problems(self, owner: OwnerContext) -> Sequence[Problem]:
        """What is wrong with the strategy's options. Any problem refuses the spec."""
        return ()

    def cluster_strategy(self, owner: OwnerContext) -> Mapping[str, Any] | None:
        """With ``same-cluster``: ``spec.upgradeStrategy`` of the RayCluster."""
        return None

    def first_capacity(self, *, first_cluster: bool) -> int | None:
        """``targetCapacity`` of a RayCluster that begins to be prepared; None: Serve is told none."""
        return None

    def step(self, ctx: ServiceUpgradeContext) -> UpgradeStep:
        """What to do now. Called in each pass over a RayService that is neither suspended nor refused."""
        active, pending = ctx.active, ctx.pending
        if pending is None:
            return UpgradeStep()
        if ctx.served_by == pending.cluster:
            # Requests go there already, whatever was edited since.
            return UpgradeStep(promote=True)
        if active is None:
            if pending.relation == "differs":
                return UpgradeStep(replace=True)
            return UpgradeStep(promote=pending.ready)
        if ctx.aborted or (active.exists and active.relation != "differs"):
            return UpgradeStep(give_up=True)
        if ctx.paused:
            return UpgradeStep(waiting="the upgrade is paused by annotation ray.io/upgrade-paused")
        if pending.relation == "differs":
            return UpgradeStep(replace=True)
        if not pending.ready:
            return UpgradeStep(waiting=f"Serve of RayCluster {pending.cluster} does not run yet")
        if not pending.backends and active.backends:
            return UpgradeStep(waiting=f"no pod of RayCluster {pending.cluster} is ready to serve")
        return UpgradeStep(promote=True)
