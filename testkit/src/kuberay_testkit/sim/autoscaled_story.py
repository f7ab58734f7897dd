"""What an autoscaler does to one RayCluster: it raises replicas, and lowers them by the number of workers that it names.

How far it lowers depends on which workers are there at that moment, so what must be there in the end is what the spec
says then: with an autoscaler nobody else chooses workers to go.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from kuberay.api.kinds import POD, RAYCLUSTER
from kuberay.api.names import HEAD_GROUP, LABEL_GROUP

from kuberay_testkit.builders import build_group, build_raycluster
from kuberay_testkit.sim.story import NAMESPACE, Action, patch_spec, pods_of, wanted_pods
from kuberay_testkit.sim.world import SimWorld


class AutoscaledStory:
    """One cluster with two groups and ``enableInTreeAutoscaling``; needs an operator with the autoscaler's plugin."""

    def __init__(self, name: str, random: Random, span: float) -> None:
        self.name = name
        self.random = random
        self.actions: list[Action] = []
        groups = [build_group(f"g{number}", random.randint(0, 3)) for number in range(2)]
        manifest = build_raycluster(name, namespace=NAMESPACE, groups=groups, enableInTreeAutoscaling=True)
        times = sorted(random.uniform(0, span) for _ in range(random.randint(2, 8)))
        self._add(times[0], "create", lambda world: world.server.create(manifest))
        for at in times[1:]:
            random.choice((self._raise, self._lower, self._lower, self._fail))(at)

    def pods(self, world: SimWorld) -> Counter[tuple[str, str]]:
        """What the spec asks for now, by cluster and group."""
        cluster = world.server.peek(RAYCLUSTER, NAMESPACE, self.name)
        assert cluster is not None
        groups = {(self.name, g["groupName"]): wanted_pods(g) for g in cluster["spec"]["workerGroupSpecs"]}
        return +Counter({(self.name, HEAD_GROUP): 1, **groups})

    def _add(self, at: float, what: str, do: Any) -> None:
        self.actions.append(Action(at, f"{what} {self.name}", do, self.name))

    def _raise(self, at: float) -> None:
        group, more = f"g{self.random.randrange(2)}", self.random.randint(1, 2)

        def edit(world: SimWorld) -> None:
            self._edit(world, group, more, None)

        self._add(at, "scale up", edit)

    def _lower(self, at: float) -> None:
        group, most, pick = f"g{self.random.randrange(2)}", self.random.randint(1, 3), self.random.random()

        def edit(world: SimWorld) -> None:
            there = [pod["metadata"]["name"] for pod in self._workers(world, group)]
            start = int(pick * len(there))
            named = (there[start:] + there[:start])[:most]
            strangers = [pod["metadata"]["name"] for pod in world.server.objects(POD, NAMESPACE)]
            strangers = [name for name in strangers if name not in there][: int(pick * 3)]
            self._edit(world, group, -len(named), [*named, *strangers, "nobody"])

        self._add(at, "name workers of", edit)

    def _fail(self, at: float) -> None:
        """A worker fails and is named while it is still there (AS-02). Its place is still wanted: it may have been filled
        again before the operator hears of the name."""
        group, pick = f"g{self.random.randrange(2)}", self.random.random()

        def fail(world: SimWorld) -> None:
            workers = self._workers(world, group)
            if workers:
                name = workers[int(pick * len(workers))]["metadata"]["name"]
                world.kubelet.fail(NAMESPACE, name)
                self._edit(world, group, 0, [name])

        self._add(at, "fail and name a worker of", fail)

    def _workers(self, world: SimWorld, group: str) -> list[dict[str, Any]]:
        """Those that fill a place: an autoscaler does not name one that is going or over."""
        return [
            pod
            for pod in pods_of(world, self.name, LABEL_GROUP, group)
            if "deletionTimestamp" not in pod["metadata"]
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            and pod["metadata"]["name"] not in self._named(world, group)
        ]

    def _named(self, world: SimWorld, group: str) -> list[str]:
        found = next(each for each in self._groups(world) if each["groupName"] == group)
        named: list[str] = (found.get("scaleStrategy") or {}).get("workersToDelete") or []
        return named

    def _groups(self, world: SimWorld) -> list[dict[str, Any]]:
        cluster = world.server.peek(RAYCLUSTER, NAMESPACE, self.name)
        assert cluster is not None
        groups: list[dict[str, Any]] = cluster["spec"]["workerGroupSpecs"]
        return groups

    def _edit(self, world: SimWorld, group: str, more: int, named: list[str] | None) -> None:
        """Names stay in the list until all named workers are gone."""
        groups = self._groups(world)
        edited = next(each for each in groups if each["groupName"] == group)
        edited["replicas"] = max(0, edited["replicas"] + more)
        there = {pod["metadata"]["name"] for pod in world.server.objects(POD, NAMESPACE)}
        kept = [name for name in self._named(world, group) if name in there]
        edited["scaleStrategy"] = {"workersToDelete": [*kept, *(named or ())]}
        patch_spec(world, self.name, workerGroupSpecs=groups)
