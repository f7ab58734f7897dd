"""What must hold for RayServices whatever fails: who serves goes on serving, and nothing is forgotten, doubled or sent twice.

Checked after every commit and every configuration that a Serve takes; `expect_rest` says what must be there in the end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml
from kuberay.api.kinds import GATEWAY, HTTP_ROUTE, POD, RAYCLUSTER, RAYSERVICE, SERVICE
from kuberay.api.names import ANNOTATION_DELETE_AFTER, ANNOTATION_DELETE_DRAINED, ANNOTATION_SERVE_CONFIG

from kuberay_testkit.sim.cluster_facts import controller_uid, made_from
from kuberay_testkit.sim.invariants import OPERATORS
from kuberay_testkit.sim.serve_heads import Put
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.service_facts import (
    INCREMENTAL,
    cluster_of,
    conditions,
    named,
    reached,
    route_of,
    route_weights,
    served,
    side,
    strategy_of,
)
from kuberay_testkit.sim.store import Change, Key, Stored

_CALM_AFTER = 15.0
"""For so many seconds after something else than the operator touched a service nothing is expected of its traffic."""

_NEW_CLUSTER = {"NewCluster", INCREMENTAL}


@dataclass(slots=True)
class Cluster:
    """A RayCluster that a RayService made."""

    uid: str
    name: str
    service: str
    """UID of the RayService."""
    shape: Any
    """What it was made of, of all that makes another one when it changes."""
    groups: int
    unnamed: float | None = None
    """Since when no status names it, on the server's clock."""
    unnamed_at: float | None = None
    """The same on the wall clock."""
    scheduled: bool = False
    puts: int = 0
    due: int = 0
    """How many configurations it could be given, for what changed and for what was lost."""
    config: tuple[Any, int | None] | None = None
    """What it was given last, and at which capacity."""


@dataclass(slots=True)
class Watched:
    """What is remembered of one RayService."""

    configs: list[Any] = field(default_factory=list)
    """All that its user ever wrote, parsed."""
    text: str | None = None
    delays: list[tuple[float, float]] = field(default_factory=list)
    """Since when, on the wall clock, which deletion delay counts."""
    disturbed: float = -_CALM_AFTER
    serving: bool = False
    reached: bool = False
    strategies: set[str] = field(default_factory=set)
    """All that it ever had."""
    versions: list[tuple[Mapping[str, Any], Any]] = field(default_factory=list)
    """Which ``rayClusterConfig`` was ever there together with which configuration."""


