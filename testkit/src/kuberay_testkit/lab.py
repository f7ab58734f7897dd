"""A simulated Kubernetes with the real operator in it and the plugins of a test: what most tests of a plugin need.

`play` runs a story in it on a virtual clock. The operator has exactly the permissions that core and plugins declare.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kuberay.api.gates import CRON_JOB, DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.api.names import LABEL_CLUSTER, LABEL_GROUP, LABEL_NODE_TYPE
from kuberay.plan.config import PlanConfig
from kuberay.plugins.loader import Plugin
from kuberay.plugins.manager import PluginManager

from kuberay_testkit.metrics import MetricDeltas
from kuberay_testkit.plugins import plugin_of
from kuberay_testkit.rbac import RbacRecorder
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.controller import Controller
from kuberay_testkit.sim.faults import Faults
from kuberay_testkit.sim.gangs import GangRules, SimGangs
from kuberay_testkit.sim.heads_world import HeadsWorld
from kuberay_testkit.sim.operator import SimOperator
from kuberay_testkit.sim.podstatus import Wish
from kuberay_testkit.sim.registry import Traits
from kuberay_testkit.sim.serve_world import ServeWorld
from kuberay_testkit.sim.server import SimServer
from kuberay_testkit.sim.store import Change
from kuberay_testkit.sim.world import SimWorld

NAMESPACE = "lab"
FLOOD = 250
"""So many changes by the operator within `_FLOOD_SECONDS` are taken for a fault."""
_FLOOD_SECONDS = 60.0

Manifest = dict[str, Any]
T = TypeVar("T")


@dataclass(kw_only=True)
class Setup:
    """What is in the lab."""

    plugins: Sequence[Any] = ()
    """Entry point names, modules or `Plugin` values, as `kuberay_testkit.plugins.plugin_of` takes them."""
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Sections ``plugins.<name>`` of the configuration."""
    gates: Mapping[str, bool] = field(default_factory=dict)
    """Feature gates that are not at their default."""
    config: PlanConfig = field(default_factory=PlanConfig)
    kinds: Sequence[Kind] = ()
    """Custom kinds that are served besides Ray's."""
    controllers: Callable[[SimWorld], Sequence[Controller]] = lambda _world: ()
    """Stand-ins for controllers of third parties."""
    gangs: GangRules | None = None
    """A batch scheduler; None: each pod starts by itself."""
    serve: bool = False
    """Whether Ray Serve runs, with proxies, endpoints and gateways: for RayServices."""
    faults: Faults | None = None
    seed: int = 1


