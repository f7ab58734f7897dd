"""The real operator on a simulated cluster: the runtime as production assembles it, with only transport, source and clock
exchanged.

`RayWorld` is the cluster with Ray in it; `SimOperator` is one replica that can be started, stopped, killed and restarted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.hooks.calls import Hooks, NoHooks
from kuberay.hooks.types import PolicyRule
from kuberay.kube.client import Client
from kuberay.kube.informer import InformerTimes
from kuberay.kube.lease import Lease
from kuberay.operator.app import App, LeadershipLostError, Parts, ray_kinds
from kuberay.operator.controller import PlanFunction
from kuberay.operator.metrics import Metrics
from kuberay.operator.rbac import CORE_RULES, ELECTION_RULES
from kuberay.operator.traced import TracedTransport
from kuberay.operator.tracing import NO_TRACING, Tracing
from kuberay.plan.cluster import plan_cluster
from kuberay.plan.config import PlanConfig
from kuberay.plan.cronjob import plan_cronjob
from kuberay.plan.job import plan_job
from kuberay.plan.service import plan_service
from kuberay.ray.dashboard import DashboardClient

from kuberay_testkit.dashboard import FakeDashboard
from kuberay_testkit.drain import FakeDrain
from kuberay_testkit.sim.calls import Call
from kuberay_testkit.sim.ray import Outcome, SimRay
from kuberay_testkit.sim.source import SimSource
from kuberay_testkit.sim.transport import SimTransport
from kuberay_testkit.sim.world import Process, SimWorld

OPERATOR_NAMESPACE = "kuberay-system"

BRISK = InformerTimes(watch=60.0, idle=70.0, resync=60.0, backoff_most=5.0)
"""Gaps are repaired within a minute, so that simulations come to rest sooner."""

PLANS: Mapping[Kind, PlanFunction] = {
    RAYCLUSTER: plan_cluster,
    RAYJOB: plan_job,
    RAYSERVICE: plan_service,
    RAYCRONJOB: plan_cronjob,
}


class RayWorld(SimWorld):
    """A simulated cluster in which submitted jobs run and end (see `SimRay`)."""

    def __init__(
        self, *, outcome: Callable[[dict[str, Any]], Outcome] = lambda _rayjob: "SUCCEEDED", **options: Any
    ) -> None:
        super().__init__(**options)
        self.dashboard = FakeDashboard(clock=self.server.clock)
        self.drain = FakeDrain(clock=self.server.clock)
        self.ray = SimRay(self.server, self.kubelet, self.dashboard, outcome=outcome)

    @property
    def dashboards(self) -> DashboardClient:
        """Whom operators ask about jobs."""
        return self.dashboard

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self.add(self.ray)
        return self


@dataclass(kw_only=True)
class SimOperator:
    """One replica. Each start is a new process with nothing in memory."""

    world: RayWorld
    name: str = "operator"
    """Name of the client in recorded calls, and of the candidate for the Lease."""
    hooks: Hooks = field(default_factory=NoHooks)
    gates: Mapping[str, bool] = field(default_factory=lambda: DEFAULT_GATES)
    config: PlanConfig = field(default_factory=PlanConfig)
    plans: Mapping[Kind, PlanFunction] = field(default_factory=lambda: PLANS)
    elect: bool = False
    """Whether to hold the Lease before acting."""
    may_lose_lease: bool = False
    """Whether the process ends quietly when it loses the Lease, for others to restart."""
    namespaces: Sequence[str] = ()
    workers: int = 8
    times: InformerTimes = BRISK
    tracing: Tracing = NO_TRACING
    exports_objects: bool = False
    """Whether its metrics have series of Ray objects, as with ``--enable-metrics``."""
    app: App | None = None
    metrics: Metrics | None = None
    """Of the present process."""
    source: SimSource | None = None
    process: Process | None = None

    def start(self, *, crash_at: int | None = None) -> Process:
        """Run it; *crash_at* kills it at that request boundary (see `SimTransport`)."""
        self.process = self.world.start(self._main, client=self.name, crash_at=crash_at)
        return self.process

    @property
    def running(self) -> bool:
        return self.process is not None and not self.process.main.done() and not self.process.transport.crashed.is_set()

    @property
    def leading(self) -> bool:
        """Whether it acts right now."""
        return self.running and self.app is not None and self.app.leading

    async def stop(self) -> float:
        """As SIGTERM; returns the seconds its end took. Raises what it ended with."""
        assert self.app is not None
        assert self.process is not None
        begun = asyncio.get_running_loop().time()
        self.app.stop()
        await self.process.main
        return asyncio.get_running_loop().time() - begun

    async def kill(self) -> None:
        """As SIGKILL."""
        assert self.process is not None
        await self.process.kill()

    async def _main(self, transport: SimTransport) -> None:
        client = Client(TracedTransport(transport, self.tracing) if self.tracing.on else transport)
        clock = self.world.server.clock
        self.source = SimSource(transport, ray_kinds(self.gates), self.namespaces)
        lease = Lease(client, clock, namespace=OPERATOR_NAMESPACE, identity=self.name) if self.elect else None
        self.metrics = Metrics()
        transport.observe = self.metrics.requests.answered
        self.app = App(
            Parts(
                client=client,
                clock=clock,
                source=self.source,
                dashboard=self.world.dashboards,
                drain=self.world.drain,
                metrics=self.metrics,
                hooks=self.hooks,
                config=self.config,
                plans=self.plans,
                gates=self.gates,
                namespaces=self.namespaces,
                workers=self.workers,
                lease=lease,
                instance=self.name,
                times=self.times,
                tracing=self.tracing,
            )
        )
        if self.exports_objects:
            self.metrics.export_objects(self.app.store)
        try:
            await self.app.run()
        except LeadershipLostError:
            if not self.may_lose_lease:
                raise

    def calls(self) -> list[Call]:
        """Every request of this replica, of all its processes."""
        return self.world.server.calls.where(client=self.name)

    async def idle_calls(self, seconds: float = 700.0) -> list[Call]:
        """Let *seconds* pass and return the requests beyond what keeps the store and the Lease: none, when settled."""
        before = len(self.world.server.calls)
        await self.world.pass_time(seconds)
        return [
            call
            for call in self.world.server.calls[before:]
            if call.client == self.name and call.verb not in ("list", "watch") and call.resource != "leases"
        ]


def operator_rules(plugin_rules: Sequence[PolicyRule] = ()) -> list[dict[str, Any]]:
    """What ``kuberay rbac`` grants, as RBAC rules for `SimServer.restrict`."""
    return [
        {"apiGroups": list(rule.api_groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
        for rule in (*CORE_RULES, *ELECTION_RULES, *plugin_rules)
    ]
