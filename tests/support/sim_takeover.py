"""A recorded case in a simulated cluster, as KubeRay left it, and what this operator may change about it.

Everything is loaded by KubeRay's field manager before an operator runs.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from former_operator import Recorded
from kube_world import CHILD_KINDS, COSCHEDULING_PODGROUP
from kuberay.api.gates import DEFAULT_GATES
from kuberay.api.kinds import POD, RAYCLUSTER, RAYCRONJOB, RAYJOB, RAYSERVICE, Kind
from kuberay.plugins.loader import load
from kuberay.plugins.manager import PluginManager
from kuberay_testkit.golden import Manifest
from kuberay_testkit.sim.clock import run_sim
from kuberay_testkit.sim.operator import RayWorld, SimOperator

AREAS = {
    "raycluster": (),
    "rayjob": (),
    "rayservice": (),
    "volcano": ("volcano",),
    "scheduler_plugins": ("scheduler-plugins",),
}
"""Areas of `golden_scope`, and the plugins their cases need beside the autoscaler's."""

NOT_LOADED = {
    "raycluster/api-v1alpha1": "only v1 is served in the simulation",
    "raycluster/gcsft-delete-job": "its RayCluster is being deleted",
    "raycluster/quota-full": "there are no quotas in the simulation",
    "rayjob/job-name-47-chars": "the recording cuts the suffixes of its names",
}

CHANGED: dict[str, dict[str, tuple[str, ...]]] = {
    "raycluster/group-removed": {"deleted": ("Pod drop-gone-worker-m4zbc",)},
    "raycluster/suspend-field-removed": {"made": ("Pod", "Pod")},
    "raycluster/autoscale-sa-missing": {"made": ("Service",)},
    "scheduler_plugins/schedplugins-job": {"made": ("Job", "Pod", "Pod", "Pod", "RayCluster", "Service", "Service")},
}
"""Where this operator differs on purpose (docs/differences.md): what goes when it starts, and the kinds of what comes."""

CORRECTED = {"raycluster/params-ports": "/endpoints"}
"""Part of the status that says something else on purpose: the head service has the ports that Ray listens on."""

WRITTEN = {
    "raycluster/params-ports": "services",
    "raycluster/reserved-labels": "services",
    "raycluster/head-svc-template": "services",
    "rayjob/job-autoscale": "services",
    "scheduler_plugins/schedplugins-gang": "podgroups",
}
"""What else is written: Services that are corrected, or whose ports get an order (KubeRay's is random beside a user's)."""

CONTROLLED = {"scheduler_plugins/schedplugins-gang": "PodGroup"}
"""Kinds of which KubeRay's object becomes this operator's own, so that it comes back when deleted."""


class SimLoader:
    """Puts recorded objects on the simulated server, as KubeRay wrote them."""

    manager = "kuberay-operator"
    """KubeRay's field manager, from its user agent (operator.md 1): this operator's own name, but it updates, never applies."""

    def __init__(self, world: RayWorld) -> None:
        self.world = world

    async def create(self, manifest: Manifest) -> Manifest:
        return self.world.server.create(manifest, manager=self.manager)

    async def running(self) -> dict[str, str]:
        def ready() -> bool:
            return all((pod.get("status") or {}).get("podIP") for pod in self.world.server.objects(POD))

        await self.world.until(ready, within=60)
        await self.world.pass_time(5)
        return {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in self.world.server.objects(POD)}

    async def set_status(self, manifest: Manifest, status: Mapping[str, Any]) -> None:
        kind = next(k for k in (RAYCLUSTER, RAYJOB, RAYSERVICE, RAYCRONJOB) if k.kind == manifest["kind"])
        metadata = manifest["metadata"]
        self.world.server.set_status(kind, metadata["namespace"], metadata["name"], dict(status), manager=self.manager)