class Lab:
    """The cluster, seen from a test. Objects without a namespace are made in `NAMESPACE`."""

    def __init__(self, world: HeadsWorld, setup: Setup) -> None:
        self.world = world
        self.setup = setup
        self.server: SimServer = world.server
        for kind in setup.kinds:
            if kind not in self.server.registry:
                self.server.register(kind, Traits())
        self.hooks = self._manager(setup.plugins)
        self.operator = SimOperator(
            world=world, hooks=self.hooks, gates={**DEFAULT_GATES, CRON_JOB: True, **setup.gates}, config=setup.config
        )
        self.rbac = RbacRecorder(self.server, self.hooks)
        self._writes: deque[float] = deque(maxlen=FLOOD)
        world.always(self._no_flood)

    def _no_flood(self, server: SimServer, _change: Change) -> None:
        """Operators that write without end are stopped early: a story of hours would never be over."""
        if server.acting != self.operator.name:
            return
        now = server.clock.elapsed()
        self._writes.append(now)
        if len(self._writes) == FLOOD and now - self._writes[0] < _FLOOD_SECONDS:
            last = Counter(str(call) for call in server.calls[-FLOOD:] if call.changed)
            told = ", ".join(f"{text} ({times} times)" for text, times in last.most_common(3))
            raise AssertionError(f"the operator writes again and again: {told}")

    def _manager(self, plugins: Sequence[Any]) -> PluginManager:
        loaded: list[Plugin] = [plugin_of(each) for each in plugins]
        # In the story's own time hooks take none: how busy this machine is must not decide which plugins count as slow.
        manager = PluginManager(loaded, observer=_ToMetrics(self), clock=self.server.clock.elapsed)
        known = manager.settings_models()
        manager.configure({name: dict(section) for name, section in self.setup.settings.items() if name in known})
        return manager

    # -- the operator

    def metric_deltas(self) -> MetricDeltas:
        """How much the operator's metrics move from now on."""
        return MetricDeltas(lambda: self.operator.metrics)

    async def restart(self, plugins: Sequence[Any] | None = None) -> None:
        """Kill the operator, if it runs, and start a new process: with other *plugins* and their permissions, if given."""
        if self.operator.process is not None:
            await self.operator.kill()
        if plugins is not None:
            self.rbac.check()
            self.operator.hooks = self.hooks = self._manager(plugins)
            self.rbac = RbacRecorder(self.server, self.hooks)
        self.operator.start()

    async def idle(self, seconds: float = 700.0) -> list[str]:
        """The operator's requests in *seconds* of nothing happening; none, when all is settled."""
        return [str(call) for call in await self.operator.idle_calls(seconds)]

    # -- what users do

    def create(self, manifest: Manifest) -> Manifest:
        """Make an object."""
        metadata = {**manifest["metadata"]}
        if metadata.get("namespace", "default") == "default":
            metadata["namespace"] = NAMESPACE
        return self.server.create({**manifest, "metadata": metadata})

    def edit(self, kind: Kind, name: str, *, namespace: str = NAMESPACE, **spec: Any) -> None:
        """Merge *spec* into the object's spec; None removes a field."""
        self.server.patch(kind, namespace, name, {"spec": spec})

    def edit_group(self, cluster: str, group: str = "workers", **fields: Any) -> None:
        """Change a worker group of a RayCluster; None removes a field."""
        groups = self.get(RAYCLUSTER, cluster)["spec"]["workerGroupSpecs"]
        for each in groups:
            if each["groupName"] == group:
                each.update(fields)
                for name in [name for name, value in fields.items() if value is None]:
                    del each[name]
        self.edit(RAYCLUSTER, cluster, workerGroupSpecs=groups)

    def delete(self, kind: Kind, name: str, *, namespace: str = NAMESPACE) -> None:
        self.server.delete(kind, namespace, name)

    # -- what is there

    def get(self, kind: Kind, name: str, *, namespace: str = NAMESPACE) -> Manifest:
        """The object. Raises ``AssertionError`` when there is none."""
        found = self.server.peek(kind, namespace, name)
        assert found is not None, f"there is no {kind.kind} {namespace}/{name}"
        return found

    def all(self, kind: Kind, *, namespace: str | None = NAMESPACE) -> list[Manifest]:
        return self.server.objects(kind, namespace)

    def pods(self, cluster: str = "", *, node_type: str = "", group: str = "") -> list[Manifest]:
        """Pods that are not being deleted: all of them, or those of a RayCluster, a type or a group."""
        wanted = {LABEL_CLUSTER: cluster, LABEL_NODE_TYPE: node_type, LABEL_GROUP: group}
        asked = {label: value for label, value in wanted.items() if value}
        return [
            pod
            for pod in self.all(POD)
            if "deletionTimestamp" not in pod["metadata"]
            and asked.items() <= (pod["metadata"].get("labels") or {}).items()
        ]

    def clusters_of(self, owner: str) -> list[str]:
        """Names of the RayClusters that a RayJob or RayService made and that are not being deleted, oldest first."""
        found = [
            each["metadata"]
            for each in self.all(RAYCLUSTER)
            if any(reference["name"] == owner for reference in each["metadata"].get("ownerReferences") or ())
            and "deletionTimestamp" not in each["metadata"]
        ]
        return [each["name"] for each in sorted(found, key=lambda each: int(each["resourceVersion"]))]

    def status(self, kind: Kind, name: str) -> Manifest:
        found = self.server.peek(kind, NAMESPACE, name) or {}
        status: Manifest = found.get("status") or {}
        return status

    def conditions(self, kind: Kind, name: str) -> dict[str, Manifest]:
        """Conditions by type."""
        return {each["type"]: each for each in self.status(kind, name).get("conditions") or ()}

    def ready(self, cluster: str) -> bool:
        return self.status(RAYCLUSTER, cluster).get("state") == "ready"

    # -- time

    async def rest(self, quiet: float = 30.0) -> None:
        """Until nothing was written for *quiet* virtual seconds."""
        await self.world.rest(quiet=quiet)

    async def until(self, holds: Callable[[], bool], what: str, within: float = 600.0) -> None:
        """Until *holds*; raises ``AssertionError`` with *what* after *within* virtual seconds."""
        try:
            await self.world.until(holds, within=within, what=what)
        except AssertionError as error:
            error.add_note(self.describe())
            raise

    async def until_ready(self, cluster: str, within: float = 600.0) -> None:
        await self.until(lambda: self.ready(cluster), f"state ready of RayCluster {cluster}", within)

    async def until_job(self, job: str, state: str = "Complete", within: float = 600.0) -> None:
        """Until ``jobDeploymentStatus`` of a RayJob is *state*."""
        await self.until(
            lambda: self.status(RAYJOB, job).get("jobDeploymentStatus") == state, f"{state} of RayJob {job}", within
        )

    def describe(self) -> str:
        """What is there, for messages."""
        lines = []
        for kind in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB):
            for each in self.all(kind):
                status = each.get("status") or {}
                told = [f"{c['type']}={c['status']}: {c.get('message', '')}" for c in status.get("conditions") or ()]
                state = status.get("jobDeploymentStatus") or status.get("state") or status.get("serviceStatus")
                lines.append(f"{kind.kind} {each['metadata']['name']}: {state}; " + "; ".join(told))
        for pod in self.all(POD):
            phase = (pod.get("status") or {}).get("phase", "new")
            held = self.setup.gangs.why_held(self.server, pod) if self.setup.gangs is not None else ""
            lines.append(f"Pod {pod['metadata']['name']}: {phase}" + (f" ({held})" if held else ""))
        return "\n".join(lines)