class ServiceRules:
    """Checks every commit and every configuration that is taken."""

    def __init__(
        self,
        world: ServeWorld,
        *,
        patience: float = 5.0,
        extra_puts: Callable[[], int] = lambda: 0,
        operators: Collection[str] = OPERATORS,
    ) -> None:
        """*patience*: how old what an operator acts on may be, and how long it may be away, in seconds. *extra_puts*: how many
        configurations may have been sent again, because answers were lost or operators died."""
        self.world = world
        self.patience = patience
        self.extra_puts = extra_puts
        self.operators = operators
        self.checks = 0
        """How often a service was served and had to be."""
        self._services: dict[str, Watched] = {}
        self._clusters: dict[str, Cluster] = {}
        world.always(self)
        world.heads.put.append(self._put)
        world.heads.lost.append(self._lost)
        world.heads.ended.append(self._head_ended)
        world.heads.disturbed.append(self._disturb_cluster)

    # -- commits

    def __call__(self, server: SimServer, change: Change) -> None:
        kind = change.stored.key.kind
        if kind == RAYSERVICE:
            self._service(server, change)
        elif kind == RAYCLUSTER:
            self._cluster(server, change)
        elif kind == HTTP_ROUTE and change.type != "DELETED":
            weights = route_weights(change.stored)
            assert sum(weights.values()) == 100, f"weights of {change.stored.key.name} are {weights}"
            owner = server.store.by_uid(controller_uid(change.stored))
            if owner is not None:
                self._capacity_first(server, owner, moved=True)
        elif kind == POD:
            self._pod(server, change)
        if kind in (SERVICE, HTTP_ROUTE, GATEWAY) and server.acting not in self.operators and _interferes(change):
            owner_uid = controller_uid(change.stored)
            self._disturb(owner_uid)
            self._disturb(self._clusters.get(owner_uid, _NOBODY).service)
        self._all_scheduled(server)
        if kind in (RAYSERVICE, RAYCLUSTER, HTTP_ROUTE, POD, SERVICE):
            for stored in server.store.all_of(RAYSERVICE):
                self._traffic(server, stored)

    def _service(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        if change.type == "DELETED":
            self._services.pop(stored.uid, None)
            return
        watched, spec = self._services.setdefault(stored.uid, Watched()), stored.body["spec"]
        now, wall = server.clock.elapsed(), server.now().timestamp()
        before = change.previous.body["spec"] if change.previous is not None else {}
        if spec != before:
            self._edited(watched, spec, before, wall)
        watched.strategies.add(strategy_of(spec))
        names = named(stored)
        for cluster in self._clusters.values():
            if cluster.service != stored.uid:
                continue
            if cluster.name in names:
                cluster.unnamed = cluster.unnamed_at = None
            elif cluster.unnamed is None:
                cluster.unnamed, cluster.unnamed_at = now, wall
        self._capacity_first(server, stored, moved=False)

    def _edited(self, watched: Watched, spec: Mapping[str, Any], before: Mapping[str, Any], wall: float) -> None:
        text = str(spec.get("serveConfigV2") or "")
        if text != watched.text:
            watched.text = text
            watched.configs.append(_parsed(text))
            for cluster in self._clusters.values():
                if self._services.get(cluster.service) is watched:
                    cluster.due += 1
        watched.versions.append((spec.get("rayClusterConfig") or {}, watched.configs[-1]))
        delay = spec.get("rayClusterDeletionDelaySeconds")
        watched.delays.append((wall, 60.0 if delay is None else float(delay)))
        # Without its head a service stands on workers that edits take away, and others that Serve has to use first.
        alone = spec.get("excludeHeadPodFromServeSvc") or before.get("excludeHeadPodFromServeSvc")
        if alone or _lets_down(spec) or _lets_down(before) or _front(spec) != _front(before):
            watched.disturbed = self.world.server.clock.elapsed()

    def _cluster(self, server: SimServer, change: Change) -> None:
        stored = change.stored
        owner = server.store.by_uid(controller_uid(stored))
        if change.type == "ADDED":
            if owner is None or owner.key.kind != RAYSERVICE:
                return
            spec = stored.body["spec"]
            groups = len(spec.get("workerGroupSpecs") or ())
            cluster = Cluster(stored.uid, stored.key.name, owner.uid, _shape(spec, groups), groups, due=1)
            self._clusters[stored.uid] = cluster
            names = named(owner)
            assert stored.key.name in names, (
                f"RayCluster {stored.key.name} was made, where the status of {owner.key.name} names {names or 'none'}"
            )
            twins = [
                each.name
                for each in self._clusters.values()
                if each.service == owner.uid and not each.scheduled and each.name in names
            ]
            assert len(twins) <= 2, f"RayService {owner.key.name} uses {twins} at once"
            return
        known = self._clusters.get(stored.uid)
        if known is None:
            return
        if server.acting not in self.operators and not _collected(server, stored) and _ends(change):
            self._disturb(known.service)
        if server.acting in self.operators and _ends(change) and owner is not None:
            self._may_go(server, known, owner)
        known.scheduled = ANNOTATION_DELETE_AFTER in (stored.metadata.get("annotations") or {}) or stored.deleting
        if change.type == "DELETED":
            del self._clusters[stored.uid]

    def _may_go(self, server: SimServer, cluster: Cluster, owner: Stored) -> None:
        """An operator deletes it: only when nobody uses it, and for so long as the user wants it kept."""
        if owner.deleting or conditions(owner).get("Suspending") == "True":
            return
        name, watched = owner.key.name, self._services[owner.uid]
        assert cluster.unnamed_at is not None, f"RayCluster {cluster.name} was deleted, which RayService {name} names"
        unused = server.now().timestamp() - cluster.unnamed_at
        ends = [at for at, _ in watched.delays[1:]] + [float("inf")]
        delays = [delay for (_, delay), end in zip(watched.delays, ends, strict=True) if end >= cluster.unnamed_at]
        if (owner.metadata.get("annotations") or {}).get(ANNOTATION_DELETE_DRAINED) == "true":
            delays.append(25.0)  # nothing was under way for so long
        # The annotation has seconds only.
        assert unused > min(delays) - 1.0, (
            f"RayCluster {cluster.name} of RayService {name} was deleted {unused:.1f} s after it was used, not {min(delays)} s"
        )

    def _all_scheduled(self, server: SimServer) -> None:
        now = server.clock.elapsed()
        for cluster in self._clusters.values():
            if cluster.unnamed is None or cluster.scheduled or cluster.service not in self._services:
                continue
            forgotten = now - cluster.unnamed
            assert forgotten <= self.patience, (
                f"RayCluster {cluster.name} is named by no status for {forgotten:.1f} s, and nothing says when it goes"
            )

    # -- traffic

    def _pod(self, server: SimServer, change: Change) -> None:
        """Whatever happens to a pod that the operator did not do is a disturbance, unless its cluster goes or it only starts."""
        stored, before = change.stored, change.previous
        cluster = self._clusters.get(controller_uid(stored))
        if cluster is None or before is None or server.acting in self.operators:
            return
        if _collected(server, stored):
            return
        if _ends(change) or _troubled(stored) > _troubled(before):
            self._disturb(cluster.service)

    def _disturb(self, service: str) -> None:
        watched = self._services.get(service)
        if watched is not None:
            watched.disturbed = self.world.server.clock.elapsed()

    def _disturb_cluster(self, namespace: str, name: str) -> None:
        cluster = self._of(namespace, name)
        if cluster is not None:
            self._disturb(cluster.service)

    def _of(self, namespace: str, name: str) -> Cluster | None:
        stored = self.world.server.store.get(Key(RAYCLUSTER, namespace, name))
        return self._clusters.get(stored.uid) if stored is not None else None

    def _traffic(self, server: SimServer, service: Stored) -> None:
        """What serves undisturbed goes on serving: not one moment without a pod that answers."""
        watched = self._services[service.uid]
        calm = server.clock.elapsed() - watched.disturbed >= _CALM_AFTER
        expected = calm and not service.deleting and not _lets_down(service.body["spec"])
        now = served(self.world, service)
        if expected and watched.serving:
            self.checks += 1
            assert now, f"nobody serves RayService {service.key.name} any more, and only the operator touched it"
        watched.serving = now
        quick = min((delay for _, delay in watched.delays), default=0.0) < 5.0
        now = reached(self.world, service)
        if expected and watched.reached and not quick:
            assert now, (
                f"no endpoint of RayService {service.key.name} serves any more, and only the operator touched it"
            )
        watched.reached = now

    def _capacity_first(self, server: SimServer, service: Stored, *, moved: bool) -> None:
        """Traffic to a RayCluster is never more than the capacity its status tells, once that was told."""
        route = route_of(server, service)
        if route is None or strategy_of(service.body["spec"]) != INCREMENTAL:
            return
        watched = self._services.get(service.uid)
        if watched is None or server.clock.elapsed() - watched.disturbed < _CALM_AFTER:
            return
        weights = route_weights(route)
        for which in ("active", "pending"):
            name, capacity = cluster_of(service, which), side(service, which).get("targetCapacity")
            weight = weights.get(f"{name}-serve-svc", 0) if name else 0
            told = "the route moved" if moved else "the status changed"
            known = self._of(service.key.namespace, name)
            given = known.config[1] if known is not None and known.config is not None else None
            for limit in (capacity, given):
                assert limit is None or weight <= limit, (
                    f"{weight} % of the traffic go to the {which} RayCluster {name}, which has {limit} % of its capacity ({told})"
                )

    # -- configurations

    def _put(self, put: Put) -> None:
        try:
            self._check_put(put)
        except AssertionError as error:
            self.world.broken(error)

    def _lost(self, namespace: str, name: str) -> None:
        cluster = self._of(namespace, name)
        if cluster is not None:
            cluster.due += 1

    def _head_ended(self, namespace: str, name: str) -> None:
        """What it has taken and nobody has noted yet, since it did not live to say so or the note was not written, may be
        given to the next one."""
        cluster = self._of(namespace, name)
        stored = self.world.server.store.by_uid(cluster.uid) if cluster is not None else None
        if cluster is None or stored is None or cluster.config is None:
            return
        noted = (stored.body["metadata"].get("annotations") or {}).get(ANNOTATION_SERVE_CONFIG, "")
        if _parsed(noted) != cluster.config[0]:
            cluster.due += 1

    def _check_put(self, put: Put) -> None:
        cluster = self._clusters.get(put.uid)
        watched = self._services.get(cluster.service) if cluster is not None else None
        if cluster is None or watched is None:
            return  # All of it goes.
        config = dict(put.config)
        capacity = config.pop("target_capacity", None)
        written = [{key: value for key, value in each.items() if key != "target_capacity"} for each in watched.configs]
        assert config in written, f"a configuration that nobody wrote: {put}"
        assert capacity is None or INCREMENTAL in watched.strategies, f"a capacity that nobody asked for: {put}"
        if watched.strategies <= _NEW_CLUSTER:
            self._check_target(put, config, cluster, watched)
        if cluster.config is not None and cluster.config[0] == config and cluster.config[1] != capacity:
            cluster.due += 1
        cluster.config = (config, capacity)
        cluster.puts += 1
        most = cluster.due + self.extra_puts()
        assert cluster.puts <= most, f"{cluster.puts} configurations, where {most} had a reason; the last: {put}"

    @staticmethod
    def _check_target(put: Put, config: Any, cluster: Cluster, watched: Watched) -> None:
        """What is meant for another RayCluster is not for this one: it was written together with what this one was made of."""
        meant = any(
            written == config and _shape(made, cluster.groups) == cluster.shape for made, written in watched.versions
        )
        assert meant, f"a configuration that was written for another RayCluster: {put}"


_NOBODY = Cluster("", "", "", None, 0)


def _shape(config: Mapping[str, Any], groups: int) -> Any:
    """Of the first *groups* worker groups: more of them can be added to a RayCluster that is there."""
    kept = made_from({**config, "workerGroupSpecs": list(config.get("workerGroupSpecs") or ())[:groups]})
    kept.pop("suspend", None)
    return kept


def _parsed(text: str) -> dict[str, Any]:
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _ends(change: Change) -> bool:
    """Whether the object was deleted, or told to go, by this very change."""
    before = change.previous
    return before is not None and not before.deleting and (change.type == "DELETED" or change.stored.deleting)


def _interferes(change: Change) -> bool:
    before = change.previous
    return before is not None and (_ends(change) or before.body.get("spec") != change.stored.body.get("spec"))


def _collected(server: SimServer, stored: Stored) -> bool:
    """Whether it goes because its owner does."""
    owner = server.store.by_uid(controller_uid(stored))
    return owner is None or owner.deleting


def _troubled(pod: Stored) -> int:
    """How bad the pod is: a container ended, its node lost, the pod over. That a proxy beside it falls silent is not one."""
    status = pod.body.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return 3
    if any(each["type"] == "Ready" and each["status"] == "Unknown" for each in status.get("conditions") or ()):
        return 2
    return int(any("terminated" in (each.get("state") or {}) for each in status.get("containerStatuses") or ()))


def _front(spec: Mapping[str, Any]) -> tuple[bool, object]:
    """Where the user's requests enter."""
    return strategy_of(spec) == INCREMENTAL, ((spec.get("serveService") or {}).get("metadata") or {}).get("name")


def _lets_down(spec: Mapping[str, Any]) -> bool:
    """Whether the spec itself says that nobody need serve for a while."""
    if not spec or spec.get("suspend") or strategy_of(spec) == "Recreate":
        return True
    cluster, strategy = spec.get("rayClusterConfig") or {}, spec.get("upgradeStrategy") or {}
    if cluster.get("suspend"):
        return True
    keeps = "gcsFaultToleranceOptions" in cluster
    restarts = bool(strategy.get("allowHeadRestart")) and not keeps
    return strategy_of(spec) == "Rolling" and (restarts or bool(spec.get("excludeHeadPodFromServeSvc")))