class Takeover:
    """A recorded case in a simulated cluster, before and after the operator started."""

    def __init__(self, world: RayWorld, name: str) -> None:
        self.world = world
        self.name = name
        self.recorded = Recorded(name)
        plugins = ["autoscaler-v2", *AREAS[name.partition("/")[0]]]
        self.operator = SimOperator(
            world=world, hooks=PluginManager(load(plugins)), gates={**DEFAULT_GATES, **self.recorded.case.gates}
        )
        self.before: dict[tuple[str, str], Manifest] = {}
        world.server.register(COSCHEDULING_PODGROUP)

    async def load(self, **options: Any) -> None:
        await self.recorded.load(SimLoader(self.world), **options)
        self.before = self.there()

    def there(self) -> dict[tuple[str, str], Manifest]:
        """Every object by kind and name."""
        found = {}
        for kind in (*dict.fromkeys((*CHILD_KINDS, RAYJOB, RAYSERVICE)),):
            for obj in self.world.server.objects(kind, self.recorded.namespace):
                found[kind.kind, obj["metadata"]["name"]] = copy.deepcopy(obj)
        return found

    def get(self, kind: Kind, name: str = "") -> Manifest:
        found = self.world.server.peek(kind, self.recorded.namespace, name or self.recorded.name)
        assert found is not None, f"{kind.kind} {name or self.recorded.name} is gone"
        return found

    def dashboard(self) -> str:
        """Where the head of a RayJob or RayService answers."""
        return f"{self.recorded.cluster}-head-svc.{self.recorded.namespace}.svc.cluster.local:8265"

    async def start(self, seconds: float = 60.0) -> None:
        self.operator.start()
        await self.world.pass_time(seconds)

    def gone(self) -> list[str]:
        """What is no longer there, or another object of the same name."""
        now = self.there()
        return [
            f"{kind} {name}"
            for (kind, name), obj in self.before.items()
            if (kind, name) not in now or now[kind, name]["metadata"]["uid"] != obj["metadata"]["uid"]
        ]

    def made(self) -> list[str]:
        """Kinds of what is new."""
        return sorted(kind for kind, name in self.there().keys() - self.before.keys())

    def expect_untouched(self) -> None:
        """Nothing but statuses and annotations is other than it was."""
        assert (self.gone(), self.made()) == ([], [])
        written = {call.resource for call in self.operator.calls() if call.changed and call.subresource != "status"}
        assert written - {"events", "leases", "pods", "rayclusters"} <= {WRITTEN.get(self.name)}
        now = self.there()
        for (kind, name), obj in self.before.items():
            metadata, later = obj["metadata"], now[kind, name]["metadata"]
            assert not later.get("deletionTimestamp"), f"{kind} {name} is being deleted"
            if kind != "Service":  # its ports may be put in another order
                assert later.get("generation") == metadata.get("generation"), f"the spec of {kind} {name} was changed"
            if CONTROLLED.get(self.name) != kind:
                assert later.get("ownerReferences") == metadata.get("ownerReferences")
            assert later.get("labels") == metadata.get("labels")
            if kind == "Pod":
                assert now[kind, name]["spec"] == obj["spec"]
                assert now[kind, name]["status"] == obj["status"], f"{name} restarted"

    def expect_status_kept(self, kind: Kind, name: str = "") -> None:
        """What KubeRay had written is still said, times included; more may be said beside it."""
        name = name or self.recorded.name
        before, now = self.before[kind.kind, name].get("status") or {}, self.get(kind, name).get("status") or {}
        lost = [
            text for text in _lost(before, now) if not text.startswith((*_TAKEN_AWAY, CORRECTED.get(self.name, "-")))
        ]
        assert not lost, "\n".join(lost)


_TAKEN_AWAY = ("/jobStatusCheckFailureStartTime", "/rayClusterStatus", "/dashboardURL", "/lastUpdateTime")


def _lost(before: Any, now: Any, path: str = "") -> list[str]:
    """Places where *now* does not say what *before* does."""
    if isinstance(before, Mapping):
        if not isinstance(now, Mapping):
            return [f"{path}: {before!r} became {now!r}"] if before else []
        return [text for key, value in before.items() for text in _lost(value, now.get(key), f"{path}/{key}")]
    if path.endswith("/conditions"):
        later = {each["type"]: each for each in now or ()}
        return [text for each in before for text in _lost(each, later.get(each["type"]), f"{path}/{each['type']}")]
    return [] if before == now or (not before and not now) else [f"{path}: {before!r} became {now!r}"]


def play(name: str, story: Callable[[Takeover], Awaitable[Any]]) -> None:
    async def run() -> None:
        async with RayWorld(seed=0, outcome=lambda _rayjob: "RUNNING") as world:
            world.dashboard.strict = True
            await story(Takeover(world, name))

    run_sim(run)