class _ToMetrics:
    """Tells the metrics of the operator's present process of calls of hooks."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def hook_called(self, plugin: str, hook: str, seconds: float, failed: bool) -> None:
        operator = getattr(self._lab, "operator", None)
        if operator is not None and operator.metrics is not None:
            operator.metrics.hook_called(plugin, hook, seconds, failed)


def play(
    story: Callable[[Lab], Awaitable[T]],
    setup: Setup | None = None,
    *,
    start: bool = True,
    crash_at: int | None = None,
    limit: float = 24 * 3600.0,
) -> T:
    """Run *story* in a new lab and return its result; the operator runs from the beginning unless *start* is false.

    *crash_at* kills the operator at that request boundary, and another one takes over at once. *limit* is in virtual
    seconds. What must hold at all times is checked at the end, the permissions too.
    """
    chosen = setup or Setup()

    async def run() -> T:
        gangs, servers = chosen.gangs, list[SimServer]()

        def behave(pod: Manifest) -> Wish | None:
            return gangs.behave(servers[0], pod) if gangs is not None and servers else None

        kind = ServeWorld if chosen.serve else HeadsWorld
        async with kind(seed=chosen.seed, faults=chosen.faults, behave=behave, pod_delay=(0.2, 1.0)) as world:
            servers.append(world.server)
            lab = Lab(world, chosen)
            world.add(*chosen.controllers(world))
            if gangs is not None:
                world.add(SimGangs(world.server, world.kubelet, gangs))
            if start:
                process = lab.operator.start(crash_at=crash_at)
                if crash_at is not None:
                    world.beside(_take_over(lab, process))
            result = await story(lab)
            lab.rbac.check()
            return result

    return run_sim(run, seed=chosen.seed, limit=limit)


async def _take_over(lab: Lab, process: Any) -> None:
    if await process.wait_crash():
        await asyncio.sleep(1.0)
        lab.operator.start()
